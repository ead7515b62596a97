// Package terminalclient connects the terminal of this machine with one of a workspace.
package terminalclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"golang.org/x/term"

	"agentd/internal/base/secret"
)

// Config is a terminal to open.
type Config struct {
	URL       string
	Key       secret.String
	Tenant    string // "": that of the key
	Workspace string
	Dir       string // the shell begins in; "": the root
	In        io.Reader
	Out       io.Writer
	// Refused makes an error of an answer that is no terminal.
	Refused func(*http.Response) error
	Say     func(format string, args ...any)
}

const (
	dialTime  = 30 * time.Second // the files of the workspace are copied first
	writeTime = 30 * time.Second
	maxFrame  = 1 << 20
	lookEvery = 300 * time.Millisecond // at the size of the terminal
)

// frame is a text frame of the server.
type frame struct {
	Type     string `json:"type"` // exit, saved, error
	ExitCode int    `json:"exit_code"`
	Lost     bool   `json:"lost"`
	Changed  int    `json:"changed_files"`
	Deleted  int    `json:"deleted_files"`
	Refused  []struct {
		Path   string `json:"path"`
		Reason string `json:"reason"`
	} `json:"refused_files"`
	Detail string `json:"detail"`
}

// Run shows the terminal until the shell ends, and returns its exit code. A terminal of this
// machine is as it was when it returns. Where the input is no terminal, its end ends the shell.
func Run(ctx context.Context, c Config) (exitCode int, err error) {
	in, out := terminalOf(c.In), terminalOf(c.Out)
	conn, err := dial(ctx, &c, out)
	if err != nil {
		return 0, err
	}
	defer conn.CloseNow()
	last, err := session(ctx, &c, conn, in, out)
	if err != nil {
		return 0, err
	}
	for _, r := range last.Refused {
		c.Say("%s was not taken over: %s", r.Path, r.Reason)
	}
	if last.Lost {
		c.Say("What was changed since the last save is lost.")
	} else if last.Changed+last.Deleted > 0 {
		c.Say("The workspace took over %d changed and %d deleted files.", last.Changed, last.Deleted)
	}
	return last.ExitCode, nil
}

// terminalOf returns the file of a terminal; nil: it is none.
func terminalOf(stream any) *os.File {
	if f, ok := stream.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

func dial(ctx context.Context, c *Config, out *os.File) (*websocket.Conn, error) {
	query := url.Values{}
	if c.Dir != "" {
		query.Set("workdir", c.Dir)
	}
	if cols, rows, ok := sizeOf(out); ok {
		query.Set("cols", strconv.Itoa(cols))
		query.Set("rows", strconv.Itoa(rows))
	}
	at := "ws" + strings.TrimPrefix(strings.TrimRight(c.URL, "/"), "http") +
		"/api/v1/workspaces/" + url.PathEscape(c.Workspace) + "/terminal?" + query.Encode()
	header := http.Header{"Authorization": {"Bearer " + c.Key.Reveal()}}
	if c.Tenant != "" {
		header.Set("X-Active-Tenant", c.Tenant)
	}
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, res, err := websocket.Dial(dialing, at, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		if res != nil && res.StatusCode >= http.StatusBadRequest {
			defer res.Body.Close()
			return nil, c.Refused(res)
		}
		return nil, err
	}
	conn.SetReadLimit(maxFrame)
	return conn, nil
}

// sizeOf returns the size of a terminal within the bounds of the server.
func sizeOf(f *os.File) (cols, rows int, ok bool) {
	if f == nil {
		return 0, 0, false
	}
	cols, rows, err := term.GetSize(int(f.Fd()))
	return min(cols, 1000), min(rows, 500), err == nil && cols > 0 && rows > 0
}

// session passes bytes on until the shell has ended, and returns the last frame.
func session(ctx context.Context, c *Config, conn *websocket.Conn, in, out *os.File) (last frame, err error) {
	if in != nil {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return last, err
		}
		defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	go send(sending, conn, c.In, in == nil)
	if out != nil {
		go resize(sending, conn, out)
	}
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return last, ended(ctx, err)
		}
		if kind == websocket.MessageBinary {
			if _, err := c.Out.Write(data); err != nil {
				return last, err
			}
			continue
		}
		var f frame
		if json.Unmarshal(data, &f) != nil {
			continue // a newer server may send what this program does not know
		}
		switch f.Type {
		case "exit":
			if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				return f, ended(ctx, err)
			}
			return f, nil
		case "error":
			c.Say("%s\r", f.Detail)
		}
	}
}

// ended says why the connection ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if closed, ok := errors.AsType[websocket.CloseError](err); ok && closed.Reason != "" {
		return errors.New(closed.Reason)
	}
	return fmt.Errorf("the connection to the server ended: %w", err)
}

// endOfInput is what a person types to end a shell. It is typed again and again where the
// input was no terminal: what comes while a program runs is lost to the shell.
const (
	endOfInput = "\x04"
	endEvery   = 300 * time.Millisecond
)

// send sends what is typed. It is a goroutine, which ends with the input or the connection.
func send(ctx context.Context, conn *websocket.Conn, in io.Reader, ends bool) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := in.Read(buffer)
		if n > 0 && write(ctx, conn, websocket.MessageBinary, buffer[:n]) != nil {
			return
		}
		if err != nil {
			if ends {
				end(ctx, conn)
			}
			return
		}
	}
}

// end types the end of the input until the connection ends, which the reader learns of.
func end(ctx context.Context, conn *websocket.Conn) {
	tick := time.NewTicker(endEvery)
	defer tick.Stop()
	for write(ctx, conn, websocket.MessageBinary, []byte(endOfInput)) == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// resized is a frame to the server.
type resized struct {
	Type string `json:"type"` // resize
	Cols int    `json:"cols"`
	Rows int    `json:"rows"`
}

// resize tells the server the size of the terminal when it changes. Looking at it works on
// every system. It is a goroutine, which ends with ctx.
func resize(ctx context.Context, conn *websocket.Conn, out *os.File) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	cols, rows, _ := sizeOf(out)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c, r, ok := sizeOf(out)
		if !ok || c == cols && r == rows {
			continue
		}
		cols, rows = c, r
		text, err := json.Marshal(resized{"resize", c, r})
		if err != nil || write(ctx, conn, websocket.MessageText, text) != nil {
			return
		}
	}
}

func write(ctx context.Context, conn *websocket.Conn, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return conn.Write(ctx, kind, data)
}
