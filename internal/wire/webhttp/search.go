package webhttp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"

	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/content/webtool"
	"agentd/internal/wire/outbound"
)

// The supported search providers.
const (
	SearXNG = "searxng"
	Brave   = "brave"
)

// SearchConfig of a Search. Zero values mean the defaults in brackets.
type SearchConfig struct {
	Provider  string            // SearXNG or Brave
	URL       string            // of the instance; of Brave's API [its own]
	APIKey    string            // Brave's subscription token; a bearer token for SearXNG, if it wants one
	Transport http.RoundTripper // without a guard, because the operator chose the address [a new one]
	Timeout   time.Duration     // [10 s]
	Reach     time.Duration     // for how long a provider that cannot be reached is tried [5 s]
}

// Search implements webtool.Searcher. Safe for concurrent use.
type Search struct {
	SearchConfig
	client *http.Client
}

var _ webtool.Searcher = (*Search)(nil)

const braveURL = "https://api.search.brave.com/res/v1/web/search"

// NewSearch returns a searcher.
func NewSearch(c SearchConfig) *Search {
	if c.Provider == Brave {
		c.URL = cmp.Or(c.URL, braveURL)
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		}
	}
	c.Timeout, c.Reach = cmp.Or(c.Timeout, 10*time.Second), cmp.Or(c.Reach, 5*time.Second)
	// A redirect would send the key elsewhere.
	client := &http.Client{Transport: c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Search{c, client}
}

// Close closes idle connections.
func (s *Search) Close() { s.client.CloseIdleConnections() }

// Name implements webtool.Searcher.
func (s *Search) Name() string { return s.Provider }

// Search implements webtool.Searcher.
func (s *Search) Search(ctx context.Context, query string, limit int) ([]webtool.Hit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	req, err := s.request(ctx, query, limit)
	if err != nil {
		return nil, searchError("The search provider's address is not a valid URL.", err)
	}
	resp, err := outbound.OnceReachable(req, s.Reach, func() (*http.Response, error) { return s.client.Do(req) })
	if err != nil {
		return nil, s.transportError(ctx, err)
	}
	defer resp.Body.Close()
	const maxAnswer = 4 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, s.transportError(ctx, err)
	case resp.StatusCode == http.StatusForbidden && s.Provider == SearXNG:
		return nil, searchError("The search provider does not answer in JSON; its operator must list json in search.formats.",
			errors.New(resp.Status))
	case resp.StatusCode != http.StatusOK:
		return nil, searchError("The search provider answered "+resp.Status+".", errors.New(resp.Status))
	}
	hits, err := s.hits(body)
	if err != nil {
		return nil, searchError("The search provider's answer cannot be read.", err)
	}
	return hits, nil
}

func (s *Search) request(ctx context.Context, query string, limit int) (*http.Request, error) {
	at, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	q := at.Query()
	q.Set("q", query)
	if s.Provider == Brave {
		q.Set("count", strconv.Itoa(limit))
		q.Set("text_decorations", "false")
	} else {
		q.Set("format", "json")
		if !strings.HasSuffix(at.Path, "/search") {
			at = at.JoinPath("search")
		}
	}
	at.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "agentd/1 (web_search)")
	switch {
	case s.APIKey == "":
	case s.Provider == Brave:
		req.Header.Set("X-Subscription-Token", s.APIKey)
	default:
		req.Header.Set("Authorization", "Bearer "+s.APIKey)
	}
	return req, nil
}

// lenient are the options for decoding answers, which quote arbitrary pages.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

func (s *Search) hits(body []byte) ([]webtool.Hit, error) {
	type result struct {
		Title       string `json:"title"`
		URL         string `json:"url"`
		Content     string `json:"content"`     // SearXNG
		Description string `json:"description"` // Brave
	}
	var answer struct {
		Results []result `json:"results"`
		Web     *struct {
			Results []result `json:"results"`
		} `json:"web"`
	}
	if err := json.Unmarshal(body, &answer, lenient); err != nil {
		return nil, err
	}
	found := answer.Results
	if s.Provider == Brave {
		found = nil
		if answer.Web != nil { // absent without results
			found = answer.Web.Results
		}
	}
	var hits []webtool.Hit
	for _, r := range found {
		if at, err := url.Parse(r.URL); err != nil || at.Scheme != "http" && at.Scheme != "https" {
			continue
		}
		hits = append(hits, webtool.Hit{Title: cleaned(r.Title), URL: r.URL, Snippet: cleaned(cmp.Or(r.Content, r.Description))})
	}
	return hits, nil
}

// cleaned is what a person would read of a title or snippet: some come with
// entities, and some with tags around the words that were found.
func cleaned(s string) string {
	if strings.ContainsAny(s, "<&") {
		if strings.Contains(s, "</") {
			s = stripTags(s)
		}
		s = html.UnescapeString(s)
	}
	return text.OneLine(s)
}

func (s *Search) transportError(ctx context.Context, err error) error {
	var late net.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return fault.New(fault.UpstreamTimeout, "SEARCH_UPSTREAM_TIMEOUT", "The search provider did not answer in time; try again.").Because(err)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return searchError("The search provider cannot be reached.", err)
}

func searchError(sentence string, cause error) error {
	return fault.New(fault.Upstream, "SEARCH_UPSTREAM_FAILED", "%s", sentence).Because(cause)
}

// stripTags returns the text of a page without its tags.
func stripTags(page string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	skip := ""
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(b.String())
		case html.TextToken:
			if skip == "" {
				b.Write(z.Text())
				b.WriteByte(' ')
			}
		case html.StartTagToken:
			if name, _ := z.TagName(); skip == "" && (string(name) == "script" || string(name) == "style") {
				skip = string(name)
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == skip {
				skip = ""
			}
		default:
		}
	}
}
