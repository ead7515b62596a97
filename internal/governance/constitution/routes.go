package constitution

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/policy"
)

type getIn struct {
	Version string `query:"version" maxLength:"20" doc:"An earlier version; left out: the newest."`
}

// Replacement is a whole constitution.
type Replacement struct {
	_ struct{} `json:"-" name:"ConstitutionReplace"`

	Rules     []Rule `json:"rules" required:"true" maxItems:"2000" doc:"All rules. Immutable rules stay, also where they are left out."`
	Rationale string `json:"rationale,omitzero" maxLength:"4000" doc:"Why, for the ledger."`
}

// Change is an amendment of one rule.
type Change struct {
	_ struct{} `json:"-" name:"ConstitutionAmend"`

	RuleID     string `json:"rule_id" required:"true" minLength:"1" maxLength:"100" doc:"The rule that is added, changed or removed."`
	Action     string `json:"action" required:"true" enum:"add,modify,remove" doc:"What happens to the rule."`
	Rule       *Rule  `json:"rule,omitzero" doc:"The rule as it shall be; not with remove. Its rule_id is left out, or that of the amendment."`
	Rationale  string `json:"rationale,omitzero" maxLength:"4000" doc:"Why, for the ledger."`
	ProposalID string `json:"proposal_id,omitzero" maxLength:"100" doc:"The proposal that was passed for it. An admin who is not the founder needs one."`
}

// ParseChange reads a change from JSON. Errors: fault.Malformed, fault.Invalid.
func ParseChange(body jsontext.Value) (*Change, error) {
	c, err := schema.Decode[Change](body)
	if err != nil {
		return nil, err
	}
	return c, c.check()
}

