// Package privacysql looks for people in all tables on SQL. Which tables those are, and
// how rows of a person are found in them, is data: see package personal.
package privacysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/personal"
	"agentd/internal/operation/privacy"
	"agentd/internal/store/sqldb"
)

// Store implements privacy.Store.
type Store struct{ db *sqldb.DB }

var _ privacy.Store = (*Store)(nil)

// New uses the tables of the slices that declare them.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	selectRuns = `SELECT run_id, agent_id, COALESCE(session_id, ''), started_by, status, input, created_at FROM runs
		WHERE tenant_id = ? AND `
	pageOfRuns = ` AND (created_at, run_id) > (?, ?) ORDER BY created_at, run_id LIMIT ?`
)

// GetSubject implements privacy.Store.
func (s *Store) GetSubject(ctx context.Context, tenant, id string) (privacy.Subject, error) {
	who := privacy.Subject{TenantID: tenant, ID: id}
	err := s.db.QueryRow(ctx, `SELECT email FROM users WHERE tenant_id = ? AND user_id = ?`, tenant, id).Scan(&who.Email)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		var one int
		err := s.db.QueryRow(ctx, `SELECT 1 FROM visitor_sessions WHERE tenant_id = ? AND session_id = ?`, tenant, id).Scan(&one)
		who.Visitor = true
		return who, sqldb.NoRowsAs(err, privacy.ErrNotFound)
	case err != nil:
		return who, err
	}
	rows, err := s.db.Query(ctx, `SELECT key_id FROM api_keys WHERE tenant_id = ? AND user_id = ? ORDER BY key_id`, tenant, id)
	if err != nil {
		return who, err
	}
	who.Keys, err = sqldb.ScanStrings(rows)
	return who, err
}

// HasHold implements privacy.Store.
func (s *Store) HasHold(ctx context.Context, tenant string) (held bool, err error) {
	err = s.db.QueryRow(ctx, `SELECT legal_hold FROM tenants WHERE tenant_id = ?`, tenant).Scan(&held)
	return held, sqldb.NoRowsAs(err, nil)
}

// ListStarted implements privacy.Store.
func (s *Store) ListStarted(ctx context.Context, tenant, initiator string, after privacy.Run, n int) ([]privacy.Run, error) {
	return s.runs(ctx, `started_by = ?`, tenant, initiator, after, n)
}

// ListFamily implements privacy.Store.
func (s *Store) ListFamily(ctx context.Context, tenant, root string, after privacy.Run, n int) ([]privacy.Run, error) {
	return s.runs(ctx, `root_run_id = ?`, tenant, root, after, n)
}

// ListBySession implements privacy.Store.
func (s *Store) ListBySession(ctx context.Context, tenant, session string, after privacy.Run, n int) ([]privacy.Run, error) {
	return s.runs(ctx, `session_id = ?`, tenant, session, after, n)
}

func (s *Store) runs(ctx context.Context, where, tenant, value string, after privacy.Run, n int) ([]privacy.Run, error) {
	at := int64(-1)
	if !after.CreatedAt.IsZero() {
		at = sqldb.Micros(after.CreatedAt)
	}
	return sqldb.Collect(s.db.Reader(ctx), selectRuns+where+pageOfRuns, []any{tenant, value, at, after.RunID, n}, scanRun)
}

func scanRun(row sqldb.Row) (r privacy.Run, err error) {
	var status, input string
	var created int64
	err = row.Scan(&r.RunID, &r.AgentID, &r.SessionID, &r.StartedBy, &status, &input, &created)
	r.Ended, r.CreatedAt = run.Status(status).Final(), sqldb.Time(created)
	var in struct {
		FileIDs     []string `json:"file_ids"`
		Attachments []struct {
			FileID string `json:"file_id"`
		} `json:"attachments"`
	}
	if json.Unmarshal([]byte(input), &in) == nil { // of an input of another form there are no files
		r.Files = in.FileIDs
		for _, a := range in.Attachments {
			r.Files = append(r.Files, a.FileID)
		}
	}
	return r, err
}

// HasOthers implements privacy.Store.
func (s *Store) HasOthers(ctx context.Context, tenant, session string, initiators []string) (bool, error) {
	own := map[string]bool{}
	for _, initiator := range initiators {
		own[initiator] = true
	}
	for after := (privacy.Run{}); ; {
		const page = 500
		runs, err := s.ListBySession(ctx, tenant, session, after, page)
		if err != nil {
			return false, err
		}
		for _, r := range runs {
			if !own[r.StartedBy] && !strings.HasPrefix(r.StartedBy, "todo:") && !strings.HasPrefix(r.StartedBy, "run:") {
				return true, nil
			}
		}
		if len(runs) < page {
			return false, nil
		}
		after = runs[len(runs)-1]
	}
}

// where returns the condition of a table's rows, after its tenant.
func where(t *personal.Table) string {
	text := ` WHERE tenant_id = ? AND ` + t.Column + ` = ?`
	if t.Where != "" {
		return text + ` AND ` + t.Where
	}
	return text
}

// ListRows implements privacy.Store.
func (s *Store) ListRows(ctx context.Context, tenant string, t *personal.Table, value string, after []any, n int) ([]privacy.Row, error) {
	columns := append(append([]string{}, t.Shown...), t.Order...)
	text, args := `SELECT `+strings.Join(columns, `, `)+` FROM `+t.Name+where(t), []any{tenant, value}
	order := strings.Join(t.Order, `, `)
	if after != nil {
		text += ` AND (` + order + `) > (?` + strings.Repeat(`, ?`, len(t.Order)-1) + `)`
		args = append(args, after...)
	}
	if order != "" {
		text += ` ORDER BY ` + order
	}
	return sqldb.Collect(s.db.Reader(ctx), text+` LIMIT ?`, append(args, n), func(row sqldb.Row) (privacy.Row, error) {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := row.Scan(into...); err != nil {
			return privacy.Row{}, err
		}
		shown := map[string]any{}
		for i, column := range t.Shown {
			shown[column] = readable(column, values[i])
		}
		text, err := json.Marshal(shown, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		return privacy.Row{JSON: text, At: values[len(t.Shown):]}, err
	})
}

// readable returns a value as people read it: times as texts, JSON as JSON.
func readable(column string, value any) any {
	switch v := value.(type) {
	case []byte:
		return readable(column, string(v))
	case string:
		if text := jsontext.Value(v); len(v) > 1 && (v[0] == '{' || v[0] == '[') && text.IsValid() {
			return text
		}
	case int64:
		if column == "at" || strings.HasSuffix(column, "_at") {
			if v == 0 {
				return nil
			}
			return sqldb.Time(v).Format(time.RFC3339Nano)
		}
	}
	return value
}

// CountRows implements privacy.Store.
func (s *Store) CountRows(ctx context.Context, tenant string, t *personal.Table, value string, most int) (n int64, err error) {
	text := `SELECT COUNT(*) FROM (SELECT 1 AS one FROM ` + t.Name + where(t) + ` LIMIT ?) AS found`
	err = s.db.QueryRow(ctx, text, tenant, value, most).Scan(&n)
	return n, err
}

// DeleteRowsTx implements privacy.Store.
func (s *Store) DeleteRowsTx(tx txn.Tx, tenant string, t *personal.Table, value string) (int64, error) {
	return sqldb.From(tx).Exec(`DELETE FROM `+t.Name+where(t), tenant, value)
}

// ListEndedTx implements privacy.Store.
func (s *Store) ListEndedTx(tx txn.Tx, tenant string, t *personal.Table, value string, n int) ([]string, error) {
	rows, err := sqldb.From(tx).Query(`SELECT `+t.Key+` FROM `+t.Name+where(t)+` AND completed_at > 0 ORDER BY `+t.Key+` LIMIT ?`,
		tenant, value, n)
	if err != nil {
		return nil, err
	}
	return sqldb.ScanStrings(rows)
}

// DeleteRowTx implements privacy.Store.
func (s *Store) DeleteRowTx(tx txn.Tx, tenant string, t *personal.Table, id string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM `+t.Name+` WHERE tenant_id = ? AND `+t.Key+` = ?`, tenant, id)
	return err
}

// ResetSummaryTx implements privacy.Store.
func (s *Store) ResetSummaryTx(tx txn.Tx, tenant, session string) error {
	const one = ` WHERE tenant_id = ? AND session_id = ?`
	t := sqldb.From(tx)
	var text string
	err := t.QueryRow(`SELECT summary FROM sessions`+one+t.ForUpdate(), tenant, session).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	members := map[string]jsontext.Value{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			return err
		}
	}
	delete(members, "first")
	delete(members, "last")
	summary, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE sessions SET summary = ?`+one, string(summary), tenant, session)
	return err
}
