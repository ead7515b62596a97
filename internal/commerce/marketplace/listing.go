package marketplace

import (
	"context"
	"fmt"
	"slices"
	"strconv"
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
	"agentd/internal/kernel/audit"
)

// The models of pricing.
const (
	free         = "free"
	perRun       = "per_run"
	perToken     = "per_token"
	subscription = "subscription"
)

// pricing is what is read of the pricing of a listing, which may have other members.
type pricing struct {
	Model    string   `json:"model"`
	PerRun   *float64 `json:"price_per_run_usd"`
	PerToken *float64 `json:"price_per_1k_tokens_usd"`
	PerMonth *float64 `json:"price_per_month_usd"`
}

// maxPrice bounds prices, in US dollars.
const maxPrice = 10_000

// micros is how many of the units of prices are a US dollar.
const micros = 1_000_000

func pricingOf(text jsontext.Value) (p pricing) {
	if len(text) == 0 || json.Unmarshal(text, &p) != nil || p.Model == "" {
		p.Model = free
	}
	return p
}

// price returns a price in millionths of a US dollar.
func price(usd *float64) int64 {
	if usd == nil {
		return 0
	}
	return int64(*usd*micros + 0.5)
}

// checkPricing returns what is wrong with a pricing.
func checkPricing(text jsontext.Value) (wrong []fault.Field) {
	if len(text) == 0 {
		return nil
	}
	add := func(field, message string) {
		wrong = append(wrong, fault.Field{Field: "pricing" + field, Message: message})
	}
	var p pricing
	if err := json.Unmarshal(text, &p); err != nil {
		add("", "expected an object whose model is a string and whose prices are numbers")
		return wrong
	}
	needed := map[string]struct {
		name  string
		price *float64
	}{
		perRun: {"price_per_run_usd", p.PerRun}, perToken: {"price_per_1k_tokens_usd", p.PerToken},
		subscription: {"price_per_month_usd", p.PerMonth},
	}
	if p.Model != "" && p.Model != free && needed[p.Model].name == "" {
		add(".model", "expected one of: free, per_run, per_token, subscription")
	}
	if n := needed[p.Model]; n.name != "" && n.price == nil {
		add("."+n.name, "required with the model "+p.Model)
	}
	for _, n := range needed {
		if n.price != nil && (*n.price < 0 || *n.price > maxPrice) {
			add("."+n.name, fmt.Sprintf("expected a number from 0 to %d", maxPrice))
		}
	}
	return wrong
}

// createBody has no defaults: what is absent in a change keeps its value.
type createBody struct {
	_ struct{} `json:"-" name:"MarketplaceListingCreate"`

	AgentID string `json:"agent_id" required:"true" format:"uuid" doc:"The agent that is offered."`
	Publish bool   `json:"publish,omitzero" doc:"Publish it at once. Default: it is a draft."`
	Name    string `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the listing. It is found by the beginnings of its words."`

	Category string `json:"category" required:"true" enum:"productivity,engineering,research,creative,support,operations,analytics,education,personal,other" doc:"What it is for."`
	Details
}

// Details are the members of a listing that may be left out. It is exported so that the
// published schemas have its fields.
type Details struct {
	AgentVersion *string       `json:"agent_version,omitzero" maxLength:"50" doc:"A whole number is the version of the agent that invocations use. Any other text is only shown, and they use the newest. Default: 1.0.0."`
	Description  *string       `json:"description,omitzero" maxLength:"5000" doc:"What it does. It is found by the beginnings of these words too."`
	Tags         *[]string     `json:"tags,omitzero" maxItems:"20" doc:"Words by which it is found."`
	Readme       *string       `json:"readme,omitzero" maxLength:"50000" doc:"How to use it, in Markdown. Kept and shown; has no effect yet."`
	IconURL      *string       `json:"icon_url,omitzero" maxLength:"2048" doc:"Address of a picture. Kept and shown; has no effect yet."`
	ProgramID    *string       `json:"program_id,omitzero" maxLength:"200" doc:"Of a program that it belongs to. Kept and shown; has no effect yet."`
	Pricing      schema.Object `json:"pricing,omitzero" doc:"model is free (the default), per_run with price_per_run_usd, per_token with price_per_1k_tokens_usd, or subscription with price_per_month_usd. Other members are kept."`
	A2A          *bool         `json:"a2a_enabled,omitzero" doc:"Kept and shown; has no effect yet."`
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (d *Details) apply(f *Fields) {
	set(&f.AgentVersion, d.AgentVersion)
	set(&f.Description, d.Description)
	set(&f.Tags, d.Tags)
	set(&f.Readme, d.Readme)
	set(&f.IconURL, d.IconURL)
	set(&f.ProgramID, d.ProgramID)
	set(&f.A2A, d.A2A)
	if d.Pricing != nil {
		f.Pricing = d.Pricing
	}
}

func (f *Fields) check() error {
	wrong := checkPricing(jsontext.Value(f.Pricing))
	if strings.TrimSpace(f.Name) == "" {
		wrong = append(wrong, fault.Field{Field: "name", Message: "must not be blank"})
	}
	for i, tag := range f.Tags {
		if strings.TrimSpace(tag) == "" || len(tag) > 50 {
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("tags[%d]", i), Message: "expected 1 to 50 characters"})
		}
	}
	if len(wrong) > 0 {
		return fault.BadFields(wrong...)
	}
	return nil
}

