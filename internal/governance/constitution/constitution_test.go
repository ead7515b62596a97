package constitution_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/governance/constitution"
	"agentd/internal/governance/constitution/constitutionsql"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/ledger/ledgersql"
	"agentd/internal/kernel/policy"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// rig is a service over a real database.
type rig struct {
	*constitution.Service
	t     *testing.T
	db    *sqldb.DB
	clock *clock.Fake
}

var (
	founder = authz.Caller{TenantID: "acme", UserID: "ann", Role: authz.Owner}
	admin   = authz.Caller{TenantID: "acme", UserID: "bob", Role: authz.Admin}
)

func newRig(t *testing.T, db *sqldb.DB) *rig {
	return newNode(t, db, func() time.Duration { return 0 })
}

// newNode returns the service of a node, whose caches have a clock.
func newNode(t *testing.T, db *sqldb.DB, elapsed func() time.Duration) *rig {
	r := &rig{t: t, db: db, clock: clock.NewFake()}
	l := ledger.New(ledger.Deps{Store: ledgersql.New(db), Writer: db, Clock: r.clock, Log: slog.New(slog.DiscardHandler)})
	r.Service = constitution.New(constitution.Deps{
		Store: constitutionsql.New(db), Writer: db, Clock: r.clock, Ledger: l, Elapsed: elapsed,
		Cursors: page.NewCursors(make([]byte, 32)),
	})
	return r
}

func each(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newRig(t, db)) })
}

// call answers an operation with its body, or with a parameter of its path or query.
func call[Out any](r *rig, who authz.Caller, id string, body any) (out Out, err error) {
	r.t.Helper()
	for _, row := range r.Routes() {
		if row.ID != id {
			continue
		}
		in := reflect.New(row.In)
		switch b := body.(type) {
		case nil:
		case string:
			in.Elem().Field(0).SetString(b)
		default:
			in.Elem().FieldByName("Body").Set(reflect.ValueOf(b))
		}
		got, err := row.Call(r.t.Context(), who, in.Interface())
		if err != nil {
			return out, err
		}
		return got.(Out), nil
	}
	r.t.Fatalf("no operation %s", id)
	return out, nil
}

func (r *rig) put(rules ...constitution.Rule) *constitution.Constitution {
	r.t.Helper()
	c, err := call[*constitution.Constitution](r, founder, "replaceConstitution", constitution.Replacement{Rules: rules, Rationale: "why"})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) amend(who authz.Caller, in constitution.Change) (*constitution.Constitution, error) {
	r.t.Helper()
	return call[*constitution.Constitution](r, who, "amendConstitution", in)
}

