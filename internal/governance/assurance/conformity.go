package assurance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/hashchain"
	"agentd/internal/base/route"
	"agentd/internal/kernel/resource"
)

// Bounds of a report.
const (
	maxReported = 10_000 // agents that are looked at
	maxNamed    = 50     // agents that a section names
	reportPage  = 200
)

// Conformity is what a company has done of what the EU AI Act asks for, as far as the
// configuration of its agents shows it.
type Conformity struct {
	_ struct{} `json:"-" name:"ConformityReport"`

	TenantID    string              `json:"tenant_id" required:"true"`
	GeneratedAt time.Time           `json:"generated_at" required:"true"`
	Agents      int                 `json:"agents" required:"true" doc:"How many agents were looked at, at most 10000."`
	Truncated   bool                `json:"truncated,omitzero" doc:"The company has more agents."`
	Sections    []ConformitySection `json:"sections" required:"true"`
	Markdown    string              `json:"markdown" required:"true" doc:"The same as a document."`
}

// ConformitySection is what a report says of one duty.
type ConformitySection struct {
	_ struct{} `json:"-" name:"ConformityReportSection"`

	Article  string         `json:"article" required:"true" doc:"Of Regulation (EU) 2024/1689."`
	Title    string         `json:"title" required:"true"`
	Status   string         `json:"status" enum:"met,open" required:"true" doc:"open: something is missing, for the agents that are named or for the company."`
	Findings []string       `json:"findings" required:"true"`
	Agents   []ConformAgent `json:"agents" required:"true" doc:"Agents for which something is missing, at most 50."`
	Missing  int            `json:"missing" required:"true" doc:"For how many agents something is missing."`
}

// ConformAgent is an agent that a section names.
type ConformAgent struct {
	_ struct{} `json:"-" name:"ConformityReportAgent"`

	AgentID string `json:"agent_id" required:"true"`
	Name    string `json:"name" required:"true"`
}

func (s *ConformitySection) name(g *agent.Agent) {
	if s.Missing++; len(s.Agents) < maxNamed {
		s.Agents = append(s.Agents, ConformAgent{AgentID: g.ID, Name: g.Name})
	}
}

func (s *ConformitySection) say(format string, args ...any) {
	s.Findings = append(s.Findings, fmt.Sprintf(format, args...))
}

// The sections of a report, in order.
const (
	inventory = iota
	prohibited
	impact
	documented
	recorded
	overseen
	guarded
)

func conformitySections() []ConformitySection {
	all := []ConformitySection{
		inventory:  {Article: "6, 9", Title: "Risk classification"},
		prohibited: {Article: "5", Title: "Prohibited practices"},
		impact:     {Article: "27", Title: "Impact on fundamental rights"},
		documented: {Article: "11, 13", Title: "Technical documentation"},
		recorded:   {Article: "12", Title: "Record-keeping"},
		overseen:   {Article: "14", Title: "Human oversight"},
		guarded:    {Article: "15", Title: "Robustness"},
	}
	for i := range all {
		all[i].Findings, all[i].Agents = []string{}, []ConformAgent{}
	}
	return all
}

func (a *Assurance) conformityRoute() route.Route {
	return route.Action(route.Row{
		Method: "GET", Path: "/api/v1/admin/conformity-report", ID: "getConformityReport", Tag: "Admin",
		Summary: "Report what is done of the duties of the EU AI Act",
		Doc: "From the agents as they are configured now, their classes and assessments, and the ledger. It shows what is missing; " +
			"whether what is there is enough is for people to judge.",
		Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin,
	}, a.conformity)
}

