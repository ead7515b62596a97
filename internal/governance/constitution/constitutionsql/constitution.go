// Package constitutionsql keeps constitutions on SQL.
package constitutionsql

import (
	"context"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/governance/constitution"
	"agentd/internal/store/sqldb"
)

// Store keeps constitutions. It implements constitution.Store.
type Store struct{ db *sqldb.DB }

var _ constitution.Store = (*Store)(nil)

// New uses the tables of migrations 89, 95 and 106.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	stateColumns = `version, mode, reason, activated_at, activated_by, deadline`
	selectState  = `SELECT ` + stateColumns + `, permissions FROM governance_states WHERE tenant_id = ?`
	createState  = `INSERT INTO governance_states (tenant_id, ` + stateColumns + `) VALUES (?, 0, 'normal', '', 0, '', 0)
		ON CONFLICT (tenant_id) DO NOTHING`
	countPermissions = `UPDATE governance_states SET permissions = permissions + 1 WHERE tenant_id = ?`
	versionColumns   = `version, rules, amendments, updated_at`
	selectVersion    = `SELECT ` + versionColumns + ` FROM constitutions WHERE tenant_id = ? AND version = ?`
)

var (
	updateState   = `UPDATE governance_states SET ` + sqldb.Assign(stateColumns) + ` WHERE tenant_id = ?`
	insertVersion = sqldb.Insert(`constitutions`, `tenant_id, `+versionColumns)
)

func scanState(row sqldb.Row) (s constitution.State, err error) {
	var activated, deadline int64
	err = sqldb.NoRowsAs(row.Scan(&s.Version, &s.Mode, &s.Reason, &activated, &s.ActivatedBy, &deadline, &s.Permissions), nil)
	s.ActivatedAt, s.Deadline = sqldb.Time(activated), sqldb.Time(deadline)
	return s, err
}

// GetState implements constitution.Store.
func (s *Store) GetState(ctx context.Context, tenant string) (constitution.State, error) {
	return scanState(s.db.QueryRow(ctx, selectState, tenant))
}

// LockStateTx implements constitution.Store.
func (s *Store) LockStateTx(tx txn.Tx, tenant string) (constitution.State, error) {
	t := sqldb.From(tx)
	if _, err := t.Exec(createState, tenant); err != nil {
		return constitution.State{}, err
	}
	return scanState(t.QueryRow(selectState+t.ForUpdate(), tenant))
}

// UpdateStateTx implements constitution.Store.
func (s *Store) UpdateStateTx(tx txn.Tx, tenant string, st constitution.State) error {
	_, err := sqldb.From(tx).Exec(updateState, st.Version, st.Mode, st.Reason, sqldb.Micros(st.ActivatedAt), st.ActivatedBy,
		sqldb.Micros(st.Deadline), tenant)
	return err
}

// CountPermissionsTx implements constitution.Store.
func (s *Store) CountPermissionsTx(tx txn.Tx, tenant string) error {
	t := sqldb.From(tx)
	if _, err := t.Exec(createState, tenant); err != nil {
		return err
	}
	_, err := t.Exec(countPermissions, tenant)
	return err
}

const (
	selectRoot = `SELECT root_agent_id, attestation FROM governance_states WHERE tenant_id = ?`
	updateRoot = `UPDATE governance_states SET root_agent_id = ?, attestation = ? WHERE tenant_id = ?`
)

func scanRoot(row sqldb.Row) (r constitution.Root, err error) {
	var attestation string
	if err := sqldb.NoRowsAs(row.Scan(&r.AgentID, &attestation), nil); err != nil || attestation == "" {
		return r, err
	}
	var d sqldb.Decoder
	d.JSON(attestation, &r.Attestation)
	return r, d.Err()
}

// GetRoot implements constitution.Store.
func (s *Store) GetRoot(ctx context.Context, tenant string) (constitution.Root, error) {
	return scanRoot(s.db.QueryRow(ctx, selectRoot, tenant))
}

// GetRootTx implements constitution.Store.
func (s *Store) GetRootTx(tx txn.Tx, tenant string) (constitution.Root, error) {
	return scanRoot(sqldb.From(tx).QueryRow(selectRoot, tenant))
}

// UpdateRootTx implements constitution.Store.
func (s *Store) UpdateRootTx(tx txn.Tx, tenant string, r constitution.Root) error {
	var e sqldb.Encoder
	attestation := ""
	if r.Attestation != nil {
		attestation = e.JSON(r.Attestation)
	}
	return e.Op("root agent", updateRoot, r.AgentID, attestation, tenant)(tx)
}

func scanVersion(row sqldb.Row) (*constitution.Constitution, error) {
	c := &constitution.Constitution{Rules: []constitution.Rule{}, Amendments: []constitution.Amendment{}}
	var rules, amendments string
	var updated int64
	if err := row.Scan(&c.Version, &rules, &amendments, &updated); err != nil {
		return nil, sqldb.NoRowsAs(err, fault.NewNotFound("version of the constitution"))
	}
	var d sqldb.Decoder
	d.JSON(rules, &c.Rules)
	d.JSON(amendments, &c.Amendments)
	c.UpdatedAt = sqldb.OptionalTime(updated)
	return c, d.Err()
}

// Get implements constitution.Store.
func (s *Store) Get(ctx context.Context, tenant string, version int64) (*constitution.Constitution, error) {
	return scanVersion(s.db.QueryRow(ctx, selectVersion, tenant, version))
}

// GetTx implements constitution.Store.
func (s *Store) GetTx(tx txn.Tx, tenant string, version int64) (*constitution.Constitution, error) {
	return scanVersion(sqldb.From(tx).QueryRow(selectVersion, tenant, version))
}

// CreateTx implements constitution.Store.
func (s *Store) CreateTx(tx txn.Tx, tenant string, c *constitution.Constitution) error {
	var e sqldb.Encoder
	return e.Op("constitution", insertVersion, tenant, c.Version, e.JSON(c.Rules), e.JSON(c.Amendments), sqldb.OptionalMicros(c.UpdatedAt))(tx)
}
