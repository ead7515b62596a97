package billing

import (
	"context"
	"maps"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/operation/setting"
)

func (s *Service) priceRoute() route.Route {
	row := setting.Operation("POST", "/config/plans/{planId}/stripe-price", "createPlanStripePrice", "Create the price of a plan at Stripe",
		"Makes a product and its recurring price at Stripe, and sells the plan at that price from now on, as prices of the "+
			"settings of Stripe say. Subscriptions that exist keep their price. "+
			"Two calls without an Idempotency-Key make two prices.", 404, 501, 502, 504)
	row.Outside, row.Example = true, `{"amount_cents":1900,"currency":"eur"}`
	return route.Action(row, s.createPrice)
}

type (
	priceIn struct {
		Plan string `path:"planId" format:"any" minLength:"1" maxLength:"64" doc:"A plan of this deployment."`
		Body priceBody
	}
	priceBody struct {
		_ struct{} `json:"-" name:"PlanStripePriceCreate"`

		Amount   int64  `json:"amount_cents" required:"true" minimum:"1" maximum:"99999999" doc:"What the plan costs for each interval, in the smallest unit of the currency."`
		Currency string `json:"currency" minLength:"3" maxLength:"3" pattern:"^[A-Za-z]{3}$" default:"usd" doc:"ISO 4217 code."`
		Interval string `json:"interval" enum:"month,year" default:"month" doc:"How often it is paid."`
		Product  string `json:"product_name,omitzero" maxLength:"250" doc:"What customers read on Stripe's pages and invoices. Default: the name of the plan."`
	}
	// createdPrice answers a price that was created.
	createdPrice struct {
		_ struct{} `json:"-" name:"PlanStripePrice"`

		Plan     string `json:"plan_id" required:"true"`
		Price    string `json:"stripe_price_id" required:"true"`
		Product  string `json:"stripe_product_id" required:"true"`
		Amount   int64  `json:"amount_cents" required:"true"`
		Currency string `json:"currency" required:"true"`
		Interval string `json:"interval" required:"true"`
	}
)

func (s *Service) createPrice(ctx context.Context, who authz.Caller, in *priceIn) (*createdPrice, error) {
	plan, known := s.Plans.Of(in.Plan)
	if !known {
		return nil, fault.NewNotFound("plan")
	}
	set, err := s.settings()
	if err != nil {
		return nil, err
	}
	b := in.Body
	if b.Product = strings.TrimSpace(b.Product); b.Product == "" {
		b.Product = plan.Name
	}
	if strings.ContainsAny(b.Product, "\r\n\x00") {
		return nil, fault.BadFields(fault.Field{Field: "product_name", Message: "must be one line"})
	}
	out := &createdPrice{Plan: in.Plan, Amount: b.Amount, Currency: strings.ToLower(b.Currency), Interval: b.Interval}
	out.Price, out.Product, err = s.Gateway.CreatePrice(ctx, set.SecretKey.Reveal(), NewPrice{
		Plan: in.Plan, Product: b.Product, Amount: out.Amount, Currency: out.Currency, Interval: out.Interval,
	})
	if err != nil {
		return nil, err
	}
	return out, s.Settings.Update(ctx, who, func(set *Settings) error {
		prices := maps.Clone(set.Prices)
		if prices == nil {
			prices = map[string]string{}
		}
		prices[in.Plan] = out.Price
		set.Prices = prices
		return nil
	}, func(*Settings) any { return out })
}
