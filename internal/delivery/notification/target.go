package notification

import (
	"context"
	"net/mail"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/work"
)

// maxTargets is how many targets a person has at most.
const maxTargets = 20

// The formats of POSTs to a webhook.
const (
	Generic = "generic"
	Slack   = "slack"
	Discord = "discord"
)

// Destination is the address of a target. It is stored sealed.
type Destination struct {
	Address string `json:"address,omitzero"`
	URL     string `json:"url,omitzero"`
	Secret  string `json:"signing_secret,omitzero"`
	Format  string `json:"format,omitzero"`
}

// Target is an email address or webhook that receives a person's notifications.
type Target struct {
	TenantID, UserID, ID string
	Label                string
	Enabled              bool
	Kind                 Channel // Email or Webhook
	Sealed               []byte  // a Destination
	CreatedAt            time.Time
	LastAt               time.Time // of the last outcome; zero: none
	LastError            string    // "": it was delivered
	ConfirmedAt          time.Time // zero: the address has not confirmed that it wants notifications
	ConfirmHash          []byte    // of the token in the confirmation letter; nil: there is none
	ConfirmUntil         time.Time // when that token expires
}

// confirmed reports whether the target may be notified. Webhooks need no confirmation:
// whoever answers there receives a signed request, not a letter.
func (t *Target) confirmed() bool { return t.Kind != Email || !t.ConfirmedAt.IsZero() }

func (t *Target) context() string { return "notification_target/" + t.TenantID + "/" + t.ID }

func (s *Service) destination(t *Target) (p Destination, err error) {
	plain, err := s.Box.Open(t.Sealed, t.context())
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(plain, &p)
}

// newTarget is the body of a target's creation.
type newTarget struct {
	_ struct{} `json:"-" name:"NotificationTargetCreate"`

	Label   string       `json:"label" maxLength:"100" doc:"Name of the target, as people see it."`
	Enabled bool         `json:"enabled" default:"true" doc:"false: nothing is sent to it."`
	Config  targetConfig `json:"config" required:"true" doc:"Where notifications are sent to."`
}

type targetConfig struct {
	_ struct{} `json:"-" name:"NotificationTargetConfigCreate"`

	Kind    string `json:"kind" required:"true" enum:"email,webhook,push,web_push" doc:"email or webhook. Push messages are not supported: 501."`
	Address string `json:"address,omitzero" format:"email" maxLength:"254" doc:"For email targets."`
	URL     string `json:"url,omitzero" doc:"For webhooks: an https URL."`
	Secret  string `json:"signing_secret,omitzero" maxLength:"200" doc:"Signs the requests to a webhook; at least 16 characters. Default for the format generic: a generated one."`
	Format  string `json:"format" enum:"generic,slack,discord" default:"generic" doc:"For webhooks: the format of the requests."`
}

// check returns what is invalid in a configuration. Errors: those of CheckURL that
// are not about the URL.
func (s *Service) check(ctx context.Context, tenant string, c *targetConfig) (invalid []fault.Field, err error) {
	add := func(name, message string) {
		invalid = append(invalid, fault.Field{Field: "config." + name, Message: message})
	}
	if c.Kind == Email {
		// Exactly one address, with nothing that a mail server could read as another.
		if a, err := mail.ParseAddress(c.Address); err != nil || a.Address != c.Address {
			add("address", "is required: an e-mail address such as ada@example.com")
		}
		return invalid, nil
	}
	if c.URL == "" {
		add("url", "is required")
	} else if err := s.CheckURL(ctx, tenant, c.URL); fault.Is(err, fault.Invalid) {
		add("url", fault.From(err).Detail)
	} else if err != nil {
		return nil, err
	}
	if c.Secret != "" && len(c.Secret) < 16 {
		add("signing_secret", "must have at least 16 characters")
	}
	return invalid, nil
}

