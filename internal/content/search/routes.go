package search

import (
	"context"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

// Results per answer.
const (
	defaultPage = 20
	maxPage     = 50
)

// Routes returns the operation.
func (s *Service) Routes() []route.Route {
	return []route.Route{route.Action(route.Row{
		Method: "GET", Path: "/api/v1/search", ID: "search", Tag: "Meta", Summary: "Search agents, sessions and runs",
		Doc: "Finds objects that contain all the words, in any order, ignoring case and accents; the last word may be a prefix. " +
			"Objects with the words in their name come first, then the newest. Only objects that the caller's scopes allow to read are found. " +
			"Runs are found once they have ended.",
		Scopes: []authz.Scope{"search:read"}, Role: authz.Viewer, Errors: []int{400},
	}, s.search)}
}

type searchIn struct {
	Q     string `query:"q" required:"true" doc:"The words. Fewer than two characters find nothing."`
	Type  string `query:"type" doc:"agent, session or run. Default: all."`
	Limit string `query:"limit" doc:"Number of results, 1 to 50. Default: 20."`
}

type searchOut struct {
	_ struct{} `json:"-" name:"SearchResults"`

	Results []Result `json:"results" required:"true"`
}

func (s *Service) search(ctx context.Context, who authz.Caller, in *searchIn) (out searchOut, err error) {
	known := func(a area) bool { return string(a.kind) == in.Type }
	if in.Type != "" && in.Type != "all" && !slices.ContainsFunc(areas, known) {
		return out, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter type must be agent, session or run, or absent.")
	}
	if in.Type == "all" {
		in.Type = ""
	}
	out.Results, err = s.Find(ctx, who, in.Q, Kind(in.Type), page.Limit(in.Limit, defaultPage, maxPage))
	return out, err
}
