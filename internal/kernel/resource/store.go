package resource

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/egress"
)

// Deps are the dependencies of a Store.
type Deps struct {
	Backend  Backend
	Writer   txn.Writer
	Outbox   Outbox
	Counters Counters // counts kinds that are Counted; nil: nothing does
	Cursors  *page.Cursors
	Clock    clock.Clock
	Box      *secret.Box      // seals secret fields; only kinds that have some need it
	Events   Emitter          // receives the events of kinds that declare some; nil: none are emitted
	Audit    audit.Recorder   // records every creation, change, deletion and move; nil: no audit
	Egress   egress.CheckFunc // checks Kind.Addresses; nil: nothing does
	Kinds    *Registry        // lists the kinds that can be read; nil: nothing does
}

// Store keeps the resources of one kind. It is safe for concurrent use.
//
// Errors of every method: fault.NotFound for a resource that does not exist or
// is another tenant's; fault.Invalid from Kind.Validate; fault.Conflict with
// ALREADY_EXISTS for a unique value that is taken, with CONCURRENT_MODIFICATION
// for a lost race; the errors of hooks; fault.Unavailable from the database.
type Store[T any] struct {
	codec[T]
	deps Deps
}

// NewStore returns the store of a kind. It panics if the kind contradicts
// itself.
func NewStore[T any](k Kind[T], deps Deps) *Store[T] {
	p := compile(k)
	if len(p.sealed) > 0 && deps.Box == nil {
		p.fail("secret fields without a box to seal them")
	}
	if deps.Events != nil {
		p.registerEvents(deps.Events)
	}
	return &Store[T]{codec[T]{p, deps.Box}, deps}
}

// Blank returns a new T with the kind's defaults, to be filled and created.
func (s *Store[T]) Blank() *T { return s.blank() }

// Get reads a resource.
func (s *Store[T]) Get(ctx context.Context, tenant, id string) (*T, error) {
	doc, err := s.Read(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return s.Decode(doc)
}

// Read returns a resource undecoded, for callers that may already know its
// version; see Decode.
func (s *Store[T]) Read(ctx context.Context, tenant, id string) (Doc, error) {
	if !ident.Valid(id) {
		return Doc{}, fault.NewNotFound(s.what)
	}
	doc, err := s.deps.Backend.Get(ctx, s.Name, tenant, id)
	return doc, s.translate(err)
}

// GetTx reads a resource inside a transaction, and locks it until the
// transaction ends.
func (s *Store[T]) GetTx(tx txn.Tx, tenant, id string) (*T, error) {
	doc, err := s.lock(tx, tenant, id)
	if err != nil {
		return nil, err
	}
	return s.Decode(doc)
}

func (s *Store[T]) lock(tx txn.Tx, tenant, id string) (Doc, error) {
	if !ident.Valid(id) {
		return Doc{}, fault.NewNotFound(s.what)
	}
	doc, err := s.deps.Backend.LockTx(tx, s.Name, tenant, id)
	return doc, s.translate(err)
}

// CheckAddresses checks the addresses of t that before does not have; before is nil
// at creation. Bodies of requests and Create are checked already. Callers of the
// other writes check what they let clients set, before their transaction. Errors:
// fault.Invalid with every refused field.
func (s *Store[T]) CheckAddresses(ctx context.Context, tenant string, before, t *T) error {
	if s.Addresses == nil {
		return nil
	}
	var stored []egress.Address
	if before != nil {
		stored = s.Addresses(before)
	}
	return s.deps.Egress.CheckNew(ctx, tenant, stored, s.Addresses(t))
}

// Create stores t. It sets t's id unless t has one.
func (s *Store[T]) Create(ctx context.Context, who authz.Caller, t *T) error {
	if s.Addresses != nil {
		if err := s.validate(t, faults{}); err != nil {
			return err
		}
		if err := s.CheckAddresses(ctx, who.TenantID, nil, t); err != nil {
			return err
		}
	}
	return s.deps.Writer.Write(ctx, func(tx txn.Tx) error { return s.CreateTx(tx, who, t) })
}

// CreateTx is Create inside a transaction.
func (s *Store[T]) CreateTx(tx txn.Tx, who authz.Caller, t *T) error {
	if err := s.validate(t, faults{}); err != nil {
		return err
	}
	_, err := s.insert(tx, who, t)
	return err
}

func (s *Store[T]) insert(tx txn.Tx, who authz.Caller, t *T) (Doc, error) {
	m := metaOf(t)
	if m.ID == "" {
		m.ID = ident.New()
	}
	now := s.deps.Clock.Now()
	*m = Meta{m.ID, who.TenantID, 1, now, now}
	return s.put(&Edit[T]{Tx: tx, Who: who, Action: Created, New: t})
}

// Update changes a resource by a function, which may refuse by an error. The
// function sees the newest version, locked, so fields that it does not touch
// keep what other writers stored.
func (s *Store[T]) Update(ctx context.Context, who authz.Caller, id string, change func(txn.Tx, *T) error) (*T, error) {
	var t *T
	err := s.deps.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		t, err = s.UpdateTx(tx, who, id, func(t *T) error { return change(tx, t) })
		return err
	})
	return t, err
}

// UpdateTx is Update inside a transaction.
func (s *Store[T]) UpdateTx(tx txn.Tx, who authz.Caller, id string, change func(*T) error) (*T, error) {
	t, _, err := s.edit(tx, who, id, "", Updated, func(e *Edit[T]) error {
		if err := change(e.New); err != nil {
			return err
		}
		return s.validate(e.New, faults{})
	})
	return t, err
}

