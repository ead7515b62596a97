package constitution_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/governance/constitution"
	"agentd/internal/store/sqldb/sqldbtest"
)

func (r *rig) setRoot(agent string) error {
	in := reflect.New(reflect.TypeOf(constitution.RootAgentBody)).Elem()
	in.FieldByName("AgentID").SetString(agent)
	_, err := call[*constitution.RootAgent](r, admin, "setRootAgent", in.Interface())
	return err
}

func (r *rig) attest(who authz.Caller, fields map[string]string) error {
	in := reflect.New(reflect.TypeOf(constitution.AttestationBody)).Elem()
	for name, value := range fields {
		in.FieldByName(name).SetString(value)
	}
	_, err := call[*constitution.Attested](r, who, "setRootAttestation", in.Interface())
	return err
}

// The root agent is attested by the founder's key, and by no other; what was signed
// holds until the agent or the rules change.
func TestRootAgent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.Connect(constitution.Penalties{AgentTx: func(_ txn.Tx, _, id string) error {
			if !strings.HasPrefix(id, "own") {
				return fault.NewNotFound("agent")
			}
			return nil
		}}, nil)
		got := func() string {
			root, err := call[*constitution.RootAgent](r, admin, "getRootAgent", nil)
			if err != nil {
				t.Fatal(err)
			}
			if root.RootAgentID == nil {
				return ""
			}
			return *root.RootAgentID
		}
		if got() != "" || !fault.Is(r.setRoot("other"), fault.NotFound) {
			t.Errorf("root %q", got())
		}
		if err := r.setRoot("own-1"); err != nil || got() != "own-1" {
			t.Fatalf("%v, %q", err, got())
		}
		if _, err := call[*constitution.Attestation](r, admin, "getRootAttestation", nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("without one: %v", err)
		}
		r.put(constitution.Rule{RuleID: "mail", Principle: "No mail.", Action: "tool:mail"})
		c, err := call[*constitution.Constitution](r, admin, "getConstitution", nil)
		if err != nil {
			t.Fatal(err)
		}
		key, other := ed25519.NewKeyFromSeed(make([]byte, 32)), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
		public := func(k ed25519.PrivateKey) string {
			return base64.StdEncoding.EncodeToString(k.Public().(ed25519.PublicKey))
		}
		sign := func(k ed25519.PrivateKey, tenant, agent, hash string) map[string]string {
			text := fmt.Sprintf("agentd root attestation\n%s\n%s\nann\n%s", tenant, agent, hash)
			return map[string]string{
				"RootAgentID": agent, "FounderID": "ann", "ConstitutionHash": hash,
				"FounderSignature": base64.StdEncoding.EncodeToString(ed25519.Sign(k, []byte(text))),
			}
		}
		with := func(fields map[string]string, name, value string) map[string]string {
			fields[name] = value
			return fields
		}
		good := func() map[string]string { return sign(key, "acme", "own-1", c.Hash) }
		first := func(fields map[string]string) map[string]string { return with(fields, "FounderPublicKey", public(key)) }
		for name, c := range map[string]struct {
			who    authz.Caller
			fields map[string]string
			kind   fault.Kind
		}{
			"no key yet":      {founder, good(), fault.Invalid},
			"an admin's key":  {admin, first(good()), fault.Forbidden},
			"forged":          {founder, first(sign(other, "acme", "own-1", c.Hash)), fault.Invalid},
			"other company":   {founder, first(sign(key, "evil", "own-1", c.Hash)), fault.Invalid},
			"other agent":     {founder, first(sign(key, "acme", "own-2", c.Hash)), fault.Conflict},
			"foreign agent":   {founder, first(sign(key, "acme", "x", c.Hash)), fault.NotFound},
			"other rules":     {founder, first(sign(key, "acme", "own-1", "00")), fault.Invalid},
			"no signature":    {founder, with(first(good()), "FounderSignature", "?"), fault.Invalid},
			"no such key":     {founder, with(good(), "FounderPublicKey", "AAAA"), fault.Invalid},
			"another founder": {founder, with(first(good()), "FounderID", "bob"), fault.Invalid},
		} {
			if err := r.attest(c.who, c.fields); !fault.Is(err, c.kind) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := r.attest(founder, first(good())); err != nil {
			t.Fatal(err)
		}
		if err := r.attest(admin, good()); err != nil { // signed by the key that is kept
			t.Error(err)
		}
		if err := r.attest(admin, with(sign(other, "acme", "own-1", c.Hash), "FounderPublicKey", public(other))); !fault.Is(err, fault.Forbidden) {
			t.Errorf("an admin with another key: %v", err)
		}
		if err := r.attest(admin, sign(other, "acme", "own-1", c.Hash)); !fault.Is(err, fault.Invalid) {
			t.Errorf("an admin's own signature: %v", err)
		}
		current := func() bool {
			a, err := call[*constitution.Attestation](r, admin, "getRootAttestation", nil)
			if err != nil || a.FounderPublicKey != public(key) || a.Version != 1 {
				t.Fatalf("%+v, %v", a, err)
			}
			return a.Current
		}
		if !current() {
			t.Error("it does not hold")
		}
		r.put(constitution.Rule{RuleID: "mail", Principle: "No mail at all.", Action: "tool:mail"})
		if current() {
			t.Error("it holds under other rules")
		}
		if kinds := r.kinds(); !strings.HasPrefix(kinds, "emergency.root_agent_set , rule_added mail, emergency.root_attested , emergency.root_attested ") {
			t.Errorf("the ledger has %s", kinds)
		}
	})
}