// TargetView is a target as the API shows it.
type TargetView struct {
	_ struct{} `json:"-" name:"NotificationTarget"`

	ID        string     `json:"id" format:"uuid" required:"true"`
	Label     string     `json:"label" required:"true"`
	Enabled   bool       `json:"enabled" required:"true"`
	Confirmed bool       `json:"confirmed" required:"true" doc:"False for an email address that has not confirmed that it wants notifications: nothing is sent to it."`
	Config    configView `json:"config" required:"true"`
	CreatedAt time.Time  `json:"created_at" required:"true"`
	Last      *lastView  `json:"last_delivery" doc:"Outcome of the last notification to this target."`
	route.Repetition
}

// WithoutSecret implements route.ShownOnce.
func (v TargetView) WithoutSecret() any {
	if v.Config.Secret != "" && v.Config.Secret != secret.Redacted {
		v.Config.Secret, v.Repetition = secret.Redacted, route.Repeated
	}
	return v
}

type configView struct {
	_ struct{} `json:"-" name:"NotificationTargetConfig"`

	Kind    string `json:"kind" enum:"email,webhook" required:"true"`
	Address string `json:"address,omitzero"`
	URL     string `json:"url,omitzero" doc:"Scheme and host; the path may contain a secret."`
	Secret  string `json:"signing_secret,omitzero" doc:"Shown in full only when the target is created."`
	Format  string `json:"format,omitzero"`
}

type lastView struct {
	_ struct{} `json:"-" name:"NotificationDelivery"`

	At     time.Time `json:"at" required:"true"`
	Status string    `json:"status" enum:"delivered,failed" required:"true"`
	Error  string    `json:"error,omitzero"`
}

func (s *Service) view(t *Target) (TargetView, error) {
	p, err := s.destination(t)
	if err != nil {
		return TargetView{}, err
	}
	v := TargetView{
		ID: t.ID, Label: t.Label, Enabled: t.Enabled, Confirmed: t.confirmed(), CreatedAt: t.CreatedAt,
		Config: configView{Kind: t.Kind, Address: p.Address, Format: p.Format},
	}
	if u, err := url.Parse(p.URL); err == nil && p.URL != "" {
		v.Config.URL = u.Scheme + "://" + u.Host + "/" + secret.Redacted
	}
	if p.Secret != "" {
		v.Config.Secret = secret.Redacted
	}
	if !t.LastAt.IsZero() {
		v.Last = &lastView{At: t.LastAt, Status: "delivered", Error: t.LastError}
		if t.LastError != "" {
			v.Last.Status = "failed"
		}
	}
	return v, nil
}

type targetList struct {
	_ struct{} `json:"-" name:"NotificationTargetList"`

	Targets []TargetView `json:"targets" required:"true"`
}

func (s *Service) targets(ctx context.Context, who authz.Caller, _ *nothing) (targetList, error) {
	l := targetList{Targets: []TargetView{}}
	all, err := s.Delivery.ListTargets(ctx, who.TenantID, who.UserID)
	for i := range all {
		v, failed := s.view(&all[i])
		if failed != nil {
			return l, failed
		}
		l.Targets = append(l.Targets, v)
	}
	return l, err
}

type newTargetIn struct{ Body newTarget }

