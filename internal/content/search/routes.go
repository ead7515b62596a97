package search

import (
	"context"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

// Results per answer (behaviours.md section 36).
const (
	defaultPage = 20
	maxPage     = 50
)

// Routes lists the operation.
func (s *Service) Routes() []route.Route {
	return []route.Route{route.Action(route.Row{
		Method: "GET", Path: "/api/v1/search", ID: "search", Tag: "Meta", Summary: "Find agents, conversations and runs by their words",
		Doc: "Finds what has all the words, in any order, whatever their case and accents; the last word may be the beginning of one. " +
			"What has them in its name comes first, then the newest. Only what the caller's scopes let it read is found. Runs are found once they have ended.",
		Scopes: []authz.Scope{"search:read"}, Role: authz.Viewer, Errors: []int{400},
	}, s.search)}
}

type searchIn struct {
	Q     string `query:"q" required:"true" doc:"The words. With fewer than two characters nothing is found."`
	Type  string `query:"type" doc:"agent, session or run; any of them if it is left out."`
	Limit string `query:"limit" doc:"How many, 1 to 50; 20 if it is left out."`
}

type searchOut struct {
	_ struct{} `json:"-" name:"SearchResults"`

	Results []Result `json:"results" required:"true"`
}

func (s *Service) search(ctx context.Context, who authz.Caller, in *searchIn) (out searchOut, err error) {
	known := func(a area) bool { return string(a.kind) == in.Type }
	if in.Type != "" && in.Type != "all" && !slices.ContainsFunc(areas, known) {
		return out, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter type is agent, session or run, or left out.")
	}
	if in.Type == "all" {
		in.Type = ""
	}
	out.Results, err = s.Find(ctx, who, in.Q, Kind(in.Type), page.Limit(in.Limit, defaultPage, maxPage))
	return out, err
}