// check completes the change, and returns what is wrong with it.
func (c *Change) check() error {
	switch {
	case c.Action == "remove":
		c.Rule = nil
		return nil
	case c.Rule == nil:
		return fault.BadFields(fault.Field{Field: "rule", Message: fault.Missing})
	case c.Rule.RuleID != "" && c.Rule.RuleID != c.RuleID:
		return fault.BadFields(fault.Field{Field: "rule.rule_id", Message: fmt.Sprintf(
			"is %q, and the amendment is of the rule %q; leave it out", c.Rule.RuleID, c.RuleID)})
	}
	c.Rule.RuleID = c.RuleID
	c.Rule.complete()
	if wrong := c.Rule.check("rule."); wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// CheckIn is an act that is judged without being done.
type CheckIn struct {
	_ struct{} `json:"-" name:"GovernanceCheck"`

	AgentID  string        `json:"agent_id" required:"true" minLength:"1" maxLength:"100" doc:"Whose act it would be."`
	Action   string        `json:"action" required:"true" minLength:"1" maxLength:"300" doc:"tool:<name>, spawn, delegate, message, model:<ref>, or a word of your own."`
	RunID    string        `json:"run_id,omitzero" maxLength:"100" doc:"Conditions see it as run.id."`
	TeamID   string        `json:"team_id,omitzero" maxLength:"100" doc:"Conditions see it as run.team_id."`
	Role     string        `json:"role,omitzero" maxLength:"200" doc:"Conditions see it as agent.role."`
	Sources  []string      `json:"sources,omitzero" maxItems:"100" maxLength:"200" doc:"Conditions see it as sources."`
	Metadata schema.Object `json:"metadata,omitzero" doc:"Conditions see it as args."`
}

// Violation is a rule that an act would break.
type Violation struct {
	_ struct{} `json:"-" name:"GovernanceViolation"`

	RuleID   string `json:"rule_id" required:"true"`
	Severity string `json:"severity" required:"true" enum:"info,warning,error,blocker"`
	Message  string `json:"message" required:"true"`
	Decision string `json:"decision" required:"true" doc:"What the rule makes of it: log, warn, require_approval, block, revoke_permissions or terminate_agent."`
	Shadow   bool   `json:"shadow,omitzero" doc:"Whether the rule is only recorded."`
}

// EnforcementResult is what the rules make of an act.
type EnforcementResult struct {
	_ struct{} `json:"-" name:"EnforcementResult"`

	Allowed    bool        `json:"allowed" required:"true"`
	Decision   string      `json:"decision" required:"true" doc:"allow, log, warn, require_approval, block, revoke_permissions or terminate_agent."`
	Violations []Violation `json:"violations" required:"true"`
}

type agentIn struct {
	AgentID string `path:"agentId" format:"any" maxLength:"100"`
}

// Obligations are the requirements that bind an agent.
type Obligations struct {
	_ struct{} `json:"-" name:"GovernanceObligations"`

	AgentID string `json:"agent_id" required:"true"`
	Rules   []Rule `json:"rules" required:"true"`
	Count   int    `json:"count" required:"true"`
}

type violationsIn struct {
	AgentID string `path:"agentId" format:"any" maxLength:"100"`
	Limit   string `query:"limit" doc:"Violations per page, 1 to 200; 100 if it is left out."`
	Cursor  string `query:"cursor"`
}

// PastViolation is a violation that an agent made.
type PastViolation struct {
	_ struct{} `json:"-" name:"AgentViolation"`

	ID       string    `json:"id" required:"true" doc:"ID of the ledger's entry."`
	Seq      int64     `json:"seq" required:"true" doc:"Its place in the ledger."`
	RuleID   string    `json:"rule_id" required:"true"`
	Severity string    `json:"severity" required:"true"`
	Message  string    `json:"message" required:"true"`
	Action   string    `json:"action" required:"true"`
	Decision string    `json:"decision" required:"true"`
	Shadow   bool      `json:"shadow,omitzero"`
	RunID    string    `json:"run_id,omitzero"`
	At       time.Time `json:"ts" required:"true"`
}

// Violations is a page of an agent's violations, newest first.
type Violations struct {
	_ struct{} `json:"-" name:"AgentViolations"`

	AgentID    string          `json:"agent_id" required:"true"`
	Violations []PastViolation `json:"violations" required:"true"`
	Count      int             `json:"count" required:"true"`
	HasMore    bool            `json:"has_more" required:"true"`
	Cursor     string          `json:"cursor,omitzero"`
}

// Routes lists the operations.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary, doc string, refusals ...int) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/governance" + path, ID: id, Tag: "Governance", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"agents:read"}, Errors: refusals,
		}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"agents:write"}, authz.Admin
		}
		return r
	}
	replace := row("PUT", "/constitution", "replaceConstitution", "Replace the constitution",
		"The first version is an admin's or the founder's; later ones are the founder's, who is the owner of the company. "+
			"Rules that were not changed cause no new version.", 400, 413, 422)
	replace.Example = `{"rules":[{"rule_id":"no-mail","principle":"Agents send no mail.","action":"tool:send_mail"}],"rationale":"A test"}`
	amend := row("POST", "/constitution/amend", "amendConstitution", "Amend the constitution",
		"Adds, modifies or removes one rule. It holds for the next act of runs that are under way.", 400, 404, 409, 413, 422)
	amend.Example = `{"rule_id":"ask-first","action":"add","rule":{"rule_id":"ask-first","action":"tool:pay",` +
		`"principle":"Large payments are approved by a person.","condition":"args.amount > 100","penalty":"require_approval"},` +
		`"rationale":"A test"}`
	simulate := row("POST", "/constitution/simulate", "simulateConstitution", "Simulate a constitution",
		"Judges what past runs did by other rules, and returns what these would have blocked. Nothing is stored; it ends when the caller "+
			"closes the request.", 400, 409, 413, 422)
	simulate.Scopes = []authz.Scope{"agents:write", "runs:read"}
	simulate.Example = `{"rules":[{"rule_id":"no-sums","principle":"No sums.","action":"tool:calculator"}]}`
	check := row("POST", "/check", "checkGovernance", "Check an act against the rules", "Nothing is done or recorded.", 400, 422)
	check.Scopes, check.Role = []authz.Scope{"agents:read"}, ""
	check.Example = `{"agent_id":"01a208c9-3505-7384-a98b-09054314b31a","action":"tool:pay","metadata":{"amount":250}}`
	return append(s.emergencyRoutes(),
		route.Action(row("GET", "/constitution", "getConstitution", "Get the constitution",
			"Where the company has written no rules, the answer is `virtual`, of version 0.", 404, 422), s.show),
		route.Action(replace, s.replace),
		route.Action(amend, s.amend),
		route.Action(simulate, s.simulate),
		route.Action(check, s.check),
		route.Action(row("GET", "/obligations/{agentId}", "getAgentObligations", "List the obligations of an agent",
			"The requirements among the rules that bind it."), s.obligations),
		route.Action(row("GET", "/violations/{agentId}", "getAgentViolations", "List the violations of an agent",
			"What the ledger has of rules that the agent's acts broke, newest first.", 422), s.violations),
	)
}

// show is get with the hash.
func (s *Service) show(ctx context.Context, who authz.Caller, in *getIn) (*Constitution, error) {
	c, err := s.get(ctx, who, in)
	if err != nil {
		return nil, err
	}
	c.Hash, err = hashOf(c.Rules)
	return c, err
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *getIn) (*Constitution, error) {
	if in.Version != "" {
		n, err := strconv.ParseInt(in.Version, 10, 64)
		if err != nil || n < 1 {
			return nil, fault.BadFields(fault.Field{Field: "version", Message: "is not the number of a version, from 1."})
		}
		return s.Store.Get(ctx, who.TenantID, n)
	}
	st, err := s.Store.GetState(ctx, who.TenantID)
	if err != nil || st.Version == 0 {
		return genesis(), err
	}
	return s.Store.Get(ctx, who.TenantID, st.Version)
}