// AmendTx changes a resource as UpdateTx does, by an action of another name. A kind with
// versions records none, and webhooks receive nothing unless one of the kind's events is
// of that action.
func (s *Store[T]) AmendTx(tx txn.Tx, who authz.Caller, id, action string, change func(*T) error) (*T, error) {
	t, _, err := s.edit(tx, who, id, "", action, func(e *Edit[T]) error { return change(e.New) })
	return t, err
}

// edit performs every write to an existing resource but the deletion. match is
// an If-Match header. change receives the newest version twice: as Old, and as
// New, which it changes.
func (s *Store[T]) edit(tx txn.Tx, who authz.Caller, id, match, action string, change func(*Edit[T]) error) (*T, Doc, error) {
	doc, err := s.lock(tx, who.TenantID, id)
	if err != nil {
		return nil, doc, err
	}
	e, err := s.begin(who, doc, match, action)
	if err != nil {
		return nil, doc, err
	}
	e.Tx = tx
	if err := change(e); err != nil {
		return nil, doc, err
	}
	doc, err = s.put(e)
	return e.New, doc, err
}

// begin returns the edit of a document whose version match accepts.
func (s *Store[T]) begin(who authz.Caller, doc Doc, match, action string) (e *Edit[T], err error) {
	if err := s.matches(match, doc.Version); err != nil {
		return nil, err
	}
	e = &Edit[T]{Who: who, Action: action}
	if e.Old, err = s.Decode(doc); err != nil {
		return nil, err
	}
	e.New, err = s.Decode(doc)
	return e, err
}

// put completes a creation or change: it calls the hooks, stores the document
// and publishes the change. It returns the stored document.
func (s *Store[T]) put(e *Edit[T]) (Doc, error) {
	if e.Old != nil {
		m := metaOf(e.New)
		*m = *metaOf(e.Old)
		m.Version++
		m.UpdatedAt = s.deps.Clock.Now()
	}
	if s.Before != nil {
		if err := s.Before(e); err != nil {
			return Doc{}, err
		}
	}
	doc, err := s.encode(e.New)
	if err != nil {
		return Doc{}, err
	}
	s.setWords(&doc, e)
	if err := s.translate(s.deps.Backend.PutTx(e.Tx, doc, doc.Version-1)); err != nil {
		return Doc{}, err
	}
	return doc, s.publishChange(e, e.New)
}

// Delete removes a resource.
func (s *Store[T]) Delete(ctx context.Context, who authz.Caller, id string) error {
	return s.deps.Writer.Write(ctx, func(tx txn.Tx) error { return s.DeleteTx(tx, who, id) })
}

// DeleteTx is Delete inside a transaction.
func (s *Store[T]) DeleteTx(tx txn.Tx, who authz.Caller, id string) error {
	return s.remove(tx, who, id, "")
}

func (s *Store[T]) remove(tx txn.Tx, who authz.Caller, id, match string) error {
	doc, err := s.lock(tx, who.TenantID, id)
	if err != nil {
		return err
	}
	if err := s.matches(match, doc.Version); err != nil {
		return err
	}
	e := &Edit[T]{Tx: tx, Who: who, Action: Deleted}
	if e.Old, err = s.Decode(doc); err != nil {
		return err
	}
	if s.CheckDelete != nil {
		if err := s.CheckDelete(e); err != nil {
			return err
		}
	}
	if err := s.translate(s.deps.Backend.DeleteTx(tx, s.Name, who.TenantID, id, doc.Version)); err != nil {
		return err
	}
	return s.publishChange(e, e.Old)
}

// publishChange completes a write: it calls Kind.After, counts, emits the kind's webhook
// event, records the write in the audit log and appends the change to the
// outbox.
func (s *Store[T]) publishChange(e *Edit[T], t *T) error {
	if s.After != nil {
		if err := s.After(e); err != nil {
			return err
		}
	}
	if err := s.count(e); err != nil {
		return err
	}
	if err := s.emit(e.Tx, e.Action, t); err != nil {
		return err
	}
	m := metaOf(t)
	c := Change{
		Kind: s.Name, Action: e.Action, TenantID: m.TenantID, ID: m.ID, Version: m.Version,
		Actor: e.Who.UserID, At: s.deps.Clock.Now(),
	}
	if s.Label != nil {
		c.Name = s.Label(t)
	}
	if s.deps.Audit != nil {
		entry := audit.Entry{Action: s.Name + "." + e.Action, TargetType: s.Name, TargetID: m.ID}
		if c.Name != "" {
			name, _ := jsontext.AppendQuote([]byte(`{"name":`), c.Name) // invalid UTF-8 is replaced
			entry.Details = append(name, '}')
		}
		if err := s.deps.Audit.Record(e.Tx, e.Who, entry); err != nil {
			return err
		}
	}
	return s.deps.Outbox.Append(e.Tx, c)
}

// translate returns the fault that a backend's error is for callers.
func (s *Store[T]) translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrAbsent):
		return fault.NewNotFound(s.what)
	case errors.Is(err, ErrStale):
		return fault.Changed(s.what).Because(err)
	case errors.Is(err, ErrTaken):
		return fault.New(fault.Conflict, "ALREADY_EXISTS", "There is a %s with this %s already.", s.what, s.Unique.Name).Because(err)
	}
	return err
}
