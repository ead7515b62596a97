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

// streams is the set of open streams. It ends them when the server stops and when
// their credential is revoked. While it is not empty, one goroutine checks the
// credentials every few seconds, each one once however many streams it opened.
type streams struct {
	times        streamTimes
	maxPerTenant func() int           // streams of a tenant; 0: any number
	heartbeats   func() time.Duration // nil: times.heartbeat
	refused      prometheus.Counter
	recheck      func(context.Context, authz.Caller) error
	log          *slog.Logger

	mu      sync.Mutex
	all     map[*Stream]struct{}
	tenants map[string]int // resumable streams of each tenant
	closing bool           // new streams are refused, or end at once
	stop    chan struct{}  // ends the goroutine
	running sync.WaitGroup // goroutines of hijacked streams
}

func newStreams(times streamTimes, maxPerTenant func() int, recheck func(context.Context, authz.Caller) error, log *slog.Logger) *streams {
	if maxPerTenant == nil {
		maxPerTenant = func() int { return 0 }
	}
	return &streams{
		times: times, maxPerTenant: maxPerTenant, recheck: recheck, log: log, all: map[*Stream]struct{}{}, tenants: map[string]int{},
	}
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// open registers a stream, which ends with parent. Nothing is sent yet.
// Errors: fault.Unavailable when the server ends, fault.Limited where the tenant
// has too many. Only resumable streams are counted: a streamed answer ends by
// itself.
func (s *streams) open(parent context.Context, x *exchange, opts StreamOptions) (*Stream, error) {
	if opts.Heartbeat == nil {
		opts.Heartbeat = commentFrame
	}
	heartbeat := s.times.heartbeat
	if s.heartbeats != nil {
		heartbeat = s.heartbeats()
	}
	opts.HeartbeatEvery = cmp.Or(opts.HeartbeatEvery, heartbeat)
	most := s.maxPerTenant()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing && !opts.Resumable {
		return nil, fault.New(fault.Unavailable, "", "This server is stopping; retry with another node or in a few seconds.").Because(errDraining)
	}
	if most > 0 && opts.Resumable && x.who.TenantID != "" && s.tenants[x.who.TenantID] >= most {
		s.refused.Inc()
		e := fault.New(fault.Limited, "STREAM_LIMIT", "Your company has %d event streams open on this server, which is the limit. "+
			"Close one that is not needed, or follow a session instead of each of its runs; closing a stream makes room at once.", most)
		e.RetryAfter = streamRetryAfter
		return nil, e
	}
	st := &Stream{x: x, all: s, opts: opts}
	st.ctx, st.cancel = context.WithCancelCause(parent)
	if s.closing {
		st.cancel(errDraining)
	}
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

// streamRetryAfter is the Retry-After of a tenant with too many streams.
const streamRetryAfter = 5 * time.Second

func (s *streams) remove(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.all[st]; !open {
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

// wait returns when all hijacked streams have ended, or with ctx's error.
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

// drain ends the streams that can be resumed. Those that are opened later end at
// once if closing: a reader of events that got an error instead would not
// reconnect.
func (s *streams) drain(closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = closing
	for st := range s.all {
		if st.opts.Resumable {
			st.cancel(errDraining)
		}
	}
}

// watch checks credentials until no stream is left.
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

// checksAtOnce is how many credentials are looked up concurrently.
const checksAtOnce = 8

// checkAll ends the streams whose credential is no longer valid. Credentials that
// it does not get to within one interval are checked in the next.
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

// check checks the credential that some streams share.
func (s *streams) check(ctx context.Context, same []*Stream) {
	err := s.recheck(ctx, same[0].x.who)
	switch {
	case err == nil:
	case fault.Is(err, fault.Unauthenticated), fault.Is(err, fault.Forbidden), fault.Is(err, fault.NotFound):
		for _, st := range same {
			st.cancel(errRevoked)
		}
	default: // the database may answer the next time
		s.log.Warn("credentials of open streams could not be checked", "cause", err)
	}
}

// credentialKey identifies a credential. A stream token is as valid as the key or
// the session that it was made with.
type credentialKey struct{ tenant, user, key, session string }

func (s *streams) byCredential() map[credentialKey][]*Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	byKey := map[credentialKey][]*Stream{}
	for st := range s.all {
		if who := st.x.who; who.TenantID != "" {
			key := credentialKey{who.TenantID, who.UserID, who.KeyID, who.SessionID}
			byKey[key] = append(byKey[key], st)
		}
	}
	return byKey
}
