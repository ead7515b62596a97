package search_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/content/search"
	"agentd/internal/content/search/searchsql"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/session"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

const lease = 15 * time.Second

// rig is the slice over a real database, with a clock that stands.
type rig struct {
	*search.Service
	t        testing.TB
	db       *sqldb.DB
	clock    *clock.Fake
	agents   *agent.Agents
	runs     *runsql.Store
	sessions *sessionsql.Store
	queue    *worksql.Queue
	changes  *resource.Subscribers
	who      authz.Caller
}

func each(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newRig(t, db)) })
}

func newRig(t testing.TB, db *sqldb.DB) *rig {
	r := &rig{t: t, db: db, clock: clock.NewFake(), runs: runsql.New(db), sessions: sessionsql.New(db)}
	r.who = authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Viewer, Scopes: []authz.Scope{"search:read", "agents:read", "sessions:read", "runs:read"}}
	r.queue = worksql.New(db, r.clock, nil)
	r.changes = resource.NewSubscribers(r.queue, db, r.clock)
	r.agents = agent.New(resource.Deps{
		Backend: resourcesql.New(db), Writer: db, Outbox: r.changes, Cursors: page.NewCursors(make([]byte, 32)), Clock: r.clock,
	}, agent.Options{})
	r.Service = r.node()
	r.changes.Subscribe("search-follows-agents", "agent", nil, r.AgentChanged)
	return r
}

// node is the service as another node has it.
func (r *rig) node() *search.Service {
	return search.New(search.Deps{
		Store: searchsql.New(r.db), Runs: r.runs, Texts: runsql.NewTexts(r.db), Agents: r.agents.Store(), Sessions: r.sessions,
		Writer: r.db, Queue: r.queue, Clock: r.clock, Logger: slog.New(slog.DiscardHandler), Lease: lease,
	})
}

func (r *rig) fatal(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) write(do func(txn.Tx) error) {
	r.t.Helper()
	r.fatal(r.db.Write(r.t.Context(), do))
}

// run stores a run that ends now.
func (r *rig) run(tenant, session, message, text string) string {
	r.t.Helper()
	return r.runAt(tenant, session, message, text, r.clock.Now())
}

func (r *rig) runAt(tenant, session, message, text string, ended time.Time) string {
	r.t.Helper()
	in, err := json.Marshal(map[string]string{"message": message})
	r.fatal(err)
	out, err := json.Marshal(map[string]string{"text": text})
	r.fatal(err)
	rec := &run.Record{Run: run.Run{
		RunID: ident.New(), TenantID: tenant, AgentID: ident.New(), Status: run.Completed, Input: schema.Object(in), Output: schema.Nullable(out),
		CreatedAt: ended, CompletedAt: &ended,
	}}
	if session != "" {
		rec.SessionID = &session
	}
	r.write(r.runs.Create(rec))
	return rec.RunID
}

// agent makes an agent.
func (r *rig) agent(tenant, name, description string) string {
	r.t.Helper()
	g := r.agents.Store().Blank()
	g.Name, g.Description = name, description
	r.fatal(r.agents.Store().Create(r.t.Context(), authz.Caller{TenantID: tenant}, g))
	return g.ID
}

// session makes a session.
func (r *rig) session(tenant, metadata string) *session.Record {
	r.t.Helper()
	rec := &session.Record{
		TenantID: tenant, SessionID: ident.New(), AgentID: ident.New(), Status: session.Active, QueueMode: session.Allow,
		Metadata: schema.Object(metadata), ActiveBranch: session.Root, CreatedAt: r.clock.Now(), UpdatedAt: r.clock.Now(),
	}
	r.write(func(tx txn.Tx) error {
		if err := r.sessions.CreateTx(tx, rec); err != nil {
			return err
		}
		return r.SessionChanged(tx, tenant, rec.SessionID)
	})
	return rec
}

// change changes a session.
func (r *rig) change(rec *session.Record) {
	r.t.Helper()
	rec.UpdatedAt = r.clock.Now()
	r.write(func(tx txn.Tx) error {
		if err := r.sessions.UpdateTx(tx, rec); err != nil {
			return err
		}
		return r.SessionChanged(tx, rec.TenantID, rec.SessionID)
	})
}

// work lets this node do what is due, with what has ended among it.
func (r *rig) work() {
	r.t.Helper()
	r.nudge()
	r.due(r.Service)
}

// nudge leaves what Serve leaves.
func (r *rig) nudge() {
	r.t.Helper()
	r.write(func(tx txn.Tx) error { return r.queue.EnqueueTx(tx, search.RunsItem(r.clock.Now())) })
}

// due does what is due, as a node.
func (r *rig) due(node *search.Service) (done int) {
	r.t.Helper()
	for _, kind := range []string{resource.WorkKind, search.WorkKind} {
		held, err := r.queue.Claim(r.t.Context(), kind, "node", 1000, lease)
		r.fatal(err)
		for _, h := range held {
			if kind == search.WorkKind {
				r.fatal(node.Handle(r.t.Context(), h))
			} else {
				r.fatal(r.changes.Deliver(r.t.Context(), h))
			}
			done++
		}
	}
	return done
}

// finds returns what a search answers.
func (r *rig) finds(who authz.Caller, q string, kind search.Kind, limit int) []search.Result {
	r.t.Helper()
	got, err := r.Find(r.t.Context(), who, q, kind, limit)
	r.fatal(err)
	return got
}

// ids fails unless a search finds these things, in this order.
func (r *rig) ids(who authz.Caller, q string, kind search.Kind, want ...string) {
	r.t.Helper()
	got := []string{}
	for _, f := range r.finds(who, q, kind, 50) {
		got = append(got, f.ID)
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%q %s: found %v, want %v", q, kind, got, want)
	}
}
