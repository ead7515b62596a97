package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"time"

	"agentd/internal/base/sse"
)

// maxEvent is the maximum size of one event of a stream, in bytes.
const maxEvent = 16 << 20

// Frame is one server-sent event. ID is the id of the stream as of this event,
// which need not have had one of its own.
type Frame struct {
	ID   string
	Name string // "" for a bare data line
	Data []byte
}

// retryPolicy says how a watcher deals with a connection that drops.
type retryPolicy struct {
	silence time.Duration // a stream without a byte for this long is dead; servers send a comment every 15 s
	first   time.Duration // wait before reconnecting, where the server did not say
	longest time.Duration // the wait doubles up to this
	total   time.Duration // give up after so long without anything new
}

var defaultRetryPolicy = retryPolicy{silence: 45 * time.Second, first: 500 * time.Millisecond, longest: 10 * time.Second,
	total: 2 * time.Minute}

// Watch follows the events of a run, from the first to the frame "done", which
// is the last frame. After a dropped connection it reconnects and resumes behind
// the last event; no event is yielded twice. lost, if not nil, is called with the
// cause of every drop. An error is yielded last.
func (c *Client) Watch(ctx context.Context, runID string, lost func(error)) iter.Seq2[Frame, error] {
	return c.WatchPath(ctx, Path(RunsPath, runID, "events"), lost)
}

// WatchPath is Watch for the events at a path, such as those of a run of a team.
func (c *Client) WatchPath(ctx context.Context, path string, lost func(error)) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		w := watcher{client: c, path: path, yield: yield}
		wait, alive := c.retry.first, time.Now()
		for {
			before := w.lastID
			end, err := w.follow(ctx)
			if end {
				return
			}
			if ctx.Err() != nil {
				yield(Frame{}, ctx.Err())
				return
			}
			if w.lastID != before {
				wait, alive = c.retry.first, time.Now()
			}
			if time.Since(alive) > c.retry.total {
				yield(Frame{}, fmt.Errorf("the event stream was lost: %w", err))
				return
			}
			pause := max(wait, w.retry)
			if p, ok := errors.AsType[*Problem](err); ok {
				if !p.temporary() {
					yield(Frame{}, err)
					return
				}
				pause = max(pause, p.RetryAfter)
			}
			if lost != nil {
				lost(err)
			}
			sleep(ctx, pause)
			wait = min(2*wait, c.retry.longest)
		}
	}
}

// watcher is the state of Watch that outlives a connection.
type watcher struct {
	client *Client
	path   string
	yield  func(Frame, error) bool
	lastID string
	retry  time.Duration
}

// follow reads one connection. It reports whether the watch is over; if it is
// not, err is why the connection ended.
func (w *watcher) follow(ctx context.Context) (end bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(w.client.retry.silence, func() { cancel(errors.New("the server fell silent")) })
	defer silence.Stop()

	header := http.Header{"Accept": {"text/event-stream"}}
	if w.lastID != "" {
		header.Set("Last-Event-ID", w.lastID)
	}
	res, err := w.client.Send(ctx, http.MethodGet, w.path, nil, header)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "text/event-stream" {
		return false, &Problem{Status: res.StatusCode, Detail: fmt.Sprintf("%s answered no event stream; is AGENTD_URL right?", w.client.base)}
	}
	events := sse.NewReader(activityReader{res.Body, func() { silence.Reset(w.client.retry.silence) }}, maxEvent)
	for {
		data, err := events.Next()
		w.retry = events.Retry()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return false, err
		}
		frame := Frame{ID: events.ID(), Name: events.Name(), Data: bytes.Clone(data)}
		switch {
		case frame.Name == "done":
			w.yield(frame, nil)
			return true, nil
		case frame.Name == "error" || frame.Name == "":
			// The server closes next, and a new connection goes on from here.
			continue
		case alreadyDelivered(frame.ID, w.lastID) && frame.Name != "gap":
			continue // replayed from the beginning, as the server did not know the id
		}
		if frame.ID != "" && !alreadyDelivered(frame.ID, w.lastID) {
			w.lastID = frame.ID
		}
		if !w.yield(frame, nil) {
			return true, nil
		}
	}
}

// alreadyDelivered reports whether an id of a run's stream, a number that only
// grows, is not after the last one.
func alreadyDelivered(id, last string) bool {
	a, errA := strconv.ParseInt(id, 10, 64)
	b, errB := strconv.ParseInt(last, 10, 64)
	return errA == nil && errB == nil && a <= b
}

// activityReader calls back whenever something was read.
type activityReader struct {
	io.Reader
	alive func()
}

func (w activityReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.alive()
	}
	return n, err
}

// sleep waits for about d, with a jitter that keeps many clients of a server
// that restarts from coming back at one moment.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d + rand.N(d/4+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
