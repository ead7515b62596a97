// Package webhook delivers events to other systems: it keeps subscriptions, an
// outbox of events, and the log of their signed deliveries, each of which is made
// at least once.
//
// A subscription is what a customer created: a URL and the events that it wants.
// A delivery is one event for one subscription. An attempt is one POST of a
// delivery; a failed attempt may be followed by another. The log has an entry for
// each attempt.
//
// An event enters the outbox in the transaction that makes it true, with a first
// attempt for each subscription that wants it; an event that none wants is not
// stored. However many attempts of a subscription are due, they are one work
// item. The node that holds the item runs the subscription's dispatcher, which
// sends the requests and counts the failures. So subscriptions never wait for
// each other, and each attempt is counted once
// (docs/adr/0026-one-work-item-per-subscription.md).
package webhook

import (
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/page"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// Status is the status of a subscription.
type Status string

// The statuses. Failing subscriptions are delivered to, disabled ones are not.
const (
	Active   Status = "active"
	Failing  Status = "failing"
	Disabled Status = "disabled"
)

// The numbers of consecutive failures after which a subscription is failing, and
// disabled.
const (
	failingAfter  = 3
	disabledAfter = 20
)

// maxSubscriptions is how many subscriptions a tenant has at most.
const maxSubscriptions = 50

// Subscription is a URL and the events that are delivered to it.
type Subscription struct {
	TenantID, ID string
	URL          string
	Events       []string
	Sealed       []byte // the secret
	Status       Status
	Failures     int64     // consecutive ones
	LastFailure  time.Time // zero: none
	CreatedAt    time.Time
}

// context returns what the subscription's sealed secret is bound to.
func (s *Subscription) context() string { return "webhook/" + s.TenantID + "/" + s.ID }

// State is the state of an attempt.
type State string

// The states: an attempt is pending until its outcome is stored.
const (
	Pending   State = "pending"
	Succeeded State = "success"
	Failed    State = "failed"
)

// Attempt is one POST of an event to a subscription, pending or made: an entry of
// the delivery log.
type Attempt struct {
	ID             string // published as delivery_id
	SubscriptionID string
	EventID        string
	EventType      string
	Number         int // from 1
	State          State
	Due            time.Time // when a pending attempt is made
	Status         int       // of the HTTP response; 0: none came
	Failure        string
	Latency        time.Duration
	NextRetry      time.Time // of the attempt that follows; zero: none does
	Dead           bool      // it failed, and no attempt follows
	CreatedAt      time.Time
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store    Store
	Writer   txn.Writer
	Queue    work.Queue
	Sender   Sender
	Clock    clock.Clock
	Box      *secret.Box
	Cursors  *page.Cursors
	Audit    audit.Recorder
	CheckURL egress.CheckFunc // returns why a URL cannot be subscribed
	// Allowed refuses addresses that nothing is delivered to any more; nil: all are.
	Allowed func(url string) error
	Quota   quota.Gate             // nil: only maxSubscriptions limits a tenant
	Events  *Registry              // nil: the built-in events
	Waits   func() []time.Duration // between the attempts of a delivery, now
	Observe func(Outcome)          // called for every attempt; nil: not called
}

// Service is safe for concurrent use.
type Service struct {
	Deps

	dispatchers dispatchers
	slots       slots
}

// New returns a Service.
func New(d Deps) *Service {
	if d.Observe == nil {
		d.Observe = func(Outcome) {}
	}
	if d.Events == nil {
		d.Events = NewRegistry()
	}
	return &Service{Deps: d, slots: make(slots, maxSlots)}
}
