// Package marketplace lets companies offer their agents to one another. A listing
// publishes an agent; an invocation is a run in the owner's company that another company
// asks for. The caller sees what it sent and the final answer, and nothing of the run.
//
// Reads across companies go through what is published alone: [Store] has methods of
// their own for them.
package marketplace

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/resource"
)

// The statuses of a listing.
const (
	Draft      = "draft"
	Published  = "published"
	Deprecated = "deprecated"
)

// categories are the categories of listings.
var categories = []string{
	"productivity", "engineering", "research", "creative", "support", "operations", "analytics", "education", "personal", "other",
}

// Fields are what the owner writes of a listing.
type Fields struct {
	AgentVersion string        `json:"agent_version,omitzero"`
	Name         string        `json:"name"`
	Description  string        `json:"description,omitzero"`
	IconURL      string        `json:"icon_url,omitzero"`
	Readme       string        `json:"readme,omitzero"`
	ProgramID    string        `json:"program_id,omitzero"`
	Category     string        `json:"category"`
	Tags         []string      `json:"tags,omitempty"`
	Pricing      schema.Object `json:"pricing,omitzero"`
	A2A          bool          `json:"a2a_enabled,omitzero"`
}

// Listing is a listing as it is stored.
type Listing struct {
	Fields

	TenantID    string
	ListingID   string
	AgentID     string
	Status      string
	RatingSum   int64
	RatingCount int64
	Invocations int64
	Favourites  int64
	PublishedAt time.Time // last; zero: never
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Rating is what a company thinks of a listing.
type Rating struct {
	TenantID  string
	ListingID string
	RatingID  string
	Rating    int64
	Comment   string
	CreatedAt time.Time
}

// Subscription is a company's subscription to a listing.
type Subscription struct {
	TenantID   string
	ListingID  string
	Status     string
	ExternalID string
	PaidUntil  time.Time
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Invocation is a use of a listing by another company.
type Invocation struct {
	TenantID     string // who calls
	InvocationID string // and that of its run
	ListingID    string
	OwnerID      string // the company of the run
	Status       string
	Input        jsontext.Value
	Result       jsontext.Value // nil: none
	Pricing      jsontext.Value // as it was when it began
	Price        int64          // in millionths of a US dollar
	DurationMS   int64
	CreatedAt    time.Time
	CompletedAt  time.Time // zero: not yet
}

// Order is an order of search results.
type Order string

// The orders.
const (
	ByRecency    Order = "recency"
	ByRating     Order = "rating"
	ByPopularity Order = "popularity"
)

// Search selects published listings.
type Search struct {
	Category string // "": any
	Order    Order
	Limit    int
}

// Store is the port to the marketplace. The tenant is whose rows they are.
type Store interface {
	Listings
	Public

	// GetRatingTx returns a company's rating of a listing. Errors: fault.NotFound.
	GetRatingTx(tx txn.Tx, tenant, listing string) (*Rating, error)
	PutRatingTx(tx txn.Tx, r *Rating) error
	// UpdateFavouriteTx reports whether that changed anything.
	UpdateFavouriteTx(tx txn.Tx, tenant, user, listing string, favourite bool) (bool, error)

	// GetSubscriptionTx locks a subscription. Errors: fault.NotFound.
	GetSubscriptionTx(tx txn.Tx, tenant, listing string) (*Subscription, error)
	PutSubscriptionTx(tx txn.Tx, s *Subscription) error
	// ListSubscriptions returns a company's subscriptions, newest first.
	ListSubscriptions(ctx context.Context, tenant string, limit int) ([]Subscription, error)

	CreateInvocationTx(tx txn.Tx, i *Invocation) error
	// GetInvocation returns an invocation of a caller. Errors: fault.NotFound.
	GetInvocation(ctx context.Context, tenant, id string) (*Invocation, error)
	// GetOwnedInvocationTx returns an invocation by the company of its run. Errors:
	// fault.NotFound.
	GetOwnedInvocationTx(tx txn.Tx, owner, id string) (*Invocation, error)
	UpdateInvocationTx(tx txn.Tx, i *Invocation) error
	// ListInvocations returns a page of a caller's invocations, newest first.
	ListInvocations(ctx context.Context, tenant string, w page.Window) ([]Invocation, error)
	// CountInvocations counts those of a caller since a time, up to a limit.
	CountInvocations(ctx context.Context, tenant string, since time.Time, limit int) (int, error)
}

// Listings is the part of the store that owners see.
type Listings interface {
	CreateTx(tx txn.Tx, l *Listing) error
	// Get returns a company's own listing. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*Listing, error)
	// GetTx is Get and locks the listing.
	GetTx(tx txn.Tx, tenant, id string) (*Listing, error)
	// UpdateTx stores a listing, and what all companies see of it.
	UpdateTx(tx txn.Tx, l *Listing) error
	DeleteTx(tx txn.Tx, tenant, id string) error
	// List returns a page of a company's own listings, newest first.
	List(ctx context.Context, tenant string, w page.Window) ([]Listing, error)
	// ListOfAgentTx returns the listings of an agent.
	ListOfAgentTx(tx txn.Tx, tenant, agent string) ([]Listing, error)
	// CountPublishedTx counts the listings that a company published since a time.
	CountPublishedTx(tx txn.Tx, tenant string, since time.Time) (int, error)
}

// Public is the part of the store that every company sees: what is, or was, published.
type Public interface {
	// GetPublished returns a listing of any company that is no draft. Errors:
	// fault.NotFound.
	GetPublished(ctx context.Context, id string) (*Listing, error)
	// GetPublishedTx is GetPublished and locks the listing.
	GetPublishedTx(tx txn.Tx, id string) (*Listing, error)
	// ListPublished returns published listings.
	ListPublished(ctx context.Context, s Search) ([]Listing, error)
	// ListPublishedByBegin returns published listings of which a word begins so.
	ListPublishedByBegin(ctx context.Context, begin string, limit int) ([]Listing, error)
	// ListRatings returns a page of a listing's ratings, newest first.
	ListRatings(ctx context.Context, listing string, w page.Window) ([]Rating, error)
}

// Agents is the port to agents; *agent.Agents implements it.
type Agents interface {
	// Get returns an agent. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (agent.Agent, error)
}

// Runs is the port to runs; *run.Service implements it.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
}

// Deps holds what the service depends on.
type Deps struct {
	Store    Store
	Writer   txn.Writer
	Counters resource.Counters // of what companies earned and paid
	Cursors  *page.Cursors
	Clock    clock.Clock
	Audit    audit.Recorder
	// Suspended reports whether a company's agents may not run.
	Suspended func(ctx context.Context, tenant string) (bool, error)
}

// Service serves the marketplace.
type Service struct {
	Deps

	agents Agents
	runs   Runs
}

// New returns a service, which Connect completes.
func New(d Deps) *Service { return &Service{Deps: d} }

// Connect sets the ports to agents and runs. It is called once, before the first
// request.
func (s *Service) Connect(agents Agents, runs Runs) { s.agents, s.runs = agents, runs }