// view is a listing as clients receive it.
type view struct {
	_ struct{} `json:"-" name:"MarketplaceListing"`

	ListingID    string        `json:"listing_id" required:"true" format:"uuid"`
	TenantID     string        `json:"tenant_id" required:"true" doc:"The company that offers it."`
	AgentID      string        `json:"agent_id" required:"true" format:"uuid"`
	AgentVersion string        `json:"agent_version" required:"true"`
	Name         string        `json:"name" required:"true"`
	Description  string        `json:"description" required:"true"`
	Category     string        `json:"category" required:"true" enum:"productivity,engineering,research,creative,support,operations,analytics,education,personal,other"`
	Tags         []string      `json:"tags" required:"true"`
	IconURL      string        `json:"icon_url,omitzero"`
	Readme       string        `json:"readme" required:"true"`
	ProgramID    string        `json:"program_id,omitzero"`
	Pricing      schema.Object `json:"pricing" required:"true"`
	Stats        stats         `json:"stats" required:"true"`
	Status       string        `json:"status" required:"true" enum:"draft,published,deprecated" doc:"deprecated: it is no longer found or invoked."`
	A2A          bool          `json:"a2a_enabled" required:"true"`
	CreatedAt    time.Time     `json:"created_at" required:"true"`
	UpdatedAt    time.Time     `json:"updated_at" required:"true"`
}

type stats struct {
	_ struct{} `json:"-" name:"MarketplaceListingStats"`

	RatingAvg   float64 `json:"rating_avg" required:"true" doc:"0 without ratings."`
	RatingCount int64   `json:"rating_count" required:"true"`
	Invocations int64   `json:"invocation_count" required:"true" doc:"How often it was invoked."`
	Favourites  int64   `json:"favourite_count" required:"true"`
}

// Average returns the average rating in thousandths.
func (l *Listing) Average() int64 {
	if l.RatingCount == 0 {
		return 0
	}
	return l.RatingSum * 1000 / l.RatingCount
}

func viewOf(l *Listing) view {
	v := view{
		ListingID: l.ListingID, TenantID: l.TenantID, AgentID: l.AgentID, AgentVersion: l.AgentVersion, Name: l.Name,
		Description: l.Description, Category: l.Category, Tags: l.Tags, IconURL: l.IconURL, Readme: l.Readme, ProgramID: l.ProgramID,
		Pricing: l.Pricing, Status: l.Status, A2A: l.A2A, CreatedAt: l.CreatedAt, UpdatedAt: l.UpdatedAt,
		Stats: stats{RatingAvg: float64(l.Average()) / 1000, RatingCount: l.RatingCount, Invocations: l.Invocations, Favourites: l.Favourites},
	}
	if v.Tags == nil {
		v.Tags = []string{}
	}
	return v
}

// version returns the version of the agent that invocations use, 0 for the newest.
func (f *Fields) version() int64 {
	n, err := strconv.ParseInt(f.AgentVersion, 10, 64)
	if err != nil || n < 1 {
		return 0
	}
	return n
}

