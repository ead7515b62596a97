package retention_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/personal"
	"agentd/internal/operation/retention"
	"agentd/internal/operation/retention/retentionsql"
	"agentd/internal/operation/setting"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const insertRun = `INSERT INTO runs (tenant_id, run_id, agent_id, agent_version, status, input, metrics, error_code, metadata, resource_limits,
	options, pending, step_seq, event_seq, session_id, created_at, started_at, completed_at)
	VALUES (?, ?, 'a', 1, ?, '{}', '{}', '', '{}', '{}', '{}', '[]', 1, 1, 's', ?, ?, ?)`

// world is a company's tables under a fake clock.
type world struct {
	t     *testing.T
	db    *sqldb.DB
	clock *clock.Fake
	s     *retention.Service
	reset map[string]int // summaries of sessions
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	err := w.db.Write(w.t.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(query, args...)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) count(table string) (n int) {
	w.t.Helper()
	if err := w.db.QueryRow(w.t.Context(), `SELECT COUNT(*) FROM `+table+` WHERE tenant_id = 'acme'`).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// fill adds to a company things of each of the last ten days, and a run that has not ended.
func (w *world) fill(tenant, settings string, held bool) {
	w.exec(`INSERT INTO tenants (tenant_id, name, slug, status, plan, settings, operator, created_at, updated_at, legal_hold)
		VALUES (?, ?, ?, 'active', 'free', ?, FALSE, 1, 1, ?)`, tenant, tenant, tenant, settings, held)
	for days := range 10 {
		at := w.clock.Now().Add(-time.Duration(days)*24*time.Hour - time.Hour).UnixMicro()
		id := fmt.Sprintf("run%d", days)
		w.exec(insertRun, tenant, id, "completed", at, at, at)
		w.exec(`INSERT INTO run_events (tenant_id, run_id, last_seq, first_seq, draft, body) VALUES (?, ?, 1, 1, 0, ''), (?, ?, 9, 2, 0, '')`,
			tenant, id, tenant, id)
		w.exec(`INSERT INTO run_artifacts (tenant_id, run_id, artifact_id, name, mime_type, size, sha256, created_at)
			VALUES (?, ?, ?, 'n', 'text/plain', 1, 'x', 1)`, tenant, id, id)
		w.exec(`INSERT INTO feed_entries (tenant_id, at, feed_id, event_type, company_id, team_id, body) VALUES (?, ?, ?, 'team.round_start', '', 't', '{}')`,
			tenant, at, id)
		w.exec(`INSERT INTO audit_log (tenant_id, at, entry_id, action, actor_tenant_id, actor_user_id, actor_key_id, actor_session_id, method,
			target_type, target_id, details, ip_address, request_id) VALUES (?, ?, ?, 'x', '', '', '', '', '', '', '', '{}', '', '')`, tenant, at, id)
	}
	old := w.clock.Now().Add(-30 * 24 * time.Hour).UnixMicro()
	w.exec(insertRun, tenant, "waits", "awaiting_approval", old, old, 0)
	w.exec(`INSERT INTO run_events (tenant_id, run_id, last_seq, first_seq, draft, body) VALUES (?, 'waits', 1, 1, 0, '')`, tenant)
}

// TestSweep deletes what is older than the settings say, of each kind alone; a company's
// own limit holds for its runs and its feed; a legal hold and a run that has not ended keep
// everything.
func TestSweep(t *testing.T) {
	t.Parallel()
	days := func(n int64) *int64 { return &n }
	type counts struct{ runs, events, artifacts, audit, feed int }
	whole := counts{11, 21, 10, 10, 10}
	for name, c := range map[string]struct {
		set      retention.Settings
		settings string
		held     bool
		want     counts
	}{
		"nothing":        {retention.Settings{}, `{}`, false, whole},
		"runs":           {retention.Settings{Run: days(4)}, `{}`, false, counts{5, 9, 4, 10, 10}},
		"events":         {retention.Settings{Event: days(1)}, `{}`, false, counts{11, 12, 10, 10, 10}},
		"artifacts":      {retention.Settings{Artifact: days(2)}, `{}`, false, counts{11, 21, 2, 10, 10}},
		"audit":          {retention.Settings{Audit: days(3)}, `{}`, false, counts{11, 21, 10, 3, 10}},
		"feed":           {retention.Settings{Feed: days(5)}, `{}`, false, counts{11, 21, 10, 10, 5}},
		"own limit":      {retention.Settings{}, `{"max_retention_days":3}`, false, counts{4, 7, 3, 10, 3}},
		"own is shorter": {retention.Settings{Run: days(6), Feed: days(1)}, `{"max_retention_days":3}`, false, counts{4, 7, 3, 10, 1}},
		"own is longer":  {retention.Settings{Run: days(2)}, `{"max_retention_days":300}`, false, counts{3, 5, 2, 10, 10}},
		"legal hold":     {retention.Settings{Run: days(1), Event: days(1), Audit: days(1)}, `{"max_retention_days":1}`, true, whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				w := &world{t: t, db: db, clock: clock.NewFake(), reset: map[string]int{}}
				section := retention.Section(setting.New(setting.Deps{}))
				section.Initial = c.set
				*section.Get() = c.set
				w.s = &retention.Service{Deps: retention.Deps{
					Store: retentionsql.New(db, append([]personal.Table{}, runsql.Personal...)), Settings: section, Writer: db, Clock: w.clock,
					DeleteArtifactsTx: func(tx txn.Tx, tenant, run string) (int64, error) {
						return sqldb.From(tx).Exec(`DELETE FROM run_artifacts WHERE tenant_id = ? AND run_id = ?`, tenant, run)
					},
					ResetSummaryTx: func(_ txn.Tx, _, session string) error { w.reset[session]++; return nil },
				}}
				w.fill("acme", c.settings, c.held)
				for range 2 { // the second one finds nothing more
					if err := w.s.Sweep(t.Context()); err != nil {
						t.Fatal(err)
					}
					got := counts{w.count("runs"), w.count("run_events"), w.count("run_artifacts"), w.count("audit_log"), w.count("feed_entries")}
					if got != c.want {
						t.Errorf("left are %+v, want %+v", got, c.want)
					}
				}
				if deleted := c.want.runs < whole.runs; (w.reset["s"] > 0) != deleted {
					t.Errorf("the summary of the session was reset %d times", w.reset["s"])
				}
				since, err := w.s.FeedSince(t.Context(), "acme")
				if bounded := c.set.Feed != nil || c.settings != `{}`; err != nil || since.IsZero() == bounded {
					t.Errorf("the feed goes back to %v, %v", since, err)
				}
			})
		})
	}
}
