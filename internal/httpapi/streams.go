package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"agentd/internal/authz"
	"agentd/internal/fault"
)

type streamTimes struct {
	heartbeat time.Duration
	recheck   time.Duration
	frame     time.Duration
}

// streams are the open ones: it ends them when the server stops and when
// their credential is revoked. While there are any, one goroutine asks every
// few seconds, once per credential however many streams it opened.
type streams struct {
	times   streamTimes
	recheck func(context.Context, authz.Caller) error
	log     *slog.Logger

	mu       sync.Mutex
	all      map[*Stream]struct{}
	draining bool
	stop     chan struct{} // ends the goroutine
}

func newStreams(times streamTimes, recheck func(context.Context, authz.Caller) error, log *slog.Logger) *streams {
	return &streams{times: times, recheck: recheck, log: log, all: map[*Stream]struct{}{}}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// open registers a stream. Nothing is sent yet.
func (s *streams) open(x *exchange, opts StreamOptions) (*Stream, error) {
	if opts.Beat == nil {
		opts.Beat = commentFrame
	}
	opts.Every = cmp.Or(opts.Every, s.times.heartbeat)
	ctx, cancel := context.WithCancelCause(x)
	st := &Stream{
		ctx: ctx, cancel: cancel, x: x, wire: http.NewResponseController(x.w), times: s.times, all: s, opts: opts,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		cancel(errDraining)
		return nil, fault.New(fault.Unavailable, "", "This server is stopping; connect again.").Because(errDraining)
	}
	s.all[st] = struct{}{}
	if s.stop == nil {
		s.stop = make(chan struct{})
		go s.watch(s.stop)
	}
	return st, nil
}

func (s *streams) remove(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, st)
	if len(s.all) == 0 && s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
}

// drain ends the streams that can be resumed and refuses new ones.
func (s *streams) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for st := range s.all {
		if st.opts.Resumable {
			st.cancel(errDraining)
		}
	}
}

// watch checks credentials until there is no stream left.
func (s *streams) watch(stop <-chan struct{}) {
	tick := time.NewTicker(s.times.recheck)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			s.checkAll(stop)
		}
	}
}

// checksAtOnce is how many credentials are looked up beside each other.
const checksAtOnce = 8

// checkAll ends the streams whose credential does not count any more. What it
// does not reach until the next time is checked then.
func (s *streams) checkAll(stop <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), s.times.recheck)
	defer cancel()
	var running sync.WaitGroup
	free := make(chan struct{}, checksAtOnce)
	for _, same := range s.byCredential() {
		select {
		case <-stop:
			running.Wait()
			return
		case free <- struct{}{}:
		}
		running.Go(func() {
			s.check(ctx, same)
			<-free
		})
	}
	running.Wait()
}

// check looks at the credential that some streams share.
func (s *streams) check(ctx context.Context, same []*Stream) {
	err := s.recheck(ctx, same[0].x.who)
	switch {
	case err == nil:
	case fault.Is(err, fault.Unauthenticated), fault.Is(err, fault.Forbidden), fault.Is(err, fault.NotFound):
		for _, st := range same {
			st.cancel(errRevoked)
		}
	default: // the database may be back the next time
		s.log.Warn("credentials of open streams could not be checked", "cause", err)
	}
}

// holder is what streams of one credential have in common: whatever token
// opened them, it counts as long as the key or the session behind it.
type holder struct{ tenant, user, key, session string }

func (s *streams) byCredential() map[holder][]*Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[holder][]*Stream{}
	for st := range s.all {
		if who := st.x.who; who.TenantID != "" {
			h := holder{who.TenantID, who.UserID, who.KeyID, who.SessionID}
			found[h] = append(found[h], st)
		}
	}
	return found
}
