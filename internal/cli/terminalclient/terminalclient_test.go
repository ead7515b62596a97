//go:build linux

package terminalclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/term"

	"agentd/internal/base/secret"
)

// serveTerminal serves one connection with a function, and returns a configuration for it.
func serveTerminal(t *testing.T, serve func(r *http.Request, conn *websocket.Conn)) Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		serve(r, conn)
	}))
	t.Cleanup(s.Close)
	return Config{URL: s.URL, Key: secret.New("svc_key"), Workspace: "w", Say: func(string, ...any) {}, Refused: func(*http.Response) error { return errors.New("refused") }}
}

// The terminal passes every key on while the connection lasts, tells its size, and is as it
// was afterwards, also where the connection breaks.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]bool{"the shell ends": false, "the connection breaks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, tty, err := pty.Open()
			if err != nil {
				t.Skipf("no pseudoterminals: %v", err)
			}
			defer master.Close()
			defer tty.Close()
			if err := pty.Setsize(master, &pty.Winsize{Cols: 91, Rows: 17}); err != nil {
				t.Fatal(err)
			}
			before, err := term.GetState(int(tty.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			seen := make(chan string, 4)
			c := serveTerminal(t, func(r *http.Request, conn *websocket.Conn) {
				seen <- r.URL.RawQuery
				seen <- r.Header.Get("Authorization")
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for state, err := term.GetState(int(tty.Fd())); err == nil && *state == *before; state, err = term.GetState(int(tty.Fd())) {
					<-tick.C
				}
				if _, err := master.WriteString("\x03\r"); err != nil { // raw: no signal, no line
					t.Error(err)
				}
				for typed := ""; len(typed) < 2; {
					_, data, err := conn.Read(r.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if typed += string(data); len(typed) == 2 {
						seen <- typed
					}
				}
				if err := pty.Setsize(master, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
					t.Error(err)
				}
				_, data, err := conn.Read(r.Context())
				seen <- fmt.Sprint(string(data), err)
				if breaks {
					return
				}
				_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"exit","exit_code":3}`))
				_ = conn.Close(websocket.StatusNormalClosure, "")
			})
			c.Dir, c.In, c.Out = "docs", tty, tty
			code, err := Run(t.Context(), c)
			if breaks != (err != nil) || !breaks && code != 3 {
				t.Errorf("ended with %d %v", code, err)
			}
			want := []string{"cols=91&rows=17&workdir=docs", "Bearer svc_key", "\x03\r", `{"type":"resize","cols":100,"rows":30}<nil>`}
			got := make([]string, len(want))
			for i := range got {
				got[i] = <-seen
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if after, err := term.GetState(int(tty.Fd())); err != nil || *after != *before {
				t.Errorf("the terminal is not as it was (%v)", err)
			}
		})
	}
}

// What is piped in is typed, and its end ends the shell; the reason of a server that closes is
// the error.
func TestPipedInput(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	typed := ""
	c := serveTerminal(t, func(r *http.Request, conn *websocket.Conn) {
		for !strings.HasSuffix(typed, endOfInput+endOfInput) { // a program may have had the first
			_, data, err := conn.Read(r.Context())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			typed += string(data)
			mu.Unlock()
		}
		_ = conn.Write(r.Context(), websocket.MessageBinary, []byte("shown"))
		_ = conn.Close(4003, "Terminals are off.")
	})
	var out strings.Builder
	c.In, c.Out = strings.NewReader("ls\n"), &out
	_, err := Run(t.Context(), c)
	mu.Lock()
	defer mu.Unlock()
	if err == nil || err.Error() != "Terminals are off." || typed != "ls\n"+endOfInput+endOfInput || out.String() != "shown" {
		t.Errorf("%v %q %q", err, typed, out.String())
	}
}

// A server that does not open a terminal is quoted.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }))
	t.Cleanup(s.Close)
	c := Config{URL: s.URL, Workspace: "w", In: strings.NewReader(""), Out: io.Discard, Refused: func(res *http.Response) error { return errors.New(res.Status) }}
	if _, err := Run(context.Background(), c); err == nil || err.Error() != "403 Forbidden" {
		t.Error(err)
	}
}
