package billing

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

const (
	// tolerance is how old a signature may be, or how far ahead of this clock.
	tolerance = 5 * time.Minute
	// remembered is how long an event's id is known. Stripe repeats events for three days.
	remembered = 10 * 24 * time.Hour
	// maxEvent bounds the body of an event.
	maxEvent = 1 << 20
)

// verify reports whether a body was signed with a secret at about a time: the header is
// t=<seconds>,v1=<hex HMAC-SHA256 of "<seconds>.<body>">, with a v1 for each secret while
// one is replaced.
func verify(secret, header string, body []byte, now time.Time) bool {
	var at string
	var signatures []string
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case name == "t" && at == "":
			at = value
		case name == "v1" && len(signatures) < 8:
			signatures = append(signatures, value)
		}
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || secret == "" || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	valid := false
	for _, s := range signatures {
		got, err := hex.DecodeString(s)
		valid = err == nil && hmac.Equal(got, want) || valid
	}
	return valid
}

// event is an event of Stripe, as far as it is read.
type event struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Created int64  `json:"created"`
	Data    struct {
		Object object `json:"object"`
	} `json:"data"`
}

// object is a subscription, an invoice or a checkout session.
type object struct {
	ID            string            `json:"id"`
	Mode          string            `json:"mode"`           // of a checkout session
	PaymentStatus string            `json:"payment_status"` // of a checkout session
	Status        string            `json:"status"`
	Customer      reference         `json:"customer"`
	Subscription  reference         `json:"subscription"`
	Metadata      map[string]string `json:"metadata"`
	TrialEnd      *int64            `json:"trial_end"`
	AmountDue     int64             `json:"amount_due"`
	Currency      string            `json:"currency"`
	InvoiceURL    string            `json:"hosted_invoice_url"`
	Items         struct {
		Data []struct {
			Price struct {
				ID string `json:"id"`
			} `json:"price"`
		} `json:"data"`
	} `json:"items"`
	// Of invoices: since 2025 in parent, before beside it.
	Details subscriptionDetails `json:"subscription_details"`
	Parent  struct {
		Details subscriptionDetails `json:"subscription_details"`
	} `json:"parent"`
}

type subscriptionDetails struct {
	Subscription reference         `json:"subscription"`
	Metadata     map[string]string `json:"metadata"`
}

// reference is the id of an object, which may be sent as a whole.
type reference string

// UnmarshalJSON implements json.Unmarshaler.
func (r *reference) UnmarshalJSON(data []byte) error {
	*r = ""
	switch jsontext.Value(data).Kind() {
	case '"':
		return json.Unmarshal(data, (*string)(r))
	case '{':
		var whole struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(data, &whole)
		*r = reference(whole.ID)
		return err
	}
	return nil
}

// metadata returns a member of the metadata of an object, or of its subscription.
func (o *object) metadata(name string) string {
	for _, m := range []map[string]string{o.Metadata, o.Parent.Details.Metadata, o.Details.Metadata} {
		if m[name] != "" {
			return m[name]
		}
	}
	return ""
}

// subscription returns the id of the subscription that an event is about.
func (e *event) subscription() string {
	o := &e.Data.Object
	if strings.HasPrefix(e.Type, "customer.subscription.") {
		return o.ID
	}
	for _, r := range []reference{o.Subscription, o.Parent.Details.Subscription, o.Details.Subscription} {
		if r != "" {
			return string(r)
		}
	}
	return ""
}

var eventID = regexp.MustCompile(`^[A-Za-z0-9_]{1,255}$`)

type (
	webhookIn struct {
		Signature string `header:"Stripe-Signature" doc:"t=<seconds>,v1=<hex HMAC-SHA256 of the seconds, a dot and the body>, with the secret of the endpoint."`
		Body      route.Message
	}
	// handledEvent answers an event.
	handledEvent struct {
		_ struct{} `json:"-" name:"StripeEventReceived"`

		Received  bool   `json:"received" required:"true" doc:"Always true."`
		Handled   bool   `json:"handled" required:"true" doc:"Whether it is about a company and of a type that is read."`
		Action    string `json:"action,omitzero" enum:"subscribed,updated,cancelled,paid,payment_failed,invoiced,ignored" doc:"What it changed; ignored: a newer event was applied before."`
		Duplicate bool   `json:"duplicate,omitzero" doc:"It was applied before."`
	}
)

