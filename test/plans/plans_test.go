// Package plans checks how the databases run the lists that are read often.
package plans

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/usage"
	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/content/artifact/artifactsql"
	"agentd/internal/content/file"
	"agentd/internal/content/file/filesql"
	"agentd/internal/content/knowledge/knowledgesql"
	"agentd/internal/content/memory/memorysql"
	"agentd/internal/content/workspace/workspacesql"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/delivery/webhook/webhooksql"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/schedule/schedulesql"
	"agentd/internal/execution/sensor/sensorsql"
	"agentd/internal/execution/session"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/idempotency"
	"agentd/internal/store/auditsql"
	"agentd/internal/store/idempotencysql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// primaryKey stands for the index of a table's primary key.
const primaryKey = "primary key"

// list is a list that must walk an index, in the order of its rows.
type list struct {
	name  string
	index string // one or more names or parts of names: without rows, PostgreSQL does not care which of two it takes
	read  func(ctx context.Context, db *sqldb.DB) error
}

// TestListsWalkIndexes has the databases explain what each list reads on tables
// of a million rows: nothing scanned, no more rows read or sorted than the page
// has, and along the index that the tags of its filter name.
func TestListsWalkIndexes(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			all, of := statementsOf(t, engine)
			plans, err := sqldbtest.Explain(t, engine, all)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range all {
				if strings.HasPrefix(s.Text, "SELECT COUNT(*) FROM (SELECT 1") {
					continue // any index will do to count up to a limit
				}
				for _, l := range of[s.Text] {
					if !l.walks(plans[i]) {
						t.Errorf("%s does not walk %s\n%s\n%s", l.name, l.index, s.Text, plans[i])
					}
				}
			}
			for _, why := range sqldbtest.RefusedPlans(t, engine, all) {
				t.Error(why)
			}
		})
	}
}

// TestMissingIndexes takes one index away at a time: lists are refused then.
func TestMissingIndexes(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			all, _ := statementsOf(t, engine)
			for _, index := range []string{
				"runs_agent", "runs_agent_status", "runs_status", "runs_session", "runs_auth", "approvals_run", "approvals_agent", "approvals_status",
				"sessions_agent", "audit_log_action", "audit_log_target", "audit_log_user", "audit_log_key",
				"webhook_deliveries_due", "webhook_deliveries_dead", "files_mime", "session_todos_due",
			} {
				if len(sqldbtest.RefusedPlans(t, engine, all, "DROP INDEX "+index)) == 0 {
					t.Errorf("without %s, every list still has a plan that is accepted", index)
				}
			}
		})
	}
}

// statementsOf returns the statements that the lists send, and whose each is.
func statementsOf(t *testing.T, engine sqldbtest.Engine) (all []sqldbtest.Statement, of map[string][]list) {
	t.Helper()
	var asked []sqldbtest.Statement
	db := sqldbtest.OpenWith(t, engine, func(cfg *sqldb.Config) {
		cfg.OnStatement = func(text string, args []any) { asked = append(asked, sqldbtest.Statement{Text: text, Args: args}) }
	})
	of = map[string][]list{}
	for _, l := range lists() {
		asked = nil
		if err := l.read(t.Context(), db); err != nil {
			t.Errorf("%s: %v", l.name, err)
		}
		if len(asked) == 0 {
			t.Errorf("%s: reads nothing", l.name)
		}
		for _, s := range asked {
			if of[s.Text] == nil {
				all = append(all, s)
			}
			of[s.Text] = append(of[s.Text], l)
		}
	}
	return all, of
}

func lists() []list {
	all := append(runLists(), sessionLists()...)
	all = append(append(all, accountLists()...), otherLists()...)
	return append(all, filteredLists()...)
}

// filteredLists are the lists whose filters are data, each with every one of its
// filters alone. A filter that is added there is tested here.
func filteredLists() []list {
	return slices.Concat(
		filtered("runs", "runs_created", func(ctx context.Context, db *sqldb.DB, f run.Filter, w page.Window) error {
			_, err := runsql.New(db).List(ctx, "t", f, w)
			return err
		}),
		filtered("approvals", primaryKey, func(ctx context.Context, db *sqldb.DB, f run.ApprovalFilter, w page.Window) error {
			_, err := runsql.New(db).ListApprovals(ctx, "t", f, w)
			return err
		}),
		filtered("sessions", "sessions_created", func(ctx context.Context, db *sqldb.DB, f session.Filter, w page.Window) error {
			_, err := sessionsql.New(db).List(ctx, "t", f, w)
			return err
		}),
		filtered("audit", primaryKey, func(ctx context.Context, db *sqldb.DB, f audit.EntryFilter, w page.Window) error {
			_, err := auditsql.New(db).List(ctx, "t", audit.Filter{EntryFilter: f, Limit: w.Limit})
			return err
		}),
		filtered("audit export", primaryKey, func(ctx context.Context, db *sqldb.DB, f audit.EntryFilter, w page.Window) error {
			after := audit.Position{At: time.UnixMicro(1), EntryID: "x"}
			_, err := auditsql.New(db).List(ctx, "t", audit.Filter{EntryFilter: f, Limit: w.Limit, After: after, OldestFirst: true})
			return err
		}),
		filtered("audit of a target", "audit_log_target", func(ctx context.Context, db *sqldb.DB, f audit.TargetFilter, w page.Window) error {
			f.TargetID = "x" // its type alone selects nothing
			_, err := auditsql.New(db).List(ctx, "t", audit.Filter{TargetFilter: f, Limit: w.Limit})
			return err
		}),
		filtered("notifications", "notifications_user", func(ctx context.Context, db *sqldb.DB, f notification.Filter, w page.Window) error {
			_, err := notificationsql.New(db).List(ctx, "t", "u", f, w.Limit)
			return err
		}),
		filtered("todos", "session_todos_due", func(ctx context.Context, db *sqldb.DB, f session.TodoFilter, w page.Window) error {
			_, _, err := sessionsql.New(db).ListTodos(ctx, "t", f, w.Limit)
			return err
		}),
	)
}

