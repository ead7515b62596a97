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
	// CreateTx says how many subscriptions the tenant has then.
	CreateTx(tx txn.Tx, s Subscription) (int, error)
	// Get reads one. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*Subscription, error)
	// List gives all, newest first.
	List(ctx context.Context, tenant string) ([]Subscription, error)
	// DeleteTx says whether there was one.
	DeleteTx(tx txn.Tx, tenant, id string, at time.Time) (bool, error)
	// EnableTx makes one active. Errors: fault.NotFound.
	EnableTx(tx txn.Tx, tenant, id string) error
	// ListSubscribersTx gives the ids of those that an event is to be delivered to, in order.
	ListSubscribersTx(tx txn.Tx, tenant, event string) ([]string, error)
	// MarkHealthyTx counts a success, and Missed a failure: Missed gives the status that
	// follows, given after how many in a row one is failing and disabled. A
	// disabled subscription stays so, and one that is deleted is disabled.
	MarkHealthyTx(tx txn.Tx, tenant, id string) error
	MarkFailedTx(tx txn.Tx, tenant, id string, at time.Time, failing, disabled int) (Status, error)

	// CreateEventTx says whether the event is new.
	CreateEventTx(tx txn.Tx, e Stored) (bool, error)
	// CreateDeliveriesTx adds pending ones.
	CreateDeliveriesTx(tx txn.Tx, tenant string, all []Delivery) error
	// ListDue gives deliveries that are to be made now, those first that are due
	// first, up to a number of them (of which there should be few different ones) and about so many bytes of their bodies.
	ListDue(ctx context.Context, tenant, id string, now time.Time, most, bytes int) ([]Ready, error)
	// GetNextDueTx is when the next is due, as the transaction sees it; zero: none.
	GetNextDueTx(tx txn.Tx, tenant, id string) (time.Time, error)
	// UpdateDeliveryTx writes what became of a pending delivery.
	UpdateDeliveryTx(tx txn.Tx, tenant string, d *Delivery) error

	// ListDeliveries gives the deliveries of a subscription, newest first, from the one
	// before an id ("": the newest), and how many there are, counted up to most.
	ListDeliveries(ctx context.Context, tenant, id, before string, limit, most int) (entries []Delivery, total int, err error)
	// GetDelivery reads one with what is or was sent. Errors: fault.NotFound.
	GetDelivery(ctx context.Context, tenant, id, delivery string) (*Ready, error)

	// ListDeadLetters gives deliveries of all tenants that were given up, newest
	// first, from the one before an id; with an event's id, only that event's.
	// For the operator.
	ListDeadLetters(ctx context.Context, event, before string, limit int) ([]Dead, error)
	// ClearDeadTx takes a delivery off the dead letters: another follows it. It says
	// whether it was there.
	ClearDeadTx(tx txn.Tx, tenant, id, delivery string) (bool, error)

	// DeleteBefore deletes, of all tenants, what is older than a moment of the log and
	// the outbox, and the last of subscriptions that were deleted before it.
	DeleteBefore(ctx context.Context, before time.Time) error
}
