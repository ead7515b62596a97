// Package signinsql keeps codes, tickets, links and second factors of signing in on SQL.
package signinsql

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/signin"
	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// Store keeps codes, tickets, links and factors. It implements signin.Store.
type Store struct{ db *sqldb.DB }

var _ signin.Store = (*Store)(nil)

// New uses the tables of migration 19.
func New(db *sqldb.DB) *Store { return &Store{db} }

func notFound(err error) error { return sqldb.NoRowsAs(err, signin.ErrNotFound) }

const (
	emailCodeColumns = `email, code_hash, terms, asked, wrong, again_at, expires_at, forget_at`
	linkColumns      = `issuer, subject, provider, email, provider_email, linked_at`
	factorColumns    = `person, tenant_id, sealed, algorithm, recovery, created_at, confirmed_at, last_step, wrong, wrong_at`

	selectCode   = `SELECT ` + emailCodeColumns + ` FROM signin_codes WHERE email = ?`
	selectTicket = `SELECT sealed FROM signin_tickets WHERE kind = ? AND hash = ? AND expires_at > ?`
	selectLink   = `SELECT ` + linkColumns + ` FROM signin_links `
	selectFactor = `SELECT ` + factorColumns + ` FROM signin_factors WHERE person = ?`

	deleteExpiredCodes = `DELETE FROM signin_codes WHERE email IN
		(SELECT email FROM signin_codes WHERE forget_at <= ? ORDER BY forget_at LIMIT ?)`
	deleteExpiredTickets = `DELETE FROM signin_tickets WHERE (kind, hash) IN
		(SELECT kind, hash FROM signin_tickets WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`
)

var (
	selectMembership = `SELECT ` + identitysql.MemberColumns + `, ` + identitysql.TenantColumns + `
		FROM users u JOIN tenants t ON t.tenant_id = u.tenant_id AND t.status <> 'deleted' `

	insertCode   = sqldb.Insert(`signin_codes`, emailCodeColumns) + ` ON CONFLICT (email) DO NOTHING`
	updateCode   = `UPDATE signin_codes SET ` + sqldb.Assign(strings.TrimPrefix(emailCodeColumns, `email, `)) + ` WHERE email = ?`
	insertTicket = sqldb.Insert(`signin_tickets`, `kind, hash, sealed, expires_at`)
	insertLink   = sqldb.Insert(`signin_links`, linkColumns) + ` ON CONFLICT DO NOTHING`
	putFactor    = sqldb.Insert(`signin_factors`, factorColumns) +
		` ON CONFLICT (person) DO UPDATE SET ` + sqldb.Excluded(strings.TrimPrefix(factorColumns, `person, `))
)

func scanMembership(row sqldb.Row) (signin.Membership, error) {
	var m identitysql.MemberRow
	var t identitysql.TenantRow
	err := row.Scan(append(m.Dest(), t.Dest()...)...)
	return signin.Membership{Member: m.Member(), Tenant: t.Tenant()}, notFound(err)
}

// ListMembershipsTx implements signin.Store.
func (s *Store) ListMembershipsTx(tx txn.Tx, email string) ([]signin.Membership, error) {
	text := selectMembership + `WHERE u.email = ? AND u.email <> ''` + identitysql.Present + ` ORDER BY u.last_login_at DESC, u.user_id`
	return sqldb.Collect(sqldb.From(tx).Query, text, []any{email}, scanMembership)
}

// GetMembershipTx implements signin.Store.
func (s *Store) GetMembershipTx(tx txn.Tx, tenantID, userID string) (signin.Membership, error) {
	text := selectMembership + `WHERE u.tenant_id = ? AND u.user_id = ?` + identitysql.Present
	return scanMembership(sqldb.From(tx).QueryRow(text, tenantID, userID))
}

