package billing

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/operation/setting"
)

// Routes returns the operations of billing, and those on its settings.
func (s *Service) Routes() []route.Route {
	row := func(method, at, id, summary, doc string, errors ...int) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/billing" + at, ID: id, Tag: "Billing", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"billing:read"}, Role: authz.Admin, Errors: errors,
		}
	}
	checkout := row("POST", "/checkout-session", "createCheckoutSession", "Create a checkout session",
		"Returns a page of Stripe on which the plan is bought. The company is on the plan once Stripe has confirmed it.", 400, 409, 501, 502, 504)
	checkout.Outside, checkout.Example = true, `{"plan_id":"pro"}`
	portal := row("POST", "/portal-session", "createBillingPortalSession", "Create a portal session",
		"Returns a page of Stripe on which the company changes its plan, its means of payment, or ends the subscription.", 400, 501, 502, 504)
	portal.Outside, portal.Optional, portal.Example = true, true, `{}`
	trial := row("GET", "/trial", "getBillingTrial", "Get the trial of the company", "")
	trial.Role = authz.Viewer
	webhook := route.Row{
		Method: "POST", Path: "/api/v1/webhooks/stripe", ID: "handleStripeWebhook", Tag: "Billing",
		Summary: "Receive an event of Stripe", Public: true,
		Doc:      "Signed by Stripe. An event is applied once; late and repeated ones are accepted and change nothing.",
		MaxBytes: maxEvent, Limits: []route.Limit{{N: 1200, Per: time.Minute}}, Errors: []int{400, 501},
	}
	test := setting.Operation("POST", "/config/stripe/test", "testAdminStripeConfig", "Test Stripe's secret key",
		"Reads the account of the key.", 501)
	return slices.Concat(setting.Routes(s.Settings, setting.Published[Settings]{
		Name: section, GetID: "getAdminStripeConfig", PutID: "updateAdminStripeConfig", What: "the settings of Stripe",
		Doc:     "Keys of Stripe, and the prices of plans.",
		Example: `{"trial_days":14}`,
	}), []route.Route{
		route.Action(checkout, s.checkout), route.Action(portal, s.portal), route.Action(trial, s.trial), route.Action(webhook, s.receive),
		route.Action(test, s.test), s.priceRoute(),
	})
}

type (
	checkoutIn   struct{ Body checkoutBody }
	checkoutBody struct {
		_ struct{} `json:"-" name:"CheckoutSessionCreate"`

		Plan    string `json:"plan_id" required:"true" maxLength:"64" doc:"The plan to buy."`
		Success string `json:"success_url,omitzero" maxLength:"2000" doc:"Where the browser goes after the payment, on this service or another origin of the operator. Default: this service."`
		Cancel  string `json:"cancel_url,omitzero" maxLength:"2000" doc:"Where the browser goes if nothing is bought. Default: this service."`
	}
	portalIn   struct{ Body portalBody }
	portalBody struct {
		_ struct{} `json:"-" name:"PortalSessionCreate"`

		Return string `json:"return_url,omitzero" maxLength:"2000" doc:"Where the browser goes afterwards, on this service or another origin of the operator. Default: this service."`
	}
	hosted struct {
		_ struct{} `json:"-" name:"BillingPage"`

		URL string `json:"url" format:"uri" required:"true" doc:"A page of Stripe, for a browser. It is valid for a short time."`
	}
)

