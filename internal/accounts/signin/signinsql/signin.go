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

// New uses the tables of migrations 19 and 29.
func New(db *sqldb.DB) *Store { return &Store{db} }

func notFound(err error) error { return sqldb.NoRowsAs(err, signin.ErrNotFound) }

const (
	addressColumns = `email, asked, asked_at, again_at, tried, tried_since, forget_at`
	attemptColumns = `email, browser, code_hash, long_hash, terms, wrong, elsewhere, expires_at`
	linkColumns    = `issuer, subject, provider, email, provider_email, linked_at`
	factorColumns  = `person, tenant_id, sealed, algorithm, recovery, created_at, confirmed_at, last_step, wrong, wrong_at`

	selectAddress = `SELECT ` + addressColumns + ` FROM signin_addresses WHERE email = ?`
	selectCodes   = `SELECT ` + attemptColumns + ` FROM signin_attempts WHERE email = ? AND expires_at > ? ORDER BY expires_at DESC, browser`
	selectTicket  = `SELECT sealed FROM signin_tickets WHERE kind = ? AND hash = ? AND expires_at > ?`
	selectLink    = `SELECT ` + linkColumns + ` FROM signin_links `
	selectFactor  = `SELECT ` + factorColumns + ` FROM signin_factors WHERE person = ?`

	deleteExpiredAddresses = `DELETE FROM signin_addresses WHERE email IN
		(SELECT email FROM signin_addresses WHERE forget_at <= ? ORDER BY forget_at LIMIT ?)`
	deleteExpiredCodes = `DELETE FROM signin_attempts WHERE (email, browser) IN
		(SELECT email, browser FROM signin_attempts WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`
	deleteExpiredTickets = `DELETE FROM signin_tickets WHERE (kind, hash) IN
		(SELECT kind, hash FROM signin_tickets WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`
)

var (
	selectMembership = `SELECT ` + identitysql.MemberColumns + `, ` + identitysql.TenantColumns + `
		FROM users u JOIN tenants t ON t.tenant_id = u.tenant_id AND t.status <> 'deleted' `

	insertAddress = sqldb.Insert(`signin_addresses`, addressColumns) + ` ON CONFLICT (email) DO NOTHING`
	updateAddress = `UPDATE signin_addresses SET ` + sqldb.Assign(strings.TrimPrefix(addressColumns, `email, `)) + ` WHERE email = ?`
	insertCode    = sqldb.Insert(`signin_attempts`, attemptColumns)
	insertTicket  = sqldb.Insert(`signin_tickets`, `kind, hash, sealed, expires_at`)
	insertLink    = sqldb.Insert(`signin_links`, linkColumns) + ` ON CONFLICT DO NOTHING`
	putFactor     = sqldb.Insert(`signin_factors`, factorColumns) +
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

// LockAddressTx implements signin.Store.
func (s *Store) LockAddressTx(tx txn.Tx, email string) (a signin.Address, err error) {
	var asked, again, since, forget int64
	t := sqldb.From(tx)
	err = t.QueryRow(selectAddress+t.ForUpdate(), email).Scan(&a.Email, &a.Asked, &asked, &again, &a.Tried, &since, &forget)
	a.AskedAt, a.AgainAt, a.TriedSince, a.ForgetAt = sqldb.Time(asked), sqldb.Time(again), sqldb.Time(since), sqldb.Time(forget)
	return a, notFound(err)
}

// CreateAddressTx implements signin.Store.
func (s *Store) CreateAddressTx(tx txn.Tx, a signin.Address) error {
	n, err := sqldb.From(tx).Exec(insertAddress, append([]any{a.Email}, addressValues(a)...)...)
	if err == nil && n == 0 {
		err = signin.ErrTaken
	}
	return err
}

// UpdateAddressTx implements signin.Store.
func (s *Store) UpdateAddressTx(tx txn.Tx, a signin.Address) error {
	_, err := sqldb.From(tx).Exec(updateAddress, append(addressValues(a), a.Email)...)
	return err
}

func addressValues(a signin.Address) []any {
	return []any{
		a.Asked, sqldb.Micros(a.AskedAt), sqldb.Micros(a.AgainAt), a.Tried, sqldb.Micros(a.TriedSince), sqldb.Micros(a.ForgetAt),
	}
}

// CreateCodeTx implements signin.Store.
func (s *Store) CreateCodeTx(tx txn.Tx, c signin.Code) error {
	_, err := sqldb.From(tx).Exec(insertCode,
		c.Email, c.Browser, c.Short, filled(c.Long), c.Terms, c.Wrong, c.Elsewhere, sqldb.Micros(c.ExpiresAt))
	return err
}

// ListCodesTx implements signin.Store.
func (s *Store) ListCodesTx(tx txn.Tx, email string, now time.Time) ([]signin.Code, error) {
	return sqldb.Collect(sqldb.From(tx).Query, selectCodes, []any{email, sqldb.Micros(now)}, func(row sqldb.Row) (c signin.Code, err error) {
		var expires int64
		err = row.Scan(&c.Email, &c.Browser, &c.Short, &c.Long, &c.Terms, &c.Wrong, &c.Elsewhere, &expires)
		c.ExpiresAt = sqldb.Time(expires)
		return c, err
	})
}

// UpdateCodeTx implements signin.Store.
func (s *Store) UpdateCodeTx(tx txn.Tx, c signin.Code) error {
	_, err := sqldb.From(tx).Exec(`UPDATE signin_attempts SET wrong = ?, elsewhere = ? WHERE email = ? AND browser = ?`,
		c.Wrong, c.Elsewhere, c.Email, c.Browser)
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
func (s *Store) DeleteCodeTx(tx txn.Tx, c signin.Code) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM signin_attempts WHERE email = ? AND browser = ?`, c.Email, c.Browser)
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
	for _, table := range []string{`signin_addresses`, `signin_attempts`, `signin_links`} {
		if _, err := sqldb.From(tx).Exec(`DELETE FROM `+table+` WHERE email = ?`, email); err != nil {
			return err
		}
	}
	return nil
}

// DeleteExpiredTx implements signin.Store.
func (s *Store) DeleteExpiredTx(tx txn.Tx, now time.Time, n int) error {
	for _, statement := range []string{deleteExpiredAddresses, deleteExpiredCodes, deleteExpiredTickets} {
		if _, err := sqldb.From(tx).Exec(statement, sqldb.Micros(now), n); err != nil {
			return err
		}
	}
	return nil
}
