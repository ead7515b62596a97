package sessionsql

import (
	"context"
	"database/sql"
	"errors"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

var _ session.ShareStore = (*Store)(nil)

const (
	shareColumns = `share_hash, tenant_id, session_id, sealed, role, expires_at`
	selectShare  = `SELECT ` + shareColumns + ` FROM session_shares`
)

var insertShare = sqldb.Insert(`session_shares`, shareColumns)

// PutShareTx implements session.ShareStore.
func (s *Store) PutShareTx(tx txn.Tx, sh *session.Share) error {
	if err := s.DeleteShareTx(tx, sh.TenantID, sh.SessionID); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(insertShare,
		sh.Hash, sh.TenantID, sh.SessionID, sh.Sealed, sh.Role, sqldb.Micros(sh.ExpiresAt))
	return err
}

// DeleteShareTx implements session.ShareStore.
func (s *Store) DeleteShareTx(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM session_shares`+ofSession, tenant, id)
	return err
}

// GetShare implements session.ShareStore.
func (s *Store) GetShare(ctx context.Context, tenant, id string) (*session.Share, error) {
	return scanShare(s.db.QueryRow(ctx, selectShare+ofSession, tenant, id))
}

// GetShareByHash implements session.ShareStore.
func (s *Store) GetShareByHash(ctx context.Context, hash string) (*session.Share, error) {
	return scanShare(s.db.QueryRow(ctx, selectShare+` WHERE share_hash = ?`, hash))
}

func scanShare(row sqldb.Row) (*session.Share, error) {
	var sh session.Share
	var expires int64
	err := row.Scan(&sh.Hash, &sh.TenantID, &sh.SessionID, &sh.Sealed, &sh.Role, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("share")
	}
	sh.ExpiresAt = sqldb.Time(expires)
	return &sh, err
}