func (s *Service) checkout(ctx context.Context, who authz.Caller, in *checkoutIn) (*hosted, error) {
	set, err := s.settings()
	if err != nil {
		return nil, err
	}
	var wrong []fault.Field
	success, cancel := s.page("success_url", in.Body.Success, &wrong), s.page("cancel_url", in.Body.Cancel, &wrong)
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	price := set.Prices[in.Body.Plan]
	if !s.Plans.Known(in.Body.Plan) || price == "" {
		return nil, fault.New(fault.Malformed, "",
			"The plan %q cannot be bought. GET /api/v1/billing/plans lists those with checkout_available.", in.Body.Plan)
	}
	a, err := s.Store.Get(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	if a.Status == Active || a.Status == PastDue {
		return nil, fault.New(fault.Conflict, "", "The company has a subscription already. Change it with POST /api/v1/billing/portal-session.")
	}
	session := Session{
		TenantID: who.TenantID, Plan: in.Body.Plan, Price: price, CustomerID: a.CustomerID, SuccessURL: success, CancelURL: cancel,
	}
	if a.Status == None {
		session.TrialDays = set.TrialDays
	}
	at, err := s.Gateway.Checkout(ctx, set.SecretKey.Reveal(), session)
	return &hosted{URL: at}, err
}

func (s *Service) portal(ctx context.Context, who authz.Caller, in *portalIn) (*hosted, error) {
	set, err := s.settings()
	if err != nil {
		return nil, err
	}
	var wrong []fault.Field
	back := s.page("return_url", in.Body.Return, &wrong)
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	a, err := s.Store.Get(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	if a.CustomerID == "" {
		return nil, fault.New(fault.Malformed, "", "The company has no subscription yet. Buy a plan with POST /api/v1/billing/checkout-session.")
	}
	at, err := s.Gateway.Portal(ctx, set.SecretKey.Reveal(), a.CustomerID, back)
	return &hosted{URL: at}, err
}

// page returns the address that a browser returns to. Addresses of other sites are refused,
// so that no link leads from Stripe to a page that imitates this service.
func (s *Service) page(field, asked string, wrong *[]fault.Field) string {
	own := s.PublicURL()
	if asked == "" {
		return own + "/"
	}
	u, err := url.Parse(asked)
	mine, _ := url.Parse(own)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil:
		*wrong = append(*wrong, fault.Field{Field: field, Message: "it is no address that begins with https:// or http://"})
	case mine != nil && strings.EqualFold(u.Host, mine.Host) && u.Scheme == mine.Scheme:
	case slices.Contains(s.Origins, strings.ToLower(u.Scheme+"://"+u.Host)):
	default:
		*wrong = append(*wrong, fault.Field{Field: field, Message: "it is on another origin than this service"})
	}
	return asked
}

// trialStatus answers GET /billing/trial.
type trialStatus struct {
	_ struct{} `json:"-" name:"BillingTrial"`

	Trialing bool       `json:"trialing" required:"true" doc:"Whether the subscription is free now."`
	Plan     string     `json:"plan,omitzero" doc:"The plan that is tried."`
	EndsAt   *time.Time `json:"ends_at" required:"true" doc:"When the first payment is due; null: there is no trial."`
}

func (s *Service) trial(ctx context.Context, who authz.Caller, _ *struct{}) (out trialStatus, err error) {
	a, err := s.Store.Get(ctx, who.TenantID)
	if err == nil && a.Status == Active && s.Clock.Now().Before(a.TrialEnds) {
		out.Trialing, out.Plan, out.EndsAt = true, a.Plan, &a.TrialEnds
	}
	return out, err
}

// tested answers a test of the secret key.
type tested struct {
	_ struct{} `json:"-" name:"StripeTest"`

	OK        bool   `json:"ok" required:"true" doc:"Whether Stripe takes the key."`
	AccountID string `json:"account_id,omitzero" doc:"Account of the key."`
	Live      bool   `json:"livemode,omitzero" doc:"Whether payments are real."`
	Error     string `json:"error,omitzero" doc:"Why it does not work."`
}

func (s *Service) test(ctx context.Context, _ authz.Caller, _ *struct{}) (tested, error) {
	set, err := s.settings()
	if err != nil {
		return tested{}, err
	}
	id, live, err := s.Gateway.Account(ctx, set.SecretKey.Reveal())
	if err != nil {
		return tested{Error: fault.From(err).Detail}, nil
	}
	return tested{OK: true, AccountID: id, Live: live}, nil
}