func TestDeadlocks(t *testing.T) {
	t.Parallel()
	must := constitution.Rule{RuleID: "must", Principle: "p", RuleType: "requirement", ObligatedAction: "tool:report"}
	no := constitution.Rule{RuleID: "no", Principle: "p", Action: "tool:rep*", Priority: 5}
	change := func(r constitution.Rule, f func(*constitution.Rule)) constitution.Rule { f(&r); return r }
	of := func(r constitution.Rule, agents ...string) constitution.Rule {
		return change(r, func(r *constitution.Rule) { r.Scope, r.ScopeTargets = "agent", agents })
	}
	lift := constitution.Rule{RuleID: "lift", Principle: "p", RuleType: "permission", Action: "tool:*", Priority: 6}
	conflict := constitution.RuleConflict{Prohibition: "no", Requirement: "must", Action: "tool:report"}
	conditional := conflict
	conditional.Conditional = true
	for name, c := range map[string]struct {
		rules    []constitution.Rule
		want     []constitution.RuleConflict
		deadlock bool
	}{
		"conflict":          {[]constitution.Rule{must, no}, []constitution.RuleConflict{conflict}, true},
		"other act":         {[]constitution.Rule{must, change(no, func(r *constitution.Rule) { r.Action = "tool:repo" })}, nil, false},
		"only warned":       {[]constitution.Rule{must, change(no, func(r *constitution.Rule) { r.Severity = "warning" })}, nil, false},
		"approval":          {[]constitution.Rule{must, change(no, func(r *constitution.Rule) { r.Penalty = "require_approval" })}, nil, false},
		"shadow":            {[]constitution.Rule{must, change(no, func(r *constitution.Rule) { r.Shadow = true })}, nil, false},
		"conditional":       {[]constitution.Rule{must, change(no, func(r *constitution.Rule) { r.Condition = "args.x == 1" })}, []constitution.RuleConflict{conditional}, false},
		"other agents":      {[]constitution.Rule{of(must, "a"), of(no, "b")}, nil, false},
		"lifted":            {[]constitution.Rule{must, no, lift}, nil, false},
		"lifted for some":   {[]constitution.Rule{must, no, of(lift, "a")}, []constitution.RuleConflict{conflict}, true},
		"lifted for all":    {[]constitution.Rule{of(must, "a"), no, of(lift, "a")}, nil, false},
		"immutable":         {[]constitution.Rule{must, change(no, func(r *constitution.Rule) { r.Immutable = true }), lift}, []constitution.RuleConflict{conflict}, true},
		"same priority":     {[]constitution.Rule{must, no, change(lift, func(r *constitution.Rule) { r.Priority = 5 })}, []constitution.RuleConflict{conflict}, true},
		"nothing forbidden": {[]constitution.Rule{must, lift}, nil, false},
	} {
		r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
		r.put(c.rules...)
		report, err := call[*constitution.DeadlockReport](r, admin, "checkDeadlock", nil)
		if err != nil || report.HasDeadlock != c.deadlock || report.Recommendation == "" {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		if diff := cmp.Diff(append([]constitution.RuleConflict{}, c.want...), report.ConflictingRules); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	r := newRig(t, sqldbtest.Open(t, sqldbtest.SQLite))
	if _, err := call[*constitution.DeadlockReport](r, admin, "checkDeadlock", nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a constitution: %v", err)
	}
	r.put(of(must, "a", "b"), of(no, "b", "c"))
	report, err := call[*constitution.DeadlockReport](r, admin, "checkDeadlock", nil)
	if err != nil || len(report.ConflictingRules) != 1 || !cmp.Equal(report.ConflictingRules[0].AgentIDs, []string{"b"}) {
		t.Errorf("agents of both: %+v, %v", report, err)
	}
}
