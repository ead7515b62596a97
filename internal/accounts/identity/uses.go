package identity

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	useGrain = time.Minute      // how exactly the last use is kept
	useDelay = 5 * time.Second  // how long uses are gathered before they are written
	useWrite = 10 * time.Second // how long writing them may take
)

// Use says when a key or a session was used.
type Use struct {
	TenantID  string
	KeyID     string // "" where a session was used
	SessionID string // "" where a key was used
	At        time.Time
	Renewed   bool // the browser was sent the session's cookie again
}

func (u Use) id() string { return u.KeyID + u.SessionID }

// useRecorder writes down when keys and sessions are used: in the background, many at once,
// and each at most once a minute. It sleeps while nothing is used. Uses that
// cannot be written are dropped; what is in use is noted again a minute later.
type useRecorder struct {
	write func(context.Context, []Use) error
	log   *slog.Logger

	mu      sync.Mutex
	running bool
	pending []Use
	lately  map[string]time.Time // id -> its use that was noted last

	wake chan struct{}
	quit chan struct{}
	done sync.WaitGroup
}

func newUseRecorder(write func(context.Context, []Use) error, log *slog.Logger) *useRecorder {
	return &useRecorder{write: write, log: log, lately: map[string]time.Time{}, wake: make(chan struct{}, 1), quit: make(chan struct{})}
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

// note takes a use. It does not wait for anything.
func (r *useRecorder) note(u Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running || u.At.Sub(r.lately[u.id()]) < useGrain {
		return
	}
	r.lately[u.id()] = u.At
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
		gather := time.NewTimer(useDelay)
		select {
		case <-r.quit:
		case <-gather.C:
		}
		gather.Stop()
		r.flush()
	}
}

func (r *useRecorder) flush() {
	r.mu.Lock()
	uses := r.pending
	r.pending = nil
	if len(uses) > 0 {
		now := uses[len(uses)-1].At
		maps.DeleteFunc(r.lately, func(_ string, at time.Time) bool { return now.Sub(at) >= useGrain })
	}
	r.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), useWrite)
	defer cancel()
	if err := r.write(ctx, uses); err != nil {
		r.log.Warn("the last use of keys and sessions was not recorded", "uses", len(uses), "error", err)
	}
}