func (r *rig) kinds() string {
	r.t.Helper()
	if err := r.Ledger.Seal(r.t.Context(), "acme"); err != nil {
		r.t.Fatal(err)
	}
	all, err := r.Ledger.Store.List(r.t.Context(), "acme", ledger.Filter{}, ledger.Window{Limit: 100, Ascending: true})
	if err != nil {
		r.t.Fatal(err)
	}
	var kinds []string
	for _, e := range all {
		kinds = append(kinds, strings.TrimPrefix(e.Kind, "constitution.")+" "+e.RuleID)
	}
	return strings.Join(kinds, ", ")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		c, err := call[*constitution.Constitution](r, founder, "getConstitution", nil)
		if err != nil || !c.Virtual || c.Version != 0 || len(c.Rules) != 0 {
			t.Errorf("genesis: %+v, %v", c, err)
		}
		mail := constitution.Rule{RuleID: "mail", Principle: "No mail.", Action: "tool:mail", Description: "None at all."}
		lasting := constitution.Rule{RuleID: "lasting", Principle: "No payments.", Action: "tool:pay", Immutable: true}
		c, err = call[*constitution.Constitution](r, admin, "replaceConstitution", constitution.Replacement{Rules: []constitution.Rule{mail, lasting}})
		if err != nil || c.Version != 1 || c.Rules[0].Severity != "error" || c.Rules[0].Penalty != "block" || len(c.Amendments) != 2 {
			t.Fatalf("the first: %+v, %v", c, err)
		}
		if _, err := call[*constitution.Constitution](r, admin, "replaceConstitution", constitution.Replacement{}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("an admin's second: %v", err)
		}
		if c = r.put(mail, lasting); c.Version != 1 {
			t.Errorf("the same again is version %d", c.Version)
		}
		changed := lasting
		changed.Principle = "Some payments."
		if _, err := call[*constitution.Constitution](r, founder, "replaceConstitution", constitution.Replacement{Rules: []constitution.Rule{changed}}); !fault.Is(err, fault.Malformed) {
			t.Errorf("a changed immutable rule: %v", err)
		}
		mail.Priority = 7
		if c = r.put(mail); c.Version != 2 || len(c.Rules) != 2 || len(c.Amendments) != 1 || c.Amendments[0].Action != "modify" {
			t.Errorf("an omitted immutable rule: %+v", c)
		}
		if c = r.put(); c.Version != 3 || len(c.Rules) != 1 || c.Rules[0].RuleID != "lasting" {
			t.Errorf("nothing: %+v", c)
		}
		old, err := call[*constitution.Constitution](r, founder, "getConstitution", "1")
		if err != nil || len(old.Rules) != 2 || old.Rules[0].Priority != 0 || old.Rules[0].Description != "None at all." {
			t.Errorf("version 1: %+v, %v", old, err)
		}
		for version, kind := range map[string]fault.Kind{"9": fault.NotFound, "x": fault.Invalid, "0": fault.Invalid} {
			if _, err := call[*constitution.Constitution](r, founder, "getConstitution", version); !fault.Is(err, kind) {
				t.Errorf("version %s: %v", version, err)
			}
		}
		want := "rule_added mail, rule_added lasting, rule_modified mail, rule_removed mail"
		if got := r.kinds(); got != want {
			t.Errorf("the ledger has %s, want %s", got, want)
		}
	})
}

func TestAmend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		mail := &constitution.Rule{Principle: "No mail.", Action: "tool:mail"}
		steps := []struct {
			name string
			who  authz.Caller
			in   constitution.Change
			kind fault.Kind // of the refusal; -1: none
			code string
		}{
			{"an admin alone", admin, constitution.Change{RuleID: "mail", Action: "add", Rule: mail}, fault.Malformed, "proposal_required"},
			{"a forged proposal", admin, constitution.Change{RuleID: "mail", Action: "add", Rule: mail, ProposalID: "x"}, fault.NotFound, "NOT_FOUND"},
			{"without a rule", founder, constitution.Change{RuleID: "mail", Action: "add"}, fault.Invalid, "VALIDATION_ERROR"},
			{
				"a rule of another name", founder,
				constitution.Change{RuleID: "mail", Action: "add", Rule: &constitution.Rule{RuleID: "post", Principle: "No mail."}},
				fault.Invalid, "VALIDATION_ERROR",
			},
			{"a missing rule", founder, constitution.Change{RuleID: "mail", Action: "modify", Rule: mail}, fault.NotFound, "NOT_FOUND"},
			{"add", founder, constitution.Change{RuleID: "mail", Action: "add", Rule: mail}, -1, ""},
			{"add again", founder, constitution.Change{RuleID: "mail", Action: "add", Rule: mail}, fault.Conflict, "ALREADY_EXISTS"},
			{"modify", founder, constitution.Change{RuleID: "mail", Action: "modify", Rule: &constitution.Rule{Principle: "Mine.", Immutable: true}}, -1, ""},
			{"modify an immutable", founder, constitution.Change{RuleID: "mail", Action: "modify", Rule: mail}, fault.Malformed, "INVALID_REQUEST"},
			{"remove an immutable", founder, constitution.Change{RuleID: "mail", Action: "remove"}, fault.Malformed, "INVALID_REQUEST"},
			{"remove a missing one", founder, constitution.Change{RuleID: "x", Action: "remove"}, fault.NotFound, "NOT_FOUND"},
		}
		for _, s := range steps {
			c, err := r.amend(s.who, s.in)
			switch {
			case s.kind >= 0 && (!fault.Is(err, s.kind) || fault.From(err).Code != s.code):
				t.Errorf("%s: %v", s.name, err)
			case s.kind < 0 && (err != nil || c.Rules[0].RuleID != "mail"):
				t.Errorf("%s: %+v, %v", s.name, c, err)
			}
		}
		// A vote amends within its own transaction, and leaves nothing if it fails.
		vote := func(fail error) error {
			return r.db.Write(t.Context(), func(tx txn.Tx) error {
				by := constitution.Author{TenantID: "acme", UserID: "ann", Proposal: "p1"}
				c, err := r.AmendTx(tx, by, constitution.Change{RuleID: "voted", Action: "add", Rule: &constitution.Rule{Principle: "Voted."}})
				if err == nil && c.Amendments[0].ProposedBy != "p1" {
					t.Errorf("%+v", c.Amendments)
				}
				return cmpError(err, fail)
			})
		}
		if err := vote(fault.New(fault.Conflict, "", "No.")); !fault.Is(err, fault.Conflict) {
			t.Error(err)
		}
		if err := vote(nil); err != nil {
			t.Error(err)
		}
		if got, want := r.kinds(), "rule_added mail, rule_modified mail, rule_added voted"; got != want {
			t.Errorf("the ledger has %s, want %s", got, want)
		}
	})
}

