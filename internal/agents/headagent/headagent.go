// Package headagent proposes a company's first agents: tiers of ready configurations, which
// can be created as they are. They are data (tiers.json), made of tools that agentd has.
package headagent

import (
	"context"
	_ "embed"
	"slices"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

//go:embed tiers.json
var tiersJSON []byte

// Tier is a proposal.
type Tier struct {
	_ struct{} `json:"-" name:"HeadAgentTier"`

	ID          string   `json:"id" enum:"basic,standard,full" required:"true"`
	Name        string   `json:"name" required:"true"`
	Description string   `json:"description" required:"true"`
	Plan        string   `json:"required_plan" enum:"free,starter,pro" required:"true" doc:"The smallest of these plans that has it. Plans with other names have all tiers."`
	SpecIDs     []string `json:"spec_ids" required:"true" doc:"The agents that belong to it."`
}

// Spec is an agent that can be created: a body of POST /agents, and the id of what it was
// made of, which creations ignore.
type Spec struct {
	_ struct{} `json:"-" name:"HeadAgentSpec"`

	ID          string        `json:"spec_id" required:"true"`
	Name        string        `json:"name" required:"true"`
	Description string        `json:"description" required:"true"`
	Prompts     schema.Object `json:"prompts" required:"true"`
	Tools       []string      `json:"built_in_tools" required:"true" doc:"Those of its tools that this deployment has."`
	Approval    []string      `json:"approval_required_tools" required:"true"`
	Memory      schema.Object `json:"memory,omitzero"`
	Metadata    schema.Object `json:"metadata" required:"true" doc:"Has the spec_id, so that the agent shows what it was made of."`
}

// data is what tiers.json has.
var data = func() (d struct {
	Tiers []Tier `json:"tiers"`
	Specs []Spec `json:"specs"`
}) {
	if err := json.Unmarshal(tiersJSON, &d, json.RejectUnknownMembers(true)); err != nil {
		panic("headagent: tiers.json: " + err.Error())
	}
	return d
}()

// Offer is a tier as a company sees it.
type Offer struct {
	_ struct{} `json:"-" name:"HeadAgentTierOffer"`

	Tier      Tier     `json:"tier" required:"true"`
	Available bool     `json:"available" required:"true" doc:"Whether the company's plan has it."`
	Specs     []Spec   `json:"install_specs" required:"true" doc:"Each is a body of POST /agents. Empty where the tier is not available."`
	Tools     []string `json:"auto_approve_tools" required:"true" doc:"The tools of the tier whose calls need no approval."`
	Count     int64    `json:"total_tool_count" required:"true" doc:"Different tools of all its agents, also where it is not available."`
}

// Template answers GET /me/head-agent-template.
type Template struct {
	_ struct{} `json:"-" name:"HeadAgentTemplate"`

	Plan        string  `json:"plan" required:"true" doc:"The company's plan."`
	Recommended string  `json:"recommended" enum:"basic,standard,full" required:"true" doc:"The largest tier up to standard that the plan has."`
	Tiers       []Offer `json:"tiers" required:"true" doc:"The smallest first."`
}

// Service answers with the tiers.
type Service struct {
	// Plan returns the id of a company's plan.
	Plan func(ctx context.Context, tenant string) (string, error)
	// Tools are the names of the tools that this deployment has.
	Tools []string
}

// Routes returns the operation.
func (s *Service) Routes() []route.Route {
	return []route.Route{route.Action(route.Row{
		Method: "GET", Path: "/api/v1/me/head-agent-template", ID: "getMyHeadAgentTemplate", Tag: "Tenants",
		Summary: "Get proposals for the first agents",
		Doc:     "Tiers of agents that can be created as they are, with POST /agents, as far as the company's plan has them.",
	}, s.template)}
}

// plans are the plans of tiers, the smallest first.
var plans = []string{"free", "starter", "pro"}

// includes reports whether a plan has what another one has.
func includes(plan, required string) bool {
	at := slices.Index(plans, plan)
	return at < 0 || at >= slices.Index(plans, required)
}

func (s *Service) template(ctx context.Context, who authz.Caller, _ *struct{}) (out Template, err error) {
	out.Plan, err = s.Plan(ctx, who.TenantID)
	for _, t := range data.Tiers {
		offer := s.offer(t, includes(out.Plan, t.Plan))
		if offer.Available && t.ID != "full" {
			out.Recommended = t.ID
		}
		out.Tiers = append(out.Tiers, offer)
	}
	return out, err
}

func (s *Service) offer(t Tier, available bool) Offer {
	o := Offer{Tier: t, Available: available, Specs: []Spec{}, Tools: []string{}}
	var all, asked []string
	for _, spec := range data.Specs {
		if !slices.Contains(t.SpecIDs, spec.ID) {
			continue
		}
		spec.Tools = s.known(spec.Tools)
		spec.Approval = s.known(spec.Approval)
		all, asked = append(all, spec.Tools...), append(asked, spec.Approval...)
		if available {
			o.Specs = append(o.Specs, spec)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	o.Count = int64(len(all))
	for _, name := range all {
		if !slices.Contains(asked, name) {
			o.Tools = append(o.Tools, name)
		}
	}
	return o
}

// known returns those of some tools that this deployment has.
func (s *Service) known(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(s.Tools, name) })
}
