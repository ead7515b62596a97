package marketplace

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// Source is the metadata.source of runs that are invocations, and the untrusted source
// that their input is of.
const Source = "marketplace"

// The statuses of an invocation.
const (
	pending   = "pending"
	running   = "running"
	completed = "completed"
	failed    = "failed"
)

// maxInput bounds the input of an invocation.
const maxInput = 256 << 10

type invokeIn struct {
	ListingID string `path:"listingId"`
	Body      struct {
		_ struct{} `json:"-" name:"MarketplaceInvoke"`

		Input schema.Object `json:"input" required:"true" doc:"What the agent is asked: its member message, or else the whole object as JSON. The agent sees nothing else of the caller."`
	}
}

type invocationView struct {
	_ struct{} `json:"-" name:"MarketplaceInvocation"`

	InvocationID   string                    `json:"invocation_id" required:"true" format:"uuid"`
	ListingID      string                    `json:"listing_id" required:"true" format:"uuid"`
	TenantID       string                    `json:"tenant_id" required:"true" doc:"The company that offers the listing."`
	CallerTenantID string                    `json:"caller_tenant_id" required:"true" doc:"The company that invoked it."`
	Input          schema.Object             `json:"input" required:"true"`
	Status         string                    `json:"status" required:"true" enum:"pending,running,completed,failed"`
	Result         schema.NullableOf[result] `json:"result" required:"true" doc:"null until it has completed, and where it failed."`
	Metrics        metrics                   `json:"metrics" required:"true"`
	CreatedAt      time.Time                 `json:"created_at" required:"true"`
	CompletedAt    *time.Time                `json:"completed_at" required:"true" nullable:"true"`
}

// result is all that a caller sees of a run.
type result struct {
	_ struct{} `json:"-" name:"MarketplaceResult"`

	Text      string `json:"text" required:"true" doc:"The final answer."`
	Truncated bool   `json:"truncated,omitzero" doc:"A limit of the agent cut it off."`
}

type metrics struct {
	_ struct{} `json:"-" name:"MarketplaceInvocationMetrics"`

	DurationMS int64   `json:"duration_ms" required:"true"`
	PriceUSD   float64 `json:"price_usd" required:"true" doc:"What the caller owes for it; 0 where it failed."`
}

func invocationViewOf(i *Invocation) invocationView {
	v := invocationView{
		InvocationID: i.InvocationID, ListingID: i.ListingID, TenantID: i.OwnerID, CallerTenantID: i.TenantID, Input: schema.Object(i.Input),
		Status: i.Status, Metrics: metrics{DurationMS: i.DurationMS, PriceUSD: float64(i.Price) / micros}, CreatedAt: i.CreatedAt,
		Result: schema.NullableOf[result](i.Result),
	}
	if !i.CompletedAt.IsZero() {
		v.CompletedAt = &i.CompletedAt
	}
	return v
}

// message returns what the agent is asked.
func message(input jsontext.Value) string {
	var in struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(input, &in) == nil && strings.TrimSpace(in.Message) != "" {
		return in.Message
	}
	return string(input)
}

// invoke starts a run of a listing's agent in the owner's company.
func (s *Service) invoke(ctx context.Context, who authz.Caller, in *invokeIn) (invocationView, error) {
	if len(in.Body.Input) > maxInput {
		return invocationView{}, fault.BadFields(fault.Field{Field: "input", Message: "at most 256 KiB of JSON"})
	}
	l, err := s.invocable(ctx, who, in.ListingID)
	if err != nil {
		return invocationView{}, err
	}
	now := s.Clock.Now()
	n, err := s.Store.CountInvocations(ctx, who.TenantID, now.Add(-time.Hour), invokeLimit)
	if err != nil {
		return invocationView{}, err
	}
	if n >= invokeLimit {
		return invocationView{}, tooMany("A company can invoke listings %d times within an hour; try again later.", invokeLimit)
	}
	i := &Invocation{
		TenantID: who.TenantID, InvocationID: ident.New(), ListingID: l.ListingID, OwnerID: l.TenantID, Status: pending,
		Input: jsontext.Value(in.Body.Input), Pricing: jsontext.Value(l.Pricing), CreatedAt: now,
	}
	if len(i.Input) == 0 {
		i.Input = jsontext.Value("{}")
	}
	asked := &run.Input{Message: message(i.Input)}
	text, err := json.Marshal(asked)
	if err != nil {
		return invocationView{}, err
	}
	metadata, err := json.Marshal(map[string]string{
		"source": Source, "listing_id": l.ListingID, "caller_tenant_id": who.TenantID,
	}, json.Deterministic(true))
	if err != nil {
		return invocationView{}, err
	}
	_, err = s.runs.Create(ctx, authz.Caller{TenantID: l.TenantID}, run.Request{
		RunID: i.InvocationID, AgentID: l.AgentID, AgentVersion: l.version(), Input: schema.Object(text), Parsed: asked,
		Metadata: schema.Object(metadata), Options: run.Options{Sources: []string{Source}}, StartedBy: run.Initiator{Type: run.ByPlatform},
		Admit:  func(tx txn.Tx, _ *run.Record) (bool, error) { return true, s.admitTx(tx, i) },
		Answer: func(*run.Run) any { return invocationViewOf(i) },
	})
	switch {
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Conflict):
		// What is wrong with the agent is the owner's business.
		return invocationView{}, unavailable().Because(err)
	case err != nil:
		return invocationView{}, err
	}
	return invocationViewOf(i), nil
}