// Why a rule was changed stands in the version and in the ledger.
func TestRationale(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
	c := r.put(constitution.Rule{RuleID: "mail", Principle: "No mail."})
	amended, err := r.amend(founder, constitution.Change{RuleID: "mail", Action: "remove", Rationale: "mail is fine"})
	if err != nil || c.Amendments[0].Rationale != "why" || amended.Amendments[0].Rationale != "mail is fine" {
		t.Errorf("%+v, %+v, %v", c.Amendments, amended, err)
	}
	if err := r.Ledger.Seal(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	all, err := r.Ledger.Store.List(t.Context(), "acme", ledger.Filter{}, ledger.Window{Limit: 10})
	if err != nil || len(all) != 2 || !strings.Contains(string(all[0].Details), `"rationale":"mail is fine"`) {
		t.Errorf("%+v, %v", all, err)
	}
}

func cmpError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func TestInvalidRules(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
	for name, c := range map[string]struct {
		rule  constitution.Rule
		field string
		says  string
	}{
		"condition":       {constitution.Rule{Condition: "args.a >"}, "condition", "line 1, column 9"},
		"unknown name":    {constitution.Rule{Condition: "user.id == 'x'"}, "condition", "line 1, column 1: undeclared reference to 'user'"},
		"not true":        {constitution.Rule{Condition: "1 + 1"}, "condition", "must be true or false"},
		"star":            {constitution.Rule{Action: "tool:*:x"}, "action", "only the last character"},
		"no targets":      {constitution.Rule{Scope: "agent"}, "scope_targets", "names the agents"},
		"weak and blocks": {constitution.Rule{Severity: "warning", Penalty: "block"}, "penalty", "can only warn or log"},
	} {
		c.rule.RuleID, c.rule.Principle = "r", "p"
		_, err := call[*constitution.Constitution](r, founder, "replaceConstitution", constitution.Replacement{Rules: []constitution.Rule{c.rule}})
		if f := fault.From(err); f == nil || f.Kind != fault.Invalid || f.Fields[0].Field != "rules[0]."+c.field || !strings.Contains(f.Fields[0].Message, c.says) {
			t.Errorf("%s: %v", name, err)
		}
		rule := c.rule
		_, err = r.amend(founder, constitution.Change{RuleID: "r", Action: "add", Rule: &rule})
		if f := fault.From(err); f == nil || f.Kind != fault.Invalid || f.Fields[0].Field != "rule."+c.field {
			t.Errorf("%s, amended: %v", name, err)
		}
	}
	twice := constitution.Rule{RuleID: "r", Principle: "p"}
	_, err := call[*constitution.Constitution](r, founder, "replaceConstitution", constitution.Replacement{Rules: []constitution.Rule{twice, twice}})
	if f := fault.From(err); f == nil || f.Fields[0].Field != "rules[1].rule_id" {
		t.Errorf("the same rule twice: %v", err)
	}
	var many []constitution.Rule
	for i := range constitution.MaxRules {
		many = append(many, constitution.Rule{RuleID: fmt.Sprint("r", i), Principle: "p"})
	}
	r.put(many...)
	if _, err := r.amend(founder, constitution.Change{RuleID: "one more", Action: "add", Rule: &constitution.Rule{Principle: "p"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("too many rules: %v", err)
	}
	for i := range many {
		many[i].Description = strings.Repeat("x", 1000)
	}
	_, err = call[*constitution.Constitution](r, founder, "replaceConstitution", constitution.Replacement{Rules: many})
	if !fault.Is(err, fault.TooLarge) {
		t.Errorf("too large: %v", err)
	}
}

func TestJudging(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
	rule := func(id, action string, set func(*constitution.Rule)) constitution.Rule {
		one := constitution.Rule{RuleID: id, Principle: "Because.", Action: action}
		if set != nil {
			set(&one)
		}
		return one
	}
	for name, c := range map[string]struct {
		rules []constitution.Rule
		act   constitution.CheckIn
		want  string // decision, then the rules
	}{
		"no match":      {[]constitution.Rule{rule("a", "tool:mail", nil)}, constitution.CheckIn{Action: "tool:pay"}, "allow"},
		"exact":         {[]constitution.Rule{rule("a", "tool:mail", nil)}, constitution.CheckIn{Action: "tool:mail"}, "block a"},
		"prefix":        {[]constitution.Rule{rule("a", "tool:m*", nil), rule("b", "*", nil)}, constitution.CheckIn{Action: "tool:mail"}, "block a b"},
		"no prefix":     {[]constitution.Rule{rule("a", "tool:mail*", nil)}, constitution.CheckIn{Action: "tool:mai"}, "allow"},
		"principle":     {[]constitution.Rule{rule("a", "", nil)}, constitution.CheckIn{Action: "tool:mail"}, "allow"},
		"warning":       {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Severity = "warning" })}, constitution.CheckIn{Action: "x"}, "warn a"},
		"info":          {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Severity = "info" })}, constitution.CheckIn{Action: "x"}, "log a"},
		"approval":      {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Penalty = "require_approval" })}, constitution.CheckIn{Action: "x"}, "require_approval a"},
		"the strongest": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Penalty = "require_approval" }), rule("b", "x", nil)}, constitution.CheckIn{Action: "x"}, "block b a"},
		"shadow":        {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Shadow = true })}, constitution.CheckIn{Action: "x"}, "allow a"},
		"condition": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Condition = "args.amount > 100" })},
			constitution.CheckIn{Action: "x", Metadata: []byte(`{"amount":101}`)}, "block a"},
		"condition not met": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Condition = "args.amount > 100" })},
			constitution.CheckIn{Action: "x", Metadata: []byte(`{"amount":1}`)}, "allow"},
		"broken condition": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Condition, r.Penalty = "args.amount > 100", "require_approval" })},
			constitution.CheckIn{Action: "x"}, "block a"},
		"sources": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Condition = "'web' in sources" })},
			constitution.CheckIn{Action: "x", Sources: []string{"web"}}, "block a"},
		"facts": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) {
			r.Condition = "agent.id == 'g' && agent.role == 'clerk' && run.id == 'r' && run.team_id == 't' && tenant.id == 'acme'"
		})}, constitution.CheckIn{Action: "x", Role: "clerk", RunID: "r", TeamID: "t"}, "block a"},
		"another agent's": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Scope, r.ScopeTargets = "agent", []string{"h"} })},
			constitution.CheckIn{Action: "x"}, "allow"},
		"its own": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.Scope, r.ScopeTargets = "agent", []string{"g"} })},
			constitution.CheckIn{Action: "x"}, "block a"},
		"permission": {[]constitution.Rule{rule("a", "*", nil), rule("p", "x", func(r *constitution.Rule) { r.RuleType, r.Priority = "permission", 1 })},
			constitution.CheckIn{Action: "x"}, "allow"},
		"permission of equal priority": {[]constitution.Rule{rule("a", "*", nil), rule("p", "x", func(r *constitution.Rule) { r.RuleType = "permission" })},
			constitution.CheckIn{Action: "x"}, "block a"},
		"immutable": {[]constitution.Rule{rule("p", "x", func(r *constitution.Rule) { r.RuleType, r.Priority = "permission", 1 }), rule("lasting", "x", func(r *constitution.Rule) { r.Immutable = true })},
			constitution.CheckIn{Action: "x"}, "block lasting"},
		"broken permission": {[]constitution.Rule{rule("a", "*", nil), rule("p", "x", func(r *constitution.Rule) {
			r.RuleType, r.Priority, r.Condition = "permission", 1, "args.x == 1"
		})}, constitution.CheckIn{Action: "x"}, "block a"},
		"requirement": {[]constitution.Rule{rule("a", "*", func(r *constitution.Rule) { r.RuleType = "requirement" })}, constitution.CheckIn{Action: "x"}, "allow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who := founder
			who.TenantID = strings.ReplaceAll(name, " ", "-")
			for i := range c.rules {
				c.rules[i].Condition = strings.ReplaceAll(c.rules[i].Condition, "acme", who.TenantID)
			}
			if _, err := call[*constitution.Constitution](r, who, "replaceConstitution", constitution.Replacement{Rules: c.rules}); err != nil {
				t.Fatal(err)
			}
			c.act.AgentID = "g"
			got, err := call[*constitution.EnforcementResult](r, who, "checkGovernance", c.act)
			if err != nil {
				t.Fatal(err)
			}
			said := got.Decision
			for _, v := range got.Violations {
				said += " " + v.RuleID
				if !strings.Contains(v.Message, "Because.") {
					t.Errorf("the message is %q", v.Message)
				}
			}
			if said != c.want || got.Allowed != (got.Decision == "allow" || got.Decision == "warn" || got.Decision == "log") {
				t.Errorf("%s (allowed: %v), want %s", said, got.Allowed, c.want)
			}
		})
	}
}