type createIn struct {
	Body createBody
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (view, error) {
	now := s.Clock.Now()
	l := &Listing{
		Fields:   Fields{Name: in.Body.Name, Category: in.Body.Category, AgentVersion: "1.0.0", Pricing: schema.Object(`{"model":"free"}`)},
		TenantID: who.TenantID, ListingID: ident.New(), AgentID: in.Body.AgentID, Status: Draft, CreatedAt: now, UpdatedAt: now,
	}
	in.Body.apply(&l.Fields)
	if err := l.check(); err != nil {
		return view{}, err
	}
	if err := s.checkAgent(ctx, who.TenantID, l.AgentID); err != nil {
		return view{}, err
	}
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Store.CreateTx(tx, l); err != nil {
			return err
		}
		if in.Body.Publish {
			if err := s.publishTx(tx, l); err != nil {
				return err
			}
		}
		if err := s.record(tx, who, "marketplace_listing.created", l); err != nil {
			return err
		}
		return txn.Answer(tx, viewOf(l))
	})
	return viewOf(l), err
}

func (s *Service) record(tx txn.Tx, who authz.Caller, action string, l *Listing) error {
	return audit.Write(s.Audit, tx, who, audit.Entry{Action: action, TargetType: "marketplace_listing", TargetID: l.ListingID})
}

// checkAgent refuses an agent that the company does not have. Errors: fault.NotFound.
func (s *Service) checkAgent(ctx context.Context, tenant, id string) error {
	_, err := s.agents.Get(ctx, tenant, id)
	return err
}

const (
	publishLimit = 30 // publications of a company within an hour
	invokeLimit  = 120
)

// publishTx publishes a listing that is locked.
func (s *Service) publishTx(tx txn.Tx, l *Listing) error {
	now := s.Clock.Now()
	n, err := s.Store.CountPublishedTx(tx, l.TenantID, now.Add(-time.Hour))
	if err != nil {
		return err
	}
	if n >= publishLimit {
		return tooMany("A company can publish %d listings within an hour; try again later.", publishLimit)
	}
	l.Status, l.PublishedAt, l.UpdatedAt = Published, now, now
	return s.Store.UpdateTx(tx, l)
}

type listingIn struct {
	ListingID string `path:"listingId"`
}

// get returns a listing of the caller's company, or one of any other that is no draft.
func (s *Service) get(ctx context.Context, who authz.Caller, in *listingIn) (view, error) {
	l, err := s.Store.Get(ctx, who.TenantID, in.ListingID)
	if fault.Is(err, fault.NotFound) {
		l, err = s.Store.GetPublished(ctx, in.ListingID)
	}
	if err != nil {
		return view{}, err
	}
	return viewOf(l), nil
}

// edit changes a listing of the caller's company.
func (s *Service) edit(ctx context.Context, who authz.Caller, id, action string, change func(txn.Tx, *Listing) error) (v view, err error) {
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		l, err := s.Store.GetTx(tx, who.TenantID, id)
		if err != nil {
			return err
		}
		if err := change(tx, l); err != nil {
			return err
		}
		if err := s.record(tx, who, action, l); err != nil {
			return err
		}
		v = viewOf(l)
		return txn.Answer(tx, v)
	})
	return v, err
}

type changeIn struct {
	ListingID string `path:"listingId"`
	Body      struct {
		_ struct{} `json:"-" name:"MarketplaceListingChange"`

		Name     *string `json:"name,omitzero" minLength:"1" maxLength:"200" doc:"Name of the listing."`
		Category *string `json:"category,omitzero" enum:"productivity,engineering,research,creative,support,operations,analytics,education,personal,other" doc:"What it is for."`
		Details
	}
}

func (s *Service) change(ctx context.Context, who authz.Caller, in *changeIn) (view, error) {
	return s.edit(ctx, who, in.ListingID, "marketplace_listing.updated", func(tx txn.Tx, l *Listing) error {
		set(&l.Name, in.Body.Name)
		set(&l.Category, in.Body.Category)
		in.Body.apply(&l.Fields)
		if err := l.check(); err != nil {
			return err
		}
		l.UpdatedAt = s.Clock.Now()
		return s.Store.UpdateTx(tx, l)
	})
}

