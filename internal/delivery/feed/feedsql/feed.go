// Package feedsql reads the activity feed from the tables of runs, sessions and the audit
// log, and keeps what groups of agents tell, on SQL.
package feedsql

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/txn"
	"agentd/internal/delivery/feed"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// Store implements feed.Store and feed.Recorder.
type Store struct{ db *sqldb.DB }

var (
	_ feed.Store    = (*Store)(nil)
	_ feed.Recorder = (*Store)(nil)
)

// New uses the table of migration 770, and those of runs, sessions and the audit log.
func New(db *sqldb.DB) *Store { return &Store{db} }

// maxLooked is how many rows of a source are looked at for one page. Filters that no index
// has are applied to them.
const maxLooked = 1000

var insertEntry = sqldb.Insert(`feed_entries`, `tenant_id, at, feed_id, event_type, company_id, team_id, body`) + ` ON CONFLICT DO NOTHING`

// AppendTx implements feed.Recorder.
func (s *Store) AppendTx(tx txn.Tx, t feed.Told) error {
	body, err := json.Marshal(t.Body)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insertEntry, t.TenantID, sqldb.Micros(t.At), t.ID, t.Type, t.CompanyID, t.TeamID, string(body))
	return err
}

// source is a table that entries are made of.
type source struct {
	types  []string
	reads  func(q *feed.Query) bool // nil: whatever is asked for
	where  func(q *feed.Query) (index string, args []any)
	text   string // columns and table
	column string // of the time
	id     string
	scan   func(row sqldb.Row) (feed.Entry, error)
}

// alone reports whether a query is not about a group.
func alone(q *feed.Query) bool { return q.CompanyID == "" && q.TeamID == "" }

func ofAgent(q *feed.Query) (string, []any) {
	if q.AgentID == "" {
		return "", nil
	}
	return ` AND agent_id = ?`, []any{q.AgentID}
}

var sources = []source{
	{
		types: []string{feed.RunStarted}, reads: alone, where: ofAgent, column: `created_at`, id: `run_id`,
		text: `run_id, agent_id, session_id, created_at FROM runs`, scan: scanStarted,
	},
	{
		types: []string{feed.RunCompleted, feed.RunFailed, feed.RunTimeout, feed.RunCancelled}, reads: alone,
		column: `completed_at`, id: `run_id`,
		where: func(*feed.Query) (string, []any) { return ` AND completed_at > 0`, nil },
		text:  `run_id, agent_id, session_id, completed_at, status, metrics, substr(error, 1, 500) FROM runs`, scan: scanEnded,
	},
	{
		types: []string{feed.SessionCreated}, reads: alone, where: ofAgent, column: `created_at`, id: `session_id`,
		text: `session_id, agent_id, created_at FROM sessions`, scan: scanSession,
	},
	{
		types: []string{feed.AgentCreated}, reads: alone, column: `at`, id: `entry_id`,
		where: func(q *feed.Query) (string, []any) {
			if q.AgentID == "" {
				return ` AND action = ?`, []any{feed.AgentCreated}
			}
			return ` AND target_id <> '' AND target_id = ?`, []any{q.AgentID}
		},
		text: `entry_id, target_id, at, action FROM audit_log`, scan: scanAgent,
	},
	{
		types: []string{
			feed.TickStart, feed.TickEnd, feed.CompanyPaused, feed.CompanyResumed, feed.Escalation, feed.RoundStart, feed.RoundEnd,
			feed.ObjectiveCreated, feed.ObjectiveCompleted,
		},
		reads: func(q *feed.Query) bool { return q.AgentID == "" }, column: `at`, id: `feed_id`,
		where: func(q *feed.Query) (string, []any) {
			switch {
			case q.CompanyID != "":
				return ` AND company_id <> '' AND company_id = ?`, []any{q.CompanyID}
			case q.TeamID != "":
				return ` AND team_id <> '' AND team_id = ?`, []any{q.TeamID}
			}
			return "", nil
		},
		text: `feed_id, at, event_type, company_id, team_id, body FROM feed_entries`, scan: scanTold,
	},
}

