package notification

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
)

const (
	// kept is how many notifications a company keeps; the oldest go first.
	kept = 10_000
	// trimmed is how often those that are too many are looked for.
	trimmed = 100
)

// Deps is what a Service is made of.
type Deps struct {
	Store  Store
	Writer txn.Writer
	Clock  clock.Clock
	Hub    *event.Hub
	Audit  audit.Recorder // told where people have themselves be told; nil: nobody

	// What follows is for telling people outside of the app; without a Queue
	// nobody is.
	Delivery DeliveryStore
	Queue    work.Queue
	Mail     mail.Outbox // nil: no mail is sent
	Poster   Poster
	Box      *secret.Box
	CheckURL func(url string) error // says why an address cannot be a webhook's
	Public   func() string          // address under which people reach the service
}

// Service is the slice. It is safe for concurrent use.
type Service struct {
	Deps

	reach reach
}

// New makes a service.
func New(d Deps) *Service { return &Service{Deps: d} }

// Notify tells of something in the transaction that makes it true. TenantID,
// Type and Title are the caller's to give; the id and the time are set here.
// One with the DedupKey of another of the tenant is left out, so that
// what is told twice is heard once.
func (s *Service) Notify(tx txn.Tx, n Notification) error {
	if err := n.ready(ident.New(), s.Clock.Now()); err != nil {
		return err
	}
	seq, err := s.Store.CreateTx(tx, &n)
	if err != nil || seq == 0 {
		return err
	}
	if seq%trimmed == 0 && seq > kept {
		if err := s.Store.DeleteOldestTx(tx, n.TenantID, seq-kept); err != nil {
			return err
		}
	}
	if err := s.spread(tx, &n); err != nil {
		return err
	}
	data, err := json.Marshal(&n)
	if err != nil {
		return err
	}
	live := event.Event{Seq: seq, Name: liveName(n.UserID), At: n.CreatedAt, Data: data}
	tenant := n.TenantID
	tx.AfterCommit(func() {
		s.Hub.Publish(event.Batch{Stream: stream(tenant), Prev: seq - 1, Events: []event.Event{live}})
	})
	return nil
}

// liveName is what a notification is called on the hub: it says for whom it
// is, so that nobody else looks at it.
func liveName(user *string) string {
	if user == nil || *user == "" {
		return frameName
	}
	return frameName + " " + *user
}

// stream is what a company's notifications are called on the hub.
func stream(tenant string) string { return "notifications." + tenant }

// answer runs a change that gives the answer of an operation.
func answer[T any](ctx context.Context, w txn.Writer, do func(txn.Tx) (T, error)) (out T, err error) {
	err = w.Write(ctx, func(tx txn.Tx) (err error) {
		if out, err = do(tx); err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	return out, err
}
