package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
)

// serve plays one connection after the other; the last one answers all that
// come after it.
func serve(t *testing.T, connections ...http.HandlerFunc) (*Client, *[]string) {
	t.Helper()
	var n atomic.Int64
	var resumed []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := min(int(n.Add(1)), len(connections)) - 1
		if r.Header.Get("Accept") != "text/event-stream" || r.Header.Get("Authorization") != "Bearer k" || r.URL.Path != "/api/v1/runs/r1/events" {
			t.Errorf("request %v %v", r.URL, r.Header)
		}
		resumed = append(resumed, r.Header.Get("Last-Event-ID"))
		connections[i](w, r)
	}))
	t.Cleanup(srv.Close)
	c, err := New(srv.URL, secret.New("k"))
	if err != nil {
		t.Fatal(err)
	}
	c.http.Transport = srv.Client().Transport
	c.retry = retryPolicy{silence: 10 * time.Second, first: time.Millisecond, longest: 4 * time.Millisecond, total: 300 * time.Millisecond}
	return c, &resumed
}

func stream(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprint(w, text)
	}
}

func frame(id, name string) string { return fmt.Sprintf("id: %s\nevent: %s\ndata: {}\n\n", id, name) }

const doneFrame = "id: 9\nevent: done\ndata: {\"status\":\"completed\"}\n\ndata: [DONE]\n\n"

// watch returns the frames that a watcher got, as "id name".
func watch(c *Client) ([]string, error) {
	var seen []string
	for f, err := range c.Watch(context.Background(), "r1", nil) {
		if err != nil {
			return seen, err
		}
		seen = append(seen, f.ID+" "+f.Name)
	}
	return seen, nil
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		connections []http.HandlerFunc
		want        []string
		resumed     []string
	}{
		{
			"to the end",
			[]http.HandlerFunc{stream("retry: 1\n\n: hi\n\n" + frame("1", "run.started") + frame("2", "llm.chunk") + doneFrame + frame("10", "late"))},
			[]string{"1 run.started", "2 llm.chunk", "9 done"},
			[]string{""},
		},
		{
			"dropped twice, once in the middle of an event",
			[]http.HandlerFunc{
				stream(frame("1", "run.started") + "id: 2\nevent: llm"),
				stream(frame("2", "llm.chunk")),
				stream(doneFrame),
			},
			[]string{"1 run.started", "2 llm.chunk", "9 done"},
			[]string{"", "1", "2"},
		},
		{
			"the server forgot the id and replays",
			[]http.HandlerFunc{
				stream(frame("1", "a") + frame("2", "b")),
				stream("event: gap\ndata: {\"dropped\":0}\n\n" + frame("1", "a") + frame("2", "b") + frame("3", "c") + doneFrame),
			},
			[]string{"1 a", "2 b", " gap", "3 c", "9 done"},
			[]string{"", "2"},
		},
		{
			"the server's buffer overflowed",
			[]http.HandlerFunc{stream(frame("1", "a") + "event: error\ndata: {}\n\n"), stream(frame("2", "b") + doneFrame)},
			[]string{"1 a", "2 b", "9 done"},
			[]string{"", "1"},
		},
		{
			"done came but the connection went before it was read",
			[]http.HandlerFunc{stream(frame("9", "run.completed")), stream(doneFrame)},
			[]string{"9 run.completed", "9 done"},
			[]string{"", "9"},
		},
		{
			"the server restarts",
			[]http.HandlerFunc{stream(frame("1", "a")), refuse(503, ""), refuse(502, ""), stream(doneFrame)},
			[]string{"1 a", "9 done"},
			[]string{"", "1", "1", "1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, resumed := serve(t, tt.connections...)
			got, err := watch(c)
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.resumed, *resumed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func refuse(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestWatchGivesUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		connections []http.HandlerFunc
		want        string
		tries       int // 0: several
	}{
		{"refused", []http.HandlerFunc{refuse(404, `{"detail":"No such run.","code":"NOT_FOUND","correlation_id":"c1"}`)}, "No such run. (NOT_FOUND, request c1)", 1},
		{"the key was revoked meanwhile", []http.HandlerFunc{stream(frame("1", "a")), refuse(401, `{"detail":"No.","code":"AUTH_ERROR"}`)}, "No. (AUTH_ERROR)", 2},
		{"no stream", []http.HandlerFunc{refuse(200, "<html>")}, "answered no event stream", 1},
		{"nothing new for long", []http.HandlerFunc{stream(frame("1", "a"))}, "the event stream was lost", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, resumed := serve(t, tt.connections...)
			_, err := watch(c)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if n := len(*resumed); tt.tries != 0 && n != tt.tries || n == 0 {
				t.Errorf("%d tries", n)
			}
		})
	}
}

func TestWatchLeavesADeadConnection(t *testing.T) {
	t.Parallel()
	c, resumed := serve(t,
		func(w http.ResponseWriter, r *http.Request) {
			stream(frame("1", "a"))(w, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done() // silent until the client goes
		},
		stream(doneFrame),
	)
	c.retry.silence = 50 * time.Millisecond
	var lost []error
	for _, err := range c.Watch(t.Context(), "r1", func(err error) { lost = append(lost, err) }) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(*resumed, []string{"", "1"}) || len(lost) != 1 || !strings.Contains(lost[0].Error(), "silent") {
		t.Errorf("resumed %q, lost %v", *resumed, lost)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream(frame("1", "a"))(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	var last error
	for _, err := range c.Watch(ctx, "r1", nil) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("ended with %v", last)
	}
}
