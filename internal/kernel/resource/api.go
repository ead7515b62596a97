package resource

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// api is what the routes of a kind call: operations that take request bodies and
// If-Match headers and answer resources as clients see them.
type api[T any] struct{ *Store[T] }

// show answers one resource as clients see it, with its ETag; 304 if the client
// has the version that If-None-Match names.
func (a *api[T]) show(ctx context.Context, tenant, id, noneMatch string) (*route.Reply, error) {
	doc, err := a.Read(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if noneMatch != "" && names(noneMatch, doc.Version) {
		return &route.Reply{Status: 304, ETag: etag(doc.Version)}, nil
	}
	return a.replyDoc(doc)
}

// createFrom creates a resource from a request's body. Errors: fault.Malformed
// and fault.Invalid for the body, and those of Create.
func (a *api[T]) createFrom(ctx context.Context, who authz.Caller, body jsontext.Value) (*route.Reply, error) {
	t := a.blank()
	if err := a.fill(t, body, a.create, false, atCreation); err != nil {
		return nil, err
	}
	if err := a.CheckAddresses(ctx, who.TenantID, nil, t); err != nil {
		return nil, err
	}
	return a.commit(ctx, func(tx txn.Tx) (Doc, error) { return a.insert(tx, who, t) })
}

// commit runs a write and answers what it stored. A request with an
// Idempotency-Key is answered the same when it is repeated: its answer is made
// in the transaction and recorded there.
func (a *api[T]) commit(ctx context.Context, write func(txn.Tx) (Doc, error)) (reply *route.Reply, err error) {
	var doc Doc
	err = a.deps.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		reply = nil
		if doc, err = write(tx); err != nil || !txn.WantsAnswer(tx) {
			return err
		}
		if reply, err = a.replyDoc(doc); err != nil {
			return err
		}
		return txn.Answer(tx, reply)
	})
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return a.replyDoc(doc)
	}
	return reply, nil
}

// errStale reports that a resource changed after a change of it was prepared.
var errStale = errors.New("resource: changed meanwhile")

// tries is how often a change is prepared outside of its transaction.
const tries = 3

// changeFrom changes a resource by a request's body: it merges the body, or
// replaces the resource if replaces is set. Bodies may be large, and on SQLite
// every other write waits for the transaction, so changeFrom prepares the
// change before the transaction and discards it if the resource has changed
// since. After a few such races it prepares the change inside; the addresses of the
// body have been checked by then.
func (a *api[T]) changeFrom(
	ctx context.Context, who authz.Caller, id, match string, body jsontext.Value, replaces bool,
) (*route.Reply, error) {
	apply := func(e *Edit[T]) error {
		if replaces {
			return a.replaceWith(e, body)
		}
		return a.fill(e.New, body, a.update, true, afterwards)
	}
	for range tries {
		read, err := a.Read(ctx, who.TenantID, id)
		if err != nil {
			return nil, err
		}
		e, err := a.begin(who, read, match, Updated)
		if err != nil {
			return nil, err
		}
		if err := apply(e); err != nil {
			return nil, err
		}
		if err := a.CheckAddresses(ctx, who.TenantID, e.Old, e.New); err != nil {
			return nil, err
		}
		reply, err := a.commit(ctx, func(tx txn.Tx) (Doc, error) {
			now, err := a.lock(tx, who.TenantID, id)
			if err != nil {
				return now, err
			}
			if now.Version != read.Version {
				return now, errStale
			}
			e.Tx = tx
			return a.put(e)
		})
		if !errors.Is(err, errStale) {
			return reply, err
		}
	}
	return a.change(ctx, who, id, match, Updated, apply)
}

// change runs a write to an existing resource and answers the result.
func (a *api[T]) change(ctx context.Context, who authz.Caller, id, match, action string, do func(*Edit[T]) error) (*route.Reply, error) {
	return a.commit(ctx, func(tx txn.Tx) (Doc, error) {
		_, doc, err := a.edit(tx, who, id, match, action, do)
		return doc, err
	})
}

// replaceWith makes e.New a new resource from a body. It keeps the fields that
// clients cannot change, and secrets, which they cannot read and so cannot send
// back.
func (a *api[T]) replaceWith(e *Edit[T], body jsontext.Value) error {
	fresh := a.blank()
	a.copyFields(fresh, e.Old, func(f *field) bool { return !afterwards(f) || f.secret })
	e.New = fresh
	return a.fill(fresh, body, a.replace, false, afterwards)
}