// checkRules completes rules, and returns what is wrong with them.
func checkRules(rules []Rule) error {
	var wrong []fault.Field
	seen := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		r.complete()
		path := fmt.Sprintf("rules[%d].", i)
		if seen[r.RuleID] {
			wrong = append(wrong, fault.Field{Field: path + "rule_id", Message: "is the name of an earlier rule too."})
		}
		seen[r.RuleID] = true
		if wrong = append(wrong, r.check(path)...); len(wrong) > 100 {
			break // more would help no author
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

func (s *Service) replace(ctx context.Context, who authz.Caller, in *struct{ Body Replacement }) (c *Constitution, err error) {
	if err := checkRules(in.Body.Rules); err != nil {
		return nil, err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		st, err := s.Store.LockStateTx(tx, who.TenantID)
		if err != nil {
			return err
		}
		if st.Version > 0 && who.Role != authz.Owner {
			return fault.New(fault.Forbidden, "", "Only the founder, the owner of the company, may replace its constitution.")
		}
		by := Author{TenantID: who.TenantID, UserID: who.UserID, Caller: who}
		if c, err = s.ReplaceTx(tx, by, in.Body.Rules, in.Body.Rationale); err != nil {
			return err
		}
		return txn.Answer(tx, c)
	})
	return c, err
}

func (s *Service) amend(ctx context.Context, who authz.Caller, in *struct{ Body Change }) (c *Constitution, err error) {
	if who.Role != authz.Owner {
		if in.Body.ProposalID == "" {
			return nil, fault.New(fault.Malformed, "proposal_required",
				"Only the founder amends the constitution without a proposal; name one that was passed.")
		}
		if s.proposals == nil {
			return nil, fault.NewNotFound("proposal")
		}
		if err := s.proposals.CheckPassed(ctx, who.TenantID, in.Body.ProposalID); err != nil {
			return nil, err
		}
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		by := Author{TenantID: who.TenantID, UserID: who.UserID, Proposal: in.Body.ProposalID, Caller: who}
		var err error
		if c, err = s.AmendTx(tx, by, in.Body); err != nil {
			return err
		}
		return txn.Answer(tx, c)
	})
	return c, err
}

func (s *Service) check(ctx context.Context, who authz.Caller, in *struct{ Body CheckIn }) (*EnforcementResult, error) {
	b := &in.Body
	act := policy.Act{Actions: []string{b.Action}, Arguments: []byte(b.Metadata), Sources: b.Sources}
	act.Facts = func() (agent, run map[string]any) {
		return map[string]any{"role": b.Role}, map[string]any{"team_id": b.TeamID}
	}
	ruling, err := s.Judge(ctx, policy.Run{TenantID: who.TenantID, AgentID: b.AgentID, RunID: b.RunID}, act)
	if err != nil {
		return nil, err
	}
	out := &EnforcementResult{Allowed: ruling.Effect < policy.Approve, Decision: ruling.Effect.String(), Violations: []Violation{}}
	for _, f := range ruling.Findings {
		out.Violations = append(out.Violations, Violation{
			RuleID: f.RuleID, Severity: f.Severity, Message: f.Message, Decision: f.Decision, Shadow: f.Shadow,
		})
	}
	return out, nil
}

func (s *Service) obligations(ctx context.Context, who authz.Caller, in *agentIn) (*Obligations, error) {
	c, err := s.get(ctx, who, &getIn{})
	if err != nil {
		return nil, err
	}
	out := &Obligations{AgentID: in.AgentID, Rules: []Rule{}}
	for i := range c.Rules {
		if r := &c.Rules[i]; r.RuleType == Requirement && r.binds(in.AgentID) {
			out.Rules = append(out.Rules, *r)
		}
	}
	out.Count = len(out.Rules)
	return out, nil
}

func (s *Service) violations(ctx context.Context, who authz.Caller, in *violationsIn) (*Violations, error) {
	limit, scope := page.Limit(in.Limit, 100, 200), page.ScopeOf(who.TenantID, "violations", in)
	position, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	w := ledger.Window{Limit: limit + 1}
	if position != "" {
		before, err := strconv.ParseInt(position, 10, 64)
		if err != nil {
			return nil, err
		}
		w.To = before - 1
	}
	if err := s.Ledger.Seal(ctx, who.TenantID); err != nil {
		return nil, err
	}
	entries, err := s.Ledger.Store.List(ctx, who.TenantID, ledger.Filter{Category: "enforcement", AgentID: in.AgentID}, w)
	if err != nil {
		return nil, err
	}
	out := &Violations{AgentID: in.AgentID, Violations: []PastViolation{}}
	if out.HasMore = len(entries) > limit; out.HasMore {
		entries = entries[:limit]
		out.Cursor = s.Cursors.Seal(scope, strconv.FormatInt(entries[limit-1].Seq, 10))
	}
	for i := range entries {
		e := &entries[i]
		var d finding
		if err := json.Unmarshal(e.Details, &d); err != nil {
			return nil, err
		}
		out.Violations = append(out.Violations, PastViolation{
			ID: e.ID, Seq: e.Seq, RuleID: e.RuleID, Severity: d.Severity, Message: d.Message, Action: d.Action,
			Decision: d.Decision, Shadow: d.Shadow, RunID: e.RunID, At: e.At,
		})
	}
	out.Count = len(out.Violations)
	return out, nil
}
