package resource

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// Show answers one resource as clients see it, with its ETag.
func (s *Store[T]) Show(ctx context.Context, tenant, id string) (*route.Reply, error) {
	doc, err := s.Read(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return s.show(doc)
}

func (s *Store[T]) show(doc Doc) (*route.Reply, error) {
	wire, err := s.wireDoc(nil, doc)
	return &route.Reply{ETag: etag(doc.Version), JSON: wire}, err
}

// AnswerType is the published type of a resource as clients see it, for the
// rows of actions that answer one.
func (s *Store[T]) AnswerType() reflect.Type { return s.wire }

// Reply answers t as clients see it, with its ETag.
func (s *Store[T]) Reply(t *T) (*route.Reply, error) {
	wire, err := s.Wire(t)
	return &route.Reply{ETag: etag(metaOf(t).Version), JSON: wire}, err
}

// CreateFrom creates a resource from a request's body. Errors: fault.Malformed
// and fault.Invalid for the body, else those of Create.
func (s *Store[T]) CreateFrom(ctx context.Context, who authz.Caller, body jsontext.Value) (*route.Reply, error) {
	t := s.blank()
	if err := s.fill(t, body, s.create, false, atCreation); err != nil {
		return nil, err
	}
	return s.commit(ctx, func(tx txn.Tx) (Doc, error) { return s.insert(tx, who, t) })
}

// commit answers a write with what it stored. Who repeats the request gets the
// same answer, so it is made in the transaction where somebody wants that.
func (s *Store[T]) commit(ctx context.Context, write func(txn.Tx) (Doc, error)) (reply *route.Reply, err error) {
	var doc Doc
	err = s.deps.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		reply = nil
		if doc, err = write(tx); err != nil || !txn.WantsAnswer(tx) {
			return err
		}
		if reply, err = s.show(doc); err != nil {
			return err
		}
		return txn.Answer(tx, reply)
	})
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return s.show(doc)
	}
	return reply, nil
}

// errStale says that a resource changed after a change of it was prepared.
var errStale = errors.New("resource: changed meanwhile")

// tries is how often a change is prepared outside of its transaction.
const tries = 3

// ChangeFrom changes a resource by a request's body, which is merged, or
// replaces it where replaces says so. Bodies may be big, and on SQLite
// everybody waits for the transaction: so the work is done before it and
// thrown away where the resource has changed since; after some tries it is
// done inside.
func (s *Store[T]) ChangeFrom(ctx context.Context, who authz.Caller, id, match string, body jsontext.Value, replaces bool) (*route.Reply, error) {
	apply := func(e *Edit[T]) error {
		if replaces {
			return s.replaceWith(e, body)
		}
		return s.fill(e.New, body, s.update, true, afterwards)
	}
	for range tries {
		read, err := s.Read(ctx, who.TenantID, id)
		if err != nil {
			return nil, err
		}
		e, err := s.begin(who, read, match, Updated)
		if err != nil {
			return nil, err
		}
		if err := apply(e); err != nil {
			return nil, err
		}
		reply, err := s.commit(ctx, func(tx txn.Tx) (Doc, error) {
			now, err := s.lock(tx, who.TenantID, id)
			if err != nil {
				return now, err
			}
			if now.Version != read.Version {
				return now, errStale
			}
			e.Tx = tx
			return s.put(e)
		})
		if !errors.Is(err, errStale) {
			return reply, err
		}
	}
	return s.change(ctx, who, id, match, Updated, apply)
}

// change answers a write to what exists.
func (s *Store[T]) change(ctx context.Context, who authz.Caller, id, match, action string, do func(*Edit[T]) error) (*route.Reply, error) {
	return s.commit(ctx, func(tx txn.Tx) (Doc, error) {
		_, doc, err := s.edit(tx, who, id, match, action, do)
		return doc, err
	})
}

// replaceWith makes e.New a new resource from a body, but for what a client
// cannot set any more, and secrets, which it cannot read to send them back.
func (s *Store[T]) replaceWith(e *Edit[T], body jsontext.Value) error {
	fresh := s.blank()
	s.copyFields(fresh, e.Old, func(f *field) bool { return !afterwards(f) || f.secret })
	e.New = fresh
	return s.fill(fresh, body, s.replace, false, afterwards)
}

// Move changes a resource's state by one of the kind's moves. body may be nil.
// Errors: fault.Conflict with INVALID_STATE_TRANSITION in any other state.
func (s *Store[T]) Move(ctx context.Context, who authz.Caller, id, action string, body jsontext.Value) (*T, error) {
	i := slices.IndexFunc(s.Moves, func(m Move[T]) bool { return m.Action == action })
	if i < 0 {
		return nil, fault.New(fault.Internal, "", "There is no move %s of %s.", action, s.Name)
	}
	var t *T
	err := s.deps.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		t, _, err = s.edit(tx, who, id, "", action, func(e *Edit[T]) error { return s.move(e, s.Moves[i], body) })
		return err
	})
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
