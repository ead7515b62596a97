package search

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the indexing work. Its keys are runsKey, for all runs of
// all tenants, and "session/" with the ids of a session and of its change.
const WorkKind = "search"

const (
	runsKey    = "runs"
	sessionKey = "session/"
)

const (
	// gather is the delay that collects ends of runs before they are indexed.
	gather = 300 * time.Millisecond
	// overlap is how much later than others a run's end may become visible and
	// still be found by the first pass.
	overlap = 500 * time.Millisecond
	// settled is the time after which no commit with an earlier end is expected.
	// The second pass finds what the first one missed.
	settled = time.Minute
	// again is when the second pass runs.
	again = settled + 10*time.Second

	pageSize   = 256
	batchDocs  = 32
	readRuns   = 8
	batchWords = 4000
	// sessionRuns is how many runs of a session its document is built from.
	sessionRuns = 40
)

// Marks of what is indexed.
const (
	markRuns     = "runs" // every run that ended before this has its document
	markAgents   = "agents"
	markSessions = "sessions"
)

// Agents is the port to agents; resource.Store implements it.
type Agents interface {
	Get(ctx context.Context, tenant, id string) (*agent.Agent, error)
}

// Sessions is the port to sessions; session.Store implements it.
type Sessions interface {
	Get(ctx context.Context, tenant, id string) (*session.Record, error)
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store    Store
	Runs     Runs
	Texts    Texts
	Agents   Agents
	Sessions Sessions
	Writer   txn.Writer
	Queue    work.Queue
	Clock    clock.Clock
	Logger   *slog.Logger
	Lease    time.Duration // of the runner of WorkKind
}

// Service implements searching and indexing. It is safe for concurrent use.
type Service struct {
	Deps
	dirty chan struct{} // capacity 1: a run has ended
	nudge func()        // wakes Serve

	mu      sync.Mutex
	seen    time.Time // end of this node's last pass
	waiting time.Time // end of the oldest run that the pass under way has not indexed; zero: none
}

// New returns a service.
func New(d Deps) *Service {
	s := &Service{Deps: d, dirty: make(chan struct{}, 1)}
	s.nudge = func() {
		select {
		case s.dirty <- struct{}{}:
		default:
		}
	}
	return s
}

// OnRunState is a run.Watcher. It writes nothing: indexing finds ended runs by
// their index, and this is only a hint that there is one.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if r.Status.Final() {
		tx.AfterCommit(s.nudge)
	}
	return nil
}

// Serve schedules indexing whenever runs of this node end, until ctx ends. It
// schedules once at the start, for runs of a process that died.
func (s *Service) Serve(ctx context.Context) {
	s.nudge()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty:
		}
		if !pause(ctx, gather) {
			return
		}
		if err := s.schedule(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("what has ended cannot be left to be found; it is tried again", "error", err)
			s.nudge()
		}
	}
}

// schedule has what has ended indexed.
func (s *Service) schedule(ctx context.Context) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: runsKey, Due: s.Clock.Now()})
	})
}

// SessionChanged schedules indexing of a session. Each change has its own work
// item, because an item that is held while it is scheduled again runs once.
func (s *Service) SessionChanged(tx txn.Tx, tenant, id string) error {
	return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: sessionKey + id + "/" + ident.New(), TenantID: tenant, Due: s.Clock.Now()})
}

// AgentChanged rebuilds an agent's document. It is subscribed to changes.
func (s *Service) AgentChanged(ctx context.Context, c resource.Change) error {
	return s.refreshAgent(ctx, c.TenantID, c.ID)
}

func (s *Service) refreshAgent(ctx context.Context, tenant, id string) error {
	g, err := s.Agents.Get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) {
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.DeleteTx(tx, tenant, Agent, id) })
	}
	if err != nil {
		return err
	}
	d := agentDoc(g)
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.PutTx(tx, tenant, Agent, []Doc{d}) })
}

