package integration

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
)

type toolsIn struct {
	ID     string `path:"integrationId"`
	Limit  string `query:"limit" doc:"How many tools, 1 to 100. Default: 50."`
	Cursor string `query:"cursor" doc:"Where the page begins, from the page before."`
}

type toolPage struct {
	_ struct{} `json:"-" name:"IntegrationToolPage"`

	Items      []Operation `json:"items" required:"true"`
	Total      int         `json:"total" required:"true" doc:"How many tools the integration offers."`
	Operations int         `json:"operation_count" required:"true" doc:"How many operations the service has; an OpenAPI document may have more than are tools."`
	Cursor     *string     `json:"cursor" required:"true" doc:"null on the last page."`
	HasMore    bool        `json:"has_more" required:"true"`
}

// listTools pages through the tools of an integration. The position is the name of the
// last tool of the page before.
func (s *Integrations) listTools(ctx context.Context, who authz.Caller, in *toolsIn) (toolPage, error) {
	v, err := s.store.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return toolPage{}, err
	}
	tools, total, err := s.operations(ctx, v, nil)
	if err != nil {
		return toolPage{}, err
	}
	scope, after := page.ScopeOf(who.TenantID, "integration_tools", in), ""
	if in.Cursor != "" {
		if after, err = s.Kernel.Cursors.Open(scope, in.Cursor); err != nil {
			return toolPage{}, err
		}
	}
	out := toolPage{Items: []Operation{}, Total: len(tools), Operations: total}
	limit := page.Limit(in.Limit, 50, 100)
	skip := after != ""
	for _, t := range tools {
		if skip {
			skip = t.Name != after
			continue
		}
		if len(out.Items) == limit {
			cursor := s.Kernel.Cursors.Seal(scope, out.Items[limit-1].Name)
			out.Cursor, out.HasMore = &cursor, true
			break
		}
		out.Items = append(out.Items, t)
	}
	return out, nil
}

// withMember returns an object with one member set.
func withMember(object jsontext.Value, name string, value any) (jsontext.Value, error) {
	members := map[string]any{}
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	members[name] = value
	return json.Marshal(members, json.Deterministic(true))
}
