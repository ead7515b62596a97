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
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/work"
)

// maxTargets is how many targets a person may have.
const maxTargets = 20

// Formats of what is posted to a webhook.
const (
	Generic = "generic"
	Slack   = "slack"
	Discord = "discord"
)

// Place is where a target leads. It is stored sealed.
type Place struct {
	Address string `json:"address,omitzero"`
	URL     string `json:"url,omitzero"`
	Secret  string `json:"signing_secret,omitzero"`
	Format  string `json:"format,omitzero"`
}

// Target is a place where a person wants to be told.
type Target struct {
	TenantID, UserID, ID string
	Label                string
	Enabled              bool
	Kind                 Channel // Email or Webhook
	Sealed               []byte  // a Place
	CreatedAt            time.Time
	LastAt               time.Time // of the last outcome; zero: none
	LastError            string    // "": it was delivered
}

func (t *Target) context() string { return "notification_target/" + t.TenantID + "/" + t.ID }

func (s *Service) place(t *Target) (p Place, err error) {
	plain, err := s.Box.Open(t.Sealed, t.context())
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(plain, &p)
}

// newTarget is the body that makes a target.
type newTarget struct {
	_ struct{} `json:"-" name:"NotificationTargetCreate"`

	Label   string       `json:"label" maxLength:"100"`
	Enabled bool         `json:"enabled" default:"true"`
	Config  targetConfig `json:"config" required:"true"`
}

type targetConfig struct {
	_ struct{} `json:"-" name:"NotificationTargetConfigCreate"`

	Kind    string `json:"kind" required:"true" enum:"email,webhook,push,web_push" doc:"email or webhook. This version sends no push messages: 501."`
	Address string `json:"address,omitzero" format:"email" maxLength:"254" doc:"Of an email target."`
	URL     string `json:"url,omitzero" doc:"Of a webhook: an https address."`
	Secret  string `json:"signing_secret,omitzero" maxLength:"200" doc:"What requests to a webhook are signed with, 16 characters or more. One is made for the format generic where there is none."`
	Format  string `json:"format" enum:"generic,slack,discord" default:"generic" doc:"Of a webhook: what is posted."`
}

// check lists what is wrong with a configuration of a kind that is delivered.
func (s *Service) check(c *targetConfig) (wrong []fault.Field) {
	add := func(name, message string) {
		wrong = append(wrong, fault.Field{Field: "config." + name, Message: message})
	}
	if c.Kind == Email {
		// One address, and nothing that a mail server could read as more.
		if a, err := mail.ParseAddress(c.Address); err != nil || a.Address != c.Address {
			add("address", "is required: an e-mail address such as ada@example.com")
		}
		return wrong
	}
	if c.URL == "" {
		add("url", "is required")
	} else if err := s.CheckURL(c.URL); err != nil {
		add("url", fault.From(err).Detail)
	}
	if c.Secret != "" && len(c.Secret) < 16 {
		add("signing_secret", "must have at least 16 characters")
	}
	return wrong
}

// TargetView is a target as its owner sees it.
type TargetView struct {
	_ struct{} `json:"-" name:"NotificationTarget"`

	ID        string     `json:"id" format:"uuid" required:"true"`
	Label     string     `json:"label" required:"true"`
	Enabled   bool       `json:"enabled" required:"true"`
	Config    configView `json:"config" required:"true"`
	CreatedAt time.Time  `json:"created_at" required:"true"`
	Last      *lastView  `json:"last_delivery" doc:"What became of the last notification that was sent there."`
}

type configView struct {
	_ struct{} `json:"-" name:"NotificationTargetConfig"`

	Kind    string `json:"kind" enum:"email,webhook" required:"true"`
	Address string `json:"address,omitzero"`
	URL     string `json:"url,omitzero" doc:"Its host; what follows may be a secret."`
	Secret  string `json:"signing_secret,omitzero" doc:"Shown when it is made, and never again."`
	Format  string `json:"format,omitzero"`
}

type lastView struct {
	_ struct{} `json:"-" name:"NotificationDelivery"`

	At     time.Time `json:"at" required:"true"`
	Status string    `json:"status" enum:"delivered,failed" required:"true"`
	Error  string    `json:"error,omitzero"`
}