// refreshSession rebuilds a session's document. A deleted session has none; its
// runs keep theirs.
func (s *Service) refreshSession(ctx context.Context, tenant, id string, also txn.Op) error {
	put := func(txn.Tx) error { return nil }
	r, err := s.Sessions.Get(ctx, tenant, id)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && r.Status == session.Closed:
		put = func(tx txn.Tx) error { return s.Store.DeleteTx(tx, tenant, Session, id) }
	case err != nil:
		return err
	default:
		runs, err := s.Runs.List(ctx, tenant, run.Filter{SessionID: id}, page.Window{Limit: sessionRuns})
		if err != nil {
			return err
		}
		put = func(tx txn.Tx) error { return s.Store.PutTx(tx, tenant, Session, []Doc{sessionDoc(r, runs)}) }
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := put(tx); err != nil || also == nil {
			return err
		}
		return also(tx)
	})
}

// Handle is the work.Handler of WorkKind.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	if rest, ok := strings.CutPrefix(held.Key, sessionKey); ok {
		id, _, _ := strings.Cut(rest, "/")
		return s.refreshSession(ctx, held.TenantID, id, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, held) })
	}
	for {
		if err := work.StopIfDraining(ctx); err != nil {
			return err
		}
		// Runs that have just ended come first, then a page of older ones.
		found, err := s.fresh(ctx, held)
		if err != nil {
			return err
		}
		more, err := s.older(ctx, held)
		if err != nil {
			return err
		}
		switch {
		case !found && !more:
			return s.rest(ctx, held)
		case !more && !pause(ctx, gather): // each pass reads again what ended within the overlap
			return context.Cause(ctx)
		}
	}
}

// start is where the first pass begins: shortly before this node's last one
// ended.
func (s *Service) start(now time.Time) Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := now.Add(-settled)
	if s.seen.After(from) {
		from = s.seen
	}
	return Mark{At: from.Add(-overlap)}
}

// reached records the end of a pass. A node whose clock is ahead does not advance
// the mark of others.
func (s *Service) reached(at time.Time) {
	if now := s.Clock.Now(); at.After(now) {
		at = now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.seen) {
		s.seen = at
	}
}

// fresh indexes the runs that have just ended, and reports whether there were some.
func (s *Service) fresh(ctx context.Context, held work.Lease) (found bool, err error) {
	defer s.setWaiting(time.Time{})
	from := s.start(s.Clock.Now())
	for {
		places, err := s.Store.ListEnded(ctx, from, time.Time{}, pageSize)
		if err != nil || len(places) == 0 {
			return found, err
		}
		from = places[len(places)-1].Mark
		if err := s.index(ctx, held, places, 1); err != nil {
			return found, err
		}
		found = found || slices.ContainsFunc(places, func(p Place) bool { return !p.Known })
		s.reached(from.At)
		if len(places) < pageSize {
			return found, nil
		}
	}
}

// older indexes one page of what the first pass has missed, and of what is older
// than the index itself. It reports whether there may be more.
func (s *Service) older(ctx context.Context, held work.Lease) (more bool, err error) {
	from, err := s.Store.GetMark(ctx, markRuns)
	if err != nil {
		return false, err
	}
	places, err := s.Store.ListEnded(ctx, from, s.Clock.Now().Add(-settled), pageSize)
	if err != nil {
		return false, err
	}
	if len(places) > 0 {
		if err := s.index(ctx, held, places, 3); err != nil {
			return false, err
		}
		if err := s.setMark(ctx, held, markRuns, places[len(places)-1].Mark); err != nil {
			return false, err
		}
	}
	agents, err := s.things(ctx, held, markAgents, Agent, s.refreshAgent)
	if err != nil {
		return false, err
	}
	sessions, err := s.things(ctx, held, markSessions, Session, func(ctx context.Context, tenant, id string) error {
		return s.refreshSession(ctx, tenant, id, nil)
	})
	return len(places) == pageSize || agents || sessions, err
}

// doneWith is the mark of a kind that is completely indexed. Later ones are
// indexed by their changes.
var doneWith = time.Unix(1, 0)

