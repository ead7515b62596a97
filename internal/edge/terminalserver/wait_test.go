package terminalserver

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/content/workspace"
)

// shell is one that ends when a test says so.
type shell struct {
	workspace.Screen
	ended chan struct{}
}

func (s shell) Ended() <-chan struct{} { return s.ended }

// A terminal ends once nothing was typed for 30 minutes, 8 hours after it was opened, and with
// the shell, the client, the server, the key and the operator's switch; each has its code.
func TestEndsOfTerminals(t *testing.T) {
	t.Parallel()
	type world struct {
		c    *connection
		typ  func()        // something is typed now
		left chan struct{} // closed: the client left
		stop func()        // the server stops
		exit func()
	}
	never := 24 * time.Hour
	for name, tt := range map[string]struct {
		happens  func(w *world)
		off      time.Duration // when the operator switches terminals off
		code     websocket.StatusCode
		reason   string
		min, max time.Duration
	}{
		"nothing is typed": {func(*world) {}, never, closeTime, "idle", 30 * time.Minute, 31 * time.Minute},
		"typed once":       {func(w *world) { time.Sleep(20 * time.Minute); w.typ() }, never, closeTime, "idle", 50 * time.Minute, 51 * time.Minute},
		"typed for ever": {func(w *world) {
			for range 9 * 6 {
				time.Sleep(10 * time.Minute)
				w.typ()
			}
		}, never, closeTime, "time", 8 * time.Hour, 8 * time.Hour},
		"exit":              {func(w *world) { time.Sleep(time.Hour / 4); w.exit() }, never, 1000, "exited", time.Hour / 4, time.Hour / 4},
		"the client leaves": {func(w *world) { time.Sleep(time.Minute); close(w.left) }, never, 1000, "disconnected", time.Minute, time.Minute},
		"the server stops":  {func(w *world) { time.Sleep(time.Minute); w.stop() }, never, 1012, "server stopped", time.Minute, time.Minute},
		"the key is revoked": {func(w *world) {
			time.Sleep(time.Minute)
			w.c.revoked = func() bool { return true }
			w.stop()
		}, never, 4001, "revoked", time.Minute, time.Minute},
		"switched off": {func(*world) {}, 10 * time.Minute, 4003, "switched off", 10 * time.Minute, 10*time.Minute + lookEvery},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				alive, stop := context.WithCancel(t.Context())
				policy := func() workspace.CommandPolicy {
					return workspace.CommandPolicy{Enabled: true, Terminal: time.Since(begun) < tt.off}
				}
				ended := make(chan struct{})
				w := &world{left: make(chan struct{}), stop: stop, exit: func() { close(ended) }}
				w.c = &connection{
					s:     &Server{Terminals: &workspace.Terminals{Workspaces: &workspace.Service{Commands: &workspace.Commands{Policy: policy}}}},
					alive: alive, revoked: func() bool { return false }, terminal: &workspace.Terminal{Screen: shell{ended: ended}},
				}
				w.typ = func() { w.c.typed.Store(time.Now().UnixNano()) }
				w.typ()
				var happening sync.WaitGroup
				happening.Go(func() { tt.happens(w) })
				e := w.c.wait(w.left)
				took := time.Since(begun)
				happening.Wait()
				stop()
				if diff := cmp.Diff([]any{tt.code, tt.reason}, []any{e.code, e.reason}); diff != "" {
					t.Error(diff)
				}
				if took < tt.min || took > tt.max {
					t.Errorf("it ended after %v, not between %v and %v", took, tt.min, tt.max)
				}
			})
		})
	}
}
