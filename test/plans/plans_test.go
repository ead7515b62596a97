// Package plans checks how the databases run the lists that are read often.
package plans

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/usage"
	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/txn"
	"agentd/internal/content/artifact/artifactsql"
	"agentd/internal/content/file"
	"agentd/internal/content/file/filesql"
	"agentd/internal/content/knowledge/knowledgesql"
	"agentd/internal/content/memory/memorysql"
	"agentd/internal/content/workspace/workspacesql"
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
			for _, l := range lists(t) {
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

func lists(t *testing.T) []list {
	all := append(runLists(t), sessionLists()...)
	return append(append(all, accountLists()...), otherLists()...)
}

func runLists(t *testing.T) []list {
	runs := func(f run.Filter) func(context.Context, *sqldb.DB) error {
		return func(ctx context.Context, db *sqldb.DB) error {
			f.Limit = 20
			_, err := runsql.New(db).List(ctx, "t", f)
			return err
		}
	}
	approvals := func(f run.ApprovalFilter) func(context.Context, *sqldb.DB) error {
		return func(ctx context.Context, db *sqldb.DB) error {
			f.Limit = 20
			_, err := runsql.New(db).ListApprovals(ctx, "t", f)
			return err
		}
	}
	all := []list{
		{name: "runs", index: primaryKey, read: runs(run.Filter{})},
		{name: "runs oldest first", index: primaryKey, read: runs(run.Filter{Ascending: true})},
		{name: "runs next page", index: primaryKey, read: runs(run.Filter{After: "x"})},
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
		{name: "approvals", index: primaryKey, read: approvals(run.ApprovalFilter{})},
		{name: "approvals of a run", index: "approvals_run", read: approvals(run.ApprovalFilter{RunID: "x"})},
		{name: "approvals by status", index: "approvals_status", read: approvals(run.ApprovalFilter{Status: "pending"})},
	}
	for _, filter := range runsql.Filters {
		f := exampleOf(t, filter)
		all = append(all, list{name: "runs, " + filter.Condition, index: filter.Index, read: runs(f)})
		f.After = "x"
		all = append(all, list{name: "runs, " + filter.Condition + " next page", index: filter.Index, read: runs(f)})
	}
	return all
}

// exampleOf returns a filter that has only the field that a row of data reads.
func exampleOf(t *testing.T, filter sqldb.Filter[run.Filter]) run.Filter {
	t.Helper()
	for i := range reflect.TypeFor[run.Filter]().NumField() {
		var f run.Filter
		if field := reflect.ValueOf(&f).Elem().Field(i); field.Kind() == reflect.String {
			field.SetString("x")
		}
		if filter.Value(&f) != "" {
			return f
		}
	}
	t.Fatalf("no field of run.Filter sets %s", filter.Condition)
	return run.Filter{}
}

func sessionLists() []list {
	return []list{
		{name: "sessions", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).List(ctx, "t", "", "x", 20)
			return err
		}},
		{name: "sessions of an agent", index: "sessions_agent", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).List(ctx, "t", "a", "x", 20)
			return err
		}},
		{name: "branches", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).ListBranches(ctx, "t", "s")
			return err
		}},
		{name: "turns", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := sessionsql.New(db).ListTurns(ctx, "t", "s", 3)
			return err
		}},
		{name: "todos of a session", index: "session_todos_", sorts: true, read: func(ctx context.Context, db *sqldb.DB) error {
			_, _, err := sessionsql.New(db).ListTodos(ctx, "t", session.TodoFilter{SessionID: "s", Limit: 20})
			return err
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
	entries := func(f audit.Filter) func(context.Context, *sqldb.DB) error {
		return func(ctx context.Context, db *sqldb.DB) error {
			f.Limit = 20
			_, err := auditsql.New(db).List(ctx, "t", f)
			return err
		}
	}
	return []list{
		{name: "audit", index: primaryKey, read: entries(audit.Filter{})},
		{name: "audit from and to", index: primaryKey, read: entries(audit.Filter{From: time.Unix(1, 0), To: time.Unix(2, 0)})},
		{name: "audit by action", index: "audit_log_action", read: entries(audit.Filter{Action: "x"})},
		{name: "audit by target", index: "audit_log_target", read: entries(audit.Filter{TargetID: "x"})},
		{name: "audit by actor", index: "audit_log_user audit_log_key", read: entries(audit.Filter{Actor: "x"})},
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
		{name: "notifications", index: primaryKey, read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := notificationsql.New(db).List(ctx, "t", "u", false, 20)
			return err
		}},
		{name: "unread notifications", index: "notifications_unread", read: func(ctx context.Context, db *sqldb.DB) error {
			_, err := notificationsql.New(db).List(ctx, "t", "u", true, 20)
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
