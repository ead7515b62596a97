package search

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/tokenize"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
)

// Result is one search result.
type Result struct {
	_ struct{} `json:"-" name:"SearchResult"`

	Type     string `json:"type" enum:"agent,session,run" required:"true" doc:"New types may be added."`
	ID       string `json:"id" required:"true"`
	Title    string `json:"title" required:"true"`
	Subtitle string `json:"subtitle,omitzero" doc:"The matching passage, or the description."`
	Href     string `json:"href" required:"true" doc:"Path of the object on this service."`
	Icon     string `json:"icon" required:"true" doc:"Name of an icon: bot, messages or play."`
}

// area is a kind of result, with the scope that reading it needs.
type area struct {
	kind  Kind
	scope authz.Scope
	path  string
	icon  string
	show  func(s *Service, ctx context.Context, tenant, id string, words []string) (title, subtitle string, err error)
}

var areas = []area{
	{Agent, "agents:read", "/api/v1/agents/", "bot", (*Service).showAgent},
	{Session, "sessions:read", "/api/v1/sessions/", "messages", (*Service).showSession},
	{Run, "runs:read", "/api/v1/runs/", "play", (*Service).showRun},
}

// found is a hit before it is rendered as a result. Lower ranks come first: 0 has
// the words in its name, 1 elsewhere.
type found struct {
	area *area
	hit  Hit
	rank int
}

// Find returns the results that the caller may read and that contain all words of
// q: those with the words in their names first, newest first among equals. kind
// "" is any kind.
func (s *Service) Find(ctx context.Context, who authz.Caller, q string, kind Kind, limit int) ([]Result, error) {
	results := []Result{}
	if utf8.RuneCountInString(strings.TrimSpace(q)) < minQuery {
		return results, nil
	}
	words := queryWords(q)
	if len(words) == 0 {
		return results, nil
	}
	looking, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	var all []found
	for i := range areas {
		a := &areas[i]
		if kind != "" && kind != a.kind || !who.Has(a.scope) {
			continue
		}
		hits, err := s.hits(looking, who.TenantID, a, words, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, hits...)
	}
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), b.hit.At.Compare(a.hit.At))
	})
	name := tokenize.Normalize(q)
	exact := 0
	for _, f := range all {
		if len(results) == limit {
			break
		}
		title, subtitle, err := f.area.show(s, ctx, who.TenantID, f.hit.ID, words)
		if fault.Is(err, fault.NotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		r := Result{
			Type: string(f.area.kind), ID: f.hit.ID, Title: title, Subtitle: subtitle, Href: f.area.path + f.hit.ID, Icon: f.area.icon,
		}
		if f.rank == 0 && tokenize.Normalize(title) == name {
			results, exact = slices.Insert(results, exact, r), exact+1
		} else {
			results = append(results, r)
		}
	}
	return results, nil
}

// spare is how many more hits are read than requested, because some may have
// been deleted.
const spare = 10

// hits returns the best of an area, each once.
func (s *Service) hits(ctx context.Context, tenant string, a *area, words []string, limit int) ([]found, error) {
	var all []found
	seen := map[string]bool{}
	add := func(rank int, id string, at time.Time) {
		if id != "" && !seen[id] {
			seen[id] = true
			all = append(all, found{a, Hit{ID: id, At: at}, rank})
		}
	}
	want := Want{Kind: a.kind, Words: words, Limit: limit + spare}
	for rank, titles := range []bool{true, false} {
		if titles && a.kind == Run {
			continue // deleted meanwhile
		}
		want.Titles = titles
		hits, err := s.Store.Search(ctx, tenant, want)
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			add(rank, h.ID, h.At)
		}
	}
	if a.kind == Session && len(all) < limit {
		// The document of a long session has only its latest messages; earlier ones are
		// found by its runs.
		hits, err := s.Store.Search(ctx, tenant, Want{Kind: Run, Words: words, Limit: 5 * (limit + spare)})
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			add(1, h.Parent, h.At)
		}
	}
	return all, nil
}

func (s *Service) showAgent(ctx context.Context, tenant, id string, words []string) (title, subtitle string, err error) {
	g, err := s.Agents.Get(ctx, tenant, id)
	if err != nil {
		return "", "", err
	}
	subtitle, ok := snippet(g.Description, words)
	if !ok {
		subtitle = oneLine(g.Description, maxSubtitle)
	}
	return g.Name, subtitle, nil
}

func (s *Service) showRun(ctx context.Context, tenant, id string, words []string) (title, subtitle string, err error) {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil {
		return "", "", err
	}
	x := exchangeOf(&r.Run)
	if title = oneLine(x.message, maxTitle); title == "" {
		title = "Run " + id
	}
	return title, x.line(words), nil
}

// line returns the passage that matches, or else the answer.
func (s exchange) line(words []string) string {
	for _, text := range []string{s.text, s.message} {
		if line, ok := snippet(text, words); ok {
			return line
		}
	}
	return oneLine(s.text, maxSubtitle)
}

func (s *Service) showSession(ctx context.Context, tenant, id string, words []string) (title, subtitle string, err error) {
	r, err := s.Sessions.Get(ctx, tenant, id)
	if err != nil {
		return "", "", err
	}
	if r.Status == session.Closed {
		return "", "", fault.NewNotFound("session") // deleted
	}
	if title = oneLine(titleIn(r.Metadata), maxTitle); title == "" {
		title = oneLine(r.Summary.First, maxTitle)
	}
	if title == "" {
		title = "Session " + id
	}
	for _, text := range []string{r.Summary.Last, r.Summary.First} {
		if line, ok := snippet(text, words); ok {
			return title, line, nil
		}
	}
	runs, err := s.Runs.List(ctx, tenant, run.Filter{SessionID: id}, page.Window{Limit: sessionRuns})
	if err != nil {
		return "", "", err
	}
	for i := range runs {
		s := exchangeOf(&runs[i])
		for _, text := range []string{s.text, s.message} {
			if line, ok := snippet(text, words); ok {
				return title, line, nil
			}
		}
	}
	return title, oneLine(r.Summary.Last, maxSubtitle), nil
}
