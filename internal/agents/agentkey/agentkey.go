// Package agentkey keeps the Ed25519 key pairs by which agents are known outside of the
// company. An agent gets its pair when it is first asked for; the private half is sealed.
package agentkey

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Pair is the key pair of an agent. One without keys was deleted.
type Pair struct {
	resource.Meta `json:"-"` // the ID is that of the agent

	PublicKey string    `json:"public_key"`
	Private   string    `json:"private_key" secret:"true"`
	MadeAt    time.Time `json:"made_at"`
}

var pairs = resource.Kind[Pair]{
	Name: "agent_identity", Names: "agent_identities", Path: "/api/v1/agent-identities", IDField: "agent_id", Tag: "Agents",
	Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
	Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
}

// Options are what key pairs need of others.
type Options struct {
	// AgentTx locks an agent. Errors: fault.NotFound.
	AgentTx func(tx txn.Tx, tenant, id string) error
}

// Keys keeps the key pairs of all agents.
type Keys struct {
	Options
	deps  resource.Deps
	store *resource.Store[Pair]
}

// New returns the key pairs.
func New(deps resource.Deps, o Options) *Keys { return &Keys{o, deps, resource.NewStore(pairs, deps)} }

// Identity is the public half of an agent's key pair.
type Identity struct {
	_ struct{} `json:"-" name:"AgentIdentity"`

	PublicKey string    `json:"public_key" required:"true" doc:"Ed25519, the 32 bytes in base64."`
	CreatedAt time.Time `json:"created_at" required:"true"`
}

// Rotated is the public half of a new key pair.
type Rotated struct {
	_ struct{} `json:"-" name:"AgentIdentityRotation"`

	PublicKey string    `json:"public_key" required:"true" doc:"Ed25519, the 32 bytes in base64."`
	RotatedAt time.Time `json:"rotated_at" required:"true"`
}

type agentIn struct {
	AgentID string `path:"agentId"`
}

// Routes returns the operations.
func (k *Keys) Routes() []route.Route {
	row := func(method, path, id, summary, doc string) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/agents/{agentId}/identity" + path, ID: id, Tag: "Agents", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"agents:read"},
		}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Developer
		}
		return r
	}
	remove := row("DELETE", "", "deleteAgentIdentity", "Delete the identity of an agent",
		"Its key pair is destroyed, and it gets no other. It also succeeds where there is none.")
	remove.Status = 204
	return []route.Route{
		route.Action(row("GET", "", "getAgentIdentity", "Get the identity of an agent",
			"The public half of its key pair, which is made when it is first asked for; 404 once it was deleted."), k.get),
		route.Action(remove, k.remove),
		route.Action(row("POST", "/rotate", "rotateAgentIdentity", "Replace the identity of an agent",
			"A new key pair takes the place of the old one, whose private half is destroyed. 404 once it was deleted."), k.rotate),
	}
}

// fill makes a new key pair.
func (k *Keys) fill(p *Pair) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	p.PublicKey = base64.StdEncoding.EncodeToString(public)
	p.Private = base64.StdEncoding.EncodeToString(private.Seed())
	p.MadeAt = k.deps.Clock.Now().Truncate(time.Microsecond)
	return nil
}

// change changes the pair of an agent, in a transaction that has locked the agent. An
// agent that has none gets one first.
func (k *Keys) change(ctx context.Context, who authz.Caller, id string, change func(tx txn.Tx, p *Pair) error) error {
	if !ident.Valid(id) {
		return fault.NewNotFound("agent")
	}
	return k.deps.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := k.AgentTx(tx, who.TenantID, id); err != nil {
			return err
		}
		p, err := k.store.GetTx(tx, who.TenantID, id)
		if fault.Is(err, fault.NotFound) {
			p = k.store.Blank()
			p.ID = id
			if err = k.fill(p); err == nil {
				err = k.store.CreateTx(tx, who, p)
			}
		}
		if err != nil {
			return err
		}
		return change(tx, p)
	})
}

func noIdentity() error {
	return fault.New(fault.NotFound, "", "The agent has no identity: it was deleted.")
}

// pair returns the key pair of an agent, which is made if there is none yet. Errors:
// fault.NotFound for an agent that does not exist, or whose identity was deleted.
func (k *Keys) pair(ctx context.Context, who authz.Caller, agent string) (*Pair, error) {
	p, err := k.store.Get(ctx, who.TenantID, agent)
	if fault.Is(err, fault.NotFound) {
		err = k.change(ctx, who, agent, func(_ txn.Tx, made *Pair) error {
			p = made
			return nil
		})
		if fault.Is(err, fault.Conflict) { // another request made it meanwhile
			p, err = k.store.Get(ctx, who.TenantID, agent)
		}
	}
	if err == nil && p.PublicKey == "" {
		err = noIdentity()
	}
	return p, err
}

func (k *Keys) get(ctx context.Context, who authz.Caller, in *agentIn) (*Identity, error) {
	p, err := k.pair(ctx, who, in.AgentID)
	if err != nil {
		return nil, err
	}
	return &Identity{PublicKey: p.PublicKey, CreatedAt: p.MadeAt}, nil
}

func (k *Keys) rotate(ctx context.Context, who authz.Caller, in *agentIn) (answer *Rotated, err error) {
	err = k.change(ctx, who, in.AgentID, func(tx txn.Tx, p *Pair) error {
		if p.PublicKey == "" {
			return noIdentity()
		}
		p, err := k.store.UpdateTx(tx, who, in.AgentID, k.fill)
		if err != nil {
			return err
		}
		answer = &Rotated{PublicKey: p.PublicKey, RotatedAt: p.MadeAt}
		return txn.Answer(tx, answer)
	})
	return answer, err
}

func (k *Keys) remove(ctx context.Context, who authz.Caller, in *agentIn) (*struct{}, error) {
	err := k.change(ctx, who, in.AgentID, func(tx txn.Tx, p *Pair) error {
		if p.PublicKey != "" {
			_, err := k.store.UpdateTx(tx, who, in.AgentID, func(p *Pair) error {
				p.PublicKey, p.Private = "", ""
				return nil
			})
			if err != nil {
				return err
			}
		}
		return txn.Answer(tx, nil)
	})
	return nil, err
}

// AgentDeleted removes the key pair of an agent that was deleted.
func (k *Keys) AgentDeleted(ctx context.Context, tenant, id string) error {
	err := k.store.Delete(ctx, authz.Caller{TenantID: tenant}, id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
