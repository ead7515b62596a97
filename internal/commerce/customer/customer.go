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

	Name             string          `json:"name" maxLength:"500" doc:"Full name of the customer, or of the company that buys."`
	FirstName        string          `json:"first_name" maxLength:"200" doc:"First name."`
	LastName         string          `json:"last_name" maxLength:"200" doc:"Last name."`
	Email            string          `json:"email,omitzero" format:"email" immutable:"true" doc:"Set once, when the customer is created."`
	Phone            string          `json:"phone" maxLength:"100" doc:"Telephone number, in any form."`
	Status           string          `json:"status" maxLength:"100" default:"active" doc:"State of the customer, in a word of yours."`
	Tags             []string        `json:"tags" doc:"Words of yours by which customers are grouped."`
	Note             string          `json:"note" doc:"Text for your own people."`
	Addresses        []schema.Object `json:"addresses" doc:"Postal addresses, each an object with members of your choice."`
	AcceptsMarketing bool            `json:"accepts_marketing" doc:"Whether the customer has agreed to advertising."`
	VerifiedEmail    bool            `json:"verified_email" doc:"Whether the address was verified."`
	TaxExempt        bool            `json:"tax_exempt" doc:"Whether the customer pays no taxes."`
	Currency         string          `json:"currency" maxLength:"10" doc:"Currency of the customer's orders, such as EUR."`
	Locale           string          `json:"locale" maxLength:"35" doc:"Language and region, such as de-AT."`
	Metadata         schema.Object   `json:"metadata" merge:"1" doc:"Data of yours. An update is merged one level deep; null removes a member."`
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
	Label: func(c *Customer) string { return c.Name },
}
