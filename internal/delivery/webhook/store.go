package webhook

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

// Stored is an event as it was written down: what receivers are sent.
type Stored struct {
	TenantID string
	ID       string
	Type     string
	Body     []byte
	At       time.Time
}

// Ready is a delivery that is due, with what is to be sent.
type Ready struct {
	Delivery
	Body []byte
}

// Dead is a delivery that was given up, with its event.
type Dead struct {
	TenantID string
	Delivery
	Body []byte
}

// Store is the port to subscriptions, the outbox and the log. Every call takes
// the tenant but for those of the operator. Deleted subscriptions are as if they
// were not there.
type Store interface {
	// Add says how many subscriptions the tenant has then.
	Add(tx txn.Tx, s Subscription) (int, error)
	// Find reads one. Errors: fault.NotFound.
	Find(ctx context.Context, tenant, id string) (*Subscription, error)
	// List gives all, newest first.
	List(ctx context.Context, tenant string) ([]Subscription, error)
	// Delete says whether there was one.
	Delete(tx txn.Tx, tenant, id string, at time.Time) (bool, error)
	// Enable makes one active. Errors: fault.NotFound.
	Enable(tx txn.Tx, tenant, id string) error
	// Wanting gives the ids of those that an event is to be delivered to, in order.
	Wanting(tx txn.Tx, tenant, event string) ([]string, error)
	// Worked counts a success, and Missed a failure: Missed gives the status that
	// follows, given after how many in a row one is failing and disabled. A
	// disabled subscription stays so, and one that is deleted is disabled.
	Worked(tx txn.Tx, tenant, id string) error
	Missed(tx txn.Tx, tenant, id string, at time.Time, failing, disabled int) (Status, error)

	// AddEvent says whether the event is new.
	AddEvent(tx txn.Tx, e Stored) (bool, error)
	// AddDeliveries adds pending ones.
	AddDeliveries(tx txn.Tx, tenant string, all []Delivery) error
	// Due gives deliveries that are to be made now, those first that are due
	// first, up to a number of them (of which there should be few different ones) and about so many bytes of their bodies.
	Due(ctx context.Context, tenant, id string, now time.Time, most, bytes int) ([]Ready, error)
	// NextDue is when the next is due, as the transaction sees it; zero: none.
	NextDue(tx txn.Tx, tenant, id string) (time.Time, error)
	// Settle writes what became of a pending delivery.
	Settle(tx txn.Tx, tenant string, d *Delivery) error

	// Log gives the deliveries of a subscription, newest first, from the one
	// before an id ("": the newest), and how many there are, counted up to most.
	Log(ctx context.Context, tenant, id, before string, limit, most int) (entries []Delivery, total int, err error)
	// Delivery reads one with what is or was sent. Errors: fault.NotFound.
	Delivery(ctx context.Context, tenant, id, delivery string) (*Ready, error)

	// DeadLetters gives deliveries of all tenants that were given up, newest
	// first, from the one before an id; with an event's id, only that event's.
	// For the operator.
	DeadLetters(ctx context.Context, event, before string, limit int) ([]Dead, error)
	// Revive takes a delivery off the dead letters: another follows it. It says
	// whether it was there.
	Revive(tx txn.Tx, tenant, id, delivery string) (bool, error)

	// Forget deletes, of all tenants, what is older than a moment of the log and
	// the outbox, and the last of subscriptions that were deleted before it.
	Forget(ctx context.Context, before time.Time) error
}
