package resource

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// Move changes a resource's state by one of the kind's moves. body may be nil.
// Errors: fault.Conflict with INVALID_STATE_TRANSITION if the move does not
// start from the resource's state.
func (s *Store[T]) Move(ctx context.Context, who authz.Caller, id, action string, body jsontext.Value) (*T, error) {
	var t *T
	err := s.deps.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		t, err = s.MoveTx(tx, who, id, action, body)
		return err
	})
	return t, err
}

// MoveTx is Move inside a transaction.
func (s *Store[T]) MoveTx(tx txn.Tx, who authz.Caller, id, action string, body jsontext.Value) (*T, error) {
	i := slices.IndexFunc(s.Moves, func(m Move[T]) bool { return m.Action == action })
	if i < 0 {
		return nil, fault.New(fault.Internal, "", "There is no move %s of %s.", action, s.Name)
	}
	t, _, err := s.edit(tx, who, id, "", action, func(e *Edit[T]) error { return s.move(e, s.Moves[i], body) })
	return t, err
}

func (s *Store[T]) move(e *Edit[T], m Move[T], body jsontext.Value) error {
	state := s.State(e.New)
	if !slices.Contains(m.From, *state) {
		return fault.WrongState(s.what, *state, words(m.Action))
	}
	*state = m.To
	if m.With.do == nil {
		return nil
	}
	if err := m.With.do(e, body); err != nil {
		return err
	}
	return s.validate(e.New, faults{})
}
