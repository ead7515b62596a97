package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

const (
	mostMembers     = 100      // of an object that a tenant keeps
	mostObject      = 64 << 10 // bytes of one
	mostLinks       = 20
	mostLinkName    = 50
	mostAddress     = 2048
	mostDescription = 2000
)

// operatorSettings are settings of a tenant that only the operator sets. From
// others they are dropped.
var operatorSettings = []string{"egress_allowlist", "max_retention_days", legalHold}

const legalHold = "legal_hold"

type patchTenantIn struct {
	Body jsontext.Value
}

// tenantChange is the body of PUT and PATCH /tenants/me. What is left out
// stays.
type tenantChange struct {
	_ struct{} `json:"-" name:"TenantUpdate"`

	Name        string        `json:"name,omitzero" maxLength:"200"`
	Slug        string        `json:"slug,omitzero" maxLength:"64" doc:"Lower-case letters and digits, joined by single hyphens."`
	Description *string       `json:"description" maxLength:"2000"`
	LogoURL     *string       `json:"logo_url" maxLength:"2048" doc:"Address of a picture, http or https; null takes it away."`
	Settings    schema.Object `json:"settings,omitzero" doc:"Merged one level deep; null takes a member out. Settings of the operator's are left as they are."`
	Branding    schema.Object `json:"branding,omitzero" doc:"Merged one level deep; null takes a member out, or everything."`
	SocialLinks schema.Object `json:"social_links,omitzero" doc:"Addresses by name, all of them anew."`
}

// readChange reads a body that changes some fields, and says which it names.
func readChange[T any](body jsontext.Value, into *T) (said map[string]bool, err error) {
	if err := schema.Of[T]().DecodeInto(body, into, true); err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	said = map[string]bool{}
	for name := range members {
		said[name] = true
	}
	return said, nil
}

func (c *tenantChange) wrong(said map[string]bool) (all []fault.Field) {
	add := func(field, message string) {
		if said[field] && message != "" {
			all = append(all, fault.Field{Field: field, Message: message})
		}
	}
	add("name", badName(c.Name))
	add("slug", badSlug(c.Slug))
	if c.Description != nil {
		add("description", badText(*c.Description))
	}
	if c.LogoURL != nil && !webAddress(*c.LogoURL) {
		add("logo_url", notAnAddress)
	}
	add("social_links", badLinks(c.SocialLinks))
	return all
}

// badText says what is wrong with a text of several lines.
func badText(s string) string {
	switch {
	case utf8.RuneCountInString(s) > mostDescription:
		return fmt.Sprintf("is longer than %d characters", mostDescription)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }):
		return "holds characters that cannot be shown"
	}
	return ""
}

func badLinks(o schema.Object) string {
	if len(o) == 0 {
		return ""
	}
	var links map[string]any
	if err := json.Unmarshal(o, &links); err != nil {
		return "it cannot be read"
	}
	if len(links) > mostLinks {
		return fmt.Sprintf("has more than %d links", mostLinks)
	}
	for name, value := range links {
		address, ok := value.(string)
		if !ok || len(name) > mostLinkName || len(address) > mostAddress || !webAddress(address) {
			return "is not an object of addresses that begin with http:// or https://"
		}
	}
	return ""
}

// updateTenant changes what the tenant says of itself.
func (p *People) updateTenant(ctx context.Context, who authz.Caller, in *patchTenantIn) (Tenant, error) {
	var change tenantChange
	said, err := readChange(in.Body, &change)
	if err != nil {
		return Tenant{}, err
	}
	if wrong := change.wrong(said); wrong != nil {
		return Tenant{}, fault.BadFields(wrong...)
	}
	out, err := answering(ctx, p.db, func(tx txn.Tx) (Tenant, error) {
		t, _, err := p.acting(tx, who, authz.Owner)
		if err != nil {
			return t, err
		}
		if err := change.apply(&t, said); err != nil {
			return t, err
		}
		t.UpdatedAt = p.clock.Now()
		if err := p.Store.UpdateTenantTx(tx, t); err != nil {
			return t, err
		}
		fields := slices.DeleteFunc(slices.Sorted(maps.Keys(said)), func(name string) bool { return !slices.Contains(tenantFields, name) })
		return t, p.note(tx, who, "tenant.updated", "tenant", t.TenantID, details{"fields": fields})
	})
	if errors.Is(err, ErrTaken) {
		return out, slugTaken(change.Slug)
	}
	return out, err
}

var tenantFields = []string{"name", "slug", "description", "logo_url", "settings", "branding", "social_links"}

func (c *tenantChange) apply(t *Tenant, said map[string]bool) (err error) {
	if said["name"] {
		t.Name = strings.TrimSpace(c.Name)
	}
	if said["slug"] {
		t.Slug = c.Slug
	}
	if said["description"] {
		t.Description = orNothing(c.Description)
	}
	if said["logo_url"] {
		t.LogoURL = orNothing(c.LogoURL)
	}
	if said["settings"] && len(c.Settings) > 0 {
		if t.Settings, err = mergeSettings(t.Settings, c.Settings); err != nil {
			return err
		}
	}
	switch {
	case !said["branding"]:
	case len(c.Branding) == 0: // null
		t.Branding = jsontext.Value(`{}`)
	default:
		if t.Branding, err = mergeObject("branding", t.Branding, jsontext.Value(c.Branding), nil); err != nil {
			return err
		}
	}
	if said["social_links"] {
		t.SocialLinks = jsontext.Value(`{}`)
		if len(c.SocialLinks) > 0 {
			t.SocialLinks = jsontext.Value(c.SocialLinks)
		}
	}
	return nil
}

// mergeSettings merges what an owner sets. A legal hold is the operator's to
// end: an attempt is refused, where other such settings are just dropped.
func mergeSettings(settings jsontext.Value, patch schema.Object) (jsontext.Value, error) {
	var now, change map[string]jsontext.Value
	if err := json.Unmarshal(settings, &now); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	if wanted, says := change[legalHold]; says && now[legalHold].Kind() == 't' && wanted.Kind() != 't' {
		return nil, fault.New(fault.Forbidden, "", "This company is under legal hold, which only the operator can end.")
	}
	return mergeObject("settings", settings, jsontext.Value(patch), operatorSettings)
}

// mergeObject puts the members of patch into an object, one level deep, but
// for some; null takes a member out.
func mergeObject(field string, object, patch jsontext.Value, but []string) (jsontext.Value, error) {
	out, err := schema.MergePatch(object, patch, but...)
	if err != nil {
		return nil, err
	}
	members, err := schema.Members(out)
	switch {
	case err != nil:
		return nil, err
	case len(members) > mostMembers:
		return nil, fault.BadFields(fault.Field{Field: field, Message: fmt.Sprintf("would have more than %d members", mostMembers)})
	case len(out) > mostObject:
		return nil, fault.BadFields(fault.Field{Field: field, Message: fmt.Sprintf("would have more than %d KiB", mostObject>>10)})
	}
	return out, nil
}
