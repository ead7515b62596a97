package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
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
	most    int // streams of a tenant; 0: any number
	refused prometheus.Counter
	recheck func(context.Context, authz.Caller) error
	log     *slog.Logger

	mu       sync.Mutex
	all      map[*Stream]struct{}
	tenants  map[string]int // how many of them are a tenant's
	draining bool
	stop     chan struct{}  // ends the goroutine
	running  sync.WaitGroup // goroutines of streams that go on by themselves
}

func newStreams(times streamTimes, most int, recheck func(context.Context, authz.Caller) error, log *slog.Logger) *streams {
	return &streams{times: times, most: most, recheck: recheck, log: log, all: map[*Stream]struct{}{}, tenants: map[string]int{}}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// open registers a stream, which ends with a context. Nothing is sent yet.
// Errors: fault.Unavailable where the server stops, fault.Limited where the
// tenant has too many; an answer that is streamed, and ends by itself, is
// never one too many.
func (s *streams) open(parent context.Context, x *exchange, opts StreamOptions) (*Stream, error) {
	if opts.Beat == nil {
		opts.Beat = commentFrame
	}
	opts.Every = cmp.Or(opts.Every, s.times.heartbeat)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nil, fault.New(fault.Unavailable, "", "This server is stopping; connect again.").Because(errDraining)
	}
	if s.most > 0 && opts.Resumable && x.who.TenantID != "" && s.tenants[x.who.TenantID] >= s.most {
		s.refused.Inc()
		e := fault.New(fault.Limited, "STREAM_LIMIT", "Your company has %d event streams open on this server, which is as many as it may. "+
			"Close one that nobody reads, or follow a session in place of each of its runs; a stream that ended makes room at once.", s.most)
		e.RetryAfter = tryAgain
		return nil, e
	}
	st := &Stream{x: x, all: s, opts: opts}
	st.ctx, st.cancel = context.WithCancelCause(parent)
	s.all[st] = struct{}{}
	if opts.Resumable {
		s.tenants[x.who.TenantID]++
	}
	if s.stop == nil {
		s.stop = make(chan struct{})
		go s.watch(s.stop)
	}
	return st, nil
}

// tryAgain is when a tenant with too many streams may have room.
const tryAgain = 5 * time.Second

func (s *streams) remove(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.all[st]; !there {
		return
	}
	delete(s.all, st)
	if tenant := st.x.who.TenantID; st.opts.Resumable {
		if s.tenants[tenant]--; s.tenants[tenant] == 0 {
			delete(s.tenants, tenant)
		}
	}
	if len(s.all) == 0 && s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
}

// wait returns when the streams that go on by themselves have ended, or ctx has.
func (s *streams) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.running.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
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
