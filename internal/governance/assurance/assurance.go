// Package assurance keeps what is known of an agent's risks: its class under the EU AI Act
// and the assessment of its impact on fundamental rights.
package assurance

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/hashchain"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/permission"
	"agentd/internal/kernel/resource"
)

// Options are what assurance needs of others.
type Options struct {
	Clock  clock.Clock
	Ledger ledger.Appender
	Agents *resource.Store[agent.Agent]
	// Permissions are what agents may do at most.
	Permissions *resource.Store[permission.Set]
	// Head returns the end of a company's ledger; nil: there is none.
	Head func(ctx context.Context, tenant string) (hashchain.Head, error)
}

// Assurance classifies and assesses the agents of all companies.
type Assurance struct {
	Options
	reports *resource.Store[Report]

	writer txn.Writer
}

// New returns what assesses agents.
func New(deps resource.Deps, o Options) *Assurance {
	return &Assurance{Options: o, reports: resource.NewStore(reportKind(), deps), writer: deps.Writer}
}

// Routes returns the operations.
func (a *Assurance) Routes() []route.Route {
	row := func(method, path, id, summary, doc string, refusals ...int) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/agents/{agentId}" + path, ID: id, Tag: "Agents", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"agents:read"}, Errors: refusals,
		}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Developer
		}
		return r
	}
	classify := row("PATCH", "/risk-classification", "updateAgentRiskClassification", "Classify the risk of an agent",
		"The class replaces the one before, so a category that is left out is removed. The answer is the agent.", 404, 409, 422)
	classify.Role, classify.AnswerOf = authz.Admin, a.Agents.AnswerType()
	classify.Example = `{"level":"limited","justification":"It talks with customers","assessor":"Ada Lovelace",` +
		`"review_due_at":"2027-11-01T00:00:00Z"}`
	get := row("GET", "/fria", "getAgentFria", "Get the fundamental rights impact assessment of an agent", "404 if it has none.", 404)
	get.AnswerOf = a.reports.AnswerType()
	assess := row("POST", "/fria", "createAgentFria", "Assess the impact of an agent on fundamental rights",
		"The assessment replaces the one before. The agent must be classified as limited or high.", 404, 422)
	assess.AnswerOf = a.reports.AnswerType()
	assess.Example = `{"rights_assessed":[{"right":"non-discrimination","impact":"low","justification":"It sees no names"}],` +
		`"mitigations":"Samples are read weekly","assessor":"Ada Lovelace","next_review":"2027-11-01T00:00:00Z"}`
	card := row("GET", "/system-card", "getAgentSystemCard", "Get the system card of an agent",
		"What the agent is, as Annex IV of the EU AI Act asks for it: "+
			"made from its configuration, permissions and classification as they are now. "+
			"format=markdown answers text/markdown.", 404, 422)
	card.AnswerOf = reflect.TypeFor[Card]()
	return []route.Route{
		route.Action(card, a.card),
		route.Action(row("GET", "/risk-classification", "getAgentRiskClassification", "Get the risk classification of an agent",
			"404 if it has none.", 404), a.classification),
		route.Action(classify, a.classify),
		route.Action(get, a.report),
		route.Action(assess, a.assess),
		a.conformityRoute(),
	}
}

type agentIn struct {
	AgentID string `path:"agentId" format:"any" maxLength:"100"`
}

// Classification is the body of a classification.
type Classification struct {
	_ struct{} `json:"-" name:"RiskClassificationUpdate"`

	Level         string     `json:"level" required:"true" enum:"minimal,limited,high,unacceptable" doc:"Risk class."`
	Category      string     `json:"annex_iii_category,omitzero" enum:"biometric,critical-infrastructure,education,employment,essential-services,law-enforcement,migration,democratic-processes" doc:"Area of Annex III that a high risk falls under."`
	Justification string     `json:"justification" required:"true" maxLength:"50000" doc:"Why it has this class."`
	Assessor      string     `json:"assessor" required:"true" maxLength:"500" doc:"Who assessed it."`
	AssessedAt    *time.Time `json:"assessed_at,omitzero" doc:"When it was assessed. Default: now."`
	ReviewDueAt   time.Time  `json:"review_due_at" required:"true" doc:"When the assessment is to be reviewed."`
}

type classifyIn struct {
	AgentID string `path:"agentId" format:"any" maxLength:"100"`
	Body    Classification
}

// blank returns the texts that are blank, as wrong fields. It takes pairs of a field and its text.
func blank(pairs ...string) []fault.Field {
	var wrong []fault.Field
	for pair := range slices.Chunk(pairs, 2) {
		if field, text := pair[0], pair[len(pair)-1]; strings.TrimSpace(text) == "" {
			wrong = append(wrong, fault.Field{Field: field, Message: "it is blank"})
		}
	}
	return wrong
}

func (a *Assurance) now() time.Time { return a.Clock.Now().Truncate(time.Microsecond) }

func (a *Assurance) classify(ctx context.Context, who authz.Caller, in *classifyIn) (reply *route.Reply, err error) {
	b := &in.Body
	if wrong := blank("justification", b.Justification, "assessor", b.Assessor); wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	if !ident.Valid(in.AgentID) {
		return nil, fault.NewNotFound("agent")
	}
	err = a.writer.Write(ctx, func(tx txn.Tx) error {
		class := agent.RiskClassification{
			Level: b.Level, Category: b.Category, Justification: b.Justification, Assessor: b.Assessor,
			AssessedAt: b.AssessedAt, ReviewDueAt: &b.ReviewDueAt,
		}
		if class.AssessedAt == nil {
			now := a.now()
			class.AssessedAt = &now
		}
		text, err := json.Marshal(&class)
		if err != nil {
			return err
		}
		changed, err := a.Agents.UpdateTx(tx, who, in.AgentID, func(g *agent.Agent) error {
			g.RiskClassification = schema.NullableOf[agent.RiskClassification](text)
			return nil
		})
		if err != nil {
			return err
		}
		if reply, err = a.Agents.Reply(changed); err != nil {
			return err
		}
		return txn.Answer(tx, reply)
	})
	return reply, err
}

// Classified returns what records the class of an agent in the ledger; see
// agent.Options.
func Classified(to ledger.Appender) func(tx txn.Tx, who authz.Caller, id string, class jsontext.Value) error {
	return func(tx txn.Tx, who authz.Caller, id string, class jsontext.Value) error {
		if len(class) == 0 || class.Kind() == 'n' {
			class = jsontext.Value(`{"removed":true}`)
		}
		return to.AppendTx(tx, who.TenantID, ledger.Entry{
			Kind: "agent.risk_classified", ActorUserID: who.UserID, SubjectAgentID: id, Details: class,
		})
	}
}

func (a *Assurance) classification(ctx context.Context, who authz.Caller, in *agentIn) (*agent.RiskClassification, error) {
	if !ident.Valid(in.AgentID) {
		return nil, fault.NewNotFound("agent")
	}
	g, err := a.Agents.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	class, err := classOf(g)
	if err == nil && class == nil {
		err = fault.New(fault.NotFound, "NOT_FOUND", "The agent has no risk classification.")
	}
	return class, err
}

// classOf returns the class of an agent; nil: it has none.
func classOf(g *agent.Agent) (*agent.RiskClassification, error) {
	if len(g.RiskClassification) == 0 {
		return nil, nil
	}
	class := &agent.RiskClassification{}
	if err := json.Unmarshal(g.RiskClassification, class); err != nil || class.Level == "" {
		return nil, err
	}
	return class, nil
}
