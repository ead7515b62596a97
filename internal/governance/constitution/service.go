package constitution

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/policy"
)

// stateLasts is how long a node judges by rules without reading whether they changed.
// Changes are also signalled, so this holds where signals are lost.
const stateLasts = 500 * time.Millisecond

// Amendment is one change of one rule.
type Amendment struct {
	_ struct{} `json:"-" name:"ConstitutionAmendment"`

	AmendmentID string    `json:"amendment_id" required:"true" format:"uuid"`
	RuleID      string    `json:"rule_id" required:"true"`
	Action      string    `json:"action" required:"true" enum:"add,modify,remove"`
	Rule        *Rule     `json:"rule,omitzero" doc:"The rule as it is now; absent where it was removed."`
	ProposedBy  string    `json:"proposed_by" required:"true" doc:"ID of the member, or of the proposal."`
	ApprovedBy  string    `json:"approved_by" required:"true"`
	Rationale   string    `json:"rationale" required:"true"`
	AppliedAt   time.Time `json:"applied_at" required:"true"`
}

// Constitution is a version of a company's rules.
type Constitution struct {
	_ struct{} `json:"-" name:"Constitution"`

	Rules      []Rule      `json:"rules" required:"true"`
	Version    int64       `json:"version" required:"true" doc:"0 where the company has written none."`
	Virtual    bool        `json:"virtual,omitzero" doc:"Whether nothing is stored: the company has written no rules."`
	Amendments []Amendment `json:"amendments" required:"true" doc:"What this version changed."`
	UpdatedAt  *time.Time  `json:"updated_at,omitzero"`
	Hash       string      `json:"hash,omitzero" doc:"SHA-256, in hex, over the canonical JSON (RFC 8785) of rules; only where one version is read."`
}

// Mode of a company.
const (
	Normal   = "normal"
	SafeMode = "safe_mode"
)

// State is what acts of a company are standing by: the version of its constitution, and
// whether it is in safe mode.
type State struct {
	Version     int64
	Mode        string // "": Normal
	Reason      string
	ActivatedAt time.Time
	ActivatedBy string
	Deadline    time.Time // zero: none
	Permissions int64     // version of the permission sets; see package permission
}

// safe reports whether the company is in safe mode at a moment.
func (s State) safe(now time.Time) bool {
	return s.Mode == SafeMode && (s.Deadline.IsZero() || now.Before(s.Deadline))
}

// Store is the port to constitutions and states.
type Store interface {
	// GetState returns the zero state for a company that has none.
	GetState(ctx context.Context, tenant string) (State, error)
	// LockStateTx locks the state until commit.
	LockStateTx(tx txn.Tx, tenant string) (State, error)
	// UpdateStateTx leaves Permissions as they are.
	UpdateStateTx(tx txn.Tx, tenant string, s State) error
	// CountPermissionsTx counts State.Permissions up, and locks the state until commit.
	CountPermissionsTx(tx txn.Tx, tenant string) error
	// Get returns a version. Errors: fault.NotFound.
	Get(ctx context.Context, tenant string, version int64) (*Constitution, error)
	GetTx(tx txn.Tx, tenant string, version int64) (*Constitution, error)
	CreateTx(tx txn.Tx, tenant string, c *Constitution) error

	GetRoot(ctx context.Context, tenant string) (Root, error)
	GetRootTx(tx txn.Tx, tenant string) (Root, error)
	// UpdateRootTx needs the row from LockStateTx.
	UpdateRootTx(tx txn.Tx, tenant string, r Root) error
}

// Proposals are the votes of a company.
type Proposals interface {
	// CheckPassed returns an error unless a proposal was passed.
	CheckPassed(ctx context.Context, tenant, id string) error
}

// Deps is what a Service needs.
type Deps struct {
	Store   Store
	Writer  txn.Writer
	Clock   clock.Clock
	Ledger  *ledger.Ledger
	Audit   audit.Recorder
	Cursors *page.Cursors
	// Signal makes every node read the state of a tenant again; nil: it is read after
	// half a second.
	Signal func(tenant string)
	// Elapsed is the clock of caches: the time since any fixed moment.
	Elapsed func() time.Duration
}

