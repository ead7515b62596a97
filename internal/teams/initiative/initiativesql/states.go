// Package initiativesql keeps how far initiatives are on SQL.
package initiativesql

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/teams/initiative"
	"agentd/internal/teams/objective"
)

// Store keeps the states of initiatives; it implements initiative.Store.
type Store struct{ db *sqldb.DB }

var _ initiative.Store = (*Store)(nil)

// New uses the table of migration 180.
func New(db *sqldb.DB) *Store { return &Store{db} }

const one = ` WHERE tenant_id = ? AND initiative_id = ?`

var insert = sqldb.Insert(`initiative_states`, `tenant_id, initiative_id, asked, tick_now, event_seq, state`)

// CreateTx implements initiative.Store.
func (s *Store) CreateTx(tx txn.Tx, tenant, id string, state *initiative.State) error {
	enc, err := json.Marshal(state)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(insert, tenant, id, 0, 0, 0, string(enc))
	return err
}

func found(n int64, err error) error {
	if err == nil && n == 0 {
		return fault.NewNotFound("initiative")
	}
	return err
}

// UpdateTx implements initiative.Store.
func (s *Store) UpdateTx(tx txn.Tx, tenant, id string, state *initiative.State, eventSeq int64, tick bool) error {
	enc, err := json.Marshal(state)
	if err != nil {
		return err
	}
	text := `UPDATE initiative_states SET state = ?, event_seq = ?`
	if tick {
		text += `, tick_now = 0`
	}
	return found(sqldb.From(tx).Exec(text+one, string(enc), eventSeq, tenant, id))
}

// RequestTx implements initiative.Store.
func (s *Store) RequestTx(tx txn.Tx, tenant, id string, tick bool) error {
	text := `UPDATE initiative_states SET asked = asked + 1`
	if tick {
		text += `, tick_now = 1`
	}
	return found(sqldb.From(tx).Exec(text+one, tenant, id))
}

// CountRequestsTx implements initiative.Store.
func (s *Store) CountRequestsTx(tx txn.Tx, tenant, id string) (asked int64, err error) {
	err = sqldb.From(tx).QueryRow(`SELECT asked FROM initiative_states`+one, tenant, id).Scan(&asked)
	return asked, sqldb.NoRowsAs(err, fault.NewNotFound("initiative"))
}

// LockTx implements initiative.Store.
func (s *Store) LockTx(tx txn.Tx, tenant, id string) error {
	t := sqldb.From(tx)
	var asked int64
	return sqldb.NoRowsAs(t.QueryRow(`SELECT asked FROM initiative_states`+one+t.ForUpdate(), tenant, id).Scan(&asked), objective.ErrOver)
}

// Get implements initiative.Store.
func (s *Store) Get(ctx context.Context, tenant, id string) (*initiative.Record, error) {
	var r initiative.Record
	var tick int64
	var state string
	err := s.db.QueryRow(ctx, `SELECT asked, tick_now, event_seq, state FROM initiative_states`+one, tenant, id).
		Scan(&r.Asked, &tick, &r.EventSeq, &state)
	if err != nil {
		return nil, sqldb.NoRowsAs(err, fault.NewNotFound("initiative"))
	}
	r.TickNow = tick == 1
	var dec sqldb.Decoder
	dec.JSON(state, &r.State)
	return &r, dec.Err()
}

// DeleteTx implements initiative.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, id string) (seq int64, err error) {
	t := sqldb.From(tx)
	err = t.QueryRow(`SELECT event_seq FROM initiative_states`+one+t.ForUpdate(), tenant, id).Scan(&seq)
	if err != nil {
		return 0, sqldb.NoRowsAs(err, fault.NewNotFound("initiative"))
	}
	_, err = t.Exec(`DELETE FROM initiative_states`+one, tenant, id)
	return seq, err
}
