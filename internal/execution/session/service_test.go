package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/session"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

// runs plays run.Service.
type runs struct {
	made []run.Request
	fail error // of the next Create
}

func (r *runs) Create(_ context.Context, _ authz.Caller, req run.Request) (*run.Run, error) {
	if err := r.fail; err != nil {
		r.fail = nil
		return nil, err
	}
	r.made = append(r.made, req)
	return &run.Run{RunID: req.RunID}, nil
}

func (r *runs) Get(_ context.Context, _, id string) (*run.Run, error) {
	if slices.ContainsFunc(r.made, func(q run.Request) bool { return q.RunID == id }) {
		return &run.Run{RunID: id, Status: run.Running}, nil
	}
	return nil, fault.NoSuch("run")
}

func (r *runs) Cancel(context.Context, string, string) (run.CancelAnswer, error) {
	return run.CancelAnswer{}, nil
}

func (r *runs) Release(txn.Tx, string, string) error { return nil }

// agents plays agent.Agents: there is every one.
type agents struct{}

func (agents) Get(_ context.Context, tenant, id string) (agent.Agent, error) {
	g := agent.Agent{Config: agent.Config{Name: "tester"}}
	g.ID, g.TenantID = id, tenant
	return g, nil
}

type rig struct {
	*session.Service
	t     *testing.T
	runs  *runs
	clock *clock.Fake
	queue work.Queue
	who   authz.Caller
}

func newRig(t *testing.T, db *sqldb.DB) *rig {
	t.Helper()
	r := &rig{t: t, runs: &runs{}, clock: clock.NewFake(), who: authz.Caller{TenantID: ident.New(), UserID: "u"}}
	store := sessionsql.New(db)
	r.queue = worksql.New(db, r.clock, nil)
	r.Service = &session.Service{
		Store: store, Todos: store, Shares: store, Runs: r.runs, Agents: agents{}, Writer: db, Queue: r.queue,
		Log: runsql.NewEvents(db), Hub: event.NewHub(), Cursors: page.NewCursors(make([]byte, 32)), Clock: r.clock,
		CheckURL: func(string) error { return nil },
		Cron: func(cron, _ string) (func(time.Time) time.Time, error) { // "every 5m"
			every, err := time.ParseDuration(strings.TrimPrefix(cron, "every "))
			return func(at time.Time) time.Time { return at.Truncate(every).Add(every) }, err
		},
	}
	return r
}

// session makes one.
func (r *rig) session() *session.Record {
	r.t.Helper()
	rec := &session.Record{
		TenantID: r.who.TenantID, SessionID: ident.New(), AgentID: ident.New(), Status: session.Active,
		QueueMode: session.Allow, ActiveBranch: session.Root, CreatedAt: r.clock.Now(), UpdatedAt: r.clock.Now(),
	}
	if err := r.Writer.Write(r.t.Context(), func(tx txn.Tx) error { return r.Store.CreateTx(tx, rec) }); err != nil {
		r.t.Fatal(err)
	}
	return rec
}

