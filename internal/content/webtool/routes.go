package webtool

import (
	"context"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

type searchIn struct {
	Body struct {
		_ struct{} `json:"-" name:"WebSearch"`

		Query      string `json:"query" required:"true" minLength:"1" maxLength:"1000" doc:"What to search for."`
		MaxResults int    `json:"max_results" minimum:"1" maximum:"10" default:"5" doc:"Maximum number of results."`
	}
}

// Routes returns the operations of the area Tools.
func (s *Service) Routes() []route.Route {
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/tools/web_search", ID: "searchWeb", Tag: "Tools",
			Summary: "Search the web", Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Errors: []int{501, 502, 504}, Outside: true,
			Doc: "Queries the search provider that the operator configured, like the built-in tool web_search. Answers 501 if there is none.",
		}, func(ctx context.Context, _ authz.Caller, in *searchIn) (Found, error) {
			if strings.TrimSpace(in.Body.Query) == "" {
				return Found{}, fault.BadFields(fault.Field{Field: "query", Message: "it is blank"})
			}
			return s.Search(ctx, in.Body.Query, in.Body.MaxResults)
		}),
	}
}