func unavailable() *fault.Error {
	return fault.New(fault.Conflict, "INVALID_STATE_TRANSITION", "This listing cannot be invoked at the moment.")
}

// invocable returns a listing that a company may invoke. Errors: fault.NotFound,
// fault.Invalid.
func (s *Service) invocable(ctx context.Context, who authz.Caller, id string) (*Listing, error) {
	if _, err := s.Store.Get(ctx, who.TenantID, id); err == nil {
		return nil, fault.New(fault.Invalid, "", "A company cannot invoke its own listing; start a run of the agent.")
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	l, err := s.Store.GetPublished(ctx, id)
	if err != nil {
		return nil, err
	}
	if l.Status != Published {
		return nil, fault.New(fault.Invalid, "", "This listing is no longer published, and cannot be invoked.")
	}
	suspended, err := s.Suspended(ctx, l.TenantID)
	if err == nil && suspended {
		err = unavailable()
	}
	return l, err
}

// admitTx stores an invocation in the transaction that stores its run.
func (s *Service) admitTx(tx txn.Tx, i *Invocation) error {
	l, err := s.Store.GetPublishedTx(tx, i.ListingID)
	if err != nil {
		return err
	}
	if l.Status != Published {
		return fault.New(fault.Invalid, "", "This listing is no longer published, and cannot be invoked.")
	}
	if p := pricingOf(i.Pricing); p.Model == subscription {
		sub, err := s.Store.GetSubscriptionTx(tx, i.TenantID, l.ListingID)
		if fault.Is(err, fault.NotFound) || err == nil && sub.Status != active && !s.Clock.Now().Before(sub.PaidUntil) {
			return fault.New(fault.Invalid, "", "Subscribe to this listing first: POST /api/v1/marketplace/listings/%s/subscribe.", l.ListingID)
		}
		if err != nil {
			return err
		}
		if err := s.renewTx(tx, l, sub, price(p.PerMonth)); err != nil {
			return err
		}
	}
	l.Invocations++
	if err := s.Store.UpdateTx(tx, l); err != nil {
		return err
	}
	return s.Store.CreateInvocationTx(tx, i)
}

var sourceMember = []byte(`"` + Source + `"`)

// OnRunState is the run.Watcher of invocations: the state of an invocation follows its
// run, and its price is booked when it has completed.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if !bytes.Contains(r.Metadata, sourceMember) || r.Source() != Source {
		return nil
	}
	i, err := s.Store.GetOwnedInvocationTx(tx, r.TenantID, r.RunID)
	if fault.Is(err, fault.NotFound) {
		return nil // a run that only says so
	}
	if err != nil {
		return err
	}
	status := running
	switch {
	case r.Status == run.Queued:
		status = pending
	case r.Status == run.Completed:
		status = completed
	case r.Status.Final():
		status = failed
	}
	if status == i.Status {
		return nil
	}
	if i.Status = status; status == completed || status == failed {
		if err := s.finishTx(tx, i, r); err != nil {
			return err
		}
	}
	return s.Store.UpdateInvocationTx(tx, i)
}

func (s *Service) finishTx(tx txn.Tx, i *Invocation, r *run.Record) error {
	i.CompletedAt, i.DurationMS = s.Clock.Now(), int64(r.Metrics.DurationMS)
	if i.Status != completed {
		return nil
	}
	var out run.Output
	if err := json.Unmarshal(r.Output, &out); err != nil {
		return err
	}
	var err error
	if i.Result, err = json.Marshal(result{Text: out.Text, Truncated: out.Truncated}); err != nil {
		return err
	}
	switch p := pricingOf(i.Pricing); p.Model {
	case perRun:
		i.Price = price(p.PerRun)
	case perToken:
		i.Price = price(p.PerToken) * (r.Metrics.InputTokens + r.Metrics.OutputTokens) / 1000
	}
	return s.bookTx(tx, i.TenantID, i.OwnerID, i.Price)
}

type invocationIn struct {
	InvocationID string `path:"invocationId"`
}

func (s *Service) getInvocation(ctx context.Context, who authz.Caller, in *invocationIn) (invocationView, error) {
	i, err := s.Store.GetInvocation(ctx, who.TenantID, in.InvocationID)
	if err != nil {
		return invocationView{}, err
	}
	return invocationViewOf(i), nil
}

type invocationPage struct {
	_ struct{} `json:"-" name:"MarketplaceInvocationPage"`

	Items   []invocationView `json:"items" required:"true"`
	Cursor  *string          `json:"cursor" required:"true" doc:"null on the last page."`
	HasMore bool             `json:"has_more" required:"true"`
}

func (s *Service) listInvocations(ctx context.Context, who authz.Caller, in *listIn) (out invocationPage, err error) {
	p := pager[Invocation, invocationView]{
		scope: page.ScopeOf(who.TenantID, "marketplace_invocations", in), limit: in.Limit, cursor: in.Cursor,
		list: func(w page.Window) ([]Invocation, error) { return s.Store.ListInvocations(ctx, who.TenantID, w) },
		id:   func(i *Invocation) string { return i.InvocationID }, view: invocationViewOf,
	}
	out.Items, out.Cursor, err = p.read(s.Cursors)
	out.HasMore = out.Cursor != nil
	return out, err
}
