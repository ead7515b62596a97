package sessionsql

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb"
)

var _ session.TodoStore = (*Store)(nil)

// undated sorts behind every time at which a todo is due.
const undated = math.MaxInt64

var putTodo = sqldb.Insert(`session_todos`,
	`tenant_id, todo_id, session_id, agent_id, status, finished, sort_key, due_at, body`) +
	` ON CONFLICT (tenant_id, todo_id) DO UPDATE SET ` + sqldb.Excluded(`agent_id, status, finished, sort_key, due_at, body`)

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
	return enc.Op("todo", putTodo,
		t.TenantID, t.TodoID, t.SessionID, t.AgentID, string(t.Status), t.Status.Finished(), key, due, enc.JSON(t))(tx)
}

// LockTodoTx implements session.TodoStore.
func (s *Store) LockTodoTx(tx txn.Tx, tenant, id string) (*session.Todo, error) {
	t := sqldb.From(tx)
	todo, err := scanTodo(t.QueryRow(`SELECT body FROM session_todos WHERE tenant_id = ? AND todo_id = ?`+t.ForUpdate(), tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NewNotFound("todo")
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

// The few todos of a session are sorted; those of a tenant are walked in order.
var todoFilters = sqldb.FiltersOf[session.TodoFilter]()

// ListTodos implements session.TodoStore.
func (s *Store) ListTodos(ctx context.Context, tenant string, f session.TodoFilter, limit int) ([]session.Todo, int, error) {
	where, args := todoFilters.Where(tenant, &f)
	order := ` ORDER BY finished, sort_key, todo_id`
	if !f.From.IsZero() || !f.To.IsZero() {
		order = ` ORDER BY due_at, todo_id`
	}
	var total int
	if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM session_todos`+where+` LIMIT ?) AS found`,
		append(slices.Clone(args), page.MaxCount+1)...).Scan(&total); err != nil {
		return nil, 0, err
	}
	todos, err := sqldb.Collect(s.db.Reader(ctx), `SELECT body FROM session_todos`+where+order+` LIMIT ?`, append(args, limit), scanTodo)
	return todos, total, err
}