// Rules that take too long block what they would have judged.
func TestJudgingIsBounded(t *testing.T) {
	t.Parallel()
	rules := []constitution.Rule{{
		RuleID: "slow", Principle: "p", Action: "*", RuleType: "prohibition", Severity: "error", Penalty: "require_approval", Condition: "args.a == 1",
	}}
	act := policy.Act{Actions: []string{"x"}, Arguments: []byte(`{"a":2}`)}
	for limit, want := range map[time.Duration]policy.Effect{time.Hour: policy.Allow, 0: policy.Deny} {
		got, err := constitution.JudgeWithin(t.Context(), rules, policy.Run{}, act, limit)
		if err != nil || got.Effect != want {
			t.Errorf("within %v: %+v, %v", limit, got, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := constitution.JudgeWithin(ended, rules, policy.Run{}, act, time.Hour); err == nil {
		t.Error("a caller that left gets a ruling")
	}
}

// A rule that matches several names of an act is one finding.
func TestRulesAreFoundOnce(t *testing.T) {
	t.Parallel()
	rules := []constitution.Rule{
		{RuleID: "all", Principle: "p", Action: "*", RuleType: "prohibition", Severity: "warning"},
		{RuleID: "messages", Principle: "p", Action: "message", RuleType: "prohibition", Severity: "error", Penalty: "block"},
	}
	act := policy.ToolAct("delegate_to_agent", `{"message":"Do it."}`, nil)
	got, err := constitution.JudgeWithin(t.Context(), rules, policy.Run{}, act, time.Hour)
	var found []string
	for _, f := range got.Findings {
		found = append(found, f.RuleID+" "+f.Action)
	}
	want := []string{"all tool:delegate_to_agent", "messages message"}
	if err != nil || got.Effect != policy.Deny || !slices.Equal(found, want) {
		t.Errorf("%v, %v, %q", got.Effect, err, found)
	}
}

func TestObligationsAndViolations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.put(constitution.Rule{RuleID: "report", Principle: "Report.", RuleType: "requirement", ObligatedAction: "report it"},
			constitution.Rule{RuleID: "theirs", Principle: "Report.", RuleType: "requirement", Scope: "agent", ScopeTargets: []string{"h"}},
			constitution.Rule{RuleID: "mail", Principle: "No mail.", Action: "tool:mail"})
		o, err := call[*constitution.Obligations](r, admin, "getAgentObligations", "g")
		if err != nil || o.Count != 1 || o.Rules[0].RuleID != "report" || o.Rules[0].ObligatedAction != "report it" {
			t.Errorf("%+v, %v", o, err)
		}
		who := policy.Run{TenantID: "acme", AgentID: "g", RunID: "r", StepID: "s"}
		for range 3 {
			ruling, err := r.Judge(t.Context(), who, policy.Act{Actions: []string{"tool:mail"}})
			if err != nil || ruling.Effect != policy.Deny {
				t.Fatal(ruling, err)
			}
			if err := r.db.Write(t.Context(), func(tx txn.Tx) error { return r.RecordTx(tx, who, ruling) }); err != nil {
				t.Fatal(err)
			}
		}
		v, err := call[*constitution.Violations](r, admin, "getAgentViolations", "g")
		if err != nil || v.Count != 3 || v.HasMore || v.Violations[0].RuleID != "mail" || v.Violations[0].Action != "tool:mail" || v.Violations[0].RunID != "r" {
			t.Errorf("%+v, %v", v, err)
		}
		if v, err := call[*constitution.Violations](r, admin, "getAgentViolations", "unknown"); err != nil || v.Count != 0 {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// A rule that was put on one node holds on another within a second, also where no
// signal arrives.
func TestRulesReachOtherNodes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		var now atomic.Int64 // caches read it in the background
		one, two := newRig(t, db), newNode(t, db, func() time.Duration { return time.Duration(now.Load()) })
		effect := func() policy.Effect {
			ruling, err := two.Judge(t.Context(), policy.Run{TenantID: "acme", AgentID: "g"}, policy.Act{Actions: []string{"tool:mail"}})
			if err != nil {
				t.Fatal(err)
			}
			return ruling.Effect
		}
		if effect() != policy.Allow {
			t.Error("blocked without a rule")
		}
		one.put(constitution.Rule{RuleID: "mail", Principle: "No mail.", Action: "tool:mail"})
		if now.Store(int64(time.Second)); effect() != policy.Deny {
			t.Error("the rule does not hold after a second")
		}
		one.put()
		if two.Drop("acme"); effect() != policy.Allow { // as a signal does
			t.Error("the rule holds after it was removed")
		}
	})
}

func TestSafeMode(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		act := policy.Act{Actions: []string{"tool:mail"}}
		judge := func() policy.Effect {
			ruling, err := r.Judge(t.Context(), policy.Run{TenantID: "acme", AgentID: "g"}, act)
			if err != nil {
				t.Fatal(err)
			}
			if ruling.Effect == policy.Deny && ruling.Findings[0].RuleID != constitution.SafeModeRule {
				t.Errorf("%+v", ruling)
			}
			return ruling.Effect
		}
		begin := func(hours float64) {
			in := reflect.New(reflect.TypeOf(constitution.SafeModeBody)).Elem()
			in.FieldByName("Reason").SetString("a test")
			in.FieldByName("DeadlineHours").SetFloat(hours)
			st, err := call[*constitution.EmergencyState](r, founder, "activateSafeMode", in.Interface())
			if err != nil || st.Mode != constitution.SafeMode || st.ActivatedBy != "ann" || st.Reason != "a test" || (st.Deadline != nil) != (hours > 0) {
				t.Fatalf("%+v, %v", st, err)
			}
		}
		mode := func() string {
			st, err := call[*constitution.EmergencyState](r, admin, "getEmergencyState", nil)
			if err != nil {
				t.Fatal(err)
			}
			return st.Mode
		}
		if mode() != constitution.Normal || judge() != policy.Allow {
			t.Error("safe mode before it began")
		}
		begin(0)
		if mode() != constitution.SafeMode || judge() != policy.Deny {
			t.Error("no safe mode")
		}
		if _, err := call[*constitution.Deactivation](r, founder, "deactivateSafeMode", nil); err != nil {
			t.Fatal(err)
		}
		if mode() != constitution.Normal || judge() != policy.Allow {
			t.Error("safe mode did not end")
		}
		begin(2)
		r.clock.Advance(3 * time.Hour)
		if mode() != constitution.Normal || judge() != policy.Allow {
			t.Error("safe mode did not end by itself")
		}
		if got, want := r.kinds(), "emergency.safe_mode_begun , emergency.safe_mode_ended , emergency.safe_mode_begun "; got != want {
			t.Errorf("the ledger has %s, want %s", got, want)
		}
	})
}