func (s *Service) createTarget(ctx context.Context, who authz.Caller, in *newTargetIn) (v TargetView, err error) {
	c := &in.Body.Config
	switch {
	case c.Kind != Email && c.Kind != Webhook:
		return v, fault.New(fault.Unsupported, "", "Push messages are not supported; use email or webhook.")
	case c.Kind == Email && !s.canMail():
		return v, fault.New(fault.Unsupported, "", "This deployment cannot send mail: no mail server is configured.")
	}
	invalid, err := s.check(ctx, who.TenantID, c)
	if err == nil && invalid != nil {
		err = fault.BadFields(invalid...)
	}
	if err != nil {
		return v, err
	}
	p := Destination{Address: c.Address}
	generated := ""
	if c.Kind == Webhook {
		p = Destination{URL: c.URL, Secret: c.Secret, Format: c.Format}
		if p.Secret == "" && p.Format == Generic {
			generated = secret.NewSigningSecret()
			p.Secret = generated
		}
	}
	t := Target{
		TenantID: who.TenantID, UserID: who.UserID, ID: ident.New(), Label: in.Body.Label, Enabled: in.Body.Enabled,
		Kind: c.Kind, CreatedAt: s.Clock.Now(),
	}
	plain, err := json.Marshal(p)
	if err != nil {
		return v, err
	}
	t.Sealed = s.Box.Seal(plain, t.context())
	own, company := false, s.mailing().company(ctx, who.TenantID)
	if t.Kind == Email {
		if own, err = s.mailing().ownAddress(ctx, who, p.Address); err != nil {
			return v, err
		}
	}
	return answer(ctx, s.Writer, func(tx txn.Tx) (TargetView, error) {
		tx.AfterCommit(func() { s.recipients.forget(who.TenantID) })
		if t.Kind == Email {
			if err := s.mailing().askTx(tx, &t, p.Address, company, own); err != nil {
				return v, err
			}
		}
		v, err := s.view(&t)
		if err != nil {
			return v, err
		}
		if generated != "" {
			v.Config.Secret = generated
		}
		n, err := s.Delivery.CreateTargetTx(tx, t)
		if err == nil && n > maxTargets {
			err = fault.New(fault.Invalid, "limit_reached",
				"You already have %d notification targets, which is the maximum; delete one first.", maxTargets)
		}
		if err == nil {
			err = s.recordAudit(tx, who, "created", t.ID)
		}
		return v, err
	})
}

type targetIn struct {
	TargetID string `path:"targetId"`
}

type targetDeleted struct {
	_ struct{} `json:"-" name:"NotificationTargetDeleted"`

	Deleted bool   `json:"deleted" required:"true"`
	ID      string `json:"id" required:"true"`
}

func (s *Service) deleteTarget(ctx context.Context, who authz.Caller, in *targetIn) (targetDeleted, error) {
	return answer(ctx, s.Writer, func(tx txn.Tx) (targetDeleted, error) {
		found, err := s.Delivery.DeleteTargetTx(tx, who.TenantID, who.UserID, in.TargetID)
		if err == nil && !found {
			err = fault.NewNotFound("notification target")
		}
		if err == nil {
			err = s.recordAudit(tx, who, "deleted", in.TargetID)
		}
		return targetDeleted{Deleted: true, ID: in.TargetID}, err
	})
}

func (s *Service) recordAudit(tx txn.Tx, who authz.Caller, action, id string) error {
	return audit.Write(s.Audit, tx, who, audit.Entry{Action: "notification_target." + action, TargetType: "notification_target", TargetID: id})
}

type targetTested struct {
	_ struct{} `json:"-" name:"NotificationTargetTest"`

	Queued bool   `json:"queued" required:"true"`
	ID     string `json:"id" required:"true"`
}

// testTarget sends a test notification, even if the target is disabled.
func (s *Service) testTarget(ctx context.Context, who authz.Caller, in *targetIn) (targetTested, error) {
	t, err := s.Delivery.GetTarget(ctx, who.TenantID, in.TargetID)
	if err != nil {
		return targetTested{}, err
	}
	if t.UserID != who.UserID {
		return targetTested{}, fault.NewNotFound("notification target")
	}
	if !t.confirmed() {
		return targetTested{}, fault.New(fault.Conflict, "",
			"This address is not confirmed yet: open the link in the letter that was sent to it.")
	}
	return answer(ctx, s.Writer, func(tx txn.Tx) (targetTested, error) {
		return targetTested{Queued: true, ID: t.ID}, s.enqueue(tx, t.TenantID, delivery{TargetID: t.ID, Test: ident.New()}, s.Clock.Now())
	})
}

// enqueue enqueues a delivery.
func (s *Service) enqueue(tx txn.Tx, tenant string, d delivery, due time.Time) error {
	payload, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: DeliverKind, Key: d.key(), TenantID: tenant, Due: due, Payload: payload})
}
