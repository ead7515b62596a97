// Package objectivesql keeps objectives and their tasks on SQL.
package objectivesql

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/teams/objective"
)

// Store keeps objectives; it implements objective.Store.
type Store struct{ db *sqldb.DB }

var _ objective.Store = (*Store)(nil)

// New uses the tables of migration 180.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	columns  = `objective_id, seq, created_at, plan, state`
	ofOwner  = ` WHERE tenant_id = ? AND owner_id = ?`
	selected = `SELECT ` + columns + ` FROM objectives` + ofOwner
)

var (
	insert  = sqldb.Insert(`objectives`, `tenant_id, owner_id, `+columns)
	putTask = sqldb.Insert(`objective_tasks`, `tenant_id, owner_id, seq, applied, body`) +
		` ON CONFLICT (tenant_id, owner_id, seq) DO UPDATE SET ` + sqldb.Excluded(`applied, body`)
)

func scan(row sqldb.Row) (o objective.Objective, err error) {
	var plan, state string
	var created int64
	if err := row.Scan(&o.ID, &o.Seq, &created, &plan, &state); err != nil {
		return o, sqldb.NoRowsAs(err, fault.NewNotFound("objective"))
	}
	o.CreatedAt = sqldb.Time(created)
	var dec sqldb.Decoder
	dec.JSON(plan, &o.Plan)
	dec.JSON(state, &o.State)
	return o, dec.Err()
}

func scanTask(row sqldb.Row) (t objective.Task, err error) {
	var body string
	if err := row.Scan(&body); err != nil {
		return t, err
	}
	var dec sqldb.Decoder
	dec.JSON(body, &t)
	return t, dec.Err()
}

// CreateTx implements objective.Store.
func (s *Store) CreateTx(tx txn.Tx, tenant, owner string, objectives []objective.Objective) error {
	for i := range objectives {
		o := &objectives[i]
		plan, err := json.Marshal(o.Plan)
		if err != nil {
			return err
		}
		state, err := json.Marshal(o.State)
		if err != nil {
			return err
		}
		_, err = sqldb.From(tx).Exec(insert, tenant, owner, o.ID, o.Seq, sqldb.Micros(o.CreatedAt), string(plan), string(state))
		if err != nil {
			return err
		}
	}
	return nil
}

// UpdateStatesTx implements objective.Store.
func (s *Store) UpdateStatesTx(tx txn.Tx, tenant, owner string, objectives []objective.Objective) error {
	for i := range objectives {
		state, err := json.Marshal(objectives[i].State)
		if err != nil {
			return err
		}
		_, err = sqldb.From(tx).Exec(`UPDATE objectives SET state = ?`+ofOwner+` AND seq = ?`, string(state), tenant, owner, objectives[i].Seq)
		if err != nil {
			return err
		}
	}
	return nil
}

// UpdatePlanTx implements objective.Store.
func (s *Store) UpdatePlanTx(tx txn.Tx, tenant, owner, id string, change func(*objective.Objective) error) error {
	t := sqldb.From(tx)
	o, err := scan(t.QueryRow(selected+` AND objective_id = ?`+t.ForUpdate(), tenant, owner, id))
	if err != nil {
		return err
	}
	if err := change(&o); err != nil {
		return err
	}
	plan, err := json.Marshal(o.Plan)
	if err != nil {
		return err
	}
	_, err = t.Exec(`UPDATE objectives SET plan = ?`+ofOwner+` AND seq = ?`, string(plan), tenant, owner, o.Seq)
	return err
}

// List implements objective.Store.
func (s *Store) List(ctx context.Context, tenant, owner string) ([]objective.Objective, error) {
	return sqldb.Collect(s.db.Reader(ctx), selected+` ORDER BY seq`, []any{tenant, owner}, scan)
}

// PutTasksTx implements objective.Store.
func (s *Store) PutTasksTx(tx txn.Tx, tenant, owner string, tasks []objective.Task) error {
	for i := range tasks {
		applied := 0
		if tasks[i].Applied {
			applied = 1
		}
		body, err := json.Marshal(tasks[i])
		if err != nil {
			return err
		}
		if _, err := sqldb.From(tx).Exec(putTask, tenant, owner, tasks[i].Seq, applied, string(body)); err != nil {
			return err
		}
	}
	return nil
}

// ListOpenTasks implements objective.Store.
func (s *Store) ListOpenTasks(ctx context.Context, tenant, owner string) ([]objective.Task, error) {
	const text = `SELECT body FROM objective_tasks` + ofOwner + ` AND applied = 0 ORDER BY seq`
	return sqldb.Collect(s.db.Reader(ctx), text, []any{tenant, owner}, scanTask)
}

// ListTasks implements objective.Store.
func (s *Store) ListTasks(ctx context.Context, tenant, owner string, before, limit int) ([]objective.Task, error) {
	text, args := `SELECT body FROM objective_tasks`+ofOwner, []any{tenant, owner}
	if before > 0 {
		text, args = text+` AND seq < ?`, append(args, before)
	}
	return sqldb.Collect(s.db.Reader(ctx), text+` ORDER BY seq DESC LIMIT ?`, append(args, limit), scanTask)
}

// DeleteTx implements objective.Store.
func (s *Store) DeleteTx(tx txn.Tx, tenant, owner string) (open []objective.Task, err error) {
	t := sqldb.From(tx)
	rows, err := t.Query(`SELECT body FROM objective_tasks`+ofOwner+` AND applied = 0`, tenant, owner)
	if err != nil {
		return nil, err
	}
	bodies, err := sqldb.ScanStrings(rows)
	if err != nil {
		return nil, err
	}
	var dec sqldb.Decoder
	for _, body := range bodies {
		var task objective.Task
		if dec.JSON(body, &task); !task.Ended() {
			open = append(open, task)
		}
	}
	if err := dec.Err(); err != nil {
		return nil, err
	}
	if _, err := t.Exec(`DELETE FROM objective_tasks`+ofOwner, tenant, owner); err != nil {
		return nil, err
	}
	_, err = t.Exec(`DELETE FROM objectives`+ofOwner, tenant, owner)
	return open, err
}

// DeleteObjectivesTx implements objective.Store.
func (s *Store) DeleteObjectivesTx(tx txn.Tx, tenant, owner string, ids []string) error {
	for _, id := range ids {
		if _, err := sqldb.From(tx).Exec(`DELETE FROM objectives`+ofOwner+` AND objective_id = ?`, tenant, owner, id); err != nil {
			return err
		}
	}
	return nil
}