// Service keeps constitutions and judges acts by them.
type Service struct {
	Deps

	penalties Penalties
	proposals Proposals
	pastActs  PastActs
	// simulating has the tenants whose rules are simulated on this node.
	simulating sync.Map
	states     *cache.Cache[string, standing]
	sets       *cache.Cache[versionKey, *ruleset]
	rulings    *cache.Cache[rulingKey, policy.Ruling]
}

// standing is a state with its rules.
type standing struct {
	State
	rules *ruleset
}

type versionKey struct {
	tenant  string
	version int64
}

var _ policy.Governor = (*Service)(nil)

// New returns the service.
func New(deps Deps) *Service {
	return &Service{
		Deps:    deps,
		states:  cache.New(cache.Options[string, standing]{Most: 10_000, Lasts: cache.For[standing](stateLasts), Elapsed: deps.Elapsed}),
		sets:    cache.New(cache.Options[versionKey, *ruleset]{Most: 1000}),
		rulings: newRulings(),
	}
}

// Penalties are what rules do to agents. An agent that is gone is no error of the first
// two.
type Penalties struct {
	SuspendTx func(tx txn.Tx, tenant, agent, reason string) error
	RevokeTx  func(tx txn.Tx, tenant, agent, runID, reason string) error
	// AgentTx returns fault.NotFound for an agent that does not exist.
	AgentTx func(tx txn.Tx, tenant, agent string) error
}

// Connect sets the penalties, and the votes by which admins amend; both are built after
// the service.
func (s *Service) Connect(penalties Penalties, proposals Proposals) {
	s.penalties, s.proposals = penalties, proposals
}

// ConnectRuns sets what simulations read, which is built after the service.
func (s *Service) ConnectRuns(pastActs PastActs) { s.pastActs = pastActs }

// Drop makes the node read the state of a tenant again.
func (s *Service) Drop(tenant string) { s.states.Drop(tenant) }

// state returns what acts of a tenant are standing by.
func (s *Service) state(ctx context.Context, tenant string) (standing, error) {
	return s.states.Load(ctx, tenant, func(ctx context.Context, tenant string) (standing, error) {
		st, err := s.Store.GetState(ctx, tenant)
		if err != nil || st.Version == 0 {
			return standing{State: st}, err
		}
		set, err := s.sets.Load(ctx, versionKey{tenant, st.Version}, func(ctx context.Context, k versionKey) (*ruleset, error) {
			c, err := s.Store.Get(ctx, k.tenant, k.version)
			if err != nil {
				return nil, err
			}
			return compile(c.Rules), nil
		})
		return standing{st, set}, err
	})
}

// changed signals a change of a tenant's state once it is committed.
func (s *Service) changed(tx txn.Tx, tenant string) {
	tx.AfterCommit(func() {
		s.Drop(tenant)
		if s.Signal != nil {
			s.Signal(tenant)
		}
	})
}

// PermissionsVersion implements permission.Versions: it is read with what acts are judged
// by anyway.
func (s *Service) PermissionsVersion(ctx context.Context, tenant string) (int64, error) {
	st, err := s.state(ctx, tenant)
	return st.Permissions, err
}

// PermissionsChangedTx implements permission.Versions.
func (s *Service) PermissionsChangedTx(tx txn.Tx, tenant string) error {
	s.changed(tx, tenant)
	return s.Store.CountPermissionsTx(tx, tenant)
}

// Judge implements policy.Governor.
func (s *Service) Judge(ctx context.Context, r policy.Run, act policy.Act) (policy.Ruling, error) {
	st, err := s.state(ctx, r.TenantID)
	if err != nil {
		return policy.Ruling{}, err
	}
	if st.safe(s.Clock.Now()) {
		action := ""
		if len(act.Actions) > 0 {
			action = act.Actions[0]
		}
		return policy.Ruling{Effect: policy.Deny, Findings: []policy.Finding{{
			RuleID: SafeModeRule, Severity: "blocker", Action: action, Decision: policy.Deny.String(),
			Message: "The company is in safe mode: no agent may act.",
		}}}, nil
	}
	return s.judge(ctx, st.rules, r, act)
}

// kinds are the kinds of the ledger's entries about rulings, by the decision.
var kinds = map[string]string{
	"log": "enforcement.logged", "warn": "enforcement.warned", "require_approval": "enforcement.approval_required",
	"block": "enforcement.blocked", "revoke_permissions": "enforcement.revoked", "terminate_agent": "enforcement.terminated",
}

