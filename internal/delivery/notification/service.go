package notification

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
)

const (
	// maxKept is how many notifications a tenant keeps; the oldest are deleted.
	maxKept = 10_000
	// trimInterval is after how many notifications the oldest are deleted.
	trimInterval = 100
)

// Deps are the dependencies of a Service.
type Deps struct {
	Store  Store
	Writer txn.Writer
	Clock  clock.Clock
	Hub    *event.Hub
	Audit  audit.Recorder // records changes of targets; nil: they are not recorded
	// OnChange is called in the transaction that creates, reads or deletes notifications;
	// nil: not called.
	OnChange func(tx txn.Tx, c Change)

	// The fields below are for delivery outside of the app. Without a Queue there
	// is none.
	Delivery DeliveryStore
	Queue    work.Queue
	Mail     mail.Outbox // nil: no mail is sent
	Poster   Poster
	Box      *secret.Box
	CheckURL egress.CheckFunc // returns why a URL cannot be a webhook
	Public   func() string    // the address under which people reach the server
	// Company returns the name of a tenant, "" if there is none.
	Company func(ctx context.Context, tenant string) string
}

// Change is a write to notifications.
type Change struct {
	TenantID string
	ID       string // "": several of one person, or none
	UserID   string // whose they are; "": everybody's
	Op       string // created | updated | deleted
	Row      []byte // the notification as JSON, where it was created
}

// changed reports a write to OnChange.
func (s *Service) changed(tx txn.Tx, c Change) {
	if s.OnChange != nil {
		s.OnChange(tx, c)
	}
}

// Service is safe for concurrent use.
type Service struct {
	Deps

	recipients recipientCache
}

// New returns a Service.
func New(d Deps) *Service { return &Service{Deps: d} }

// Notify stores a notification and sends it once tx has committed. The caller sets
// TenantID, Type and Title; Notify sets the id and the time. If the tenant has a
// notification with the same DedupKey, Notify does nothing.
func (s *Service) Notify(tx txn.Tx, n Notification) error {
	if err := n.prepare(ident.New(), s.Clock.Now()); err != nil {
		return err
	}
	seq, err := s.Store.CreateTx(tx, &n)
	if err != nil || seq == 0 {
		return err
	}
	if seq%trimInterval == 0 && seq > maxKept {
		if err := s.Store.DeleteOldestTx(tx, n.TenantID, seq-maxKept); err != nil {
			return err
		}
	}
	if err := s.enqueueFanOut(tx, &n); err != nil {
		return err
	}
	data, err := json.Marshal(&n)
	if err != nil {
		return err
	}
	live := event.Event{Seq: seq, Name: liveName(n.UserID), At: n.CreatedAt, Data: data}
	s.changed(tx, Change{n.TenantID, n.ID, ptr.Value(n.UserID), "created", data})
	tenant := n.TenantID
	tx.AfterCommit(func() {
		s.Hub.Publish(event.Batch{Stream: streamName(tenant), Prev: seq - 1, Events: []event.Event{live}})
	})
	return nil
}

// liveName returns the name of a notification on the hub. It contains the
// recipient, so that the streams of others skip it.
func liveName(user *string) string {
	if user == nil || *user == "" {
		return frameName
	}
	return frameName + " " + *user
}

// streamName returns the name of a tenant's stream on the hub.
func streamName(tenant string) string { return "notifications." + tenant }

// answer runs a change and stores its result as the answer of the operation.
func answer[T any](ctx context.Context, w txn.Writer, do func(txn.Tx) (T, error)) (out T, err error) {
	err = w.Write(ctx, func(tx txn.Tx) (err error) {
		if out, err = do(tx); err != nil {
			return err
		}
		return txn.Answer(tx, out)
	})
	return out, err
}
