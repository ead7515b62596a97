package signinsql

import "agentd/internal/kernel/personal"

const ofAllCompanies = "It belongs to the person in all companies, not to one: it is deleted with the last membership, and " +
	"GET /me/auth-providers shows it to the person."

// Personal is what these tables keep of people.
var Personal = []personal.Table{
	{Name: "signin_links", People: []string{"email", "provider_email"}, Why: ofAllCompanies},
	{Name: "signin_factors", People: []string{"person"}, Why: ofAllCompanies},
	{
		Name: "signin_addresses", People: []string{"email"},
		Why: "It counts the codes that an address requested, and is deleted within days.",
	},
	{Name: "signin_attempts", People: []string{"email"}, Why: "Codes for signing in are deleted within minutes."},
}
