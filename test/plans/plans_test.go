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
	"agentd/internal/base/txn"
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
	sorts bool   // it groups or sorts the few rows that the index finds
	read  func(ctx context.Context, db *sqldb.DB) error
}

// TestListsWalkIndexes has the databases explain what each list reads: along
// the index that is meant, nothing scanned, nothing sorted.
func TestListsWalkIndexes(t *testing.T) {
	t.Parallel()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			var asked []statement
			db := sqldbtest.OpenWith(t, engine, func(cfg *sqldb.Config) {
				cfg.OnQuery = func(text string, args []any) { asked = append(asked, statement{text, args}) }
			})
			for _, l := range lists() {
				asked = nil
				_ = l.read(t.Context(), db) // there are no rows: "not found" is fine
				if len(asked) == 0 {
					t.Errorf("%s: reads nothing", l.name)
				}
				for _, s := range append([]statement(nil), asked...) {
					plan := s.explain(t, db)
					if why := refuse(plan, l); why != "" {
						t.Errorf("%s: %s\n%s\n%s", l.name, why, s.text, plan)
					}
				}
			}
		})
	}
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
		filtered("runs", func(ctx context.Context, db *sqldb.DB, f run.Filter, w page.Window) error {
			_, err := runsql.New(db).List(ctx, "t", f, w)
			return err
		}),
		filtered("approvals", func(ctx context.Context, db *sqldb.DB, f run.ApprovalFilter, w page.Window) error {
			_, err := runsql.New(db).ListApprovals(ctx, "t", f, w)
			return err
		}),
		filtered("sessions", func(ctx context.Context, db *sqldb.DB, f session.Filter, w page.Window) error {
			_, err := sessionsql.New(db).List(ctx, "t", f, w)
			return err
		}),
		filtered("audit", func(ctx context.Context, db *sqldb.DB, f audit.EntryFilter, w page.Window) error {
			_, err := auditsql.New(db).List(ctx, "t", audit.Filter{EntryFilter: f, Limit: w.Limit})
			return err
		}),
		filtered("audit export", func(ctx context.Context, db *sqldb.DB, f audit.EntryFilter, w page.Window) error {
			after := audit.Position{At: time.UnixMicro(1), EntryID: "x"}
			_, err := auditsql.New(db).List(ctx, "t", audit.Filter{EntryFilter: f, Limit: w.Limit, After: after, OldestFirst: true})
			return err
		}),
		filtered("audit of a target", func(ctx context.Context, db *sqldb.DB, f audit.TargetFilter, w page.Window) error {
			_, err := auditsql.New(db).List(ctx, "t", audit.Filter{TargetFilter: f, Limit: w.Limit})
			return err
		}),
		filtered("notifications", func(ctx context.Context, db *sqldb.DB, f notification.Filter, w page.Window) error {
			_, err := notificationsql.New(db).List(ctx, "t", "u", f, w.Limit)
			return err
		}),
		sorting("session_todos_", filtered("todos", func(ctx context.Context, db *sqldb.DB, f session.TodoFilter, w page.Window) error {
			_, _, err := sessionsql.New(db).ListTodos(ctx, "t", f, w.Limit)
			return err
		})),
	)
}

// found returns the error of a read of one row, of which there is none.
func found(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// sorting marks lists that may sort the few rows that an index finds.
func sorting(index string, all []list) []list {
	for i := range all {
		all[i].index, all[i].sorts = index, true
	}
	return all
}

// filtered returns a list with none and with each of its filters, from the start
// and from a position.
func filtered[F any](name string, read func(context.Context, *sqldb.DB, F, page.Window) error) []list {
	var all []list
	add := func(name, index string, f F) {
		for suffix, w := range map[string]page.Window{"": {}, " next page": {After: "x"}, " oldest first": {After: "x", Ascending: true}} {
			w.Limit = 20
			all = append(all, list{name: name + suffix, index: index, read: func(ctx context.Context, db *sqldb.DB) error { return read(ctx, db, f, w) }})
		}
	}
	add(name, primaryKey, *new(F))
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

func runLists() []list {
	return []list{
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
		{name: "runs with their steps", index: "PRIMARY runs_ run_steps_", sorts: true, read: func(ctx context.Context, db *sqldb.DB) error {
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
		{name: "usage", index: primaryKey, sorts: true, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := usagesql.New(db).ListRows(ctx, "t", usage.Query{From: "2026-01-01", To: "2026-02-01"})
			return err
		}},
		{name: "usage of an agent by day", index: primaryKey, sorts: true, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := usagesql.New(db).ListRows(ctx, "t", usage.Query{From: "2026-01-01", To: "2026-02-01", AgentID: "a", ByDay: true})
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
			_, err := notificationsql.New(db).CountUnread(ctx, "t", "u")
			return err
		}},
		{name: "notifications after one", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
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
		{name: "artifacts of runs", index: primaryKey, sorts: true, read: func(ctx context.Context, db *sqldb.DB) error {
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

type statement struct {
	text string
	args []any
}

// explain returns the plan of a statement, a line for each step. PostgreSQL is
// forbidden what it would rather do with a table without rows: what it does
// nevertheless it cannot avoid.
func (s statement) explain(t *testing.T, db *sqldb.DB) (plan string) {
	t.Helper()
	err := db.Write(t.Context(), func(tx txn.Tx) error {
		in, verb := sqldb.From(tx), "EXPLAIN QUERY PLAN "
		if in.Postgres() {
			verb = "EXPLAIN "
			for _, setting := range []string{"seqscan", "sort", "bitmapscan", "incremental_sort"} {
				if _, err := in.Exec("SET LOCAL enable_" + setting + " = off"); err != nil {
					return err
				}
			}
		}
		rows, err := in.Query(verb+s.text, s.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		var lines strings.Builder
		for rows.Next() {
			row, step := make([]any, len(columns)), new(string)
			for i := range row {
				row[i] = new(any)
			}
			row[len(row)-1] = step // the last column
			if err := rows.Scan(row...); err != nil {
				return err
			}
			lines.WriteString(*step + "\n")
		}
		plan = lines.String()
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("%s: %v", s.text, err)
	}
	return plan
}

// refuse returns what is wrong with the plan of a list, or "".
func refuse(plan string, l list) string {
	for _, bad := range []string{"Seq Scan", "SCAN "} {
		if strings.Contains(strings.ReplaceAll(plan, "SCAN counted", ""), bad) { // what a subquery found
			return "it scans"
		}
	}
	for _, bad := range []string{"Sort", "TEMP B-TREE"} {
		if strings.Contains(plan, bad) && !l.sorts {
			return "it sorts"
		}
	}
	indexes := strings.Fields(l.index)
	if l.index == primaryKey {
		indexes = []string{"_pkey", "PRIMARY KEY", "sqlite_autoindex"}
	}
	for _, index := range indexes {
		if strings.Contains(plan, index) {
			return ""
		}
	}
	return "it does not walk " + l.index
}