// UpdateLastLoginTx implements signin.Store.
func (s *Store) UpdateLastLoginTx(tx txn.Tx, tenantID, userID string, at time.Time) error {
	_, err := sqldb.From(tx).Exec(`UPDATE users SET last_login_at = ? WHERE tenant_id = ? AND user_id = ?`, sqldb.Micros(at), tenantID, userID)
	return err
}

// LockCodeTx implements signin.Store.
func (s *Store) LockCodeTx(tx txn.Tx, email string) (c signin.Code, err error) {
	var again, expires, forget int64
	t := sqldb.From(tx)
	err = t.QueryRow(selectCode+t.ForUpdate(), email).
		Scan(&c.Email, &c.Hash, &c.Terms, &c.Asked, &c.Wrong, &again, &expires, &forget)
	c.AgainAt, c.ExpiresAt, c.ForgetAt = sqldb.Time(again), sqldb.Time(expires), sqldb.Time(forget)
	return c, notFound(err)
}

// CreateCodeTx implements signin.Store.
func (s *Store) CreateCodeTx(tx txn.Tx, c signin.Code) error {
	n, err := sqldb.From(tx).Exec(insertCode,
		c.Email, filled(c.Hash), c.Terms, c.Asked, c.Wrong, sqldb.Micros(c.AgainAt), sqldb.Micros(c.ExpiresAt), sqldb.Micros(c.ForgetAt))
	if err == nil && n == 0 {
		err = signin.ErrTaken
	}
	return err
}

// UpdateCodeTx implements signin.Store.
func (s *Store) UpdateCodeTx(tx txn.Tx, c signin.Code) error {
	_, err := sqldb.From(tx).Exec(updateCode,
		filled(c.Hash), c.Terms, c.Asked, c.Wrong,
		sqldb.Micros(c.AgainAt), sqldb.Micros(c.ExpiresAt), sqldb.Micros(c.ForgetAt), c.Email)
	return err
}

// filled returns the bytes for a column that is never null.
func filled(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// DeleteCodeTx implements signin.Store.
func (s *Store) DeleteCodeTx(tx txn.Tx, email string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM signin_codes WHERE email = ?`, email)
	return err
}

// CreateTicketTx implements signin.Store.
func (s *Store) CreateTicketTx(tx txn.Tx, kind string, hash, sealed []byte, expires time.Time) error {
	_, err := sqldb.From(tx).Exec(insertTicket, kind, hash, sealed, sqldb.Micros(expires))
	return err
}

// GetTicketTx implements signin.Store.
func (s *Store) GetTicketTx(tx txn.Tx, kind string, hash []byte, now time.Time) (sealed []byte, err error) {
	err = sqldb.From(tx).QueryRow(selectTicket, kind, hash, sqldb.Micros(now)).Scan(&sealed)
	return sealed, notFound(err)
}

// ConsumeTicketTx implements signin.Store.
func (s *Store) ConsumeTicketTx(tx txn.Tx, kind string, hash []byte, now time.Time) ([]byte, error) {
	sealed, err := s.GetTicketTx(tx, kind, hash, now)
	if err != nil {
		return nil, err
	}
	n, err := sqldb.From(tx).Exec(`DELETE FROM signin_tickets WHERE kind = ? AND hash = ?`, kind, hash)
	if err == nil && n == 0 { // consumed by another transaction since
		err = signin.ErrNotFound
	}
	return sealed, err
}

func scanLink(row sqldb.Row) (l signin.Link, err error) {
	var at int64
	err = row.Scan(&l.Issuer, &l.Subject, &l.Provider, &l.Email, &l.ProviderEmail, &at)
	l.LinkedAt = sqldb.Time(at)
	return l, notFound(err)
}

// GetLinkTx implements signin.Store.
func (s *Store) GetLinkTx(tx txn.Tx, issuer, subject string) (signin.Link, error) {
	return scanLink(sqldb.From(tx).QueryRow(selectLink+`WHERE issuer = ? AND subject = ?`, issuer, subject))
}

// ListLinks implements signin.Store.
func (s *Store) ListLinks(ctx context.Context, email string) ([]signin.Link, error) {
	return sqldb.Collect(s.db.Reader(ctx), selectLink+`WHERE email = ? ORDER BY provider`, []any{email}, scanLink)
}

// LockLinksTx implements signin.Store.
func (s *Store) LockLinksTx(tx txn.Tx, email string) ([]signin.Link, error) {
	t := sqldb.From(tx)
	return sqldb.Collect(t.Query, selectLink+`WHERE email = ? ORDER BY provider`+t.ForUpdate(), []any{email}, scanLink)
}

// CreateLinkTx implements signin.Store.
func (s *Store) CreateLinkTx(tx txn.Tx, l signin.Link) error {
	n, err := sqldb.From(tx).Exec(insertLink,
		l.Issuer, l.Subject, l.Provider, l.Email, l.ProviderEmail, sqldb.Micros(l.LinkedAt))
	if err == nil && n == 0 {
		err = signin.ErrTaken
	}
	return err
}

// DeleteLinkTx implements signin.Store.
func (s *Store) DeleteLinkTx(tx txn.Tx, email, provider string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM signin_links WHERE email = ? AND provider = ?`, email, provider)
	return err
}

