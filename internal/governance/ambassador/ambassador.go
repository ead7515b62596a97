// Package ambassador has the people who speak for a company towards its agents: agents
// send them requests, and they veto what must not happen.
package ambassador

import (
	"context"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
)

// The roles of ambassadors. Any other word is Observer.
const (
	Founder  = "founder"
	Envoy    = "ambassador"
	Observer = "observer"
)

// maxAmbassadors is how many ambassadors a company may have.
const maxAmbassadors = 200

// Permissions are what an ambassador may do.
type Permissions struct {
	_ struct{} `json:"-" name:"AmbassadorPermissions"`

	CanVeto    bool `json:"can_veto" required:"true"`
	CanAudit   bool `json:"can_audit" required:"true"`
	CanPropose bool `json:"can_propose" required:"true"`
}

// Ambassador is a member who speaks for the company.
type Ambassador struct {
	resource.Meta `json:"-"`

	AmbassadorID string      `json:"ambassador_id"`
	Name         string      `json:"name"`
	Role         string      `json:"role"`
	Permissions  Permissions `json:"permissions"`
}

// Options are what ambassadors need of others.
type Options struct {
	Clock   clock.Clock
	Ledger  ledger.Appender
	Inbox   inbox.Sender
	Agent   func(tx txn.Tx, tenant, id string) error // reports fault.NotFound for an agent that a company does not have
	Targets map[string]TargetFunc                    // of vetoes, by type: proposal, action, agent, case
}

// TargetFunc finds what a veto is about, and returns what carries the veto out in its
// transaction. Errors of both: fault.NotFound; fault.Conflict for what cannot be vetoed
// any more.
type TargetFunc func(ctx context.Context, who authz.Caller, id string) (vetoTx func(tx txn.Tx, reason string) error, err error)

// Ambassadors keeps the ambassadors, requests and vetoes of all companies.
type Ambassadors struct {
	Options
	people   *resource.Store[Ambassador]
	requests *resource.Store[Request]
	vetoes   *resource.Store[Veto]
	writer   txn.Writer
}

// New returns the ambassadors.
func New(deps resource.Deps, o Options) *Ambassadors {
	a := &Ambassadors{Options: o, writer: deps.Writer}
	a.people = resource.NewStore(resource.Kind[Ambassador]{
		Name: "ambassador", Path: "/api/v1/governance/ambassador/ambassadors", IDField: "id", Tag: "Governance",
		Unique: resource.Index[Ambassador]{Name: "ambassador_id", Of: func(p *Ambassador) string { return p.AmbassadorID }},
		Label:  func(p *Ambassador) string { return p.Name },
	}, deps)
	a.requests = resource.NewStore(a.requestKind(), deps)
	a.vetoes = resource.NewStore(vetoKind(), deps)
	return a
}

// Requests returns what keeps the requests.
func (a *Ambassadors) Requests() *resource.Store[Request] { return a.requests }

type view struct {
	_ struct{} `json:"-" name:"Ambassador"`

	AmbassadorID string      `json:"ambassador_id" required:"true"`
	Name         string      `json:"name" required:"true"`
	Role         string      `json:"role" required:"true" enum:"founder,ambassador,observer"`
	Permissions  Permissions `json:"permissions" required:"true"`
	CreatedAt    time.Time   `json:"created_at" required:"true"`
	UpdatedAt    time.Time   `json:"updated_at" required:"true"`
}

