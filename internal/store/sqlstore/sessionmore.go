package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

var (
	_ session.TodoStore  = (*Sessions)(nil)
	_ session.ShareStore = (*Sessions)(nil)
)

// undated sorts behind everything that is due at some time.
const undated = math.MaxInt64

// PutTodo implements session.TodoStore.
func (s *Sessions) PutTodo(tx txn.Tx, t *session.Todo) error {
	var enc encoder
	due, key := micros(t.DueAt), int64(undated)
	switch {
	case t.Status.Finished():
		key = -t.UpdatedAt.UnixMicro()
	case t.DueAt != nil:
		key = due
	}
	return enc.op(`INSERT INTO session_todos (tenant_id, todo_id, session_id, agent_id, status, finished, sort_key, due_at, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant_id, todo_id) DO UPDATE SET agent_id = excluded.agent_id, status = excluded.status, finished = excluded.finished,
		sort_key = excluded.sort_key, due_at = excluded.due_at, body = excluded.body`,
		t.TenantID, t.TodoID, t.SessionID, t.AgentID, string(t.Status), t.Status.Finished(), key, due, enc.json(t))(tx)
}

// LockTodo implements session.TodoStore.
func (s *Sessions) LockTodo(tx txn.Tx, tenant, id string) (*session.Todo, error) {
	t := sqldb.From(tx)
	todo, err := scanTodo(t.QueryRow(`SELECT body FROM session_todos WHERE tenant_id = ? AND todo_id = ?`+t.ForUpdate(), tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NoSuch("todo")
	}
	return &todo, err
}

func scanTodo(row scanner) (t session.Todo, err error) {
	var body string
	if err := row.Scan(&body); err != nil {
		return t, err
	}
	var dec decoder
	dec.json(body, &t)
	return t, dec.err
}

// DeleteTodo implements session.TodoStore.
func (s *Sessions) DeleteTodo(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM session_todos WHERE tenant_id = ? AND todo_id = ?`, tenant, id)
	return err
}

// Todos implements session.TodoStore.
func (s *Sessions) Todos(ctx context.Context, tenant string, f session.TodoFilter) ([]session.Todo, int, error) {
	where, args := ` FROM session_todos WHERE tenant_id = ?`, []any{tenant}
	for _, c := range []struct{ column, value string }{{"session_id", f.SessionID}, {"agent_id", f.AgentID}, {"status", string(f.Status)}} {
		if c.value != "" {
			where, args = where+` AND `+c.column+` = ?`, append(args, c.value)
		}
	}
	order := ` ORDER BY finished, sort_key, todo_id`
	if !f.From.IsZero() || !f.Until.IsZero() {
		where, order = where+` AND due_at <> 0`, ` ORDER BY due_at, todo_id`
	}
	if !f.From.IsZero() {
		where, args = where+` AND due_at >= ?`, append(args, f.From.UnixMicro())
	}
	if !f.Until.IsZero() {
		where, args = where+` AND due_at < ?`, append(args, f.Until.UnixMicro())
	}
	var total int
	if err := s.db.QueryRow(ctx, `SELECT COUNT(*)`+where, args...).Scan(&total); err != nil {
		return nil, 0, err
	}
	todos, err := each(s.reading(ctx), `SELECT body`+where+order+` LIMIT ?`, append(args, f.Limit), scanTodo)
	return todos, total, err
}

// SetShare implements session.ShareStore.
func (s *Sessions) SetShare(tx txn.Tx, sh *session.Share) error {
	if err := s.DropShare(tx, sh.TenantID, sh.SessionID); err != nil {
		return err
	}
	_, err := sqldb.From(tx).Exec(`INSERT INTO session_shares (share_hash, tenant_id, session_id, sealed, role, expires_at) VALUES (?, ?, ?, ?, ?, ?)`,
		sh.Hash, sh.TenantID, sh.SessionID, sh.Sealed, sh.Role, sqldb.Micros(sh.ExpiresAt))
	return err
}

// DropShare implements session.ShareStore.
func (s *Sessions) DropShare(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM session_shares WHERE tenant_id = ? AND session_id = ?`, tenant, id)
	return err
}

const selectShare = `SELECT share_hash, tenant_id, session_id, sealed, role, expires_at FROM session_shares WHERE `

// ShareOf implements session.ShareStore.
func (s *Sessions) ShareOf(ctx context.Context, tenant, id string) (*session.Share, error) {
	return scanShare(s.db.QueryRow(ctx, selectShare+`tenant_id = ? AND session_id = ?`, tenant, id))
}

// SharedBy implements session.ShareStore.
func (s *Sessions) SharedBy(ctx context.Context, hash string) (*session.Share, error) {
	return scanShare(s.db.QueryRow(ctx, selectShare+`share_hash = ?`, hash))
}

func scanShare(row scanner) (*session.Share, error) {
	var sh session.Share
	var expires int64
	err := row.Scan(&sh.Hash, &sh.TenantID, &sh.SessionID, &sh.Sealed, &sh.Role, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NoSuch("share")
	}
	sh.ExpiresAt = sqldb.Time(expires)
	return &sh, err
}
