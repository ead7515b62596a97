package webhook

import (
	"context"
	"time"

	"agentd/internal/base/txn"
)

// StoredEvent is an event as it is sent.
type StoredEvent struct {
	TenantID string
	ID       string
	Type     string
	Body     []byte
	At       time.Time
}

// DueAttempt is an attempt with the body of its event.
type DueAttempt struct {
	Attempt
	Body []byte
}

// DeadLetter is the last attempt of a delivery that was given up, with the body
// of its event.
type DeadLetter struct {
	TenantID string
	Attempt
	Body []byte
}

// Store is the port to subscriptions, the outbox and the delivery log. All
// methods but those for operators take the tenant. Deleted subscriptions are
// treated as absent.
type Store interface {
	// CreateTx returns how many subscriptions the tenant then has.
	CreateTx(tx txn.Tx, s Subscription) (int, error)
	// Get reads a subscription. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*Subscription, error)
	// List returns all subscriptions of a tenant, newest first.
	List(ctx context.Context, tenant string) ([]Subscription, error)
	// DeleteTx reports whether the subscription existed.
	DeleteTx(tx txn.Tx, tenant, id string, at time.Time) (bool, error)
	// EnableTx makes a subscription active. Errors: fault.NotFound.
	EnableTx(tx txn.Tx, tenant, id string) error
	// ListSubscribersTx returns the ids of the subscriptions that want an event, in
	// order.
	ListSubscribersTx(tx txn.Tx, tenant, event string) ([]string, error)
	// MarkHealthyTx counts a success, MarkFailedTx a failure. MarkFailedTx returns
	// the new status, given the numbers of consecutive failures after which a
	// subscription is failing and disabled. A disabled subscription stays disabled;
	// the status of a deleted one is Disabled.
	MarkHealthyTx(tx txn.Tx, tenant, id string) error
	MarkFailedTx(tx txn.Tx, tenant, id string, at time.Time, failing, disabled int) (Status, error)

	// CreateEventTx reports whether the event is new.
	CreateEventTx(tx txn.Tx, e StoredEvent) (bool, error)
	// CreateAttemptsTx adds pending attempts.
	CreateAttemptsTx(tx txn.Tx, tenant string, all []Attempt) error
	// ListDue returns attempts that are due, by due time: at most limit, which
	// should take few different values, and about as many bytes of bodies.
	ListDue(ctx context.Context, tenant, id string, now time.Time, limit, bytes int) ([]DueAttempt, error)
	// GetNextDueTx returns when the next attempt is due; zero if there is none.
	GetNextDueTx(tx txn.Tx, tenant, id string) (time.Time, error)
	// UpdateAttemptTx stores the outcome of a pending attempt.
	UpdateAttemptTx(tx txn.Tx, tenant string, a *Attempt) error

	// ListAttempts returns the attempts of a subscription before an id ("": the
	// newest), newest first, and how many there are, counted up to maxCount.
	ListAttempts(ctx context.Context, tenant, id, before string, limit, maxCount int) (entries []Attempt, total int, err error)
	// GetAttempt reads an attempt with the body of its event. Errors:
	// fault.NotFound.
	GetAttempt(ctx context.Context, tenant, id, attempt string) (*DueAttempt, error)

	// ListDeadLetters returns dead letters of all tenants before an id, newest
	// first; only those of one event if event is not empty. It is for operators.
	ListDeadLetters(ctx context.Context, event, before string, limit int) ([]DeadLetter, error)
	// ClearDeadTx removes an attempt from the dead letters, because the event is
	// sent again. It reports whether the attempt was one.
	ClearDeadTx(tx txn.Tx, tenant, id, attempt string) (bool, error)

	// DeleteBefore deletes, for all tenants, attempts and events that are older
	// than a time, and the rows of subscriptions that were deleted before it.
	DeleteBefore(ctx context.Context, before time.Time) error
}