var (
	errSignature = fault.New(fault.Malformed, "INVALID_REQUEST", "The signature of the event is missing, wrong or older than five minutes.")
	errEvent     = fault.New(fault.Malformed, "INVALID_REQUEST", "This is no event of Stripe: JSON with id, type, created and data.object.")
)

// receive applies an event of Stripe.
func (s *Service) receive(ctx context.Context, _ authz.Caller, in *webhookIn) (*handledEvent, error) {
	set := s.Settings.Get()
	if !set.Enabled || set.WebhookSecret.Reveal() == "" {
		return nil, errNotConfigured
	}
	now := s.Clock.Now()
	if !verify(set.WebhookSecret.Reveal(), in.Signature, in.Body.Data, now) {
		return nil, errSignature
	}
	var e event
	err := json.Unmarshal(in.Body.Data, &e, jsontext.AllowDuplicateNames(true))
	if err != nil || !eventID.MatchString(e.ID) || e.Type == "" || e.Created <= 0 {
		return nil, errEvent
	}
	out := &handledEvent{Received: true}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		*out = handledEvent{Received: true}
		fresh, err := s.Store.ClaimEventTx(tx, e.ID, now, now.Add(-remembered))
		if err != nil {
			return err
		}
		if !fresh {
			out.Duplicate = true
			return nil
		}
		out.Action, err = s.applyTx(tx, &e, set)
		out.Handled = out.Action != ""
		return err
	})
	return out, err
}

// tenantTx returns whose event it is: metadata.tenant_id says it, else the customer.
func (s *Service) tenantTx(tx txn.Tx, e *event) (string, error) {
	if id := e.Data.Object.metadata("tenant_id"); ident.Valid(id) {
		return id, nil
	}
	if c := string(e.Data.Object.Customer); c != "" {
		return s.Store.GetTenantTx(tx, c)
	}
	return "", nil
}

// applyTx applies an event, and returns what it changed; "" if it is about no company here.
func (s *Service) applyTx(tx txn.Tx, e *event, set *Settings) (string, error) {
	if !readTypes[e.Type] {
		return "", nil
	}
	tenant, err := s.tenantTx(tx, e)
	if err != nil || tenant == "" {
		return "", err
	}
	a, found, err := s.Store.LockTx(tx, tenant)
	if err != nil || !found {
		return "", err
	}
	before := a
	action := a.apply(e, set)
	if err := s.report(tx, e, &a, action); err != nil {
		return "", err
	}
	if a == before {
		return action, nil
	}
	plan := ""
	switch {
	case a.Status == Cancelled && before.Status != Cancelled:
		plan = s.Plans.Default()
	case a.Plan != before.Plan && s.Plans.Known(a.Plan):
		plan = a.Plan
	}
	if err := s.Store.PutTx(tx, &a, plan); err != nil {
		return "", err
	}
	tx.AfterCommit(func() { s.Changed(tenant) })
	details, err := json.Marshal(struct {
		Event  string `json:"event"`
		Type   string `json:"type"`
		Status Status `json:"status"`
		Plan   string `json:"plan,omitzero"`
	}{e.ID, e.Type, a.Status, plan})
	if err != nil {
		return "", err
	}
	return action, audit.Write(s.Audit, tx, authz.Caller{TenantID: tenant}, audit.Entry{
		Action: "billing." + action, TargetType: "tenant", TargetID: tenant, Details: details,
	})
}

// report reports invoices, and payments that failed.
func (s *Service) report(tx txn.Tx, e *event, a *Account, action string) error {
	o := &e.Data.Object
	f := Failed{
		TenantID: a.TenantID, EventID: e.ID, At: time.Unix(e.Created, 0).UTC(),
		AmountDue: o.AmountDue, Currency: o.Currency, InvoiceURL: o.InvoiceURL,
	}
	switch {
	case action == actionFailed && s.OnFailed != nil:
		return s.OnFailed(tx, f)
	case action == actionInvoiced && s.OnInvoice != nil:
		return s.OnInvoice(tx, f)
	}
	return nil
}

// readTypes are the types of events that are read.
var readTypes = map[string]bool{
	"checkout.session.completed": true, "customer.subscription.created": true, "customer.subscription.updated": true,
	"customer.subscription.deleted": true, "invoice.paid": true, "invoice.payment_failed": true, "invoice.finalized": true,
}

