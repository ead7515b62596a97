package sessionsql

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

var _ session.TodoStore = (*Store)(nil)

// undated sorts behind everything that is due at some time.
const undated = math.MaxInt64

// PutTodoTx implements session.TodoStore.
func (s *Store) PutTodoTx(tx txn.Tx, t *session.Todo) error {
	var enc sqldb.Encoder
	due, key := sqldb.OptionalMicros(t.DueAt), int64(undated)
	switch {
	case t.Status.Finished():
		key = -t.UpdatedAt.UnixMicro()
	case t.DueAt != nil:
		key = due
	}
	return enc.Op("todo", `INSERT INTO session_todos (tenant_id, todo_id, session_id, agent_id, status, finished, sort_key, due_at, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant_id, todo_id) DO UPDATE SET agent_id = excluded.agent_id, status = excluded.status, finished = excluded.finished,
		sort_key = excluded.sort_key, due_at = excluded.due_at, body = excluded.body`,
		t.TenantID, t.TodoID, t.SessionID, t.AgentID, string(t.Status), t.Status.Finished(), key, due, enc.JSON(t))(tx)
}

// LockTodoTx implements session.TodoStore.
func (s *Store) LockTodoTx(tx txn.Tx, tenant, id string) (*session.Todo, error) {
	t := sqldb.From(tx)
	todo, err := scanTodo(t.QueryRow(`SELECT body FROM session_todos WHERE tenant_id = ? AND todo_id = ?`+t.ForUpdate(), tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NoSuch("todo")
	}
	return &todo, err
}

func scanTodo(row sqldb.Row) (t session.Todo, err error) {
	var body string
	if err := row.Scan(&body); err != nil {
		return t, err
	}
	var dec sqldb.Decoder
	dec.JSON(body, &t)
	return t, dec.Err()
}

// DeleteTodoTx implements session.TodoStore.
func (s *Store) DeleteTodoTx(tx txn.Tx, tenant, id string) error {
	_, err := sqldb.From(tx).Exec(`DELETE FROM session_todos WHERE tenant_id = ? AND todo_id = ?`, tenant, id)
	return err
}

// ListTodos implements session.TodoStore.
func (s *Store) ListTodos(ctx context.Context, tenant string, f session.TodoFilter) ([]session.Todo, int, error) {
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
	todos, err := sqldb.Collect(s.db.Reader(ctx), `SELECT body`+where+order+` LIMIT ?`, append(args, f.Limit), scanTodo)
	return todos, total, err
}
