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
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

const (
	maxMembers     = 100      // of the objects that a tenant stores
	maxObject      = 64 << 10 // bytes of such an object
	maxLinks       = 20
	maxLinkName    = 50
	maxURL         = 2048
	maxDescription = 2000
)

// tenantProfile changes what the owner of a tenant can change of it.
type tenantProfile struct {
	*roster
	db       txn.Writer
	hasAgent func(ctx context.Context, tenantID, agentID string) (bool, error)

	onSettings func() // nil: not called
}

// operatorSettings are the settings of a tenant that only the operator can
// change. Changes by others are ignored.
var operatorSettings = []string{"egress_allowlist", "max_retention_days", legalHold}

const legalHold = "legal_hold"

type patchTenantIn struct {
	Body jsontext.Value
}

// tenantChange is the body of PUT and PATCH /tenants/me. Fields that are left
// out stay.
type tenantChange struct {
	_ struct{} `json:"-" name:"TenantUpdate"`

	Name        string        `json:"name,omitzero" maxLength:"200" doc:"Name of the company, as people see it."`
	Slug        string        `json:"slug,omitzero" maxLength:"64" doc:"Lower-case letters and digits joined by single hyphens."`
	Description *string       `json:"description" maxLength:"2000" doc:"What the company does; null removes it."`
	LogoURL     *string       `json:"logo_url" maxLength:"2048" doc:"URL of an image, http or https; null removes it."`
	Settings    schema.Object `json:"settings,omitzero" doc:"Merged one level deep; null removes a member. The operator's settings are ignored. redact: kinds of data that runs and sessions do not store."`
	Branding    schema.Object `json:"branding,omitzero" doc:"Merged one level deep; null removes a member, or the whole object."`
	SocialLinks schema.Object `json:"social_links,omitzero" doc:"URLs by name. Replaces all links."`

	Public         bool            `json:"public,omitzero" doc:"Whether strangers see the company's profile."`
	PublicAgentID  *string         `json:"public_agent_id" format:"uuid" doc:"Agent that welcomes visitors of the profile; null removes it."`
	PublishedIDs   []string        `json:"published_agent_ids,omitzero" maxItems:"50" maxLength:"36" doc:"Agents that the profile shows, where they are public. Replaces all."`
	PublicSettings *PublicSettings `json:"public_settings" doc:"What the directory of companies shows; null removes all of it."`
}

// readChange decodes a body that changes some fields, and returns which of them
// it has.
func readChange[T any](body jsontext.Value, into *T) (present map[string]bool, err error) {
	if err := schema.Of[T]().DecodeInto(body, into, true); err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	present = map[string]bool{}
	for name := range members {
		present[name] = true
	}
	return present, nil
}

func (c *tenantChange) invalid(present map[string]bool) (all []fault.Field) {
	add := func(field, message string) {
		if present[field] && message != "" {
			all = append(all, fault.Field{Field: field, Message: message})
		}
	}
	add("name", badName(c.Name))
	add("slug", badSlug(c.Slug))
	if c.Description != nil {
		add("description", badText(*c.Description))
	}
	if c.LogoURL != nil && !webURL(*c.LogoURL) {
		add("logo_url", notWebURL)
	}
	add("social_links", badLinks(c.SocialLinks))
	all = append(all, badColors(c.Branding)...)
	all = append(all, BadRedaction(jsontext.Value(c.Settings))...)
	return all
}

// badText returns what is wrong with a text that may have several lines.
func badText(s string) string {
	switch {
	case utf8.RuneCountInString(s) > maxDescription:
		return fmt.Sprintf("is longer than %d characters", maxDescription)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }):
		return "contains characters that cannot be shown"
	}
	return ""
}

func badLinks(o schema.Object) string {
	if len(o) == 0 {
		return ""
	}
	var links map[string]any
	if err := json.Unmarshal(o, &links); err != nil {
		return "cannot be read"
	}
	if len(links) > maxLinks {
		return fmt.Sprintf("has more than %d links", maxLinks)
	}
	for name, value := range links {
		link, ok := value.(string)
		if !ok || len(name) > maxLinkName || len(link) > maxURL || !webURL(link) {
			return "must be an object of URLs that begin with http:// or https://"
		}
	}
	return ""
}