// What an event changed.
const (
	actionSubscribed = "subscribed"
	actionUpdated    = "updated"
	actionCancelled  = "cancelled"
	actionPaid       = "paid"
	actionFailed     = "payment_failed"
	actionInvoiced   = "invoiced"
	actionIgnored    = "ignored"
)

// apply changes an account as an event says, and returns what it changed. Events come in
// any order: the plan is that of the newest event that has one, and so is the status. A
// subscription that ended never comes back, while a new one replaces it.
func (a *Account) apply(e *event, set *Settings) string {
	next := *a
	action := next.change(e, set)
	if action != actionIgnored {
		*a = next
	}
	return action
}

// change is apply, which leaves the account as it was where an event is ignored.
func (a *Account) change(e *event, set *Settings) string {
	o, at, sub := &e.Data.Object, time.Unix(e.Created, 0).UTC(), e.subscription()
	if e.Type == "invoice.finalized" {
		return actionInvoiced
	}
	other := sub != "" && a.SubscriptionID != "" && sub != a.SubscriptionID
	switch {
	case other && (a.Status != Cancelled || at.Before(a.StatusAt)) && !a.replaces(e):
		return actionIgnored // of a subscription that is not, or no longer, the company's
	case !other && a.Status == Cancelled && a.SubscriptionID != "" && sub == a.SubscriptionID:
		return actionIgnored
	}
	if other {
		a.PlanAt, a.StatusAt, a.Status = time.Time{}, time.Time{}, None
	}
	switch e.Type {
	case "checkout.session.completed":
		if o.Mode != "subscription" || o.PaymentStatus == "unpaid" {
			return actionIgnored
		}
		a.identify(o, sub)
		a.setPlan(o.metadata("plan_id"), at)
		a.setStatus(Active, at)
		return actionSubscribed
	case "customer.subscription.deleted":
		a.identify(o, sub)
		a.Status, a.StatusAt, a.Plan, a.PlanAt, a.TrialEnds = Cancelled, at, "", at, time.Time{}
		return actionCancelled
	case "customer.subscription.created", "customer.subscription.updated":
		return a.follow(o, sub, at, set)
	case "invoice.paid":
		if a.setStatus(Active, at) {
			a.identify(o, sub)
			return actionPaid
		}
	case "invoice.payment_failed":
		if a.setStatus(PastDue, at) {
			a.identify(o, sub)
			return actionFailed
		}
	}
	return actionIgnored
}

// replaces reports whether an event begins a subscription in place of one that has not
// ended: a company checked out twice, and the newer subscription counts.
func (a *Account) replaces(e *event) bool {
	return e.Type == "checkout.session.completed" && time.Unix(e.Created, 0).After(a.StatusAt)
}

// follow applies the state of a subscription.
func (a *Account) follow(o *object, sub string, at time.Time, set *Settings) string {
	plan := o.metadata("plan_id")
	if len(o.Items.Data) > 0 {
		if priced := set.planOf(o.Items.Data[0].Price.ID); priced != "" {
			plan = priced // it may have been changed in the portal, which keeps the metadata
		}
	}
	var status Status
	switch o.Status {
	case "active", "trialing":
		status = Active
	case "past_due", "unpaid":
		status = PastDue
	case "canceled", "incomplete_expired":
		a.identify(o, sub)
		a.Status, a.StatusAt, a.Plan, a.PlanAt = Cancelled, at, "", at
		return actionCancelled
	default: // incomplete: the first payment is under way
		return actionIgnored
	}
	changed := a.setStatus(status, at)
	if a.setPlan(plan, at) {
		changed = true
		a.TrialEnds = time.Time{}
		if o.Status == "trialing" && o.TrialEnd != nil {
			a.TrialEnds = time.Unix(*o.TrialEnd, 0).UTC()
		}
	}
	if !changed {
		return actionIgnored
	}
	a.identify(o, sub)
	return actionUpdated
}

func (a *Account) identify(o *object, sub string) {
	if o.Customer != "" {
		a.CustomerID = string(o.Customer)
	}
	if sub != "" {
		a.SubscriptionID = sub
	}
}

func (a *Account) setPlan(plan string, at time.Time) bool {
	if plan == "" || at.Before(a.PlanAt) {
		return false
	}
	a.Plan, a.PlanAt = plan, at
	return true
}

func (a *Account) setStatus(status Status, at time.Time) bool {
	if at.Before(a.StatusAt) {
		return false
	}
	a.Status, a.StatusAt = status, at
	return true
}