// things indexes, once, all agents or sessions that are older than the index.
func (s *Service) things(
	ctx context.Context, held work.Lease, name string, kind Kind, refresh func(ctx context.Context, tenant, id string) error,
) (more bool, err error) {
	from, err := s.Store.GetMark(ctx, name)
	if err != nil || !from.At.IsZero() {
		return false, err
	}
	page, err := s.Store.ListThings(ctx, kind, from, batchDocs)
	if err != nil {
		return false, err
	}
	for _, m := range page {
		began := s.Clock.Now()
		if err := refresh(ctx, m.TenantID, m.ID); err != nil {
			return false, err
		}
		if !pause(ctx, 3*s.Clock.Now().Sub(began)) {
			return false, context.Cause(ctx)
		}
		from = m
	}
	if more = len(page) == batchDocs; !more {
		from.At = doneWith
	}
	return more, s.setMark(ctx, held, name, from)
}

func (s *Service) setMark(ctx context.Context, held work.Lease, name string, m Mark) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Queue.HoldTx(tx, held, s.Lease); err != nil {
			return err
		}
		return s.Store.PutMarkTx(tx, name, m)
	})
}

// index builds the documents of runs that have none, and of their sessions. It
// writes in small batches and pauses for a multiple of each write's duration, so
// that it does not delay other writers.
func (s *Service) index(ctx context.Context, held work.Lease, places []Place, rest int) error {
	sessions := map[[2]string]bool{}
	places = slices.DeleteFunc(slices.Clone(places), func(p Place) bool { return p.Known })
	for len(places) > 0 {
		s.setWaiting(places[0].At)
		var batch batch
		for len(places) > 0 && !batch.full() {
			tenant, ids := together(places)
			places = places[len(ids):]
			runs, err := s.Texts.ListTexts(ctx, tenant, ids)
			if err != nil {
				return err
			}
			for i := range runs {
				r := &runs[i]
				batch.add(tenant, runDoc(r))
				if r.SessionID != nil {
					sessions[[2]string{tenant, *r.SessionID}] = true
				}
			}
		}
		if err := s.put(ctx, held, &batch, rest); err != nil {
			return err
		}
	}
	for key := range sessions {
		began := s.Clock.Now()
		if err := s.refreshSession(ctx, key[0], key[1], nil); err != nil {
			return err
		}
		if !pause(ctx, time.Duration(rest)*s.Clock.Now().Sub(began)) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// together returns the first runs of a page that are read at once: of one tenant, and
// few, as a run may be large.
func together(places []Place) (tenant string, ids []string) {
	tenant = places[0].TenantID
	for _, p := range places[:min(len(places), readRuns)] {
		if p.TenantID != tenant {
			break
		}
		ids = append(ids, p.ID)
	}
	return tenant, ids
}

func (s *Service) put(ctx context.Context, held work.Lease, b *batch, rest int) error {
	if len(b.tenants) == 0 {
		return nil
	}
	began := s.Clock.Now()
	// Every node uses the same order: a tenant's documents are locked until commit.
	slices.Sort(b.tenants)
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Queue.HoldTx(tx, held, s.Lease); err != nil {
			return err
		}
		for _, tenant := range b.tenants {
			if err := s.Store.PutTx(tx, tenant, Run, b.docs[tenant]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !pause(ctx, time.Duration(rest)*s.Clock.Now().Sub(began)) {
		err = context.Cause(ctx)
	}
	return err
}

// batch is a set of documents that are stored together.
type batch struct {
	tenants  []string
	docs     map[string][]Doc
	n, words int
}

func (b *batch) full() bool { return b.n >= batchDocs || b.words >= batchWords }

func (b *batch) add(tenant string, d Doc) {
	if b.docs == nil {
		b.docs = map[string][]Doc{}
	}
	if b.docs[tenant] == nil {
		b.tenants = append(b.tenants, tenant)
	}
	b.docs[tenant] = append(b.docs[tenant], d)
	b.n++
	b.words += len(d.Words)
}

// pause waits for d; it returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
