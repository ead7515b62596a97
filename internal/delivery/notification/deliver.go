package notification

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
)

// The kinds of work items. FanOutKind finds the recipients of a notification; its
// key is the notification's id. DeliverKind is a delivery to one destination.
const (
	FanOutKind  = "notification"
	DeliverKind = "notification_delivery"
)

// deliveryWaits are the waits between the attempts of a delivery, the same as for
// webhook subscriptions.
var deliveryWaits = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}

// Person is a person who can be notified.
type Person struct {
	UserID string
	Email  string // verified; "": unknown
}

// DeliveryStore is the port to preferences and targets. Every method takes the
// tenant.
type DeliveryStore interface {
	// Get reads a notification; nil if it does not exist.
	Get(ctx context.Context, tenant, id string) (*Notification, error)
	// ListPeople returns those who can be notified outside of the app: the active
	// people of a tenant except viewers, who cannot change their preferences; none
	// if the tenant is suspended.
	ListPeople(ctx context.Context, tenant string) ([]Person, error)
	// HasTargetsTx reports whether anyone in the tenant has preferences or a target.
	HasTargetsTx(tx txn.Tx, tenant string) (bool, error)

	// GetPrefs returns a person's preferences; nil if they have set none.
	GetPrefs(ctx context.Context, tenant, user string) (*Prefs, error)
	ListPrefs(ctx context.Context, tenant string) (map[string]Prefs, error)
	// LockPrefsTx is GetPrefs inside a transaction, and locks them.
	LockPrefsTx(tx txn.Tx, tenant, user string) (*Prefs, error)
	PutPrefsTx(tx txn.Tx, tenant, user string, p Prefs, at time.Time) error

	// ListTargets returns the targets of a person, or of everyone if user is "".
	ListTargets(ctx context.Context, tenant, user string) ([]Target, error)
	GetTarget(ctx context.Context, tenant, id string) (*Target, error)
	// CreateTargetTx returns how many targets the person then has.
	CreateTargetTx(tx txn.Tx, t Target) (int, error)
	DeleteTargetTx(tx txn.Tx, tenant, user, id string) (bool, error)
	// UpdateConfirmedTx confirms an email target, and reports whether it has this hash of
	// a token that has not expired.
	UpdateConfirmedTx(tx txn.Tx, tenant, id string, hash []byte, now time.Time) (bool, error)
	// RecordDeliveryTx stores the outcome of a delivery; failure is "" for a success.
	RecordDeliveryTx(tx txn.Tx, tenant, id string, at time.Time, failure string) error

	// CountMailTx counts an email and returns how many there were within the time. The
	// tenant is "" for a count over all tenants.
	CountMailTx(tx txn.Tx, tenant, subject string, now time.Time, per time.Duration) (int, error)
	// DeleteOldCountsTx deletes some counts that are of no use any more.
	DeleteOldCountsTx(tx txn.Tx, now time.Time) error
	CreateOptOutTx(tx txn.Tx, tenant string, address AddressHash, at time.Time) error
	DeleteOptOutTx(tx txn.Tx, tenant string, address AddressHash) error
	HasOptOutTx(tx txn.Tx, tenant string, address AddressHash) (bool, error)
}

// Post is a request to a webhook.
type Post struct {
	TenantID string
	URL      string
	Secret   string // "": the request is not signed
	Body     []byte
	EventID  string // of the notification, the same for all attempts
	Type     string
}

// Poster sends posts, signed like the deliveries of webhook subscriptions. It
// returns an error if no response came, fault.Forbidden if the address is not
// allowed.
type Poster interface {
	Post(ctx context.Context, p Post) (status int, err error)
}

// delivery is the payload of a work item of DeliverKind.
type delivery struct {
	NotificationID string `json:"notification_id,omitzero"`
	TargetID       string `json:"target_id,omitzero"`
	UserID         string `json:"user_id,omitzero"`  // by mail to the address of the person's account, if there is no target
	Deferred       bool   `json:"deferred,omitzero"` // sent after quiet hours
	Failed         int    `json:"failed,omitzero"`   // attempts so far
	Test           string `json:"test,omitzero"`     // the id of a test notification
}

// key returns the item's key, so that a notification is sent once to a destination.
func (d *delivery) key() string {
	if d.Test != "" {
		return "test/" + d.Test
	}
	if d.TargetID != "" {
		return d.NotificationID + "/" + d.TargetID
	}
	return d.NotificationID + "/account/" + d.UserID
}