// finding is what the ledger and the audit log have of a finding.
type finding struct {
	Action   string `json:"action"`
	Severity string `json:"severity"`
	Decision string `json:"decision"`
	Message  string `json:"message"`
	Shadow   bool   `json:"shadow"`
	RuleID   string `json:"rule_id,omitzero"`
	RunID    string `json:"run_id,omitzero"`
	StepID   string `json:"step_id,omitzero"`
}

// RecordTx implements policy.Governor.
func (s *Service) RecordTx(tx txn.Tx, r policy.Run, ruling policy.Ruling) error {
	for _, f := range ruling.Findings {
		kind := kinds[f.Decision]
		if f.Shadow {
			kind = "enforcement.shadowed"
		}
		details := finding{
			Action: f.Action, Severity: f.Severity, Decision: f.Decision, Message: f.Message, Shadow: f.Shadow, StepID: r.StepID,
		}
		err := s.Ledger.AppendTx(tx, r.TenantID, ledger.Entry{
			Kind: kind, ActorAgentID: r.AgentID, SubjectAgentID: r.AgentID, RuleID: f.RuleID, RunID: r.RunID, Details: details,
		})
		if err != nil {
			return err
		}
		if f.Shadow || f.Decision == policy.Log.String() {
			continue // the ledger has it; the audit log has what was obeyed
		}
		details.RuleID, details.RunID = f.RuleID, r.RunID
		text, err := json.Marshal(details)
		if err != nil {
			return err
		}
		e := audit.Entry{Action: "governance." + kind[len("enforcement."):], TargetType: "agent", TargetID: r.AgentID, Details: text}
		if err := audit.Write(s.Audit, tx, authz.Caller{TenantID: r.TenantID}, e); err != nil {
			return err
		}
	}
	switch {
	case ruling.Effect == policy.Terminate && s.penalties.SuspendTx != nil:
		return s.penalties.SuspendTx(tx, r.TenantID, r.AgentID, ruling.Reason())
	case ruling.Effect == policy.Revoke && s.penalties.RevokeTx != nil:
		return s.penalties.RevokeTx(tx, r.TenantID, r.AgentID, r.RunID, ruling.Reason())
	}
	return nil
}

// Author is who changes a constitution.
type Author struct {
	TenantID string
	UserID   string
	Proposal string       // ID of the proposal that was passed; "": none
	Caller   authz.Caller // for the audit log
}

func (a Author) proposer() string {
	if a.Proposal != "" {
		return a.Proposal
	}
	return a.UserID
}

// current returns the newest version, in the transaction that has locked the state.
func (s *Service) currentTx(tx txn.Tx, tenant string, st State) (*Constitution, error) {
	if st.Version == 0 {
		return genesis(), nil
	}
	return s.Store.GetTx(tx, tenant, st.Version)
}

func genesis() *Constitution {
	return &Constitution{Rules: []Rule{}, Virtual: true, Amendments: []Amendment{}}
}

// commitTx stores rules as the next version, made by amendments.
func (s *Service) commitTx(tx txn.Tx, by Author, st State, rules []Rule, made []Amendment) (*Constitution, error) {
	if err := checkSize(rules); err != nil {
		return nil, err
	}
	now := s.Clock.Now().Truncate(time.Microsecond)
	st.Version++
	c := &Constitution{Rules: rules, Version: st.Version, Amendments: made, UpdatedAt: &now}
	for i := range made {
		a := &made[i]
		a.AmendmentID, a.ProposedBy, a.ApprovedBy, a.AppliedAt = ident.New(), by.proposer(), by.UserID, now
		kind := map[string]string{
			"add": "constitution.rule_added", "modify": "constitution.rule_modified", "remove": "constitution.rule_removed",
		}[a.Action]
		err := s.Ledger.AppendTx(tx, by.TenantID, ledger.Entry{
			Kind: kind, ActorUserID: by.UserID, RuleID: a.RuleID, Details: struct {
				Version   int64     `json:"version"`
				Amendment Amendment `json:"amendment"`
			}{st.Version, *a},
		})
		if err != nil {
			return nil, err
		}
	}
	if err := s.Store.CreateTx(tx, by.TenantID, c); err != nil {
		return nil, err
	}
	if err := s.Store.UpdateStateTx(tx, by.TenantID, st); err != nil {
		return nil, err
	}
	text, err := json.Marshal(struct {
		Version int64 `json:"version"`
		Changes int   `json:"changes"`
	}{st.Version, len(made)})
	if err != nil {
		return nil, err
	}
	s.changed(tx, by.TenantID)
	who := by.Caller
	who.TenantID = by.TenantID
	return c, audit.Write(s.Audit, tx, who, audit.Entry{
		Action: "constitution.amended", TargetType: "constitution", TargetID: by.TenantID, Details: jsontext.Value(text),
	})
}