// A thousand rules about other acts cost nothing, and a company without rules nothing
// at all.
// What an act costs does not depend on the rules about other acts, and little on how
// many rules compare something of it.
func TestJudgingIsCheap(t *testing.T) { // not parallel: it counts allocations
	rules := func(n int, action func(int) string) (all []constitution.Rule) {
		for i := range n {
			all = append(all, constitution.Rule{
				RuleID: fmt.Sprint(n, i), Principle: "p", Action: action(i), Severity: "error", Penalty: "block", RuleType: "prohibition",
				Condition: fmt.Sprintf("has(args.amount) && args.amount > %d", 1000+i),
			})
		}
		return all
	}
	allocations := func(all []constitution.Rule) float64 {
		judge := constitution.Judge(all)
		act := policy.Act{Actions: []string{"tool:pay"}, Arguments: []byte(`{"amount":3}`)}
		return testing.AllocsPerRun(100, func() {
			if ruling, err := judge(t.Context(), policy.Run{TenantID: "acme", AgentID: "g"}, act); err != nil || ruling.Effect != policy.Allow {
				t.Fatal(ruling, err)
			}
		})
	}
	own := func(int) string { return "tool:p*" }
	others := func(i int) string { return fmt.Sprint("tool:other", i) }
	few := rules(2, own)
	base, many := allocations(few), allocations(append(rules(1500, others), few...))
	if many > base+1 { // pools are emptied now and then, and what is counted is rounded
		t.Errorf("%v allocations beside 1,500 rules about other acts, and %v without", many, base)
	}
	if all := allocations(rules(200, own)); all > base+6*200 {
		t.Errorf("%v allocations for 200 rules that compare, and %v for two", all, base)
	}
}

