package assurance

import (
	"context"
	"fmt"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
)

// Report is the assessment of an agent's impact on fundamental rights.
type Report struct {
	resource.Meta `json:"-"` // the ID is that of the agent
	Assessment

	RiskLevel  string    `json:"risk_level" readOnly:"true" enum:"limited,high" doc:"Class of the agent when it was assessed."`
	AssessedAt time.Time `json:"assessed_at" readOnly:"true"`
}

// Assessment is what the assessor enters.
type Assessment struct {
	_ struct{} `json:"-" name:"FRIAUpdate"`

	Rights      []Right   `json:"rights_assessed" required:"true" minItems:"1" maxItems:"50" doc:"One entry for each fundamental right that was considered."`
	Mitigations string    `json:"mitigations" required:"true" maxLength:"50000" doc:"What is done to keep the impact low."`
	Assessor    string    `json:"assessor" required:"true" minLength:"1" maxLength:"500" doc:"Who assessed it."`
	NextReview  time.Time `json:"next_review" required:"true" doc:"When the assessment is to be reviewed."`
}

// Right is the impact on one right.
type Right struct {
	_ struct{} `json:"-" name:"FRIARight"`

	Right         string `json:"right" required:"true" minLength:"1" maxLength:"500" doc:"The right, such as non-discrimination."`
	Impact        string `json:"impact" required:"true" enum:"none,low,medium,high" doc:"How much the agent affects it."`
	Justification string `json:"justification" required:"true" maxLength:"10000" doc:"Why the impact is judged so."`
	Mitigation    string `json:"mitigation,omitzero" maxLength:"10000" doc:"What is done about it."`
}

func reportKind() resource.Kind[Report] {
	return resource.Kind[Report]{
		Name: "fria", Names: "frias", Noun: "FRIAReport", Path: "/api/v1/agents/fria", IDField: "agent_id", Tag: "Agents",
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer},
	}
}

type assessIn struct {
	AgentID string `path:"agentId" format:"any" maxLength:"100"`
	Body    Assessment
}

func (b *Assessment) check() []fault.Field {
	wrong := blank("assessor", b.Assessor)
	for i := range b.Rights {
		at := fmt.Sprintf("rights_assessed[%d].", i)
		wrong = append(wrong, blank(at+"right", b.Rights[i].Right, at+"justification", b.Rights[i].Justification)...)
	}
	return wrong
}

func (a *Assurance) assess(ctx context.Context, who authz.Caller, in *assessIn) (reply *route.Reply, err error) {
	if wrong := in.Body.check(); wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	if !ident.Valid(in.AgentID) {
		return nil, fault.NewNotFound("agent")
	}
	err = a.writer.Write(ctx, func(tx txn.Tx) error {
		g, err := a.Agents.GetTx(tx, who.TenantID, in.AgentID)
		if err != nil {
			return err
		}
		level, err := assessable(g)
		if err != nil {
			return err
		}
		r, err := a.putTx(tx, who, in.AgentID, func(r *Report) error {
			r.Assessment, r.RiskLevel, r.AssessedAt = in.Body, level, a.now()
			return nil
		})
		if err != nil {
			return err
		}
		if err := a.Ledger.AppendTx(tx, who.TenantID, ledger.Entry{
			Kind: "agent.fria_updated", ActorUserID: who.UserID, SubjectAgentID: in.AgentID, Details: r,
		}); err != nil {
			return err
		}
		if reply, err = a.reports.Reply(r); err != nil {
			return err
		}
		return txn.Answer(tx, reply)
	})
	return reply, err
}

// assessable returns the class of an agent whose impact is assessed. Errors: fault.Invalid
// for an agent of another class or of none.
func assessable(g *agent.Agent) (string, error) {
	class, err := classOf(g)
	if err != nil {
		return "", err
	}
	if class == nil || class.Level != "limited" && class.Level != "high" {
		return "", fault.New(fault.Invalid, "VALIDATION_ERROR",
			"The agent must be classified as limited or high before its impact is assessed (PATCH /api/v1/agents/%s/risk-classification).", g.ID)
	}
	return class.Level, nil
}

// putTx creates or changes the report of an agent, which the caller has locked.
func (a *Assurance) putTx(tx txn.Tx, who authz.Caller, id string, change func(*Report) error) (*Report, error) {
	_, err := a.reports.GetTx(tx, who.TenantID, id)
	if err == nil {
		return a.reports.UpdateTx(tx, who, id, change)
	}
	if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	r := a.reports.Blank()
	r.ID = id
	if err := change(r); err != nil {
		return nil, err
	}
	return r, a.reports.CreateTx(tx, who, r)
}

func (a *Assurance) report(ctx context.Context, who authz.Caller, in *agentIn) (*route.Reply, error) {
	if !ident.Valid(in.AgentID) {
		return nil, fault.NewNotFound("agent")
	}
	if _, err := a.Agents.Get(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	r, err := a.reports.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	return a.reports.Reply(r)
}

// AgentDeleted removes the report of an agent. It is no error if there is none.
func (a *Assurance) AgentDeleted(ctx context.Context, tenant, id string) error {
	err := a.reports.Delete(ctx, authz.Caller{TenantID: tenant}, id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
