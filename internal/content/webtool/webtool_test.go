package webtool

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/tool"
)

// out is the web as a test wants it to be.
type out struct {
	page  Page
	err   error
	hits  []Hit
	limit int
}

func (o *out) Fetch(context.Context, string, string) (Page, error) { return o.page, o.err }
func (o *out) Name() string                                        { return "sim" }
func (o *out) Search(_ context.Context, _ string, limit int) ([]Hit, error) {
	o.limit = limit
	return o.hits, o.err
}

func call(t *testing.T, s *Service, name, arguments string) tool.Result {
	t.Helper()
	r, err := tool.NewRegistry(tool.Limits{}, s.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	set, _ := r.Select(r.Names())
	if found, _ := set.Lookup(name); !found.ReadOnly {
		t.Errorf("%s is not read-only", name)
	}
	got, err := set.Call(t.Context(), tool.Call{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTools(t *testing.T) {
	t.Parallel()
	fine := &out{page: Page{URL: "https://example.com/", Status: 200, ContentType: "text/html", Title: "T", Content: "x"}}
	for range 12 {
		fine.hits = append(fine.hits, Hit{Title: "t", URL: "https://example.com/", Snippet: strings.Repeat("ü", 2000)})
	}
	refuses := &out{err: fault.New(fault.Forbidden, "EGRESS_DENIED", "Not there.")}
	broken := &out{err: errors.New("a secret")}
	for name, test := range map[string]struct {
		service         *Service
		tool, arguments string
		want            string // "!…": a failure with these words
		cause           bool
	}{
		"fetch":         {&Service{Fetcher: fine}, "http_fetch", `{"url":"https://example.com"}`, `{"url":"https://example.com/","status":200,"content_type":"text/html","title":"T","content":"x"}`, false},
		"fetch-refused": {&Service{Fetcher: refuses}, "http_fetch", `{"url":"https://example.com"}`, "!Not there.", false},
		"fetch-broken":  {&Service{Fetcher: broken}, "http_fetch", `{"url":"https://example.com"}`, "!The tool failed.", true},
		"fetch-nothing": {&Service{Fetcher: fine}, "http_fetch", `{}`, "!missing property 'url'", false},
		"fetch-more":    {&Service{Fetcher: fine}, "http_fetch", `{"url":"x","headers":{}}`, "!'headers' not allowed", false},
		"search":        {&Service{Searcher: fine}, "web_search", `{"query":"x"}`, `"provider":"sim"`, false},
		"search-many":   {&Service{Searcher: fine}, "web_search", `{"query":"x","max_results":11}`, "!/max_results", false},
		"search-off":    {&Service{}, "web_search", `{"query":"x"}`, "!No search provider is configured", false},
		"search-failed": {&Service{Searcher: refuses}, "web_search", `{"query":"x"}`, "!Not there.", false},
		"search-empty":  {&Service{Searcher: fine}, "web_search", `{"query":""}`, "!/query", false},
	} {
		got := call(t, test.service, test.tool, test.arguments)
		words, fails := strings.CutPrefix(test.want, "!")
		if got.Failed != fails || !strings.Contains(got.Output, words) || (got.Cause != nil) != test.cause {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	o := &out{}
	for range 12 {
		o.hits = append(o.hits, Hit{Title: " t\xff ", URL: "https://example.com/", Snippet: strings.Repeat("ü", 2000)})
	}
	s := &Service{Searcher: o}
	found, err := s.Search(t.Context(), "x", 3)
	if err != nil || len(found.Results) != 3 || found.Provider != "sim" || o.limit != 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	h := found.Results[0]
	if n := len([]rune(h.Snippet)); n != maxSnippet || h.Title != "t" {
		t.Errorf("%d characters, %q", n, h.Title)
	}
	o.hits = nil
	if found, err = s.Search(t.Context(), "x", 3); err != nil || found.Results == nil {
		t.Errorf("nothing found: %+v, %v", found, err)
	}
	if _, err = (&Service{}).Search(t.Context(), "x", 3); !fault.Is(err, fault.Unsupported) || fault.From(err).Code != "SEARCH_PROVIDER_NOT_CONFIGURED" {
		t.Error(err)
	}
}
