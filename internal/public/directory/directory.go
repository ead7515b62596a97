// Package directory is what strangers see of a deployment and of the companies that
// publish a profile: their names, their looks and their public agents, and the plans of the
// operator. It also counts what pages for strangers report of themselves.
package directory

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/cache"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/quota"
)

// Company is a company with a public profile, as stored.
type Company struct {
	TenantID, Name, Slug, Description, LogoURL string

	Branding, SocialLinks jsontext.Value // objects
	Category, Tagline     string
	Tags                  []string
	PublicAgentID         string
	AgentIDs              []string
	PublishedAt           time.Time
}

// Store is the port to public profiles and to counted events.
type Store interface {
	// List returns the companies whose profile is public, the newest profiles first.
	List(ctx context.Context, limit int) ([]Company, error)
	// Get returns a company whose profile is public; nil if there is none.
	Get(ctx context.Context, slug string) (*Company, error)
	// IncrementEvents adds to the numbers of a day's events, by name. A day has at most
	// maxNames names; others are left out.
	IncrementEvents(ctx context.Context, day string, numbers map[string]int64, maxNames int) error
	// ListEvents returns the numbers of events since a day, newest day first.
	ListEvents(ctx context.Context, since string, limit int) ([]Counted, error)
}

// Agents is the port to agents; *agent.Agents implements it.
type Agents interface {
	Get(ctx context.Context, tenant, id string) (agent.Agent, error)
}

const (
	// listed is how many companies the directory has: the newest profiles.
	listed = 1000
	// shownFor is how long the list is answered from memory: strangers ask for it.
	shownFor = 5 * time.Second
)

// Service serves the directory.
type Service struct {
	Store   Store
	Agents  Agents
	Plans   func() []quota.Plan
	Cursors *page.Cursors
	Clock   clock.Clock

	companies *cache.Cache[string, []Listing]

	mu     sync.Mutex
	events map[string]int64 // not stored yet
}

// New returns a service.
func New(s *Service) *Service {
	start := time.Now()
	s.events = map[string]int64{}
	s.companies = cache.New(cache.Options[string, []Listing]{
		Most: 1, Lasts: cache.For[[]Listing](shownFor), Elapsed: func() time.Duration { return time.Since(start) },
	})
	return s
}

// Listing is a company as strangers see it.
type Listing struct {
	_ struct{} `json:"-" name:"PublicTenant"`

	TenantID    string        `json:"tenant_id" required:"true" doc:"The company."`
	Name        string        `json:"name" required:"true" doc:"Its name."`
	Slug        string        `json:"slug" required:"true" doc:"Names its profile."`
	Description string        `json:"description,omitzero" doc:"What it does."`
	Tagline     string        `json:"tagline,omitzero" doc:"What it does, in a line."`
	Category    string        `json:"category,omitzero" doc:"Field of its business."`
	Tags        []string      `json:"tags" required:"true" doc:"Words by which it is found."`
	LogoURL     string        `json:"logo_url,omitzero" doc:"Its logo."`
	Branding    schema.Object `json:"branding,omitzero" doc:"Its colours and other values of its looks."`
	SocialLinks schema.Object `json:"social_links,omitzero" doc:"URLs by name."`
	Welcomes    string        `json:"public_agent_id,omitzero" format:"uuid" doc:"Agent that welcomes visitors."`
	Agents      []Agent       `json:"agents" required:"true" doc:"Its public agents."`
	AgentsCount int           `json:"agents_count" required:"true" doc:"Number of its public agents."`
	Stats       stats         `json:"stats" required:"true" doc:"Figures of the profile."`
	PublishedAt time.Time     `json:"published_at" required:"true" doc:"When the profile became public."`
}

// Agent is an agent on a profile.
type Agent struct {
	_ struct{} `json:"-" name:"PublicTenantAgent"`

	AgentID     string `json:"agent_id" format:"uuid" required:"true" doc:"The agent; its card has more."`
	Name        string `json:"name" required:"true" doc:"Its name."`
	Description string `json:"description" required:"true" doc:"What it does."`
}

type stats struct {
	_ struct{} `json:"-" name:"PublicTenantStats"`

	Agents int `json:"agents" required:"true" doc:"Number of its public agents."`
}

// show returns a company with those of its agents that are public.
func (s *Service) show(ctx context.Context, c *Company) (Listing, error) {
	out := Listing{
		TenantID: c.TenantID, Name: c.Name, Slug: c.Slug, Description: c.Description, Tagline: c.Tagline, Category: c.Category,
		Tags: c.Tags, LogoURL: c.LogoURL, Branding: schema.Object(c.Branding), SocialLinks: schema.Object(c.SocialLinks),
		Agents: []Agent{}, PublishedAt: c.PublishedAt,
	}
	if out.Tags == nil {
		out.Tags = []string{}
	}
	ids := slices.Clone(c.AgentIDs)
	if c.PublicAgentID != "" && !slices.Contains(ids, c.PublicAgentID) {
		ids = append(ids, c.PublicAgentID)
	}
	for _, id := range ids {
		g, err := s.Agents.Get(ctx, c.TenantID, id)
		if fault.Is(err, fault.NotFound) || err == nil && (!g.Visitable() || g.Status != agent.Active) {
			continue
		}
		if err != nil {
			return out, err
		}
		out.Agents = append(out.Agents, Agent{AgentID: g.ID, Name: g.Name, Description: g.Description})
		if id == c.PublicAgentID {
			out.Welcomes = id
		}
	}
	out.AgentsCount = len(out.Agents)
	out.Stats.Agents = out.AgentsCount
	return out, nil
}

func (s *Service) all(ctx context.Context) ([]Listing, error) {
	return s.companies.Load(ctx, "", func(ctx context.Context, _ string) ([]Listing, error) {
		found, err := s.Store.List(ctx, listed)
		if err != nil {
			return nil, err
		}
		all := make([]Listing, len(found))
		for i := range found {
			if all[i], err = s.show(ctx, &found[i]); err != nil {
				return nil, err
			}
		}
		return all, nil
	})
}

// Shows returns the company whose profile shows a file of its own, by its id in the URL of
// the logo or in the branding; "" if there is none.
func (s *Service) Shows(ctx context.Context, fileID string) (tenant string, err error) {
	all, err := s.all(ctx)
	for i := range all {
		if strings.Contains(all[i].LogoURL, fileID) || strings.Contains(string(all[i].Branding), fileID) {
			return all[i].TenantID, nil
		}
	}
	return "", err
}

// matches reports whether a company has a category and all words of a search.
func (l *Listing) matches(category, search string) bool {
	if category != "" && !strings.EqualFold(category, l.Category) {
		return false
	}
	text := strings.ToLower(strings.Join(append([]string{l.Name, l.Slug, l.Description, l.Tagline, l.Category}, l.Tags...), " "))
	for word := range strings.FieldsSeq(strings.ToLower(search)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// orders are how lists are ordered; "" is recent.
var orders = map[string]func(a, b Listing) int{
	"recent": func(Listing, Listing) int { return 0 }, // as stored
	"agents": func(a, b Listing) int { return b.AgentsCount - a.AgentsCount },
	"name":   func(a, b Listing) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) },
}
