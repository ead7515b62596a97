package runsql

import (
	"context"
	"database/sql"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/store/sqldb"
)

// Texts reads what is searched of runs.
type Texts struct{ db *sqldb.DB }

// NewTexts uses the tables of New.
func NewTexts(db *sqldb.DB) *Texts { return &Texts{db} }

// ListTexts implements search.Texts, for MaxIn runs at most.
func (s *Texts) ListTexts(ctx context.Context, tenant string, ids []string) ([]run.Run, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	in, args := sqldb.In(ids, tenant)
	return sqldb.Collect(s.db.Reader(ctx), `SELECT run_id, session_id, input, output, completed_at, `+answerOutput+`
		FROM runs WHERE tenant_id = ? AND run_id`+in, args, func(row sqldb.Row) (r run.Run, err error) {
		var input string
		var output, answer sql.NullString
		var completed int64
		err = row.Scan(&r.RunID, &r.SessionID, &input, &output, &completed, &answer)
		r.TenantID, r.Input, r.Output, r.CompletedAt = tenant, schema.Object(input), outputOf(output, answer), sqldb.OptionalTime(completed)
		return r, err
	})
}
