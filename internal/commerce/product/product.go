// Package product stores what a company sells.
package product

import (
	"slices"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// The types of products, and their states.
const (
	Course       = "course"
	Subscription = "subscription"

	Active   = "active"
	Archived = "archived"
)

// Product is something that customers order.
type Product struct {
	resource.Meta `json:"-"`

	Name             string          `json:"name" required:"true" minLength:"1" maxLength:"500" doc:"What it is called."`
	Type             string          `json:"type" required:"true" enum:"course,service,digital,subscription" immutable:"true" doc:"A paid order of a course or a subscription enrols its customer."`
	Status           string          `json:"status" enum:"active,archived" default:"active" doc:"An archived product is not ordered any more."`
	PriceCents       int64           `json:"price_cents" required:"true" minimum:"0" maximum:"1000000000000" doc:"In the smallest unit of the currency."`
	Currency         string          `json:"currency" required:"true" pattern:"^[A-Za-z]{3}$" doc:"Three letters by ISO 4217, such as EUR; kept in capitals."`
	CompareAtCents   *int64          `json:"compare_at_price_cents,omitzero" minimum:"0" maximum:"1000000000000" doc:"A former price, to be shown beside the price."`
	Description      string          `json:"description" maxLength:"100000" doc:"What it is, as plain text or Markdown."`
	BodyHTML         string          `json:"body_html" maxLength:"500000" doc:"The description for a web page. It is kept as it is sent: a page that shows it cleans it first."`
	Slug             string          `json:"slug" maxLength:"200" doc:"The name in addresses of a storefront."`
	Category         string          `json:"category" maxLength:"200" doc:"A word of your own to sort products by."`
	Vendor           string          `json:"vendor" maxLength:"200" doc:"Who makes or delivers it."`
	Tags             []string        `json:"tags" maxItems:"100" maxLength:"200" doc:"Words of your own to group products by."`
	Images           []string        `json:"images" maxItems:"100" maxLength:"2000" doc:"Addresses of pictures. They are kept, and never fetched."`
	Variants         []schema.Object `json:"variants" maxItems:"100" doc:"Sizes, colours and the like, as the storefront has them."`
	Options          []schema.Object `json:"options" maxItems:"100" doc:"What variants differ in, as the storefront has it."`
	AgentID          *string         `json:"agent_id" ref:"agent" maxLength:"36" doc:"The agent that delivers the product: a tutor of the course, say."`
	KnowledgeBaseIDs []string        `json:"knowledge_base_ids" maxItems:"20" maxLength:"36" ref:"knowledge_base" doc:"What the product teaches from."`
	CourseStructure  schema.Nullable `json:"course_structure" doc:"Chapters and lessons of a course, as the storefront has them; null: none."`
	StorefrontID     string          `json:"storefront_product_id" maxLength:"200" doc:"The product's id in the storefront."`
	PaymentPriceID   string          `json:"payment_price_id" maxLength:"200" doc:"The id of its price at the payment provider."`
	Metadata         schema.Object   `json:"metadata" merge:"1" doc:"Data of your own, kept and shown as it is sent; a change merges it one level deep."`
}

// Options are what products need of others.
type Options struct {
	// Agent and KnowledgeBase report whether a company has one. Errors: fault.NotFound.
	Agent, KnowledgeBase func(tx txn.Tx, tenant, id string) error
}

// Products keeps the products of all companies.
type Products struct {
	*resource.Store[Product]
}

// New returns the products.
func New(deps resource.Deps, o Options) *Products {
	return &Products{resource.NewStore(o.kind(), deps)}
}

// Routes returns the operations on products.
func (p *Products) Routes() []route.Route { return resource.Routes(p.Store) }

func (o Options) kind() resource.Kind[Product] {
	return resource.Kind[Product]{
		Name: "product", Noun: "CommerceProduct", Path: "/api/v1/commerce/products", IDField: "id", Tag: "Commerce",
		Keys:     []string{"products"},
		Example:  `{"name":"Sailing for beginners","type":"course","price_cents":4900,"currency":"EUR","description":"Six weeks"}`,
		PageSize: 50, MaxPageSize: 200,
		Readers: resource.Access{Scopes: []authz.Scope{"billing:read"}},
		Writers: resource.Access{Role: authz.Admin},
		Indexes: []resource.Index[Product]{
			{
				Name: "type", Doc: "Only products of this type: course, service, digital or subscription.",
				Of: func(p *Product) string { return p.Type },
			},
			{Name: "status", Doc: "Only products in this state: active or archived.", Of: func(p *Product) string { return p.Status }},
		},
		Filters:  []string{"type", "status"},
		State:    func(p *Product) *string { return &p.Status },
		Counted:  true,
		Label:    func(p *Product) string { return p.Name },
		Validate: validate,
		Events: []resource.EventType{
			{Name: "product.created", Doc: "A product was created.", Actions: []string{resource.Created}},
			{Name: "product.updated", Doc: "A product was changed.", Actions: []string{resource.Updated}},
			{Name: "product.deleted", Doc: "A product was deleted.", Actions: []string{resource.Deleted}},
		},
		Before: o.before,
	}
}

func validate(p *Product) []fault.Field {
	if strings.TrimSpace(p.Name) == "" {
		return []fault.Field{{Field: "name", Message: "it is blank"}}
	}
	return nil
}

// before looks up what a write newly refers to.
func (o Options) before(e *resource.Edit[Product]) error {
	p := e.New
	p.Currency = strings.ToUpper(p.Currency)
	var known []string
	if e.Old != nil {
		known = append(known, e.Old.KnowledgeBaseIDs...)
		known = append(known, ptr.Value(e.Old.AgentID))
	}
	if id := ptr.Value(p.AgentID); id != "" && !slices.Contains(known, id) {
		if err := o.Agent(e.Tx, e.Who.TenantID, id); err != nil {
			return err
		}
	}
	return resource.CheckReferences("knowledge_base_ids", "knowledge base", p.KnowledgeBaseIDs, known, func(id string) error {
		return o.KnowledgeBase(e.Tx, e.Who.TenantID, id)
	})
}