func BenchmarkJudge(b *testing.B) {
	for name, n := range map[string]int{"none": 0, "200 rules": 200, "1000 rules": 1000} {
		b.Run(name, func(b *testing.B) {
			r := &rig{db: sqldbtest.Open(b, sqldbtest.SQLite), clock: clock.NewFake()}
			l := ledger.New(ledger.Deps{Store: ledgersql.New(r.db), Writer: r.db, Clock: r.clock, Log: slog.New(slog.DiscardHandler)})
			r.Service = constitution.New(constitution.Deps{
				Store: constitutionsql.New(r.db), Writer: r.db, Clock: r.clock, Ledger: l, Elapsed: func() time.Duration { return 0 },
			})
			var rules []constitution.Rule
			for i := range n {
				action := fmt.Sprint("tool:t", i)
				if i%10 == 0 {
					action = "tool:*"
				}
				rules = append(rules, constitution.Rule{
					RuleID: fmt.Sprint("r", i), Principle: "p", Action: action, Severity: "error", Penalty: "block", RuleType: "prohibition",
					Condition: fmt.Sprintf("has(args.amount) && args.amount > %d", 1000+i),
				})
			}
			err := r.db.Write(b.Context(), func(tx txn.Tx) error {
				_, err := r.ReplaceTx(tx, constitution.Author{TenantID: "acme", UserID: "ann"}, rules, "")
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			act := policy.Act{Actions: []string{"tool:t7"}, Arguments: []byte(`{"amount":3}`)}
			for b.Loop() {
				if ruling, err := r.Judge(b.Context(), policy.Run{TenantID: "acme", AgentID: "g"}, act); err != nil || ruling.Effect != policy.Allow {
					b.Fatal(ruling, err)
				}
			}
		})
	}
}