// canMail reports whether mail can be sent.
func (s *Service) canMail() bool { return s.Mail != nil && s.Mail.Configured() }

// enqueueFanOut enqueues the fan-out of a notification that may have to be sent
// outside of the app. For most notifications it does nothing.
func (s *Service) enqueueFanOut(tx txn.Tx, n *Notification) error {
	if s.Queue == nil {
		return nil
	}
	if !s.canMail() || n.Priority != Critical {
		wanted, err := s.recipients.exist(tx, n.TenantID, s.Clock.Now(), s.Delivery)
		if err != nil || !wanted {
			return err
		}
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: FanOutKind, Key: n.ID, TenantID: n.TenantID, Due: s.Clock.Now()})
}

// FanOut is the work.Handler of FanOutKind: it enqueues a delivery for each
// destination of a notification.
func (s *Service) FanOut(ctx context.Context, held work.Lease) error {
	n, err := s.Delivery.Get(ctx, held.TenantID, held.Key)
	if err != nil {
		return err
	}
	var list []delivery
	var due []time.Time
	if n != nil {
		if list, due, err = s.deliveries(ctx, n); err != nil {
			return err
		}
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		for i, d := range list {
			if err := s.enqueue(tx, n.TenantID, d, due[i]); err != nil {
				return err
			}
		}
		return s.Queue.FinishTx(tx, held)
	})
}

// deliveries returns the deliveries of a notification, and when they are due.
func (s *Service) deliveries(ctx context.Context, n *Notification) (list []delivery, due []time.Time, err error) {
	people, err := s.Delivery.ListPeople(ctx, n.TenantID)
	if err != nil {
		return nil, nil, err
	}
	prefs, err := s.Delivery.ListPrefs(ctx, n.TenantID)
	if err != nil {
		return nil, nil, err
	}
	targets, err := s.Delivery.ListTargets(ctx, n.TenantID, "")
	if err != nil {
		return nil, nil, err
	}
	now := s.Clock.Now()
	for _, who := range people {
		if n.UserID != nil && *n.UserID != who.UserID {
			continue
		}
		p, set := prefs[who.UserID]
		if !set {
			p = DefaultPrefs()
		}
		wanted, at := p.channelsFor(n, now)
		add := func(d delivery) {
			d.NotificationID, d.Deferred = n.ID, at.After(now)
			list, due = append(list, d), append(due, at)
		}
		mailed := false
		for i := range targets {
			t := &targets[i]
			if t.UserID != who.UserID {
				continue
			}
			mailed = mailed || t.Kind == Email && t.confirmed()
			if t.Enabled && t.confirmed() && slices.Contains(wanted, t.Kind) {
				add(delivery{TargetID: t.ID})
			}
		}
		// Without an email target, mail goes to the address of the account.
		if !mailed && who.Email != "" && s.canMail() && slices.Contains(wanted, Email) {
			add(delivery{UserID: who.UserID})
		}
	}
	return list, due, nil
}

// Deliver is the work.Handler of DeliverKind: one attempt.
func (s *Service) Deliver(ctx context.Context, held work.Lease) error {
	var d delivery
	if err := json.Unmarshal(held.Payload, &d); err != nil {
		return err
	}
	n, err := s.subject(ctx, held.TenantID, &d)
	if err != nil {
		return err
	}
	drop := func(tx txn.Tx) error { return s.Queue.FinishTx(tx, held) }
	if n == nil {
		return s.Writer.Write(ctx, drop)
	}
	if d.TargetID == "" {
		return s.toAccount(ctx, held, &d, n)
	}
	t, err := s.Delivery.GetTarget(ctx, held.TenantID, d.TargetID)
	if fault.Is(err, fault.NotFound) || err == nil && !t.Enabled && d.Test == "" {
		return s.Writer.Write(ctx, drop)
	}
	if err != nil {
		return err
	}
	p, err := s.destination(t)
	if err != nil {
		return err
	}
	if t.Kind == Email {
		letter := s.mailing().mailOf(ctx, p.Address, n)
		return s.Writer.Write(ctx, func(tx txn.Tx) error {
			failure := "This address is not confirmed yet."
			if t.confirmed() {
				var err error
				if failure, err = s.mailing().sendTx(tx, t.TenantID, letter); err != nil {
					return err
				}
			}
			return s.settle(tx, held, t, failure)
		})
	}
	return s.post(ctx, held, &d, t, p, n)
}

