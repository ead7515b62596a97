package resource

import (
	"context"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

// Act returns an operation that changes one resource in a way that no [Move] says:
// row has its method, id, summary and access, path what follows …/{id}. do has the
// body, which the operation needs, and changes Edit.New or refuses. The resource is
// answered; action is what its change is recorded as.
func Act[T, In any](s *Store[T], row route.Row, path, action string, do func(*Edit[T], *In) error) route.Route {
	a := &api[T]{s}
	row.Path, row.Tag, row.AnswerOf, row.BodyOf = a.Path+"/{"+a.Param+"}"+path, a.Tag, a.wire, reflect.TypeFor[In]()
	row.Errors = append(row.Errors, 409, 412)
	return a.itemRoute(row, withBody, func(ctx context.Context, who authz.Caller, in itemRequest) (*route.Reply, error) {
		body, err := schema.Decode[In](in.body)
		if err != nil {
			return nil, err
		}
		return a.change(ctx, who, in.id, in.match, action, func(e *Edit[T]) error {
			if err := do(e, body); err != nil {
				return err
			}
			return s.validate(e.New, faults{})
		})
	})
}

// CheckPatch refuses a merge patch that a resource does not take: it is what PATCH
// would refuse at this moment. Errors: fault.Malformed, fault.Invalid, fault.NotFound.
func (s *Store[T]) CheckPatch(ctx context.Context, tenant, id string, patch jsontext.Value) error {
	doc, err := s.Read(ctx, tenant, id)
	if err != nil {
		return err
	}
	before, err := s.Decode(doc)
	if err != nil {
		return err
	}
	after, err := s.Decode(doc)
	if err == nil {
		err = s.fill(after, patch, s.update, true, afterwards)
	}
	if err != nil {
		return err
	}
	return s.CheckAddresses(ctx, tenant, before, after)
}

// Patch changes a value as a merge patch would change the resource that has it; nothing
// is stored. Errors: fault.Malformed, fault.Invalid.
func (s *Store[T]) Patch(t *T, patch jsontext.Value) error {
	return s.fill(t, patch, s.update, true, afterwards)
}

// PatchTx changes a resource by a merge patch inside a transaction. The addresses
// that the patch names are checked by CheckPatch, before the transaction.
func (s *Store[T]) PatchTx(tx txn.Tx, who authz.Caller, id string, patch jsontext.Value) (*T, error) {
	t, _, err := s.edit(tx, who, id, "", Updated, func(e *Edit[T]) error {
		return s.fill(e.New, patch, s.update, true, afterwards)
	})
	return t, err
}

// MergeTx changes a resource by a merge patch inside a transaction, or creates it with
// an ID, from what first returns and the patch. more sets what the patch cannot: fields
// that are readOnly. Callers check the addresses that the patch names.
func (s *Store[T]) MergeTx(tx txn.Tx, who authz.Caller, id string, patch jsontext.Value, first func() *T, more func(*T)) (*T, error) {
	if _, err := s.lock(tx, who.TenantID, id); fault.Is(err, fault.NotFound) {
		t := first()
		if err := s.fill(t, patch, s.update, true, afterwards); err != nil {
			return nil, err
		}
		more(t)
		metaOf(t).ID = id
		_, err := s.insert(tx, who, t)
		return t, err
	}
	t, _, err := s.edit(tx, who, id, "", Updated, func(e *Edit[T]) error {
		if err := s.fill(e.New, patch, s.update, true, afterwards); err != nil {
			return err
		}
		more(e.New)
		return nil
	})
	return t, err
}
