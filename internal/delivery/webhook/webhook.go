// Package webhook tells other systems what happened: subscriptions, an outbox of
// events, and their signed delivery, each at least once (interface.md section
// 4, Webhook rules, and section 6; decisions.md D9).
//
// An event enters the outbox in the transaction that makes it true, with one
// delivery for each subscription that wants it and none where nobody does. What
// a receiver still has to get is one item of work however much it is, its lane:
// the node that holds it sends to that receiver and counts its failures, so
// that receivers never wait for each other and an attempt counts once
// (docs/adr/0026-one-work-item-per-subscription.md).
package webhook

import (
	"context"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/page"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// Status of a subscription (interface.md section 6, Response handling).
type Status string

// The statuses. Failing ones are delivered to, disabled ones are not.
const (
	Active   Status = "active"
	Failing  Status = "failing"
	Disabled Status = "disabled"
)

// Failures in a row after which a subscription is failing, and disabled
// (decisions.md D9).
const (
	failingAfter  = 3
	disabledAfter = 20
)

// maxHeld is how many subscriptions a tenant may have.
const maxHeld = 50

// Subscription is a receiver and what it wants to hear.
type Subscription struct {
	TenantID, ID string
	URL          string
	Events       []string
	Sealed       []byte // the secret
	Status       Status
	Failures     int64     // in a row
	LastFailure  time.Time // zero: there was none
	CreatedAt    time.Time
}

// context is what a subscription's secret is bound to.
func (s *Subscription) context() string { return "webhook/" + s.TenantID + "/" + s.ID }

// State of a delivery.
type State string

// The states: an attempt that is to be made, and the two that it ends in.
const (
	Pending   State = "pending"
	Succeeded State = "success"
	Failed    State = "failed"
)

// Delivery is one attempt to bring an event to a receiver: an entry of the
// delivery log.
type Delivery struct {
	ID        string
	WebhookID string
	EventID   string
	EventType string
	Attempt   int // from 1
	State     State
	Due       time.Time // when it is to be made, while it is pending
	Status    int       // of the answer; 0: none came
	Failure   string
	Latency   time.Duration
	NextRetry time.Time // of the attempt that follows it; zero: none does
	Dead      bool      // it failed, and no attempt follows
	CreatedAt time.Time
}

// Deps is what a Service is made of.
type Deps struct {
	Store    Store
	Writer   txn.Writer
	Queue    work.Queue
	Sender   Sender
	Clock    clock.Clock
	Box      *secret.Box
	Cursors  *page.Cursors
	Audit    audit.Recorder
	CheckURL func(ctx context.Context, url string) error // says why an address cannot be a receiver's
	Quota    quota.Gate                                  // nil: only the 50 count
	Waits    []time.Duration                             // between the attempts at a delivery
	Observe  func(Outcome)                               // told of every attempt; nil: nobody
}

// Service is the slice. It is safe for concurrent use.
type Service struct {
	Deps

	lanes lanes
	turns turns
}

// New makes a service.
func New(d Deps) *Service {
	if d.Observe == nil {
		d.Observe = func(Outcome) {}
	}
	return &Service{Deps: d, turns: make(turns, maxTurns)}
}
