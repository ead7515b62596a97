package identity

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	useGrain = time.Minute      // accuracy of the time of the last use
	useDelay = 5 * time.Second  // how long uses are collected before they are written
	useWrite = 10 * time.Second // timeout of a write
)

// Use records that a key or a session was used.
type Use struct {
	TenantID  string
	KeyID     string // empty where a session was used
	SessionID string // empty where a key was used
	At        time.Time
	Renewed   bool // the browser was sent the session's cookie again
}

func (u Use) id() string { return u.KeyID + u.SessionID }

// useRecorder records when keys and sessions are used: in the background, in
// batches, and each at most once a minute. It sleeps while nothing is used.
// Uses that cannot be written are dropped; a credential that is still in use is
// noted again a minute later.
type useRecorder struct {
	write func(context.Context, []Use) error
	log   *slog.Logger

	mu      sync.Mutex
	running bool
	pending []Use
	recent  map[string]time.Time // last noted use, by key or session ID

	wake chan struct{}
	quit chan struct{}
	done sync.WaitGroup
}

func newUseRecorder(write func(context.Context, []Use) error, log *slog.Logger) *useRecorder {
	return &useRecorder{write: write, log: log, recent: map[string]time.Time{}, wake: make(chan struct{}, 1), quit: make(chan struct{})}
}

func (r *useRecorder) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = true
	r.done.Go(r.run)
}

func (r *useRecorder) stop() {
	r.mu.Lock()
	running := r.running
	r.running = false
	r.mu.Unlock()
	if running {
		close(r.quit)
		r.done.Wait()
	}
}

// note records a use. It never blocks.
func (r *useRecorder) note(u Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running || u.At.Sub(r.recent[u.id()]) < useGrain {
		return
	}
	r.recent[u.id()] = u.At
	r.pending = append(r.pending, u)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *useRecorder) run() {
	for {
		select {
		case <-r.quit:
			r.flush()
			return
		case <-r.wake:
		}
		delay := time.NewTimer(useDelay)
		select {
		case <-r.quit:
		case <-delay.C:
		}
		delay.Stop()
		r.flush()
	}
}

func (r *useRecorder) flush() {
	r.mu.Lock()
	uses := r.pending
	r.pending = nil
	if len(uses) > 0 {
		now := uses[len(uses)-1].At
		maps.DeleteFunc(r.recent, func(_ string, at time.Time) bool { return now.Sub(at) >= useGrain })
	}
	r.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), useWrite)
	defer cancel()
	if err := r.write(ctx, uses); err != nil {
		r.log.Warn("could not record the last use of keys and sessions", "uses", len(uses), "error", err)
	}
}
