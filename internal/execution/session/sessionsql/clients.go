package sessionsql

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

const (
	// The last condition is that of the index, which a planner cannot see in a parameter.
	selectExternal = `SELECT ` + sessionColumns + ` FROM sessions
		WHERE tenant_id = ? AND agent_id = ? AND external_id = ? AND external_id <> ''`
	listClientTurns = `SELECT t.session_id, t.turn, t.branch_id, t.run_id, t.finished, t.entries, t.summarized, m.reply, m.messages
		FROM session_runs t LEFT JOIN session_messages m
			ON m.tenant_id = t.tenant_id AND m.session_id = t.session_id AND m.turn = t.turn
		WHERE t.tenant_id = ? AND t.session_id = ? ORDER BY t.turn`
	insertClientTurn = `INSERT INTO session_messages (tenant_id, session_id, turn, reply, messages)
		SELECT tenant_id, session_id, turn, ?, ? FROM session_runs WHERE tenant_id = ? AND run_id = ?`
	selectState = `SELECT state, step_id FROM session_states` + ofSession
)

var putState = sqldb.Insert(`session_states`, `tenant_id, session_id, state, step_id`) +
	` ON CONFLICT (tenant_id, session_id) DO UPDATE SET ` + sqldb.Excluded(`state, step_id`)

// Clients keeps what front ends hold of sessions. It implements session.ClientStore.
type Clients struct{ db *sqldb.DB }

var _ session.ClientStore = (*Clients)(nil)

// NewClients uses the tables of migration 790.
func NewClients(db *sqldb.DB) *Clients { return &Clients{db} }

// GetExternal implements session.ClientStore.
func (s *Clients) GetExternal(ctx context.Context, tenant, agent, externalID string) (*session.Record, error) {
	return scanSession(tenant, s.db.QueryRow(ctx, selectExternal, tenant, agent, externalID))
}

// ListClientTurns implements session.ClientStore.
func (s *Clients) ListClientTurns(ctx context.Context, tenant, id string) ([]session.ClientTurn, error) {
	return sqldb.Collect(s.db.Reader(ctx), listClientTurns, []any{tenant, id}, func(row sqldb.Row) (t session.ClientTurn, err error) {
		var reply, messages sql.NullString
		err = row.Scan(&t.SessionID, &t.Turn.Turn, &t.BranchID, &t.RunID, &t.Finished, &t.Entries, &t.Summarized, &reply, &messages)
		if err != nil || !messages.Valid {
			return t, err
		}
		t.Reply = reply.String
		var dec sqldb.Decoder
		dec.JSON(messages.String, &t.Messages)
		return t, dec.Err()
	})
}

// CreateClientTurnTx implements session.ClientStore.
func (s *Clients) CreateClientTurnTx(tx txn.Tx, tenant, runID string, messages []session.ClientMessage, reply string) error {
	var enc sqldb.Encoder
	return enc.Op("turn", insertClientTurn, reply, enc.JSON(messages), tenant, runID)(tx)
}

// GetStateTx implements session.ClientStore.
func (s *Clients) GetStateTx(tx txn.Tx, tenant, id string) (jsontext.Value, string, error) {
	t := sqldb.From(tx)
	return scanState(t.QueryRow(selectState+t.ForUpdate(), tenant, id))
}

// GetState implements session.ClientStore.
func (s *Clients) GetState(ctx context.Context, tenant, id string) (jsontext.Value, error) {
	state, _, err := scanState(s.db.QueryRow(ctx, selectState, tenant, id))
	return state, err
}

func scanState(row sqldb.Row) (jsontext.Value, string, error) {
	var state, step string
	err := row.Scan(&state, &step)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", nil
	}
	return jsontext.Value(state), step, err
}

// PutStateTx implements session.ClientStore.
func (s *Clients) PutStateTx(tx txn.Tx, tenant, id string, state jsontext.Value, step string) error {
	_, err := sqldb.From(tx).Exec(putState, tenant, id, string(state), step)
	return err
}
