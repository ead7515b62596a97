package webhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/base/fault"
	"agentd/internal/content/webtool"
)

// provider simulates a search provider, and gives a searcher that asks it.
func provider(t *testing.T, c SearchConfig, handler http.HandlerFunc) *Search {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c.URL = server.URL + c.URL
	s := NewSearch(c)
	t.Cleanup(s.Close)
	return s
}

func TestSearXNG(t *testing.T) {
	t.Parallel()
	s := provider(t, SearchConfig{Provider: SearXNG, URL: "/sx/", APIKey: "k"}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/sx/search" || r.FormValue("format") != "json" || r.FormValue("q") != "ducks & geese?" || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s, %v", r.URL, r.Header)
		}
		_, _ = io.WriteString(w, `{"query":"x","number_of_results":0,"results":[
			{"url":"https://example.com/1","title":"Ducks &amp; <b>geese</b>","content":" two\n lines ","engine":"x","score":1.5},
			{"url":"javascript:alert(1)","title":"no"},{"url":"https://example.com/2","title":null,"content":"a < b"},{"title":"nowhere"}],
			"answers":[],"infoboxes":[{"id":1}]}`)
	})
	got, err := s.Search(t.Context(), "ducks & geese?", 5)
	want := []webtool.Hit{
		{Title: "Ducks & geese", URL: "https://example.com/1", Snippet: "two lines"},
		{Title: "", URL: "https://example.com/2", Snippet: "a < b"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(webtool.Hit{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if s.Name() != "searxng" {
		t.Error(s.Name())
	}
}

func TestBrave(t *testing.T) {
	t.Parallel()
	s := provider(t, SearchConfig{Provider: Brave, URL: "/res/v1/web/search", APIKey: "k"}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/res/v1/web/search" || r.FormValue("count") != "3" || r.Header.Get("X-Subscription-Token") != "k" || r.Header.Get("Authorization") != "" {
			t.Errorf("%s, %v", r.URL, r.Header)
		}
		if r.FormValue("q") == "nothing" {
			_, _ = io.WriteString(w, `{"type":"search","query":{}}`)
			return
		}
		_, _ = io.WriteString(w, `{"type":"search","results":[],"web":{"type":"search","results":[
			{"title":"Ducks","url":"https://example.com/1","description":"A <strong>duck</strong> &amp; more","profile":{}}]}}`)
	})
	got, err := s.Search(t.Context(), "ducks", 3)
	want := []webtool.Hit{{Title: "Ducks", URL: "https://example.com/1", Snippet: "A duck & more"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(webtool.Hit{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := s.Search(t.Context(), "nothing", 3); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if at := NewSearch(SearchConfig{Provider: Brave}).URL; !strings.HasPrefix(at, "https://") {
		t.Errorf("without a URL it asks %q", at)
	}
}

// A provider that fails is 502 or 504, and neither its address nor its key is
// told.
func TestSearchFails(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	s := provider(t, SearchConfig{Provider: SearXNG, APIKey: "topsecret", Timeout: 300 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("q") {
		case "no-json":
			w.WriteHeader(403)
		case "broken":
			w.WriteHeader(500)
		case "moved":
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(302)
		case "html":
			_, _ = io.WriteString(w, "<html>")
		case "other-shape":
			_, _ = io.WriteString(w, `{"results":{"x":1}}`)
		case "cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"results":[`)
		case "endless":
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		case "silent":
			<-hold
		}
	})
	t.Cleanup(func() { close(hold) })
	for query, want := range map[string]string{
		"no-json": "search.formats", "broken": "answered 500", "moved": "answered 302", "html": "cannot be read", "other-shape": "cannot be read",
		"cut": "cannot be reached", "endless": "cannot be read", "silent": "in time",
	} {
		_, err := s.Search(t.Context(), query, 5)
		e, code, kind := fault.From(err), "SEARCH_UPSTREAM_FAILED", fault.Upstream
		if query == "silent" {
			code, kind = "SEARCH_UPSTREAM_TIMEOUT", fault.UpstreamTimeout
		}
		if query == "endless" && e.Kind == fault.UpstreamTimeout {
			continue // a slow machine
		}
		if err == nil || e.Code != code || e.Kind != kind || !strings.Contains(e.Detail, want) || strings.Contains(err.Error(), "topsecret") || strings.Contains(e.Detail, "127.0.0.1") {
			t.Errorf("%s: %v", query, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Search(ctx, "silent", 5); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	gone := NewSearch(SearchConfig{Provider: SearXNG, URL: "http://127.0.0.1:1"})
	if _, err := gone.Search(t.Context(), "x", 5); fault.From(err).Code != "SEARCH_UPSTREAM_FAILED" {
		t.Errorf("nobody there: %v", err)
	}
}

func FuzzHits(f *testing.F) {
	f.Add([]byte(`{"results":[{"url":"https://example.com","title":"<b","content":"&#0;&lt;/"}]}`), true)
	f.Add([]byte(`{"web":{"results":[{"url":"http://[::1","description":"</script>"}]}}`), false)
	f.Fuzz(func(t *testing.T, body []byte, searxng bool) {
		s := &Search{SearchConfig: SearchConfig{Provider: Brave}}
		if searxng {
			s.Provider = SearXNG
		}
		hits, err := s.hits(body)
		for _, h := range hits {
			if err != nil || !strings.HasPrefix(strings.ToLower(h.URL), "http") {
				t.Errorf("%+v, %v", h, err)
			}
		}
	})
}