func viewOf(p *Ambassador) view {
	return view{
		AmbassadorID: p.AmbassadorID, Name: p.Name, Role: p.Role, Permissions: p.Permissions, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}

func (a *Ambassadors) list(ctx context.Context, who authz.Caller, _ *struct{}) ([]view, error) {
	found, err := a.people.List(ctx, who.TenantID, resource.Find{Limit: maxAmbassadors, Asc: true})
	all := make([]view, len(found))
	for i, p := range found {
		all[i] = viewOf(p)
	}
	return all, err
}

type oneIn struct {
	ID string `path:"ambassadorId" format:"any" maxLength:"200"`
}

func (a *Ambassadors) get(ctx context.Context, who authz.Caller, in *oneIn) (*view, error) {
	found, err := a.people.List(ctx, who.TenantID, resource.Find{Unique: in.ID, Limit: 1})
	if err == nil && len(found) == 0 {
		err = fault.NewNotFound("ambassador")
	}
	if err != nil {
		return nil, err
	}
	v := viewOf(found[0])
	return &v, nil
}

type registerIn struct {
	Body struct {
		_ struct{} `json:"-" name:"AmbassadorRegister"`

		AmbassadorID string `json:"ambassador_id" required:"true" minLength:"1" maxLength:"200" doc:"The user id of a member, who then acts with their own credential; or a name, of someone who is only listed."`
		Name         string `json:"name,omitzero" maxLength:"200" doc:"What people call the ambassador."`
		Role         string `json:"role,omitzero" maxLength:"200" doc:"founder, ambassador or observer; any other word is observer."`
		Permissions  struct {
			_ struct{} `json:"-" name:"AmbassadorPermissionsSet"`

			CanVeto    *bool `json:"can_veto,omitzero" doc:"Whether vetoes may be issued. Default: only founders may."`
			CanAudit   *bool `json:"can_audit,omitzero" doc:"Default: true. Kept and shown; has no effect yet."`
			CanPropose *bool `json:"can_propose,omitzero" doc:"Default: only founders may. Kept and shown; has no effect yet."`
		} `json:"permissions,omitzero" doc:"What the ambassador may do."`
	}
}

// Done is the answer to what has nothing else to answer.
type Done struct {
	_ struct{} `json:"-" name:"AmbassadorDone"`

	OK bool `json:"ok" required:"true"`
}

func (a *Ambassadors) register(ctx context.Context, who authz.Caller, in *registerIn) (*Done, error) {
	b := &in.Body
	if !slices.Contains([]string{Founder, Envoy}, b.Role) {
		b.Role = Observer
	}
	founder, asked := b.Role == Founder, b.Permissions
	set := Ambassador{AmbassadorID: b.AmbassadorID, Name: b.Name, Role: b.Role, Permissions: Permissions{
		CanVeto: either(asked.CanVeto, founder), CanAudit: either(asked.CanAudit, true), CanPropose: either(asked.CanPropose, founder),
	}}
	answer := &Done{OK: true}
	return answer, a.writer.Write(ctx, func(tx txn.Tx) error {
		if _, err := a.putTx(tx, who, set); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
}

// either returns what was asked for, or else the default.
func either(asked *bool, otherwise bool) bool {
	if asked != nil {
		return *asked
	}
	return otherwise
}

// putTx registers an ambassador, in place of the one with the same id.
func (a *Ambassadors) putTx(tx txn.Tx, who authz.Caller, set Ambassador) (*Ambassador, error) {
	found, err := a.people.ListTx(tx, who.TenantID, resource.Find{Unique: set.AmbassadorID, Limit: 1})
	if err != nil {
		return nil, err
	}
	stored := a.people.Blank()
	if len(found) > 0 {
		stored, err = a.people.UpdateTx(tx, who, found[0].ID, func(p *Ambassador) error {
			set.Meta = p.Meta
			*p = set
			return nil
		})
	} else {
		all, listErr := a.people.ListTx(tx, who.TenantID, resource.Find{Limit: maxAmbassadors})
		switch {
		case listErr != nil:
			return nil, listErr
		case len(all) >= maxAmbassadors:
			return nil, fault.New(fault.Conflict, "COUNT_LIMIT_REACHED", "A company has at most %d ambassadors.", maxAmbassadors)
		}
		*stored = set
		err = a.people.CreateTx(tx, who, stored)
	}
	if err != nil {
		return nil, err
	}
	return stored, a.Ledger.AppendTx(tx, who.TenantID, ledger.Entry{
		Kind: "ambassador.registered", ActorUserID: who.UserID,
		Details: map[string]any{"ambassador_id": set.AmbassadorID, "role": set.Role, "permissions": set.Permissions},
	})
}

type bootstrapIn struct {
	Body struct {
		_ struct{} `json:"-" name:"AmbassadorBootstrap"`

		FounderID string `json:"founder_id,omitzero" maxLength:"200" doc:"The owner's user id, which is the caller's; another is refused."`
		Name      string `json:"name,omitzero" maxLength:"200" doc:"What people call the founder."`
	}
}

// bootstrap registers the owner, who calls, as the founder.
func (a *Ambassadors) bootstrap(ctx context.Context, who authz.Caller, in *bootstrapIn) (*view, error) {
	if in.Body.FounderID != "" && in.Body.FounderID != who.UserID {
		return nil, fault.BadFields(fault.Field{Field: "founder_id", Message: "it is not the caller, who becomes the founder"})
	}
	var v view
	err := a.writer.Write(ctx, func(tx txn.Tx) error {
		founder, err := a.putTx(tx, who, Ambassador{
			AmbassadorID: who.UserID, Name: in.Body.Name, Role: Founder, Permissions: Permissions{CanVeto: true, CanAudit: true, CanPropose: true},
		})
		if err != nil {
			return err
		}
		v = viewOf(founder)
		return txn.Answer(tx, &v)
	})
	return &v, err
}

// Routes returns the operations on ambassadors, requests and vetoes.
func (a *Ambassadors) Routes() []route.Route {
	row := func(method, path, id, summary string, role authz.Role, status int, refusals ...int) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/governance/ambassador" + path, ID: id, Tag: "Governance", Summary: summary, Status: status,
			Scopes: []authz.Scope{"agents:write"}, Role: role, Errors: refusals,
		}
		if method == "GET" {
			r.Scopes = []authz.Scope{"agents:read"}
		}
		return r
	}
	bootstrap := row("POST", "/ambassadors/bootstrap", "bootstrapAmbassador", "Register the owner, who calls, as the founder.",
		authz.Owner, 201, 409)
	bootstrap.Optional = true
	vetoes := resource.Routes(a.vetoes)
	vetoes[0].ID = "listAmbassadorVetoes"
	veto := row("POST", "/veto", "ambassadorVeto", "Veto a proposal, an action that waits for approval, an agent or a case.",
		authz.Admin, 201, 404, 409)
	veto.AnswerOf = a.vetoes.AnswerType()
	return slices.Concat(resource.Routes(a.requests), vetoes, []route.Route{
		route.Action(row("GET", "/ambassadors", "listAmbassadors", "List the ambassadors, oldest first.", "", 200), a.list),
		route.Action(row("POST", "/ambassadors", "registerAmbassador", "Register an ambassador, in place of the one with the same id.",
			authz.Admin, 201, 409), a.register),
		route.Action(bootstrap, a.bootstrap),
		route.Action(row("GET", "/ambassadors/{ambassadorId}", "getAmbassador", "Read an ambassador.", "", 200, 404), a.get),
		resource.Act(a.requests, route.Row{
			Method: "POST", ID: "resolveAmbassadorRequest", Summary: "Answer a request; a second answer replaces the first.",
			Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin,
		}, "/resolve", "resolve", a.resolve),
		route.Action(veto, a.veto),
	})
}