// Read implements feed.Store. Each source walks one index, newest first.
func (s *Store) Read(ctx context.Context, tenant string, q feed.Query) (parts []feed.Part, err error) {
	for i := range sources {
		src := &sources[i]
		if !q.Wants(src.types...) || !src.reads(&q) {
			continue
		}
		p, err := s.read(ctx, src, tenant, &q)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (s *Store) read(ctx context.Context, src *source, tenant string, q *feed.Query) (p feed.Part, err error) {
	and, values := src.where(q)
	before, looked, n := int64(math.MaxInt64), 0, min(q.Limit+16, maxLooked)
	if !q.Before.IsZero() {
		before = sqldb.Micros(q.Before)
	}
	since := int64(0)
	if !q.Since.IsZero() {
		since = sqldb.Micros(q.Since)
	}
	text := `SELECT ` + src.text + ` WHERE tenant_id = ?` + and + ` AND ` + src.column + ` <= ? AND ` + src.column + ` >= ? ORDER BY ` +
		src.column + ` DESC, ` + src.id + ` DESC LIMIT ?`
	for {
		found, err := sqldb.Collect(s.db.Reader(ctx), text, append(append([]any{tenant}, values...), before, since, n), src.scan)
		if err != nil {
			return p, err
		}
		looked += len(found)
		last := time.Time{}
		if len(found) > 0 {
			last = found[len(found)-1].At
		}
		for _, e := range found {
			// Rows of the time at which the last look ended are seen again.
			seen := slices.ContainsFunc(p.Entries, func(o feed.Entry) bool { return o.ID == e.ID })
			if !seen && wanted(q, src, &e) {
				p.Entries = append(p.Entries, e)
			}
		}
		switch {
		case len(found) < n:
			return p, nil
		case len(p.Entries) > q.Limit || looked >= maxLooked || sqldb.Micros(last) == before:
			p.Until = last
			return p, nil
		}
		before, n = sqldb.Micros(last), min(4*n, maxLooked)
	}
}

// wanted reports whether an entry is what is asked for, as far as no index knows it.
func wanted(q *feed.Query, src *source, e *feed.Entry) bool {
	return slices.Contains(src.types, e.Type) && q.Wants(e.Type) && (q.AgentID == "" || e.AgentID == q.AgentID) &&
		(q.CompanyID == "" || e.CompanyID == q.CompanyID) && (q.TeamID == "" || e.TeamID == q.TeamID)
}

func scanStarted(row sqldb.Row) (e feed.Entry, err error) {
	var session sql.NullString
	var at int64
	err = row.Scan(&e.RunID, &e.AgentID, &session, &at)
	e.At, e.SessionID, e.Type, e.ID = sqldb.Time(at), session.String, feed.RunStarted, feed.RunStarted+":"+e.RunID
	return e, err
}

// endings has the type of the entry for each state in which a run has ended.
var endings = map[run.Status]string{
	run.Completed: feed.RunCompleted, run.TimedOut: feed.RunTimeout, run.Cancelled: feed.RunCancelled,
	run.Failed: feed.RunFailed, run.GuardrailBlocked: feed.RunFailed, run.Rejected: feed.RunFailed,
}

func scanEnded(row sqldb.Row) (e feed.Entry, err error) {
	var session, wrong sql.NullString
	var at int64
	var metrics string
	if err := row.Scan(&e.RunID, &e.AgentID, &session, &at, &e.Status, &metrics, &wrong); err != nil {
		return e, err
	}
	e.At, e.SessionID, e.Error = sqldb.Time(at), session.String, wrong.String
	e.Type = endings[run.Status(e.Status)]
	e.ID = e.Type + ":" + e.RunID
	var m run.Metrics
	var dec sqldb.Decoder
	dec.JSON(metrics, &m)
	e.Metrics = &feed.Metrics{
		DurationMS: int64(m.DurationMS), Tokens: m.InputTokens + m.OutputTokens, CostUSD: m.TotalCostUSD, Steps: m.StepsCount,
		ToolCalls: m.ToolCallsCount,
	}
	return e, dec.Err()
}

func scanSession(row sqldb.Row) (e feed.Entry, err error) {
	var at int64
	err = row.Scan(&e.SessionID, &e.AgentID, &at)
	e.At, e.Type, e.ID = sqldb.Time(at), feed.SessionCreated, feed.SessionCreated+":"+e.SessionID
	return e, err
}

func scanAgent(row sqldb.Row) (e feed.Entry, err error) {
	var at int64
	var entry string
	err = row.Scan(&entry, &e.AgentID, &at, &e.Type)
	e.At, e.ID = sqldb.Time(at), e.Type+":"+e.AgentID
	return e, err
}

func scanTold(row sqldb.Row) (e feed.Entry, err error) {
	var at int64
	var text string
	if err := row.Scan(&e.ID, &at, &e.Type, &e.CompanyID, &e.TeamID, &text); err != nil {
		return e, err
	}
	var body feed.Body
	var dec sqldb.Decoder
	dec.JSON(text, &body)
	e.At, e.Summary, e.RunID, e.Status = sqldb.Time(at), body.Summary, body.RunID, body.Status
	return e, dec.Err()
}
