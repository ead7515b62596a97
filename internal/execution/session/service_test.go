package session_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestRecurringTodos(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHarness(t, db)
		rec := h.session()
		todo := h.createTodo(rec, fmt.Sprintf(`{"title":"again","assign_agent_id":%q,"recurrence":{"cron":"every 5m"}}`, rec.AgentID))
		if at := h.clock.Now().Add(5 * time.Minute); todo.NextFireAt == nil || !todo.NextFireAt.Equal(at) {
			t.Fatalf("next at %v, want %v", todo.NextFireAt, at)
		}
		for n := 1; n <= 3; n++ {
			if h.handleDueTodos(); len(h.runs.created) != n-1 {
				t.Fatalf("%d runs before due time %d", len(h.runs.created), n)
			}
			h.clock.Advance(5 * time.Minute)
			if failed := h.handleDueTodos(); failed != nil || len(h.runs.created) != n {
				t.Fatalf("%d runs at due time %d, %v", len(h.runs.created), n, failed)
			}
			if got := h.onlyTodo(rec); got.Status != session.TodoInProgress {
				t.Errorf("while it runs it is %s", got.Status)
			}
			h.endRun(run.Failed)
			if got := h.onlyTodo(rec); got.Status != session.TodoPending || got.LastRunStatus != run.Failed || got.NextFireAt == nil {
				t.Errorf("after the run: %+v", got)
			}
		}
		if _, err := h.CreateTodo(t.Context(), h.who, rec.SessionID, jsontext.Value(`{"title":"x","recurrence":{"cron":"often"}}`)); !fault.Is(err, fault.Invalid) {
			t.Errorf("an invalid cron expression: %v", err)
		}
	})
}

// If a node dies after it assigned a run to a todo, the next attempt creates that
// run, and no second one.
func TestTodoGetsOneRun(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHarness(t, db)
		rec := h.session()
		h.createTodo(rec, fmt.Sprintf(`{"title":"once","assign_agent_id":%q}`, rec.AgentID))
		h.runs.fail = fault.New(fault.Unavailable, "", "The database is away.")
		if failed := h.handleDueTodos(); len(failed) != 1 {
			t.Fatalf("failures: %v", failed)
		}
		want := h.onlyTodo(rec).RunID
		for range 3 { // the lease expires each time
			h.clock.Advance(time.Minute)
			if failed := h.handleDueTodos(); failed != nil {
				t.Fatal(failed)
			}
		}
		if len(h.runs.created) != 1 || h.runs.created[0].RunID != want || want == "" {
			t.Errorf("runs %+v, want one with id %s", h.runs.created, want)
		}
		if *h.runs.created[0].SessionID != rec.SessionID || h.runs.created[0].Admit == nil {
			t.Errorf("the run is not a turn of the session")
		}
		h.endRun(run.Completed)
		if got := h.onlyTodo(rec); got.Status != session.TodoDone {
			t.Errorf("it is %s", got.Status)
		}
	})
}

// A todo whose run is refused is not retried.
func TestRefusedTodo(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHarness(t, db)
		rec := h.session()
		h.createTodo(rec, fmt.Sprintf(`{"title":"x","assign_agent_id":%q}`, rec.AgentID))
		h.runs.fail = fault.WrongState("agent", "suspended", "starting a run")
		if failed := h.handleDueTodos(); failed != nil {
			t.Fatal(failed)
		}
		h.clock.Advance(time.Hour)
		h.handleDueTodos()
		if got := h.onlyTodo(rec); got.Status != session.TodoPending || got.LastRunStatus != run.Rejected || len(h.runs.created) != 0 {
			t.Errorf("after a refusal: %+v, %d runs", got, len(h.runs.created))
		}
	})
}

func TestPlanLimitIs429(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHarness(t, db)
		rec := h.session()
		limit := fault.New(fault.Forbidden, "limit_reached", "The plan has no more runs.")
		for _, c := range []struct {
			fail error
			kind fault.Kind
		}{{limit, fault.Limited}, {fault.New(fault.Forbidden, "", "No."), fault.Forbidden}} {
			h.runs.fail = c.fail
			_, err := h.Send(t.Context(), h.who, rec.SessionID, "hello")
			if f := fault.From(err); f == nil || f.Kind != c.kind || f.Code != fault.From(c.fail).Code {
				t.Errorf("%v becomes %v", c.fail, err)
			}
		}
		if limit.Kind != fault.Forbidden {
			t.Error("the original error was modified")
		}
	})
}

func TestPageSizes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHarness(t, db)
		for range 103 {
			h.session()
		}
		for limit, want := range map[string]int{"": 50, "7": 7, "100": 100, "1000": 100, "x": 50} {
			p, err := h.List(t.Context(), h.who.TenantID, "", limit, "")
			if err != nil || len(p.Items) != want || !p.HasMore || p.Cursor == nil {
				t.Errorf("limit %q: %d, %v", limit, len(p.Items), err)
			}
		}
		seen, cursor := map[string]bool{}, ""
		for {
			p, err := h.List(t.Context(), h.who.TenantID, "", "20", cursor)
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
			t.Errorf("the pages list %d sessions", len(seen))
		}
		if _, err := h.List(t.Context(), h.who.TenantID, ident.New(), "20", cursor); !errors.As(err, new(*fault.Error)) || fault.From(err).Code != "INVALID_CURSOR" {
			t.Errorf("the cursor of another list: %v", err)
		}
		if p, err := h.List(t.Context(), ident.New(), "", "", ""); err != nil || len(p.Items) != 0 {
			t.Errorf("another tenant's list: %v, %v", p, err)
		}
	})
}

// The count of a list of todos ends at a thousand, and says so.
func TestTodoTotalIsBounded(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHarness(t, db)
		rec := h.session()
		todo := *h.createTodo(rec, `{"title":"x"}`)
		copies := func(n int) {
			t.Helper()
			err := h.Writer.Write(t.Context(), func(tx txn.Tx) error {
				for range n {
					todo.TodoID = ident.New()
					if err := h.Todos.PutTodoTx(tx, &todo); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		copies(999)
		for _, more := range []bool{false, true} {
			list, err := h.ListTodos(t.Context(), h.who, session.TodoFilter{ListedTodos: session.ListedTodos{SessionID: rec.SessionID}}, 3)
			if err != nil || len(list.Items) != 3 || list.Total != 1000 || list.TotalIsLowerBound != more {
				t.Errorf("%d of %d, a lower bound: %t; %v", len(list.Items), list.Total, list.TotalIsLowerBound, err)
			}
			copies(1)
		}
	})
}