// updateTenant changes the profile of the caller's tenant.
func (p tenantProfile) updateTenant(ctx context.Context, who authz.Caller, in *patchTenantIn) (Tenant, error) {
	var change tenantChange
	present, err := readChange(in.Body, &change)
	if err != nil {
		return Tenant{}, err
	}
	if invalid := change.invalid(present); invalid != nil {
		return Tenant{}, fault.BadFields(invalid...)
	}
	if err := p.checkAgents(ctx, who.TenantID, &change); err != nil {
		return Tenant{}, err
	}
	out, err := withAnswer(ctx, p.db, func(tx txn.Tx) (Tenant, error) {
		t, _, err := p.acting(tx, who, authz.Owner)
		if err != nil {
			return t, err
		}
		if err := route.Match(tx.Context(), t); err != nil {
			return t, err
		}
		before := t.Settings
		if err := change.apply(&t, present); err != nil {
			return t, err
		}
		change.publish(&t, present, p.clock.Now())
		t.UpdatedAt = p.clock.Now()
		if err := p.store.UpdateTenantTx(tx, t); err != nil {
			return t, err
		}
		if present["settings"] && p.onSettings != nil {
			tx.AfterCommit(p.onSettings)
		}
		fields := slices.Sorted(maps.Keys(present))
		fields = slices.DeleteFunc(fields, func(name string) bool { return !slices.Contains(tenantFields, name) })
		noted := details{"fields": fields}
		if was := StoredRedaction(before); was != StoredRedaction(t.Settings) {
			noted["redact"] = RedactedKinds(t.Settings)
		}
		return t, p.note(tx, who, "tenant.updated", "tenant", t.TenantID, noted)
	})
	if errors.Is(err, ErrTaken) {
		return out, slugTaken(change.Slug)
	}
	return out, err
}

var tenantFields = []string{"name", "slug", "description", "logo_url", "settings", "branding", "social_links",
	"public", "public_agent_id", "published_agent_ids", "public_settings"}

func (c *tenantChange) apply(t *Tenant, present map[string]bool) (err error) {
	if present["name"] {
		t.Name = strings.TrimSpace(c.Name)
	}
	if present["slug"] {
		t.Slug = c.Slug
	}
	if present["description"] {
		t.Description = orEmpty(c.Description)
	}
	if present["logo_url"] {
		t.LogoURL = orEmpty(c.LogoURL)
	}
	if present["settings"] && len(c.Settings) > 0 {
		if t.Settings, err = mergeSettings(t.Settings, c.Settings); err != nil {
			return err
		}
	}
	switch {
	case !present["branding"]:
	case len(c.Branding) == 0: // null
		t.Branding = jsontext.Value(`{}`)
	default:
		if t.Branding, err = mergeObject("branding", t.Branding, jsontext.Value(c.Branding), nil); err != nil {
			return err
		}
	}
	if present["social_links"] {
		t.SocialLinks = jsontext.Value(`{}`)
		if len(c.SocialLinks) > 0 {
			t.SocialLinks = jsontext.Value(c.SocialLinks)
		}
	}
	return nil
}

// mergeSettings merges an owner's change of the settings. Only the operator can
// end a legal hold: an attempt is an error, while changes of other operator
// settings are ignored.
func mergeSettings(settings jsontext.Value, patch schema.Object) (jsontext.Value, error) {
	var now, change map[string]jsontext.Value
	if err := json.Unmarshal(settings, &now); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	if hold, ok := change[legalHold]; ok && now[legalHold].Kind() == 't' && hold.Kind() != 't' {
		return nil, fault.New(fault.Forbidden, "", "This company is under legal hold. Only the operator can end it.")
	}
	return mergeObject("settings", settings, jsontext.Value(patch), operatorSettings)
}

// mergeObject merges the members of patch into an object, one level deep, except
// the ignored ones; null removes a member.
func mergeObject(field string, object, patch jsontext.Value, ignored []string) (jsontext.Value, error) {
	out, err := schema.MergePatch(object, patch, ignored...)
	if err != nil {
		return nil, err
	}
	members, err := schema.Members(out)
	switch {
	case err != nil:
		return nil, err
	case len(members) > maxMembers:
		return nil, fault.BadFields(fault.Field{Field: field, Message: fmt.Sprintf("would have more than %d members", maxMembers)})
	case len(out) > maxObject:
		return nil, fault.BadFields(fault.Field{Field: field, Message: fmt.Sprintf("would have more than %d KiB", maxObject>>10)})
	}
	return out, nil
}
