package notification

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
)

// Kinds of work: what a notification leads to for each person, and each
// delivery to one place. The first's key is the notification's id.
const (
	FanKind     = "notification"
	DeliverKind = "notification_delivery"
)

// deliveryWaits are the waits between the attempts at a delivery, as with
// webhooks (interface.md section 6).
var deliveryWaits = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}

// Person is somebody who can be told.
type Person struct {
	UserID string
	Email  string // "": not known
}

// DeliveryStore is the port to how and where people want to be told. Every
// call takes the tenant.
type DeliveryStore interface {
	// Get reads a notification; nil where there is none.
	Get(ctx context.Context, tenant, id string) (*Notification, error)
	// ListPeople are those of a tenant who can be told outside of the app: all
	// active ones but viewers, who could not switch it off, and none of a tenant
	// that is suspended.
	ListPeople(ctx context.Context, tenant string) ([]Person, error)
	// HasTargetsTx says whether anybody of the tenant has preferences or a target.
	HasTargetsTx(tx txn.Tx, tenant string) (bool, error)

	// GetPrefs gives a person's preferences; nil where they set none.
	GetPrefs(ctx context.Context, tenant, user string) (*Prefs, error)
	ListPrefs(ctx context.Context, tenant string) (map[string]Prefs, error)
	PutPrefsTx(tx txn.Tx, tenant, user string, p Prefs, at time.Time) error

	// ListTargets gives those of a person, or of everybody where user is "".
	ListTargets(ctx context.Context, tenant, user string) ([]Target, error)
	GetTarget(ctx context.Context, tenant, id string) (*Target, error)
	// CreateTargetTx says how many the person has then.
	CreateTargetTx(tx txn.Tx, t Target) (int, error)
	DeleteTargetTx(tx txn.Tx, tenant, user, id string) (bool, error)
	// RecordDeliveryTx keeps the outcome of a delivery; failure "": it arrived.
	RecordDeliveryTx(tx txn.Tx, tenant, id string, at time.Time, failure string) error
}

// Post is a request to a webhook.
type Post struct {
	URL     string
	Secret  string // "": it is not signed
	Body    []byte
	EventID string // of the notification, the same with every attempt
	Type    string
}

// Poster posts; it signs as webhooks are signed. Errors: no answer came, or
// fault.Forbidden where the address is refused.
type Poster interface {
	Post(ctx context.Context, p Post) (status int, err error)
}

// delivery is the payload of a delivery's work.
type delivery struct {
	NotificationID string `json:"notification_id,omitzero"`
	TargetID       string `json:"target_id,omitzero"`
	UserID         string `json:"user_id,omitzero"`  // by mail to the person's own address, where there is no target
	Deferred       bool   `json:"deferred,omitzero"` // over quiet hours
	Failed         int    `json:"failed,omitzero"`   // attempts so far
	Test           string `json:"test,omitzero"`     // of a test, an id
}

// key makes a notification arrive once at each place.
func (d *delivery) key() string {
	if d.Test != "" {
		return "test/" + d.Test
	}
	if d.TargetID != "" {
		return d.NotificationID + "/" + d.TargetID
	}
	return d.NotificationID + "/account/" + d.UserID
}

// mails says whether mail can be sent.
func (s *Service) mails() bool { return s.Mail != nil && s.Mail.Configured() }

// spread leaves work where a notification may have to be told outside of the
// app. For the many that need not, that costs nothing.
func (s *Service) spread(tx txn.Tx, n *Notification) error {
	if s.Queue == nil {
		return nil
	}
	if !s.mails() || n.Priority != Critical {
		wanted, err := s.reach.wanted(tx, n.TenantID, s.Clock.Now(), s.Delivery)
		if err != nil || !wanted {
			return err
		}
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: FanKind, Key: n.ID, TenantID: n.TenantID, Due: s.Clock.Now()})
}

