package page_test

import (
	"slices"
	"testing"

	"agentd/internal/base/page"
)

type paging struct {
	Limit  string `query:"limit"`
	Cursor string `query:"cursor"`
}

type first struct {
	paging

	AgentID string `path:"agentId"`
	Status  string `query:"status"`
}

// second is the first with what later versions of the list may add.
type second struct {
	Archived *bool    `query:"archived"`
	Labels   []string `query:"label"`
	Since    int      `query:"since"`
	Deep     bool     `query:"deep"`
	Live     bool     `query:"live" default:"true"`
	Order    string   `query:"order" default:"desc"`
	TopK     string   `query:"top_k" page:"-"`
	Match    string   `header:"If-None-Match"`
	Body     struct {
		Status string `query:"not_a_parameter"`
	}
	first
	*more

	hidden string `query:"hidden"`
}

type more struct {
	Kind string `query:"kind"`
}

func defaults() second {
	return second{Live: true, Order: "desc", first: first{AgentID: "a", Status: "open"}}
}

func TestScopesFollowFromInputs(t *testing.T) {
	t.Parallel()
	no := false
	for name, c := range map[string]struct {
		change func(*second)
		want   []string // whole, if it is not only what defaults sets
	}{
		"nothing":         {func(*second) {}, nil},
		"paging":          {func(in *second) { in.Limit, in.Cursor, in.TopK = "5", "x", "7" }, nil},
		"other_parts":     {func(in *second) { in.Match, in.Body.Status, in.hidden = "x", "x", "x" }, nil},
		"string_unset":    {func(in *second) { in.Order = "" }, nil},
		"string":          {func(in *second) { in.Order = "asc" }, []string{"agentId=a", "order=asc", "status=open"}},
		"bool":            {func(in *second) { in.Deep = true }, []string{"agentId=a", "deep=true", "status=open"}},
		"false":           {func(in *second) { in.Live = false }, []string{"agentId=a", "live=false", "status=open"}},
		"number":          {func(in *second) { in.Since = 7 }, []string{"agentId=a", "since=7", "status=open"}},
		"sent_false":      {func(in *second) { in.Archived = &no }, []string{"agentId=a", "archived=false", "status=open"}},
		"list":            {func(in *second) { in.Labels = []string{"y", "x=1", ""} }, []string{"agentId=a", "label=y", "label=x=1", "label=", "status=open"}},
		"embedded_filter": {func(in *second) { in.more = &more{Kind: "k"} }, []string{"agentId=a", "kind=k", "status=open"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := defaults()
			c.change(&in)
			got := page.ScopeOf("t", "things", &in)
			want := c.want
			if want == nil {
				want = []string{"agentId=a", "status=open"}
			}
			if got.Tenant != "t" || got.List != "things" || !slices.Equal(got.Filter, want) {
				t.Errorf("%+v, want the filter %q", got, want)
			}
		})
	}
}

func TestCursorsOutliveAddedFilters(t *testing.T) {
	t.Parallel()
	c := page.NewCursors([]byte("0123456789abcdef"))
	cursor := c.Seal(page.ScopeOf("t", "things", &first{AgentID: "a", Status: "open"}), "here")
	change := func(f func(*second)) second {
		in := defaults()
		f(&in)
		return in
	}
	for name, s := range map[string]struct {
		scope page.Scope
		opens bool
	}{
		"filters_not_set": {page.ScopeOf("t", "things", defaults()), true},
		"filter_set":      {page.ScopeOf("t", "things", change(func(in *second) { in.Deep = true })), false},
		"other_value":     {page.ScopeOf("t", "things", change(func(in *second) { in.Status = "done" })), false},
		"value_unset":     {page.ScopeOf("t", "things", change(func(in *second) { in.Status = "" })), false},
		"other_path":      {page.ScopeOf("t", "things", change(func(in *second) { in.AgentID = "b" })), false},
		"other_list":      {page.ScopeOf("t", "others", defaults()), false},
		"other_tenant":    {page.ScopeOf("u", "things", defaults()), false},
		"narrowed":        {page.ScopeOf("t", "things", defaults()).With("branch", ""), false},
	} {
		position, err := c.Open(s.scope, cursor)
		if opened := err == nil && position == "here"; opened != s.opens {
			t.Errorf("%s: %q, %v", name, position, err)
		}
	}
}

func TestNarrowedScopesShareNothing(t *testing.T) {
	t.Parallel()
	s := page.ScopeOf("t", "things", defaults())
	a, b := s.With("branch", "a"), s.With("branch", "b")
	if last := len(s.Filter); a.Filter[last] != "branch=a" || b.Filter[last] != "branch=b" {
		t.Errorf("%q and %q", a.Filter, b.Filter)
	}
}
