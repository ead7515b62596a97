// Package customer stores the customers of a tenant.
package customer

import (
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/resource"
)

// Customer is somebody who buys.
type Customer struct {
	resource.Meta `json:"-"`

	Name             string          `json:"name" maxLength:"500"`
	FirstName        string          `json:"first_name" maxLength:"200"`
	LastName         string          `json:"last_name" maxLength:"200"`
	Email            string          `json:"email,omitzero" format:"email" immutable:"true" doc:"Set once, when the customer is created."`
	Phone            string          `json:"phone" maxLength:"100"`
	Status           string          `json:"status" maxLength:"100" default:"active"`
	Tags             []string        `json:"tags"`
	Note             string          `json:"note"`
	Addresses        []schema.Object `json:"addresses"`
	AcceptsMarketing bool            `json:"accepts_marketing"`
	VerifiedEmail    bool            `json:"verified_email"`
	TaxExempt        bool            `json:"tax_exempt"`
	Currency         string          `json:"currency" maxLength:"10"`
	Locale           string          `json:"locale" maxLength:"35"`
	Metadata         schema.Object   `json:"metadata" merge:"1"`
}

// Customers is the kind of customers.
var Customers = resource.Kind[Customer]{
	Name: "customer", Noun: "CommerceCustomer", Path: "/api/v1/commerce/customers", IDField: "id", Tag: "Commerce",
	Keys:     []string{"customers"},
	Example:  `{"name":"Ada Lovelace","email":"ada@example.com","note":"Prefers letters","tags":["vip"]}`,
	PageSize: 50, MaxPageSize: 200,
	Readers: resource.Access{Scopes: []authz.Scope{"billing:read"}},
	Writers: resource.Access{Role: authz.Admin},
	Validate: func(c *Customer) []fault.Field {
		if strings.TrimSpace(c.Name+c.FirstName+c.LastName+c.Email) == "" {
			return []fault.Field{{Field: "name", Message: "a customer needs a name, first_name, last_name or email"}}
		}
		return nil
	},
	Label:   func(c *Customer) string { return c.Name },
	Counted: true,
}