// found returns the error of a read of one row, of which there is none.
func found(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// filtered returns a list with none and with each of its filters, from the start
// and from a position; order is the index of the list without a filter.
func filtered[F any](name, order string, read func(context.Context, *sqldb.DB, F, page.Window) error) []list {
	var all []list
	add := func(name, index string, f F) {
		for suffix, w := range map[string]page.Window{"": {}, " next page": {After: "x"}, " oldest first": {After: "x", Ascending: true}} {
			w.Limit = 20
			all = append(all, list{name: name + suffix, index: index, read: func(ctx context.Context, db *sqldb.DB) error { return read(ctx, db, f, w) }})
		}
	}
	add(name, order, *new(F))
	for _, filter := range sqldb.FiltersOf[F]() {
		var f F
		set(reflect.ValueOf(&f).Elem().FieldByName(filter.Name))
		index := filter.Index
		if index == sqldb.PrimaryKey {
			index = primaryKey
		}
		add(name+", "+filter.Condition, index, f)
	}
	return all
}

// set sets a field of a filter to any value but the zero one.
func set(v reflect.Value) {
	if at, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
		*at = time.Unix(1, 0)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	default:
		v.SetString("x")
	}
}

var ofADay = page.Created{CreatedAfter: time.Unix(86400, 0), CreatedBefore: time.Unix(2*86400, 0)}

func runLists() []list {
	pair := func(name, index string, f run.Filter) list {
		return list{name: name, index: index, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := runsql.New(db).List(ctx, "t", f, page.Window{After: "x", Limit: 20})
			return err
		}}
	}
	return []list{
		pair("runs of an agent in a state", "runs_agent_status", run.Filter{AgentID: "a", Status: []run.Status{"failed"}}),
		pair("runs of a session in a state", "runs_session", run.Filter{SessionID: "s", Status: []run.Status{"failed"}}),
		pair("runs of an agent in a session", "runs_session", run.Filter{SessionID: "s", AgentID: "a"}),
		pair("runs in a state of a time", "runs_status", run.Filter{Created: ofADay, Status: []run.Status{"failed"}}),
		pair("runs of an agent of a time", "runs_agent", run.Filter{Created: ofADay, AgentID: "a"}),
		pair("runs with labels", "run_labels", run.Filter{Metadata: map[string]string{"a": "1", "b": "2"}}),
		pair("runs with a label in a state of a time", "run_labels", run.Filter{
			Metadata: map[string]string{"a": "1"}, Status: []run.Status{"failed", "timeout"}, Created: ofADay,
		}),
		{name: "unfinished runs", index: "runs_agent", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := runsql.New(db).ListUnfinished(ctx, "t", "a", 20)
			return err
		}},
		{name: "waiting runs", index: "runs_auth", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := runsql.New(db).ListWaiting(ctx, "t", "s", 20)
			return err
		}},
		{name: "steps", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := runsql.New(db).ListSteps(ctx, "t", "r", 3, 20)
			return err
		}},
		{name: "events", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := runsql.NewEvents(db).Read(ctx, "t", "r", 3, 20)
			return err
		}},
		{name: "runs with their steps", index: "PRIMARY runs_ run_steps_", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := runsql.WithSteps(ctx, db, "t", []string{"a", "b"})
			return err
		}},
		{name: "approvals of a run, oldest first", index: "approvals_run", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := runsql.New(db).ListApprovalsByRun(ctx, nil, "t", "r")
			return err
		}},
	}
}