func (s *Service) view(t *Target) (TargetView, error) {
	p, err := s.place(t)
	if err != nil {
		return TargetView{}, err
	}
	v := TargetView{
		ID: t.ID, Label: t.Label, Enabled: t.Enabled, CreatedAt: t.CreatedAt,
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

func (s *Service) addTarget(ctx context.Context, who authz.Caller, in *newTargetIn) (v TargetView, err error) {
	c := &in.Body.Config
	switch {
	case c.Kind != Email && c.Kind != Webhook:
		return v, fault.New(fault.Unsupported, "", "This deployment tells people by email and by webhook; it sends no push messages.")
	case c.Kind == Email && !s.mails():
		return v, fault.New(fault.Unsupported, "", "This deployment sends no mail: its operator has configured no mail server.")
	}
	if wrong := s.check(c); wrong != nil {
		return v, fault.BadFields(wrong...)
	}
	p := Place{Address: c.Address}
	made := ""
	if c.Kind == Webhook {
		p = Place{URL: c.URL, Secret: c.Secret, Format: c.Format}
		if p.Secret == "" && p.Format == Generic {
			made = secret.NewSigningSecret()
			p.Secret = made
		}
	}
	t := Target{
		TenantID: who.TenantID, UserID: who.UserID, ID: ident.New(), Label: in.Body.Label, Enabled: in.Body.Enabled, Kind: c.Kind, CreatedAt: s.Clock.Now(),
	}
	plain, err := json.Marshal(p)
	if err != nil {
		return v, err
	}
	t.Sealed = s.Box.Seal(plain, t.context())
	if v, err = s.view(&t); err != nil {
		return v, err
	}
	if made != "" {
		v.Config.Secret = made
	}
	return answer(ctx, s.Writer, func(tx txn.Tx) (TargetView, error) {
		tx.AfterCommit(func() { s.reach.forget(who.TenantID) })
		n, err := s.Delivery.CreateTargetTx(tx, t)
		if err == nil && n > maxTargets {
			err = fault.New(fault.Invalid, "limit_reached", "You have %d targets, and there may be no more; delete one first.", maxTargets)
		}
		if err == nil {
			err = s.note(tx, who, "created", t.ID)
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

func (s *Service) removeTarget(ctx context.Context, who authz.Caller, in *targetIn) (targetDeleted, error) {
	return answer(ctx, s.Writer, func(tx txn.Tx) (targetDeleted, error) {
		found, err := s.Delivery.DeleteTargetTx(tx, who.TenantID, who.UserID, in.TargetID)
		if err == nil && !found {
			err = fault.NoSuch("notification target")
		}
		if err == nil {
			err = s.note(tx, who, "deleted", in.TargetID)
		}
		return targetDeleted{Deleted: true, ID: in.TargetID}, err
	})
}

func (s *Service) note(tx txn.Tx, who authz.Caller, action, id string) error {
	return audit.Tell(s.Audit, tx, who, audit.Entry{Action: "notification_target." + action, TargetType: "notification_target", TargetID: id})
}

type targetTested struct {
	_ struct{} `json:"-" name:"NotificationTargetTest"`

	Queued bool   `json:"queued" required:"true"`
	ID     string `json:"id" required:"true"`
}

// testTarget sends something there, though the target is switched off.
func (s *Service) testTarget(ctx context.Context, who authz.Caller, in *targetIn) (targetTested, error) {
	t, err := s.Delivery.GetTarget(ctx, who.TenantID, in.TargetID)
	if err != nil {
		return targetTested{}, err
	}
	if t.UserID != who.UserID {
		return targetTested{}, fault.NoSuch("notification target")
	}
	return answer(ctx, s.Writer, func(tx txn.Tx) (targetTested, error) {
		return targetTested{Queued: true, ID: t.ID}, s.enqueue(tx, t.TenantID, delivery{TargetID: t.ID, Test: ident.New()}, s.Clock.Now())
	})
}

// enqueue leaves a delivery as work.
func (s *Service) enqueue(tx txn.Tx, tenant string, d delivery, due time.Time) error {
	payload, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: DeliverKind, Key: d.key(), TenantID: tenant, Due: due, Payload: payload})
}