// due handles the todos that are due, and gives the handlers' errors.
func (r *rig) due() (failed []error) {
	r.t.Helper()
	held, err := r.queue.Claim(r.t.Context(), session.TodoWorkKind, "node", 100, time.Second)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, l := range held {
		if err := r.HandleTodo(r.t.Context(), l); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

func (r *rig) todo(rec *session.Record) session.Todo {
	r.t.Helper()
	all, _, err := r.Todos.ListTodos(r.t.Context(), rec.TenantID, session.TodoFilter{SessionID: rec.SessionID, Limit: 2})
	if err != nil || len(all) != 1 {
		r.t.Fatalf("%d todos, %v", len(all), err)
	}
	return all[0]
}

func (r *rig) add(rec *session.Record, body string) *session.Todo {
	r.t.Helper()
	t, err := r.AddTodo(r.t.Context(), r.who, rec.SessionID, jsontext.Value(body))
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// ended tells the service that the last run came to a status.
func (r *rig) ended(status run.Status) {
	r.t.Helper()
	req := r.runs.made[len(r.runs.made)-1]
	rec := &run.Record{Run: run.Run{RunID: req.RunID, TenantID: r.who.TenantID, Metadata: req.Metadata, Status: status}}
	if err := r.Writer.Write(r.t.Context(), func(tx txn.Tx) error { return r.OnRunState(tx, rec) }); err != nil {
		r.t.Fatal(err)
	}
}

func TestTodosThatRecur(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		rec := r.session()
		made := r.add(rec, fmt.Sprintf(`{"title":"again","assign_agent_id":%q,"recurrence":{"cron":"every 5m"}}`, rec.AgentID))
		if at := r.clock.Now().Add(5 * time.Minute); made.NextFireAt == nil || !made.NextFireAt.Equal(at) {
			t.Fatalf("next at %v, want %v", made.NextFireAt, at)
		}
		for n := 1; n <= 3; n++ {
			if r.due(); len(r.runs.made) != n-1 {
				t.Fatalf("%d runs before it is due for the %d. time", len(r.runs.made), n)
			}
			r.clock.Advance(5 * time.Minute)
			if failed := r.due(); failed != nil || len(r.runs.made) != n {
				t.Fatalf("%d runs at the %d. time, %v", len(r.runs.made), n, failed)
			}
			if got := r.todo(rec); got.Status != session.TodoInProgress {
				t.Errorf("while it runs it is %s", got.Status)
			}
			r.ended(run.Failed)
			if got := r.todo(rec); got.Status != session.TodoPending || got.LastRunStatus != run.Failed || got.NextFireAt == nil {
				t.Errorf("after the run: %+v", got)
			}
		}
		if _, err := r.AddTodo(t.Context(), r.who, rec.SessionID, jsontext.Value(`{"title":"x","recurrence":{"cron":"often"}}`)); !fault.Is(err, fault.Invalid) {
			t.Errorf("a cron that is none: %v", err)
		}
	})
}

// A node that dies between the todo and its run: the next attempt makes the
// run that was meant, and no second one.
func TestTodoGetsOneRun(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		rec := r.session()
		r.add(rec, fmt.Sprintf(`{"title":"once","assign_agent_id":%q}`, rec.AgentID))
		r.runs.fail = fault.New(fault.Unavailable, "", "The database is away.")
		if failed := r.due(); len(failed) != 1 {
			t.Fatalf("failures: %v", failed)
		}
		meant := r.todo(rec).RunID
		for range 3 { // the lease runs out again and again
			r.clock.Advance(time.Minute)
			if failed := r.due(); failed != nil {
				t.Fatal(failed)
			}
		}
		if len(r.runs.made) != 1 || r.runs.made[0].RunID != meant || meant == "" {
			t.Errorf("runs %+v, want the one %s", r.runs.made, meant)
		}
		if *r.runs.made[0].SessionID != rec.SessionID || r.runs.made[0].Admit == nil {
			t.Errorf("the run is not a turn of the session")
		}
		r.ended(run.Completed)
		if got := r.todo(rec); got.Status != session.TodoDone {
			t.Errorf("it is %s", got.Status)
		}
	})
}

// What cannot start is not tried for ever.
func TestTodoThatIsRefused(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		rec := r.session()
		r.add(rec, fmt.Sprintf(`{"title":"x","assign_agent_id":%q}`, rec.AgentID))
		r.runs.fail = fault.WrongState("agent", "suspended", "starting a run")
		if failed := r.due(); failed != nil {
			t.Fatal(failed)
		}
		r.clock.Advance(time.Hour)
		r.due()
		if got := r.todo(rec); got.Status != session.TodoPending || got.LastRunStatus != run.Rejected || len(r.runs.made) != 0 {
			t.Errorf("after a refusal: %+v, %d runs", got, len(r.runs.made))
		}
	})
}

func TestPlanLimitIs429(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		rec := r.session()
		limit := fault.New(fault.Forbidden, "limit_reached", "The plan has no more runs.")
		for _, c := range []struct {
			fail error
			kind fault.Kind
		}{{limit, fault.Limited}, {fault.New(fault.Forbidden, "", "No."), fault.Forbidden}} {
			r.runs.fail = c.fail
			_, err := r.Say(t.Context(), r.who, rec.SessionID, "hello")
			if f := fault.From(err); f == nil || f.Kind != c.kind || f.Code != fault.From(c.fail).Code {
				t.Errorf("%v becomes %v", c.fail, err)
			}
		}
		if limit.Kind != fault.Forbidden {
			t.Error("the refusal of others was changed")
		}
	})
}

func TestPageSizes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db)
		for range 103 {
			r.session()
		}
		for limit, want := range map[string]int{"": 50, "7": 7, "100": 100, "1000": 100, "x": 50} {
			p, err := r.List(t.Context(), r.who.TenantID, "", limit, "")
			if err != nil || len(p.Items) != want || !p.HasMore || p.Cursor == nil {
				t.Errorf("limit %q: %d, %v", limit, len(p.Items), err)
			}
		}
		seen, cursor := map[string]bool{}, ""
		for {
			p, err := r.List(t.Context(), r.who.TenantID, "", "20", cursor)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Items {
				seen[s.SessionID] = true
			}
			if !p.HasMore {
				break
			}
			cursor = *p.Cursor
		}
		if len(seen) != 103 {
			t.Errorf("the pages show %d sessions", len(seen))
		}
		if _, err := r.List(t.Context(), r.who.TenantID, ident.New(), "20", cursor); !errors.As(err, new(*fault.Error)) || fault.From(err).Code != "INVALID_CURSOR" {
			t.Errorf("the cursor of another list: %v", err)
		}
		if p, err := r.List(t.Context(), ident.New(), "", "", ""); err != nil || len(p.Items) != 0 {
			t.Errorf("another tenant's list: %v, %v", p, err)
		}
	})
}