// hashSize is the size of the hash of a recovery code.
const hashSize = 32

func scanFactor(row sqldb.Row) (f signin.Factor, err error) {
	var created, confirmed, wrong int64
	var recovery []byte
	err = row.Scan(&f.Person, &f.TenantID, &f.Sealed, &f.Algorithm, &recovery, &created, &confirmed, &f.LastStep, &f.Wrong, &wrong)
	if err != nil {
		return f, notFound(err)
	}
	if len(recovery)%hashSize != 0 {
		return f, fmt.Errorf("signinsql: the recovery codes of a person have %d bytes", len(recovery))
	}
	f.Recovery = slices.Collect(slices.Chunk(recovery, hashSize))
	f.CreatedAt, f.ConfirmedAt, f.WrongAt = sqldb.Time(created), sqldb.Time(confirmed), sqldb.Time(wrong)
	return f, nil
}

// LockFactorTx implements signin.Store.
func (s *Store) LockFactorTx(tx txn.Tx, person string) (signin.Factor, error) {
	t := sqldb.From(tx)
	return scanFactor(t.QueryRow(selectFactor+t.ForUpdate(), person))
}

// GetFactor implements signin.Store.
func (s *Store) GetFactor(ctx context.Context, person string) (signin.Factor, error) {
	return scanFactor(s.db.QueryRow(ctx, selectFactor, person))
}

// PutFactorTx implements signin.Store.
func (s *Store) PutFactorTx(tx txn.Tx, f signin.Factor) error {
	_, err := sqldb.From(tx).Exec(putFactor,
		f.Person, f.TenantID, f.Sealed, string(f.Algorithm), filled(bytes.Join(f.Recovery, nil)), sqldb.Micros(f.CreatedAt),
		sqldb.Micros(f.ConfirmedAt), f.LastStep, f.Wrong, sqldb.Micros(f.WrongAt))
	return err
}

// DeleteFactorTx implements signin.Store.
func (s *Store) DeleteFactorTx(tx txn.Tx, person string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM signin_factors WHERE person = ?`, person)
	return err
}

// DeleteEmailTx implements signin.Store.
func (s *Store) DeleteEmailTx(tx txn.Tx, email string) error {
	if err := s.DeleteCodeTx(tx, email); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(`DELETE FROM signin_links WHERE email = ?`, email)
	return err
}

// DeleteExpiredTx implements signin.Store.
func (s *Store) DeleteExpiredTx(tx txn.Tx, now time.Time, n int) error {
	_, err := sqldb.From(tx).Exec(deleteExpiredCodes, sqldb.Micros(now), n)
	if err != nil {
		return err
	}
	_, err = sqldb.From(tx).Exec(deleteExpiredTickets, sqldb.Micros(now), n)
	return err
}
