package marketplace

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// The statuses of a subscription.
const (
	active    = "active"
	cancelled = "cancelled"
)

// month is how long a price of a month is paid for.
const month = 30 * 24 * time.Hour

type subscribeIn struct {
	ListingID string `path:"listingId"`
	Body      struct {
		_ struct{} `json:"-" name:"MarketplaceSubscribe"`

		ExternalID string `json:"stripe_subscription_id,omitzero" maxLength:"255" doc:"Id of a subscription at a payment provider. Kept and shown; has no effect yet."`
	}
}

type subscriptionView struct {
	_ struct{} `json:"-" name:"MarketplaceSubscription"`

	ListingID  string    `json:"listing_id" required:"true" format:"uuid"`
	Status     string    `json:"status" required:"true" enum:"active,cancelled"`
	ExternalID string    `json:"stripe_subscription_id,omitzero"`
	PaidUntil  time.Time `json:"paid_until" required:"true" doc:"A month of 30 days is booked when the subscription begins, and when the listing is invoked after this time."`
	CreatedAt  time.Time `json:"created_at" required:"true"`
	UpdatedAt  time.Time `json:"updated_at" required:"true"`
}

func subscriptionViewOf(s *Subscription) subscriptionView {
	return subscriptionView{
		ListingID: s.ListingID, Status: s.Status, ExternalID: s.ExternalID, PaidUntil: s.PaidUntil,
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}

// subscribe begins a subscription, and books its first month. A company that is
// subscribed already keeps its subscription.
func (s *Service) subscribe(ctx context.Context, who authz.Caller, in *subscribeIn) (out subscriptionView, err error) {
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		l, err := s.othersTx(tx, who, in.ListingID, "subscribe to")
		if err != nil {
			return err
		}
		p := pricingOf([]byte(l.Pricing))
		if l.Status != Published || p.Model != subscription {
			return fault.New(fault.Invalid, "", "Only published listings whose pricing has the model subscription can be subscribed to.")
		}
		now := s.Clock.Now()
		sub, err := s.Store.GetSubscriptionTx(tx, who.TenantID, l.ListingID)
		if fault.Is(err, fault.NotFound) {
			sub, err = &Subscription{TenantID: who.TenantID, ListingID: l.ListingID, CreatedAt: now}, nil
		}
		if err != nil {
			return err
		}
		sub.Status, sub.UpdatedAt = active, now
		if in.Body.ExternalID != "" {
			sub.ExternalID = in.Body.ExternalID
		}
		if err := s.renewTx(tx, l, sub, price(p.PerMonth)); err != nil {
			return err
		}
		if err := s.record(tx, who, "marketplace_listing.subscribed", l); err != nil {
			return err
		}
		out = subscriptionViewOf(sub)
		return txn.Answer(tx, out)
	})
	return out, err
}

// renewTx books a month if what was paid for is over, and stores the subscription.
func (s *Service) renewTx(tx txn.Tx, l *Listing, sub *Subscription, amount int64) error {
	now := s.Clock.Now()
	if !now.Before(sub.PaidUntil) {
		sub.PaidUntil = now.Add(month)
		if err := s.bookTx(tx, sub.TenantID, l.TenantID, amount); err != nil {
			return err
		}
	}
	return s.Store.PutSubscriptionTx(tx, sub)
}

type unsubscribed struct {
	_ struct{} `json:"-" name:"MarketplaceUnsubscribed"`

	Unsubscribed bool   `json:"unsubscribed" required:"true"`
	ListingID    string `json:"listing_id" required:"true" format:"uuid"`
}

// unsubscribe ends a subscription. What was paid for is not paid back.
func (s *Service) unsubscribe(ctx context.Context, who authz.Caller, in *listingIn) (unsubscribed, error) {
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		sub, err := s.Store.GetSubscriptionTx(tx, who.TenantID, in.ListingID)
		if err != nil {
			return err
		}
		sub.Status, sub.UpdatedAt = cancelled, s.Clock.Now()
		if err := s.Store.PutSubscriptionTx(tx, sub); err != nil {
			return err
		}
		return s.record(tx, who, "marketplace_listing.unsubscribed", &Listing{ListingID: in.ListingID})
	})
	return unsubscribed{Unsubscribed: true, ListingID: in.ListingID}, err
}

type subscriptionList struct {
	_ struct{} `json:"-" name:"MarketplaceSubscriptions"`

	Subscriptions []subscriptionView `json:"subscriptions" required:"true" doc:"Newest first, cancelled ones included; at most 200."`
}

func (s *Service) listSubscriptions(ctx context.Context, who authz.Caller, _ *struct{}) (subscriptionList, error) {
	all, err := s.Store.ListSubscriptions(ctx, who.TenantID, 200)
	out := subscriptionList{Subscriptions: []subscriptionView{}}
	for i := range all {
		out.Subscriptions = append(out.Subscriptions, subscriptionViewOf(&all[i]))
	}
	return out, err
}

// The counters of what companies earned and paid, in millionths of a US dollar.
const (
	earned = "marketplace:earned"
	spent  = "marketplace:spent"
)

// bookTx books what one company owes another.
func (s *Service) bookTx(tx txn.Tx, from, to string, amount int64) error {
	if amount == 0 {
		return nil
	}
	if err := s.Counters.IncrementTx(tx, from, spent, amount); err != nil {
		return err
	}
	return s.Counters.IncrementTx(tx, to, earned, amount)
}

type revenue struct {
	_ struct{} `json:"-" name:"MarketplaceRevenue"`

	EarnedUSD float64 `json:"earned_usd" required:"true" doc:"What other companies owe for the company's listings."`
	SpentUSD  float64 `json:"spent_usd" required:"true" doc:"What the company owes for the listings of others."`
}

func (s *Service) getRevenue(ctx context.Context, who authz.Caller, _ *struct{}) (revenue, error) {
	all, err := s.Counters.List(ctx, who.TenantID, "marketplace:")
	return revenue{EarnedUSD: float64(all[earned]) / micros, SpentUSD: float64(all[spent]) / micros}, err
}
