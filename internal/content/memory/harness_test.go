package memory_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/content/memory"
	"agentd/internal/content/memory/memorysql"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/retrieval/retrievalsql"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/run/runtest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brain stands for all models: it embeds, and says what a test has it say.
type brain struct {
	says  func(model.Request) (string, error)
	asked []model.Request
}

func (*brain) Model() string { return "e" }

func (*brain) Embed(_ context.Context, texts []string) (out model.Embedded, err error) {
	for _, t := range texts {
		out.Vectors = append(out.Vectors, modeltest.Vector(t))
	}
	return out, nil
}

func (b *brain) Resolve(_ context.Context, _ string, spec model.Spec) (model.Target, error) {
	if spec.ModelRef == "unknown" {
		return model.Target{}, &model.Error{Code: "provider_not_configured"}
	}
	return model.Target{Model: spec.ModelRef}, nil
}

func (b *brain) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	b.asked = append(b.asked, req)
	text, err := b.says(req)
	return model.Response{Text: text}, err
}

// rig is a memory service on a database.
type rig struct {
	*testing.T
	*memory.Service
	db    *sqldb.DB
	clock *clock.Fake
	brain *brain
	queue *worksql.Queue
	runs  *runsql.Store
	who   authz.Caller
}

func newRig(t *testing.T, db *sqldb.DB, embeds bool) *rig {
	c, b := clock.NewFake(), &brain{}
	cursors := page.NewCursors([]byte(strings.Repeat("k", 32)))
	agents := agent.New(resource.Deps{
		Backend: resourcesql.New(db), Writer: db, Outbox: resource.NoOutbox{}, Cursors: cursors, Clock: c,
	}, agent.Options{})
	queue, runs := worksql.New(db, c, nil), runsql.New(db)
	search := retrieval.Config{
		Store: retrievalsql.New(db), Writer: db, Queue: queue, Clock: c, Log: slog.New(slog.DiscardHandler), Lease: time.Minute,
	}
	if embeds {
		search.Embedder = b
	}
	return &rig{
		T: t, db: db, clock: c, brain: b, queue: queue, runs: runs, who: authz.Caller{TenantID: ident.New(), UserID: "u"},
		Service: &memory.Service{
			Store: memorysql.New(db), Search: retrieval.New(search), Agents: agents, Writer: db, Queue: queue, Cursors: cursors,
			Clock: c, Log: slog.New(slog.DiscardHandler), Runs: runs, Models: b, Client: b,
			Defaults: defaults,
		},
	}
}

func defaults() memory.Defaults { return memory.Defaults{Entries: 10_000, Most: 100_000, Recall: 5} }

func each(t *testing.T, test func(r *rig)) {
	t.Helper()
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(newRig(t, db, false)) })
}

// agent makes an agent with a memory field.
func (r *rig) agent(settings string) string {
	r.Helper()
	g := r.Agents.Store().Blank()
	g.Name, g.Memory = "agent", []byte(settings)
	if err := r.Agents.Store().Create(r.Context(), r.who, g); err != nil {
		r.Fatal(err)
	}
	return g.ID
}

// add imports entries with contents.
func (r *rig) add(agentID string, drafts ...memory.Draft) {
	r.Helper()
	if _, err := r.Import(r.Context(), r.who.TenantID, agentID, drafts); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) all(agentID string) (entries []memory.Entry) {
	r.Helper()
	entries, err := r.Store.List(r.Context(), r.who.TenantID, agentID, "", "", 1000)
	if err != nil {
		r.Fatal(err)
	}
	return entries
}

// contents of entries, newest first.
func contents(entries []memory.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Content
	}
	return out
}

func (r *rig) find(agentID string, asked memory.Asked) []memory.Entry {
	r.Helper()
	if asked.Limit == 0 {
		asked.Limit = 10
	}
	entries, _, err := r.Find(r.Context(), r.who.TenantID, agentID, asked, 0)
	if err != nil {
		r.Fatal(err)
	}
	return entries
}

// run stores a run that was completed, and tells the watcher of it.
func (r *rig) run(agentID, message, answer string) string {
	r.Helper()
	rec := runtest.Sample(r.who.TenantID, agentID)
	rec.Input = schema.Object(marshal(r.T, map[string]string{"message": message}))
	rec.Pending = nil
	r.write(r.runs.Create(rec))
	rec.Status, rec.Output = run.Completed, schema.Nullable(marshal(r.T, map[string]string{"text": answer}))
	r.write(r.runs.Update(r.who.TenantID, rec.RunID, run.UpdateOf(rec)))
	r.write(func(tx txn.Tx) error { return r.OnRunState(tx, rec) })
	return rec.RunID
}

func (r *rig) write(do func(txn.Tx) error) {
	r.Helper()
	if err := r.db.Write(r.Context(), do); err != nil {
		r.Fatal(err)
	}
}
