// Package capability keeps manifests: what agents can do, as others read it. An agent
// without a manifest of its own has one that follows from its configuration.
package capability

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Skill is something that an agent can do.
type Skill struct {
	_ struct{} `json:"-" name:"CapabilitySkill"`

	ID           string   `json:"id" required:"true" minLength:"1" maxLength:"200" doc:"Name of the skill among the agent's."`
	Name         string   `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the skill for people."`
	Description  string   `json:"description" maxLength:"4000" doc:"What the agent does."`
	InputTypes   []string `json:"input_types" maxItems:"50" maxLength:"200" doc:"Media types that it takes."`
	OutputTypes  []string `json:"output_types" maxItems:"50" maxLength:"200" doc:"Media types that it produces."`
	AvgLatencyMS float64  `json:"avg_latency_ms" minimum:"0" maximum:"1e12" doc:"How long it usually takes, in milliseconds."`
	SuccessRate  float64  `json:"success_rate" minimum:"0" maximum:"1" doc:"The share of requests that it usually fulfils."`
}

// Constraints bound what an agent takes.
type Constraints struct {
	_ struct{} `json:"-" name:"CapabilityConstraints"`

	MaxContextTokens   int64    `json:"max_context_tokens,omitzero" minimum:"0" maximum:"1000000000" doc:"Tokens of a conversation."`
	SupportedLanguages []string `json:"supported_languages,omitzero" maxItems:"200" maxLength:"100" doc:"Languages, such as en."`
	RateLimitRPM       int64    `json:"rate_limit_rpm,omitzero" minimum:"0" maximum:"1000000000" doc:"Requests per minute."`
}

// Content is what a manifest states.
type Content struct {
	_ struct{} `json:"-" name:"CapabilitiesReplace"`

	Skills      []Skill     `json:"skills" required:"true" maxItems:"100" doc:"What the agent can do."`
	Constraints Constraints `json:"constraints,omitzero" doc:"What bounds it."`
	Tools       []string    `json:"tools" maxItems:"1000" maxLength:"200" doc:"Names of its tools."`
	KBIDs       []string    `json:"kb_ids" maxItems:"100" maxLength:"36" ref:"knowledge_base" doc:"Knowledge bases that it searches."`
}

// Stored is a manifest as it is stored.
type Stored struct {
	resource.Meta `json:"-"` // the ID is that of the agent

	Content Content `json:"content"`
}

// Manifest is what an agent can do.
type Manifest struct {
	_ struct{} `json:"-" name:"AgentCapabilities"`

	AgentID     string      `json:"agent_id" required:"true"`
	Skills      []Skill     `json:"skills" required:"true"`
	Constraints Constraints `json:"constraints" required:"true"`
	Tools       []string    `json:"tools" required:"true"`
	KBIDs       []string    `json:"kb_ids" required:"true"`
	UpdatedAt   time.Time   `json:"updated_at" required:"true"`
}

var manifests = resource.Kind[Stored]{
	Name: "agent_capabilities", Names: "agents_capabilities", Path: "/api/v1/agent-capabilities", IDField: "agent_id", Tag: "Agents",
	Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
	Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
}

// Options are what manifests need of others.
type Options struct {
	Agents *agent.Agents
	// KnowledgeBaseTx refuses a knowledge base that the tenant does not have, with
	// fault.NotFound. nil: any id is kept.
	KnowledgeBaseTx func(tx txn.Tx, tenant, id string) error
}

// Capabilities keeps the manifests of all agents.
type Capabilities struct {
	Options
	deps  resource.Deps
	store *resource.Store[Stored]
}

// New returns the manifests.
func New(deps resource.Deps, o Options) *Capabilities {
	return &Capabilities{o, deps, resource.NewStore(manifests, deps)}
}

type agentIn struct {
	AgentID string `path:"agentId"`
}

type putIn struct {
	AgentID string `path:"agentId"`
	Body    Content
}

// Done is the answer to a manifest that was stored.
type Done struct {
	_ struct{} `json:"-" name:"CapabilitiesDone"`

	Status  string `json:"status" required:"true" enum:"updated"`
	AgentID string `json:"agent_id" required:"true"`
}

