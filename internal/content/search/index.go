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
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the work that makes documents. Its keys are runsKey,
// for all runs of all tenants, and "session/" with an id and one of the change.
const WorkKind = "search"

const (
	runsKey    = "runs"
	sessionKey = "session/"
)

const (
	// gather is how long ends of runs are gathered before they are looked for.
	gather = 300 * time.Millisecond
	// overlap is how much later than others a run's end may become visible and
	// still be found at once.
	overlap = 2 * time.Second
	// settled is after what time nothing is committed any more that ended
	// before. What was missed by then is found by the second look.
	settled = time.Minute
	// again is when the second look is taken.
	again = settled + 10*time.Second

	pageSize   = 256
	batchDocs  = 32
	batchWords = 4000
	// sessionRuns is how many runs of a session are read for its document.
	sessionRuns = 40
)

// Marks.
const (
	markRuns     = "runs" // up to here every run that ended has its document
	markAgents   = "agents"
	markSessions = "sessions"
)

// Agents is the port to agents: their resource.Store.
type Agents interface {
	Get(ctx context.Context, tenant, id string) (*agent.Agent, error)
}

// Sessions is the port to sessions; session.Store.
type Sessions interface {
	Get(ctx context.Context, tenant, id string) (*session.Record, error)
}

// Deps is what a Service is made of.
type Deps struct {
	Store    Store
	Runs     Runs
	Agents   Agents
	Sessions Sessions
	Writer   txn.Writer
	Queue    work.Queue
	Clock    clock.Clock
	Logger   *slog.Logger
	Lease    time.Duration // of the runner of WorkKind
}

// Service is the slice. It is safe for concurrent use.
type Service struct {
	Deps
	dirty chan struct{} // capacity 1: runs have ended
	nudge func()        // says so

	mu   sync.Mutex
	seen time.Time // up to here this node has looked
}

// New makes a service.
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

// OnRunState is a run.Watcher. It writes nothing: what has ended is found by the
// index of ends, and that something has is only a hint.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if r.Status.Final() {
		tx.AfterCommit(s.nudge)
	}
	return nil
}

// Serve leaves work where runs of this node have ended, for as long as ctx
// lasts. It begins with some, for what a process that died has not left.
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
		err := s.Writer.Write(ctx, func(tx txn.Tx) error {
			return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: runsKey, Due: s.Clock.Now()})
		})
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("what has ended cannot be left to be found; it is tried again", "error", err)
			s.nudge()
		}
	}
}

// SessionChanged leaves it as work to look at a session again. Each change
// leaves its own, because what is held while it is left anew is not done again.
func (s *Service) SessionChanged(tx txn.Tx, tenant, id string) error {
	return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: sessionKey + id + "/" + ident.New(), TenantID: tenant, Due: s.Clock.Now()})
}

// AgentChanged makes an agent's document anew. It is subscribed to changes.
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

// refreshSession makes a session's document anew. One that was deleted has
// none, and its runs keep theirs.
func (s *Service) refreshSession(ctx context.Context, tenant, id string, also txn.Op) error {
	put := func(txn.Tx) error { return nil }
	r, err := s.Sessions.Get(ctx, tenant, id)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && r.Status == session.Closed:
		put = func(tx txn.Tx) error { return s.Store.DeleteTx(tx, tenant, Session, id) }
	case err != nil:
		return err
	default:
		runs, err := s.Runs.List(ctx, tenant, run.Filter{SessionID: id, Limit: sessionRuns})
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
		// What has just ended comes first, then a page of what is older.
		if err := s.fresh(ctx, held); err != nil {
			return err
		}
		more, err := s.older(ctx, held)
		if err != nil {
			return err
		}
		if !more {
			if more, err = s.rest(ctx, held); err != nil || !more {
				return err
			}
		}
	}
}

// start is where the look at what has just ended begins: where this node's last
// one came to, a little before.
func (s *Service) start(now time.Time) Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := now.Add(-settled)
	if s.seen.After(from) {
		from = s.seen
	}
	return Mark{At: from.Add(-overlap)}
}

// reached keeps what was looked at. A node whose clock is ahead does not take
// others with it.
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

// fresh makes documents of what has just ended.
func (s *Service) fresh(ctx context.Context, held work.Lease) error {
	from := s.start(s.Clock.Now())
	for {
		places, err := s.Store.ListEnded(ctx, from, time.Time{}, pageSize)
		if err != nil || len(places) == 0 {
			return err
		}
		if err := s.index(ctx, held, places, 1); err != nil {
			return err
		}
		from = places[len(places)-1].Mark
		s.reached(from.At)
		if len(places) < pageSize {
			return nil
		}
	}
}

// older takes one step through what was there before the others: what the look
// at what has just ended has missed, and what is older than the search itself.
// more says whether it may have left something.
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

// doneWith is the time of a mark of things that were all looked through.
// Later ones come with their changes.
var doneWith = time.Unix(1, 0)

// things looks once through all agents, or sessions, that are older than the
// search.
func (s *Service) things(ctx context.Context, held work.Lease, name string, kind Kind, refresh func(ctx context.Context, tenant, id string) error) (more bool, err error) {
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

// rest ends the work, or lets it rest until the second look; more says that
// runs have ended meanwhile. The item is let go first: whoever leaves work for a
// run that is not seen here waits for this transaction, and leaves it anew.
func (s *Service) rest(ctx context.Context, held work.Lease) (more bool, err error) {
	swept, err := s.Store.GetMark(ctx, markRuns)
	if err != nil {
		return false, err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		more = false
		left, err := s.Store.ListEndedTx(tx, swept, 1)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			err = s.Queue.FinishTx(tx, held)
		} else {
			err = s.Queue.RescheduleTx(tx, held, s.Clock.Now().Add(again), nil)
		}
		if err != nil {
			return err
		}
		missed, err := s.missed(tx)
		if err == nil && missed {
			more, err = true, errMissed
		}
		return err
	})
	if more {
		return true, nil
	}
	return false, err
}

var errMissed = fault.New(fault.Conflict, "", "Runs have ended meanwhile.")

// missed says whether something ended lately that has no document.
func (s *Service) missed(tx txn.Tx) (bool, error) {
	from := s.start(s.Clock.Now())
	for {
		places, err := s.Store.ListEndedTx(tx, from, pageSize)
		if err != nil || slices.ContainsFunc(places, func(p Place) bool { return !p.Known }) {
			return err == nil, err
		}
		if len(places) < pageSize {
			return false, nil
		}
		from = places[len(places)-1].Mark
	}
}

// index makes documents of the runs that have none, and of their sessions. It
// writes a little at a time, and rests in between for a multiple of what the
// write took: others write, too.
func (s *Service) index(ctx context.Context, held work.Lease, places []Place, rest int) error {
	sessions := map[[2]string]bool{}
	for len(places) > 0 {
		var batch batch
		for len(places) > 0 && !batch.full() {
			p := places[0]
			places = places[1:]
			if p.Known {
				continue
			}
			r, err := s.Runs.Get(ctx, p.TenantID, p.ID)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return err
			}
			batch.add(p.TenantID, runDoc(&r.Run))
			if r.SessionID != nil {
				sessions[[2]string{p.TenantID, *r.SessionID}] = true
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

func (s *Service) put(ctx context.Context, held work.Lease, b *batch, rest int) error {
	if len(b.tenants) == 0 {
		return nil
	}
	began := s.Clock.Now()
	// In one order on every node: a tenant's documents are locked until commit.
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

// batch is documents of runs that are put at once.
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

// pause waits; false where ctx ended first.
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
