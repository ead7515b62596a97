package identity

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
)

// PublicSettings are what the directory of companies shows of one.
type PublicSettings struct {
	_ struct{} `json:"-" name:"TenantPublicSettings"`

	Category string   `json:"category,omitzero" maxLength:"50" doc:"Field of the company's business, in a word."`
	Tagline  string   `json:"tagline,omitzero" maxLength:"200" doc:"What the company does, in a line."`
	Tags     []string `json:"tags,omitzero" maxItems:"20" maxLength:"50" doc:"Words by which the company is found."`
}

// IsZero reports whether nothing is set.
func (p PublicSettings) IsZero() bool { return p.Category == "" && p.Tagline == "" && len(p.Tags) == 0 }

// Color matches the colours that a company's branding may have. Style sheets have them as
// they are, so that nothing else may pass.
var Color = regexp.MustCompile(`^#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})$`)

// IsColor reports whether a member of a branding is a colour, by its name.
func IsColor(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "color") || strings.HasSuffix(name, "colour")
}

// badColors returns the members of a branding that are called colours and are none.
func badColors(branding schema.Object) (wrong []fault.Field) {
	if len(branding) == 0 {
		return nil
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(branding, &members) != nil {
		return nil // the schema refused it
	}
	for name, value := range members {
		var color string
		if IsColor(name) && value.Kind() != 'n' && (json.Unmarshal(value, &color) != nil || !Color.MatchString(color)) {
			wrong = append(wrong, fault.Field{Field: "branding." + name, Message: "it is no colour; write it as #1f5fbf"})
		}
	}
	slices.SortFunc(wrong, func(a, b fault.Field) int { return strings.Compare(a.Field, b.Field) })
	return wrong
}

// checkAgents refuses agents that the company does not have.
func (p tenantProfile) checkAgents(ctx context.Context, tenant string, c *tenantChange) error {
	ids := c.PublishedIDs
	if c.PublicAgentID != nil {
		ids = append(slices.Clone(ids), *c.PublicAgentID)
	}
	for _, id := range ids {
		has := false
		if ident.Valid(id) && p.hasAgent != nil {
			var err error
			if has, err = p.hasAgent(ctx, tenant, id); err != nil {
				return err
			}
		}
		if !has {
			return fault.NewNotFound("agent")
		}
	}
	return nil
}

// publish applies what strangers see of a tenant.
func (c *tenantChange) publish(t *Tenant, present map[string]bool, now time.Time) {
	if present["public"] && c.Public != t.Public {
		t.Public, t.PublishedAt = c.Public, time.Time{}
		if c.Public {
			t.PublishedAt = now
		}
	}
	if present["public_agent_id"] {
		t.PublicAgentID = orEmpty(c.PublicAgentID)
	}
	if present["published_agent_ids"] {
		t.PublishedAgentIDs = c.PublishedIDs
	}
	if present["public_settings"] {
		t.PublicSettings = PublicSettings{}
		if c.PublicSettings != nil {
			t.PublicSettings = *c.PublicSettings
		}
	}
}
