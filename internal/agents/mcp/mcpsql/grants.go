// Package mcpsql keeps authorizations of MCP servers on SQL.
package mcpsql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// Store keeps authorizations of MCP servers, and those that users have begun. It
// implements mcp.Grants.
type Store struct{ db *sqldb.DB }

var _ mcp.Grants = (*Store)(nil)

// New uses the tables of migration 7.
func New(db *sqldb.DB) *Store { return &Store{db} }

const (
	ofServer  = ` WHERE tenant_id = ? AND server_id = ?`
	ofVersion = ofServer + ` AND version = ?`

	putGrant = `INSERT INTO mcp_grants (tenant_id, server_id, version, claimed_till, sealed) VALUES (?, ?, 1, 0, ?)
		ON CONFLICT (tenant_id, server_id) DO UPDATE SET version = mcp_grants.version + 1, claimed_till = 0, sealed = excluded.sealed`
	consumePending = `DELETE FROM mcp_pending WHERE tenant_id = ? AND pending_id = ? RETURNING server_id, expires_at, sealed`
)

var insertPending = sqldb.Insert(`mcp_pending`, `tenant_id, pending_id, server_id, expires_at, sealed`)

// Get implements mcp.Grants.
func (s *Store) Get(ctx context.Context, tenant, server string) (*mcp.Grant, error) {
	g := &mcp.Grant{TenantID: tenant, ServerID: server}
	err := s.db.QueryRow(ctx, `SELECT version, sealed FROM mcp_grants`+ofServer, tenant, server).
		Scan(&g.Version, &g.Sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// PutTx implements mcp.Grants.
func (s *Store) PutTx(tx txn.Tx, tenant, server string, sealed []byte) error {
	_, err := sqldb.From(tx).Exec(putGrant, tenant, server, sealed)
	return err
}

// UpdateTx implements mcp.Grants.
func (s *Store) UpdateTx(tx txn.Tx, g *mcp.Grant, sealed []byte) error {
	_, err := sqldb.From(tx).Exec(`UPDATE mcp_grants SET version = version + 1, claimed_till = 0, sealed = ?`+ofVersion,
		sealed, g.TenantID, g.ServerID, g.Version)
	return err
}

// ClaimTx implements mcp.Grants.
func (s *Store) ClaimTx(tx txn.Tx, g *mcp.Grant, now, until time.Time) (bool, error) {
	n, err := sqldb.From(tx).Exec(`UPDATE mcp_grants SET claimed_till = ?`+ofVersion+` AND claimed_till < ?`,
		sqldb.Micros(until), g.TenantID, g.ServerID, g.Version, sqldb.Micros(now))
	return n == 1, err
}

// ReleaseTx implements mcp.Grants.
func (s *Store) ReleaseTx(tx txn.Tx, g *mcp.Grant) error {
	_, err := sqldb.From(tx).Exec(`UPDATE mcp_grants SET claimed_till = 0`+ofVersion,
		g.TenantID, g.ServerID, g.Version)
	return err
}

// DeleteVersionTx implements mcp.Grants.
func (s *Store) DeleteVersionTx(tx txn.Tx, g *mcp.Grant) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM mcp_grants`+ofVersion,
		g.TenantID, g.ServerID, g.Version)
	return err
}

// DeleteTx implements mcp.Grants.
func (s *Store) DeleteTx(tx txn.Tx, tenant, server string) error {
	if _, err := sqldb.From(tx).Exec(`DELETE FROM mcp_pending`+ofServer, tenant, server); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(`DELETE FROM mcp_grants`+ofServer, tenant, server)
	return err
}

// CreatePendingTx implements mcp.Grants.
func (s *Store) CreatePendingTx(tx txn.Tx, p mcp.Pending, now time.Time) error {
	if _, err := sqldb.From(tx).Exec(`DELETE FROM mcp_pending WHERE expires_at < ?`, sqldb.Micros(now)); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(insertPending,
		p.TenantID, p.ID, p.ServerID, sqldb.Micros(p.Expires), p.Sealed)
	return err
}

// ConsumePendingTx implements mcp.Grants.
func (s *Store) ConsumePendingTx(tx txn.Tx, tenant, id string) (*mcp.Pending, error) {
	p := &mcp.Pending{TenantID: tenant, ID: id}
	var expires int64
	err := sqldb.From(tx).QueryRow(consumePending, tenant, id).
		Scan(&p.ServerID, &expires, &p.Sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	p.Expires = sqldb.Time(expires)
	return p, err
}