// Spread is the work.Handler of FanKind: it makes a delivery for each place
// where somebody wants to hear of a notification.
func (s *Service) Spread(ctx context.Context, held work.Lease) error {
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
		ways, at := p.ways(n, now)
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
			mailed = mailed || t.Kind == Email
			if t.Enabled && slices.Contains(ways, t.Kind) {
				add(delivery{TargetID: t.ID})
			}
		}
		// Who names no address is written to at that of the account.
		if !mailed && who.Email != "" && s.mails() && slices.Contains(ways, Email) {
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
	p, err := s.place(t)
	if err != nil {
		return err
	}
	if t.Kind == Email {
		return s.Writer.Write(ctx, func(tx txn.Tx) error {
			failure := ""
			if !s.mails() {
				failure = "This deployment sends no mail any more."
			} else if err := s.Mail.Send(tx, t.TenantID, s.letter(p.Address, n)); err != nil {
				return err
			}
			return s.settle(tx, held, t, failure)
		})
	}
	return s.post(ctx, held, &d, t, p, n)
}

// subject is what is delivered; nil where that is not to be told any more.
func (s *Service) subject(ctx context.Context, tenant string, d *delivery) (*Notification, error) {
	if d.Test != "" {
		return &Notification{
			ID: d.Test, TenantID: tenant, Type: SystemAlert, Title: "A test", Message: "Notifications arrive here.", Priority: Info, CreatedAt: s.Clock.Now(),
		}, nil
	}
	n, err := s.Delivery.Get(ctx, tenant, d.NotificationID)
	if err != nil || n == nil || d.Deferred && n.Read {
		return nil, err
	}
	return n, nil
}

// toAccount writes to the address of a person's account.
func (s *Service) toAccount(ctx context.Context, held work.Lease, d *delivery, n *Notification) error {
	people, err := s.Delivery.ListPeople(ctx, held.TenantID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(people, func(p Person) bool { return p.UserID == d.UserID && p.Email != "" })
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if i >= 0 && s.mails() {
			if err := s.Mail.Send(tx, held.TenantID, s.letter(people[i].Email, n)); err != nil {
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

// post tries a webhook, and leaves it for later where another try may do.
func (s *Service) post(ctx context.Context, held work.Lease, d *delivery, t *Target, p Place, n *Notification) error {
	body, err := s.render(p.Format, n)
	if err != nil {
		return err
	}
	status, err := s.Poster.Post(ctx, Post{URL: p.URL, Secret: p.Secret, Body: body, EventID: n.ID, Type: n.Type})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failure, again := outcome(status, err)
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if failure == "" || !again || d.Failed >= len(deliveryWaits) {
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

// outcome says what went wrong, if something did, and whether another attempt
// may do (interface.md section 6, Response handling).
func outcome(status int, err error) (failure string, again bool) {
	switch {
	case fault.Is(err, fault.Forbidden):
		return fault.From(err).Detail, false
	case err != nil:
		return "No answer came.", true
	case status >= 200 && status < 300:
		return "", false
	case status >= 500, status >= 300 && status < 400, status == 408, status == 425, status == 429:
		return fmt.Sprintf("The answer was %d.", status), true
	}
	return fmt.Sprintf("The answer was %d, which another attempt would not change.", status), false
}

// letter is a notification as mail.
func (s *Service) letter(to string, n *Notification) mail.Message {
	body := n.Message
	if link := s.link(n); link != "" {
		body += "\n\n" + link
	}
	return mail.Message{
		To: to, Subject: text.OneLine(n.Title),
		Text: body + "\n\n-- \nYou get this because of your notification preferences.\n",
	}
}

// reach knows for a moment which tenants have somebody who may want to be told
// outside of the app.
type reach struct {
	mu    sync.Mutex
	known map[string]reached
}

type reached struct {
	wanted bool
	until  time.Time
}

const (
	reachFor = time.Second
	maxReach = 10_000
)

func (r *reach) forget(tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, tenant)
}

func (r *reach) wanted(tx txn.Tx, tenant string, now time.Time, store DeliveryStore) (bool, error) {
	r.mu.Lock()
	found, ok := r.known[tenant]
	r.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.wanted, nil
	}
	wanted, err := store.HasTargetsTx(tx, tenant)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxReach {
		r.known = map[string]reached{}
	}
	r.known[tenant] = reached{wanted, now.Add(reachFor)}
	return wanted, nil
}