// subject returns the notification to deliver; nil if it must not be sent any more.
func (s *Service) subject(ctx context.Context, tenant string, d *delivery) (*Notification, error) {
	if d.Test != "" {
		return &Notification{
			ID: d.Test, TenantID: tenant, Type: SystemAlert, Title: "Test notification", Message: "This target receives notifications.",
			Priority: Info, CreatedAt: s.Clock.Now(),
		}, nil
	}
	n, err := s.Delivery.Get(ctx, tenant, d.NotificationID)
	if err != nil || n == nil || d.Deferred && n.Read {
		return nil, err
	}
	return n, nil
}

// toAccount sends a notification to the mail address of a person's account.
func (s *Service) toAccount(ctx context.Context, held work.Lease, d *delivery, n *Notification) error {
	people, err := s.Delivery.ListPeople(ctx, held.TenantID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(people, func(p Person) bool { return p.UserID == d.UserID && p.Email != "" })
	var letter mail.Message
	if i >= 0 {
		letter = s.mailing().mailOf(ctx, people[i].Email, n)
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if i >= 0 {
			if _, err := s.mailing().sendTx(tx, held.TenantID, letter); err != nil {
				return err
			}
		}
		return s.Queue.FinishTx(tx, held)
	})
}

// settle ends a delivery with its outcome.
func (s *Service) settle(tx txn.Tx, held work.Lease, t *Target, failure string) error {
	if err := s.Delivery.RecordDeliveryTx(tx, t.TenantID, t.ID, s.Clock.Now(), failure); err != nil {
		return err
	}
	return s.Queue.FinishTx(tx, held)
}

// post makes an attempt to deliver to a webhook, and schedules another if that may
// succeed.
func (s *Service) post(ctx context.Context, held work.Lease, d *delivery, t *Target, p Destination, n *Notification) error {
	body, err := s.render(p.Format, n)
	if err != nil {
		return err
	}
	status, err := s.Poster.Post(ctx, Post{TenantID: held.TenantID, URL: p.URL, Secret: p.Secret, Body: body, EventID: n.ID, Type: n.Type})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failure, retry := outcome(status, err)
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if failure == "" || !retry || d.Failed >= len(deliveryWaits) {
			return s.settle(tx, held, t, failure)
		}
		next := *d
		next.Failed++
		payload, err := json.Marshal(next)
		if err != nil {
			return err
		}
		if err := s.Delivery.RecordDeliveryTx(tx, t.TenantID, t.ID, s.Clock.Now(), failure); err != nil {
			return err
		}
		return s.Queue.RescheduleTx(tx, held, s.Clock.Now().Add(deliveryWaits[d.Failed]), payload)
	})
}

// outcome returns what failed, or "", and whether another attempt may succeed.
func outcome(status int, err error) (failure string, retry bool) {
	switch {
	case fault.Is(err, fault.Forbidden):
		return fault.From(err).Detail, false
	case err != nil:
		return "No response came.", true
	case status >= 200 && status < 300:
		return "", false
	case status >= 500, status >= 300 && status < 400, status == 408, status == 425, status == 429:
		return fmt.Sprintf("The endpoint responded with status %d.", status), true
	}
	return fmt.Sprintf("The endpoint responded with status %d, which is not retried.", status), false
}

// recipientCache remembers for recipientTTL which tenants have someone with
// preferences or targets.
type recipientCache struct {
	mu    sync.Mutex
	known map[string]cachedRecipients
}

type cachedRecipients struct {
	exist bool
	until time.Time
}

const (
	recipientTTL     = time.Second
	maxCachedTenants = 10_000
)

func (r *recipientCache) forget(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, tenant)
}

func (r *recipientCache) exist(tx txn.Tx, tenant string, now time.Time, store DeliveryStore) (bool, error) {
	r.mu.Lock()
	found, ok := r.known[tenant]
	r.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.exist, nil
	}
	exist, err := store.HasTargetsTx(tx, tenant)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxCachedTenants {
		r.known = map[string]cachedRecipients{}
	}
	r.known[tenant] = cachedRecipients{exist, now.Add(recipientTTL)}
	return exist, nil
}