func checkSize(rules []Rule) error {
	if len(rules) > MaxRules {
		return fault.BadFields(fault.Field{
			Field: "rules", Message: "has more rules than a constitution may have.", Code: fault.CodeTooMany,
			Params: map[string]any{"max": MaxRules},
		})
	}
	text, err := json.Marshal(rules)
	if err == nil && len(text) > MaxBytes {
		return fault.New(fault.TooLarge, "", "The rules are %d bytes as JSON; a constitution has at most %d.", len(text), MaxBytes)
	}
	return err
}

// ReplaceTx makes rules the constitution, in the caller's transaction. Immutable rules
// that are left out stay; nothing changes if the rules are those that hold already.
// Errors: fault.Invalid for invalid rules, fault.Malformed for a changed immutable one.
func (s *Service) ReplaceTx(tx txn.Tx, by Author, rules []Rule, rationale string) (*Constitution, error) {
	st, err := s.Store.LockStateTx(tx, by.TenantID)
	if err != nil {
		return nil, err
	}
	c, err := s.currentTx(tx, by.TenantID, st)
	if err != nil {
		return nil, err
	}
	old := map[string]*Rule{}
	for i := range c.Rules {
		old[c.Rules[i].RuleID] = &c.Rules[i]
	}
	var made []Amendment
	kept := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		kept[r.RuleID] = true
		before := old[r.RuleID]
		switch {
		case before == nil:
			made = append(made, Amendment{RuleID: r.RuleID, Action: "add", Rule: r, Rationale: rationale})
		case equal(before, r):
		case before.Immutable:
			return nil, immutable(r.RuleID)
		default:
			made = append(made, Amendment{RuleID: r.RuleID, Action: "modify", Rule: r, Rationale: rationale})
		}
	}
	var stay []Rule
	for i := range c.Rules {
		r := &c.Rules[i]
		switch {
		case kept[r.RuleID]:
		case r.Immutable:
			stay = append(stay, *r)
		default:
			made = append(made, Amendment{RuleID: r.RuleID, Action: "remove", Rationale: rationale})
		}
	}
	if len(made) == 0 && st.Version > 0 {
		return c, nil
	}
	return s.commitTx(tx, by, st, append(stay, rules...), made)
}

func immutable(id string) error {
	return fault.New(fault.Malformed, "", "The rule %s is immutable: it cannot be changed or removed.", id)
}

func equal(a, b *Rule) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

// AmendTx changes one rule, in the caller's transaction, which may be that of a vote.
// Errors: fault.Invalid, fault.NotFound, fault.Conflict where a rule is added that is
// there, fault.Malformed for an immutable rule.
func (s *Service) AmendTx(tx txn.Tx, by Author, in Change) (*Constitution, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	st, err := s.Store.LockStateTx(tx, by.TenantID)
	if err != nil {
		return nil, err
	}
	c, err := s.currentTx(tx, by.TenantID, st)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(c.Rules, func(r Rule) bool { return r.RuleID == in.RuleID })
	rules := slices.Clone(c.Rules)
	switch {
	case in.Action == "add" && at >= 0:
		return nil, fault.New(fault.Conflict, "ALREADY_EXISTS", "There is a rule %s already; modify it.", in.RuleID)
	case in.Action == "add":
		rules = append(rules, *in.Rule)
	case at < 0:
		return nil, fault.New(fault.NotFound, "", "There is no rule %s in the constitution.", in.RuleID)
	case rules[at].Immutable:
		return nil, immutable(in.RuleID)
	case in.Action == "remove":
		rules = slices.Delete(rules, at, at+1)
	case equal(&rules[at], in.Rule):
		return c, nil
	default:
		rules[at] = *in.Rule
	}
	return s.commitTx(tx, by, st, rules, []Amendment{{RuleID: in.RuleID, Action: in.Action, Rule: in.Rule, Rationale: in.Rationale}})
}