func (s *Service) publish(ctx context.Context, who authz.Caller, in *listingIn) (view, error) {
	own, err := s.Store.Get(ctx, who.TenantID, in.ListingID)
	if err != nil {
		return view{}, err
	}
	if err := s.checkAgent(ctx, who.TenantID, own.AgentID); err != nil {
		return view{}, fault.New(fault.Conflict, "INVALID_STATE_TRANSITION",
			"The agent of this listing was deleted; create another listing.").Because(err)
	}
	return s.edit(ctx, who, in.ListingID, "marketplace_listing.published", func(tx txn.Tx, l *Listing) error {
		if l.Status == Published {
			return fault.WrongState("listing", l.Status, "publishing")
		}
		return s.publishTx(tx, l)
	})
}

func (s *Service) deprecate(ctx context.Context, who authz.Caller, in *listingIn) (view, error) {
	return s.edit(ctx, who, in.ListingID, "marketplace_listing.deprecated", func(tx txn.Tx, l *Listing) error {
		if l.Status != Published {
			return fault.WrongState("listing", l.Status, "deprecating")
		}
		return s.deprecateTx(tx, l)
	})
}

func (s *Service) deprecateTx(tx txn.Tx, l *Listing) error {
	l.Status, l.UpdatedAt = Deprecated, s.Clock.Now()
	return s.Store.UpdateTx(tx, l)
}

type removal struct {
	_ struct{} `json:"-" name:"MarketplaceListingRemoval"`

	Unpublished bool   `json:"unpublished" required:"true"`
	Deleted     bool   `json:"deleted" required:"true" doc:"It was a draft, of which nothing is kept."`
	ListingID   string `json:"listing_id" required:"true" format:"uuid"`
}

// remove deletes a draft; any other listing is deprecated, because invocations refer to
// it.
func (s *Service) remove(ctx context.Context, who authz.Caller, in *listingIn) (out removal, err error) {
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		l, err := s.Store.GetTx(tx, who.TenantID, in.ListingID)
		if err != nil {
			return err
		}
		out = removal{Unpublished: true, Deleted: l.Status == Draft, ListingID: l.ListingID}
		if out.Deleted {
			err = s.Store.DeleteTx(tx, who.TenantID, l.ListingID)
		} else if l.Status == Published {
			err = s.deprecateTx(tx, l)
		}
		if err != nil {
			return err
		}
		return s.record(tx, who, "marketplace_listing.deleted", l)
	})
	return out, err
}

// AgentDeleted deprecates the listings of a deleted agent. It is idempotent.
func (s *Service) AgentDeleted(ctx context.Context, tenant, agent string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		all, err := s.Store.ListOfAgentTx(tx, tenant, agent)
		if err != nil {
			return err
		}
		for i := range all {
			if all[i].Status == Published {
				if err := s.deprecateTx(tx, &all[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

type listIn struct {
	Limit  string `query:"limit" doc:"How many, 1 to 100. Default: 20."`
	Cursor string `query:"cursor" doc:"Where the page begins, from the page before."`
}

type listingPage struct {
	_ struct{} `json:"-" name:"MarketplaceListingPage"`

	Items   []view  `json:"items" required:"true"`
	Cursor  *string `json:"cursor" required:"true" doc:"null on the last page."`
	HasMore bool    `json:"has_more" required:"true"`
}

// listOwn pages through the company's own listings, drafts included.
func (s *Service) listOwn(ctx context.Context, who authz.Caller, in *listIn) (out listingPage, err error) {
	p := pager[Listing, view]{
		scope: page.ScopeOf(who.TenantID, "marketplace_listings", in), limit: in.Limit, cursor: in.Cursor,
		list: func(w page.Window) ([]Listing, error) { return s.Store.List(ctx, who.TenantID, w) },
		id:   func(l *Listing) string { return l.ListingID }, view: viewOf,
	}
	out.Items, out.Cursor, err = p.read(s.Cursors)
	out.HasMore = out.Cursor != nil
	return out, err
}

type categoryList struct {
	_ struct{} `json:"-" name:"MarketplaceCategories"`

	Categories []string `json:"categories" required:"true"`
}

func (s *Service) listCategories(context.Context, authz.Caller, *struct{}) (categoryList, error) {
	return categoryList{Categories: slices.Clone(categories)}, nil
}

// tooMany is the refusal of what a company did too often within an hour.
func tooMany(sentence string, limit int) error {
	e := fault.New(fault.Limited, "rate_limited", sentence, limit)
	e.RetryAfter = time.Minute
	return e
}