func (a *Assurance) conformity(ctx context.Context, who authz.Caller, _ *struct{}) (*Conformity, error) {
	c := &Conformity{TenantID: who.TenantID, GeneratedAt: a.now(), Sections: conformitySections()}
	levels := map[string]int{}
	overdue := 0
	for after := ""; ; {
		found, err := a.Agents.List(ctx, who.TenantID, resource.Find{Asc: true, After: after, Limit: reportPage, Page: true})
		if err != nil {
			return nil, err
		}
		for _, g := range found {
			if c.Agents == maxReported {
				c.Truncated = true
				break
			}
			c.Agents++
			late, err := a.look(ctx, c, g, levels)
			if err != nil {
				return nil, err
			}
			if late {
				overdue++
			}
		}
		if len(found) == 0 || c.Truncated {
			break
		}
		after = found[len(found)-1].ID
	}
	c.Sections[inventory].say("Agents: %d. Minimal risk: %d, limited: %d, high: %d, unacceptable: %d, not classified: %d.",
		c.Agents, levels["minimal"], levels["limited"], levels["high"], levels["unacceptable"], levels[""])
	c.Sections[inventory].say("Classifications whose review is overdue: %d.", overdue)
	if err := a.reportRecords(ctx, c); err != nil {
		return nil, err
	}
	for i := range c.Sections {
		s := &c.Sections[i]
		if s.Status == "" {
			s.Status = "met"
		}
		if s.Missing > 0 {
			s.Status = "open"
			s.say("Something is missing for %d agents.", s.Missing)
		} else if len(s.Findings) == 0 {
			s.say("Nothing is missing.")
		}
	}
	c.Markdown = c.markdown()
	return c, nil
}

// look notes what is missing for an agent, and reports whether its class is to be
// reviewed by now.
func (a *Assurance) look(ctx context.Context, c *Conformity, g *agent.Agent, levels map[string]int) (overdue bool, err error) {
	class, err := classOf(g)
	if err != nil {
		return false, err
	}
	level := ""
	if class != nil {
		level = class.Level
		overdue = class.ReviewDueAt != nil && class.ReviewDueAt.Before(c.GeneratedAt)
	}
	levels[level]++
	if level == "" || overdue {
		c.Sections[inventory].name(g)
	}
	if level == "unacceptable" && g.Status != agent.Suspended {
		c.Sections[prohibited].name(g)
	}
	if strings.TrimSpace(g.Description) == "" {
		c.Sections[documented].name(g)
	}
	if level != "high" {
		return overdue, nil
	}
	report, err := a.reports.Get(ctx, g.TenantID, g.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		c.Sections[impact].name(g)
	case err != nil:
		return overdue, err
	case report.NextReview.Before(c.GeneratedAt):
		c.Sections[impact].name(g)
	}
	_, err = a.Permissions.Get(ctx, g.TenantID, g.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return overdue, err
	}
	if err != nil && len(g.ApprovalRequiredTools) == 0 {
		c.Sections[overseen].name(g)
	}
	card, err := CardOf(g, nil, c.GeneratedAt)
	if err == nil && !card.Specifications.Guarded {
		c.Sections[guarded].name(g)
	}
	return overdue, err
}

// reportRecords says what the ledger has.
func (a *Assurance) reportRecords(ctx context.Context, c *Conformity) error {
	s := &c.Sections[recorded]
	var head hashchain.Head
	if a.Head != nil {
		var err error
		if head, err = a.Head(ctx, c.TenantID); err != nil {
			return err
		}
	}
	if head.Seq == 0 {
		s.Status = "open"
		s.say("The ledger has no entry yet.")
		return nil
	}
	s.say("The ledger has %d entries, chained by their hashes; the last one is %s.", head.Seq, head.Hash)
	s.say("Export and verify it to show that none was changed.")
	return nil
}

// markdown returns the report as a document, in which names cannot pass for parts of it.
func (c *Conformity) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Conformity report\n\nCompany: %s\n\nGenerated: %s\n", c.TenantID, c.GeneratedAt.UTC().Format(time.RFC3339))
	if c.Truncated {
		fmt.Fprintf(&b, "\nOnly the first %d agents were looked at.\n", c.Agents)
	}
	for _, s := range c.Sections {
		fmt.Fprintf(&b, "\n## %s (article %s): %s\n\n", s.Title, s.Article, s.Status)
		for _, f := range s.Findings {
			fmt.Fprintf(&b, "- %s\n", f)
		}
		for _, g := range s.Agents {
			fmt.Fprintf(&b, "- Missing for %s (%s)\n", quoted(g.Name), g.AgentID)
		}
	}
	return b.String()
}