func sessionLists() []list {
	return []list{
		{name: "branches", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).ListBranches(ctx, "t", "s")
			return err
		}},
		{name: "turns", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).ListTimedTurns(ctx, "t", "s", 3)
			return err
		}},
		{name: "turns of a session", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).ListTurns(ctx, "t", "s")
			return err
		}},
		{name: "turns of a branch, newest first", index: "session_runs_branch", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).ListTurnsBack(ctx, "t", "s", "b", 3, 20)
			return err
		}},
		{name: "the turn of a run", index: "session_runs_run", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).GetTurn(ctx, "t", "r")
			return found(err)
		}},
		{name: "the newest summary of a branch", index: "session_runs_summarized", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).GetSummarizedTurn(ctx, "t", "s", "b", 3)
			return found(err)
		}},
		{name: "the first unfinished turn of a branch", index: "session_runs_next", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).GetUnfinished(ctx, "t", "s", "b")
			return found(err)
		}},
		{name: "schedules", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := schedulesql.New(db).List(ctx, "t", "x", 20)
			return err
		}},
		{name: "runs of a schedule", index: "schedule_runs_agent", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := schedulesql.New(db).ListRuns(ctx, "t", "a", 20)
			return err
		}},
		{name: "sensors", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sensorsql.New(db).List(ctx, "t", "x", 20)
			return err
		}},
	}
}

func accountLists() []list {
	return []list{
		{name: "audit by actor", index: "audit_log_user audit_log_key", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := auditsql.New(db).List(ctx, "t", audit.Filter{EntryFilter: audit.EntryFilter{ActorID: "x"}, Limit: 20})
			return err
		}},
		{name: "usage", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := usagesql.New(db).ListRows(ctx, "t", usage.Query{From: "2026-01-01", To: "2026-02-01"})
			return err
		}},
		{name: "usage of an agent by day", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := usagesql.New(db).ListRows(ctx, "t", usage.Query{From: "2026-01-01", To: "2026-02-01", AgentID: "a", ByDay: true})
			return err
		}},
		{name: "usage of a page of agents", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := usagesql.New(db).ListAgentUses(ctx, "t", []string{"2026-01-01", "2026-01-02"}, []string{"a", "b"})
			return err
		}},
		{name: "newest runs of a page of agents", index: "runs_agent runs_agent_status", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := runsql.NewActivity(db).ListRecent(ctx, "t", []string{"a", "b"}, time.Unix(0, 0), 20)
			return err
		}},
		{name: "totals", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := usagesql.New(db).ListTotals(ctx, "t", "2026-01", "2026-01-01")
			return err
		}},
		{name: "spent", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := usagesql.New(db).GetSpent(ctx, nil, "t", "2026-01-01", "2026-02-01")
			return err
		}},
		{name: "members", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := identitysql.NewPeople(db).ListMembers(ctx, "t", "x", 20)
			return err
		}},
		{name: "keys", index: "api_keys_user", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := identitysql.New(db).ListKeys(ctx, "t", "u")
			return err
		}},
		{name: "idempotency records", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := idempotencysql.New(db).List(ctx, idempotency.ID{Tenant: "t"}, 20)
			return err
		}},
	}
}

func otherLists() []list {
	return []list{
		{name: "deliveries", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, _, err := webhooksql.New(db).ListAttempts(ctx, "t", "w", "x", 20, 100)
			return err
		}},
		{name: "due deliveries", index: "webhook_deliveries_due webhook_events_pkey PRIMARY sqlite_autoindex",
			read: func(ctx context.Context, db *sqldb.DB) error {
				_, err := webhooksql.New(db).ListDue(ctx, "t", "w", time.Unix(1, 0), 20, 1000)
				return err
			}},
		{name: "dead letters", index: "webhook_deliveries_dead", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := webhooksql.New(db).ListDeadLetters(ctx, "", "x", 20)
			return err
		}},
		{name: "number of unread notifications", index: "notifications_unread", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := notificationsql.New(db).CountUnread(ctx, "t", "u", 1001)
			return err
		}},
		{name: "notifications after one", index: "notifications_user", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := notificationsql.New(db).ListAfter(ctx, "t", "u", 3, 20)
			return err
		}},
		{name: "files", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := filesql.New(db).List(ctx, "t", file.Filter{After: "x", Limit: 20})
			return err
		}},
		{name: "files by type", index: "files_mime", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := filesql.New(db).List(ctx, "t", file.Filter{MimePrefix: "image/", Limit: 20})
			return err
		}},
		{name: "artifacts of runs", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := artifactsql.New(db).ListByRun(ctx, "t", []string{"a", "b"})
			return err
		}},
		{name: "workspaces", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := workspacesql.New(db).List(ctx, "t", "x", 20)
			return err
		}},
		{name: "files of a workspace", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := workspacesql.New(db).ListFiles(ctx, "t", "w", "dir", 20)
			return err
		}},
		{name: "documents of a knowledge base", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := knowledgesql.New(db).List(ctx, "t", "k", "x", 20)
			return err
		}},
		{name: "memory", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := memorysql.New(db).List(ctx, "t", "a", "", "x", 20)
			return err
		}},
		{name: "memory of an entity", index: "memory_entries_entity", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := memorysql.New(db).List(ctx, "t", "a", "e", "x", 20)
			return err
		}},
	}
}

// walks reports whether a plan names the index of a list.
func (l list) walks(plan string) bool {
	indexes := strings.Fields(l.index)
	if l.index == primaryKey {
		indexes = []string{"_pkey", "PRIMARY KEY", "sqlite_autoindex"}
	}
	return slices.ContainsFunc(indexes, func(index string) bool { return strings.Contains(plan, index) })
}