// Routes returns the operations.
func (c *Capabilities) Routes() []route.Route {
	const path = "/api/v1/agents/{agentId}/capabilities"
	return []route.Route{
		route.Action(route.Row{
			Method: "GET", Path: path, ID: "getAgentCapabilities", Tag: "Agents", Summary: "Get the capabilities of an agent",
			Doc: "An agent without a manifest of its own has one that follows from its configuration.", Scopes: []authz.Scope{"agents:read"},
		}, c.get),
		route.Action(route.Row{
			Method: "PUT", Path: path, ID: "setAgentCapabilities", Tag: "Agents", Summary: "Set the capabilities of an agent",
			Doc:    "The manifest is replaced as a whole. It is for others to read: what the agent may do is in its configuration and permissions.",
			Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer,
			Example: `{"skills":[{"id":"sums","name":"Sums","description":"Adds and multiplies."}],"tools":["calculator"]}`,
		}, c.put),
	}
}

func (c *Capabilities) get(ctx context.Context, who authz.Caller, in *agentIn) (*Manifest, error) {
	a, err := c.Agents.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	s, err := c.store.Get(ctx, who.TenantID, in.AgentID)
	if fault.Is(err, fault.NotFound) {
		return manifest(a.ID, contentOf(&a), a.UpdatedAt), nil
	}
	if err != nil {
		return nil, err
	}
	return manifest(a.ID, s.Content, s.UpdatedAt), nil
}

func manifest(id string, c Content, at time.Time) *Manifest {
	m := &Manifest{AgentID: id, Skills: []Skill{}, Constraints: c.Constraints, Tools: []string{}, KBIDs: []string{}, UpdatedAt: at}
	m.Skills, m.Tools, m.KBIDs = append(m.Skills, c.Skills...), append(m.Tools, c.Tools...), append(m.KBIDs, c.KBIDs...)
	return m
}

// contentOf returns the manifest that follows from an agent's configuration. Members of
// free objects that are not what they should be are left out.
func contentOf(a *agent.Agent) Content {
	c := Content{Tools: a.BuiltInTools, KBIDs: a.KnowledgeBases()}
	for i, raw := range a.Skills {
		var s agent.Skill
		if json.Unmarshal(raw, &s) != nil {
			continue
		}
		if s.ID == "" {
			s.ID = strconv.Itoa(i + 1)
		}
		if s.Name == "" {
			s.Name = s.ID
		}
		c.Skills = append(c.Skills, Skill{ID: s.ID, Name: s.Name, Description: s.Description, InputTypes: []string{}, OutputTypes: []string{}})
	}
	var known struct {
		MaxContextTokens int64 `json:"max_context_tokens"`
	}
	if len(a.Model.Capabilities) > 0 && json.Unmarshal(a.Model.Capabilities, &known) == nil {
		c.Constraints.MaxContextTokens = max(0, known.MaxContextTokens)
	}
	return c
}

func (c *Capabilities) put(ctx context.Context, who authz.Caller, in *putIn) (*Done, error) {
	if !ident.Valid(in.AgentID) {
		return nil, fault.NewNotFound("agent")
	}
	done := &Done{Status: "updated", AgentID: in.AgentID}
	err := c.deps.Writer.Write(ctx, func(tx txn.Tx) error {
		if _, err := c.Agents.Store().GetTx(tx, who.TenantID, in.AgentID); err != nil {
			return err
		}
		old, err := c.store.GetTx(tx, who.TenantID, in.AgentID)
		absent := fault.Is(err, fault.NotFound)
		if err != nil && !absent {
			return err
		}
		var before []string
		if !absent {
			before = old.Content.KBIDs
		}
		err = resource.CheckReferences("kb_ids", "knowledge base", in.Body.KBIDs, before, func(id string) error {
			if c.KnowledgeBaseTx == nil {
				return nil
			}
			return c.KnowledgeBaseTx(tx, who.TenantID, id)
		})
		if err != nil {
			return err
		}
		if absent {
			s := c.store.Blank()
			s.ID, s.Content = in.AgentID, in.Body
			err = c.store.CreateTx(tx, who, s)
		} else {
			_, err = c.store.UpdateTx(tx, who, in.AgentID, func(s *Stored) error {
				s.Content = in.Body
				return nil
			})
		}
		if err != nil {
			return err
		}
		return txn.Answer(tx, done)
	})
	return done, err
}

// AgentDeleted removes the manifest of an agent that was deleted.
func (c *Capabilities) AgentDeleted(ctx context.Context, tenant, id string) error {
	err := c.store.Delete(ctx, authz.Caller{TenantID: tenant}, id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
