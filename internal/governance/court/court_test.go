package court_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/court"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

type body = map[string]any

var errExecutor = errors.New("the disk is full")

// company is one that has agents and arbiters.
type company struct {
	t       *testing.T
	court   *court.Court
	clock   *clock.Fake
	admin   authz.Caller
	accused string
	filer   string
	judges  []string

	mu     sync.Mutex
	agents map[string]court.Agent
	log    []string
	items  []inbox.Item
	did    []string // by executors
	fails  bool     // executors do
}

func newCompany(t *testing.T, db *sqldb.DB) *company {
	t.Helper()
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	c := &company{
		t: t, clock: clock.NewFake(), admin: authz.Caller{TenantID: ident.New(), UserID: "ada", Role: authz.Admin},
		agents: map[string]court.Agent{},
	}
	c.accused, c.filer = c.hire(""), c.hire("")
	for range 5 {
		c.judges = append(c.judges, c.hire(""))
	}
	note := func(what string) func(txn.Tx, authz.Caller, string, string) error {
		return func(tx txn.Tx, _ authz.Caller, id, _ string) error {
			if c.fails {
				return errExecutor
			}
			tx.AfterCommit(func() { c.did = append(c.did, what+" "+id) })
			return nil
		}
	}
	c.court = court.New(deps, court.Options{
		Clock: c.clock, Ledger: c, Inbox: c, Agents: c, Queue: worksql.New(db, c.clock, func(string) {}),
		Penalties: map[string]court.Executor{
			court.TerminateAgent: {DoTx: note("terminate")},
			court.SuspendAgent: {
				DoTx:   note("suspend"),
				UndoTx: func(tx txn.Tx, who authz.Caller, id string) error { return note("activate")(tx, who, id, "") },
			},
		},
	})
	return c
}

func (c *company) hire(parent string) string {
	id := ident.New()
	c.agents[id] = court.Agent{ID: id, ParentID: parent, Active: true}
	return id
}

// GetTx implements court.Agents.
func (c *company) GetTx(_ txn.Tx, tenant, id string) (court.Agent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.agents[id]; ok && tenant == c.admin.TenantID {
		return a, nil
	}
	return court.Agent{}, fault.NewNotFound("agent")
}

// AppendTx implements ledger.Appender.
func (c *company) AppendTx(tx txn.Tx, _ string, e ledger.Entry) error {
	tx.AfterCommit(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.log = append(c.log, e.Kind)
	})
	return nil
}

// SendTx implements inbox.Sender.
func (c *company) SendTx(tx txn.Tx, _ string, item inbox.Item) error {
	tx.AfterCommit(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.items = append(c.items, item)
	})
	return nil
}

// call calls an operation, and returns its answer as JSON.
func (c *company) call(who authz.Caller, id, on string, sent body) (body, error) {
	c.t.Helper()
	routes := c.court.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	if f := in.Elem().FieldByName("ID"); f.IsValid() {
		f.SetString(on)
	}
	if f := in.Elem().FieldByName("Body"); f.IsValid() && sent != nil {
		text, err := json.Marshal(sent)
		if err != nil {
			c.t.Fatal(err)
		}
		if f.Kind() == reflect.Slice {
			f.SetBytes(text)
		} else if err := json.Unmarshal(text, f.Addr().Interface()); err != nil {
			c.t.Fatal(err)
		}
	}
	out, err := r.Call(c.t.Context(), who, in.Interface())
	if err != nil {
		return nil, err
	}
	text, _ := json.Marshal(out)
	if reply, ok := out.(*route.Reply); ok {
		text = reply.JSON
	}
	var answer body
	if err := json.Unmarshal(text, &answer); err != nil {
		c.t.Fatalf("%s answers %s", id, text)
	}
	return answer, nil
}

func (c *company) must(id, on string, sent body) body {
	c.t.Helper()
	answer, err := c.call(c.admin, id, on, sent)
	if err != nil {
		c.t.Fatalf("%s: %v", id, err)
	}
	return answer
}

// refused checks that an operation is refused with a code.
func (c *company) refused(code, id, on string, sent body) {
	c.t.Helper()
	if _, err := c.call(c.admin, id, on, sent); err == nil || fault.From(err).Code != code {
		c.t.Errorf("%s %v: %v, not %s", id, sent, err, code)
	}
}

func (c *company) register(panel, appeals int, judges ...string) {
	c.t.Helper()
	c.must("setArbiterRegistry", "", body{
		"arbiter_agent_ids": judges, "panel_size": panel, "ruling_deadline_hours": 24, "max_appeals": appeals,
	})
}

func (c *company) file(more body) body {
	c.t.Helper()
	all := body{"filed_by": c.filer, "against_agent_id": c.accused, "reason": "It pays twice"}
	maps.Copy(all, more)
	return c.must("fileArbiterCase", "", all)
}

func (c *company) read(id string) *court.Case {
	c.t.Helper()
	on, err := c.court.Cases().Get(c.t.Context(), c.admin.TenantID, id)
	if err != nil {
		c.t.Fatal(err)
	}
	return on
}

func each(t *testing.T, test func(t *testing.T, c *company)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newCompany(t, db)) })
}

// open has every agent.
type open struct{}

func (open) GetTx(_ txn.Tx, _, id string) (court.Agent, error) {
	return court.Agent{ID: id, Active: true}, nil
}

func TestCases(t *testing.T) {
	t.Parallel()
	agent := ident.New()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newCompany(t, db)
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[court.Case] {
			return court.New(deps, court.Options{Clock: c.clock, Ledger: c, Inbox: c, Agents: open{}}).Cases()
		}, resourcetest.Samples{
			Minimal: `{"against_agent_id":"` + agent + `","reason":"It pays twice %d"}`,
			Defaults: map[string]string{
				"status": `"filed"`, "assigned_arbiter_id": `null`, "deadline": `null`, "ruling": `null`, "appeals": `[]`, "rule_ids": `[]`,
				"evidence": `{}`, "description": `""`,
			},
			Full: `{"filed_by":"The auditors","against_agent_id":"` + agent + `","reason":"It pays twice %d","description":"every Monday",
				"rule_ids":["no-double-payment"],"evidence":{"run_id":"4711"}}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"against_agent_id"}},
				{
					Body:   `{"against_agent_id":1,"rule_ids":"x","evidence":[],"reason":5}`,
					Fields: []string{"against_agent_id", "rule_ids", "evidence", "reason"},
				},
			},
		})
	})
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		if got := c.must("getArbiterRegistry", "", nil); got["updated_at"] != nil || got["panel_size"] != 3.0 || got["max_appeals"] != 1.0 ||
			got["ruling_deadline_hours"] != 72.0 || len(got["arbiter_agent_ids"].([]any)) != 0 {
			t.Errorf("the default: %v", got)
		}
		c.register(2, 0, c.judges...)
		c.register(5, 4, c.judges[0])
		if got := c.must("getArbiterRegistry", "", nil); got["updated_at"] == nil || got["panel_size"] != 5.0 || got["max_appeals"] != 4.0 ||
			got["ruling_deadline_hours"] != 24.0 || fmt.Sprint(got["arbiter_agent_ids"]) != fmt.Sprint(c.judges[:1]) {
			t.Errorf("what was set: %v", got)
		}
		set := body{"panel_size": 1, "ruling_deadline_hours": 1, "max_appeals": 1}
		for _, ids := range [][]string{{c.judges[0], ident.New()}, {c.judges[0], c.judges[0]}, {"x"}} {
			set["arbiter_agent_ids"] = ids
			c.refused("VALIDATION_ERROR", "setArbiterRegistry", "", set)
		}
		delete(c.agents, c.judges[0])
		c.register(1, 1, c.judges[0]) // it was there before
		if !slices.Equal(c.log, []string{"arbiter_registry.set", "arbiter_registry.set", "arbiter_registry.set"}) {
			t.Errorf("the ledger has %v", c.log)
		}
	})
}

// The arbiter is drawn by lot among those who are not involved.
func TestArbitersAreDrawn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		child := c.hire(c.accused)
		parent := c.hire("")
		c.agents[c.filer] = court.Agent{ID: c.filer, ParentID: parent, Active: true}
		sibling := c.hire(parent)
		idle := c.hire("")
		c.agents[idle] = court.Agent{ID: idle}
		involved := []string{c.accused, c.filer, child, parent, sibling, idle}
		c.register(1, 0, append(slices.Clone(involved), c.judges...)...)
		var all sync.WaitGroup
		arbiters := make([]string, 12)
		for i := range arbiters {
			all.Go(func() {
				got, err := c.call(c.admin, "fileArbiterCase", "", body{"filed_by": c.filer, "against_agent_id": c.accused})
				if err != nil {
					t.Error(err)
					return
				}
				arbiters[i] = got["assigned_arbiter_id"].(string)
				due, _ := time.Parse(time.RFC3339, got["deadline"].(string))
				if got["status"] != "in_review" || !due.Equal(c.clock.Now().Add(24*time.Hour)) {
					t.Errorf("filed: %v", got)
				}
			})
		}
		all.Wait()
		for _, id := range arbiters {
			if !slices.Contains(c.judges, id) {
				t.Errorf("%s is drawn", id)
			}
		}
		if slices.Sort(arbiters); len(slices.Compact(arbiters)) == 1 {
			t.Error("all cases have one arbiter")
		}
		c.register(1, 0, append(involved, ident.New())[:len(involved)]...)
		c.refused("no_eligible_arbiter", "fileArbiterCase", "", body{"filed_by": c.filer, "against_agent_id": c.accused})
		for _, wrong := range []body{{"against_agent_id": ident.New()}, {"against_agent_id": c.accused, "filed_by": ident.New()}} {
			c.refused("NOT_FOUND", "fileArbiterCase", "", wrong)
		}
		named := c.must("fileArbiterCase", "", body{"against_agent_id": c.judges[0], "filed_by": "The auditors"})
		if got := named; got["filed_by"] != "The auditors" || got["submitted_by"] != "ada" {
			t.Errorf("in the name of others: %v", got)
		}
		if len(c.items) != 13 || c.items[0].AgentID != c.accused || c.items[0].Type != "domain.governance.case_filed" {
			t.Errorf("%d items: %+v", len(c.items), c.items[0])
		}
	})
}

func TestRulings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		c.register(1, 1, c.judges...)
		filed := c.file(nil)
		id, arbiter := filed["id"].(string), filed["assigned_arbiter_id"].(string)
		other := c.judges[(slices.Index(c.judges, arbiter)+1)%len(c.judges)]
		for _, wrong := range []string{"", "ada", other} {
			c.refused("not_assigned_arbiter", "issueArbiterRuling", id, body{"arbiter_id": wrong, "decision": "upheld"})
		}
		c.refused("VALIDATION_ERROR", "issueArbiterRuling", id, body{
			"arbiter_id": arbiter, "decision": "dismissed", "penalties": []body{{"type": "warning"}},
		})
		c.refused("VALIDATION_ERROR", "issueArbiterRuling", id, body{
			"arbiter_id": arbiter, "decision": "upheld", "penalties": []body{{"type": "revoke_permissions"}},
		})
		ruling := body{"arbiter_id": arbiter, "decision": "dismissed", "reason": "It did not"}
		if got := c.must("issueArbiterRuling", id, ruling); got["ok"] != true {
			t.Errorf("a ruling: %v", got)
		}
		on := c.read(id)
		if on.Status != court.Ruled || on.Ruling.ArbiterID != arbiter || on.Ruling.Decision != court.Dismissed ||
			on.Ruling.Reason != "It did not" || on.Ruling.RuledBy != "ada" || on.Ruling.CaseID != id {
			t.Errorf("%+v", on.Ruling)
		}
		c.refused("INVALID_STATE_TRANSITION", "issueArbiterRuling", id, body{"arbiter_id": arbiter, "decision": "upheld"})

		c.register(1, 1)
		bare := c.file(body{"filed_by": ""})
		if bare["status"] != "filed" || bare["filed_by"] != "ada" {
			t.Errorf("without arbiters: %v", bare)
		}
		id = bare["id"].(string)
		c.refused("not_assigned_arbiter", "issueArbiterRuling", id, body{"arbiter_id": other, "decision": "upheld"}) // no one is assigned
		c.must("issueArbiterRuling", id, body{"decision": "upheld"})
		if on := c.read(id); on.Status != court.Ruled || on.Ruling.ArbiterID != "ada" {
			t.Errorf("an admin's ruling: %+v", on)
		}
		stranger := authz.Caller{TenantID: ident.New(), UserID: "eve", Role: authz.Owner}
		for _, op := range []string{"issueArbiterRuling", "fileArbiterAppeal", "getArbiterCase"} {
			if _, err := c.call(stranger, op, id, body{"decision": "upheld", "reason": "x"}); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s by a stranger: %v", op, err)
			}
		}
	})
}

// Two rulings at one moment: one of them is refused.
func TestRulingsAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		id := c.file(nil)["id"].(string)
		var all sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			all.Go(func() {
				_, errs[i] = c.call(c.admin, "issueArbiterRuling", id, body{"decision": "upheld", "penalties": []body{{"type": "suspend_agent"}}})
			})
		}
		all.Wait()
		errs = slices.DeleteFunc(errs, func(err error) bool { return fault.Is(err, fault.Conflict) })
		if !slices.Equal(errs, []error{nil}) || len(c.did) != 1 {
			t.Errorf("%v, %v", errs, c.did)
		}
	})
}

// Penalties are carried out with the ruling, or there is no ruling.
func TestPenalties(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		id := c.file(nil)["id"].(string)
		other := c.hire("")
		ruling := body{"decision": "upheld", "reason": "It did", "penalties": []body{
			{"type": "warning"}, {"type": "suspend_agent", "reason": "Until Monday"}, {"type": "terminate_agent", "agent_id": other},
		}}
		c.fails = true
		if _, err := c.call(c.admin, "issueArbiterRuling", id, ruling); !errors.Is(err, errExecutor) || c.read(id).Status != court.Filed {
			t.Errorf("%v, and it is %s", err, c.read(id).Status)
		}
		c.fails = false
		stranger := []body{{"type": "warning", "agent_id": ident.New()}}
		c.refused("NOT_FOUND", "issueArbiterRuling", id, body{"decision": "upheld", "penalties": stranger})
		c.must("issueArbiterRuling", id, ruling)
		if want := []string{"suspend " + c.accused, "terminate " + other}; !slices.Equal(c.did, want) {
			t.Errorf("done: %v", c.did)
		}
		want := []court.Penalty{
			{Type: "warning", AgentID: c.accused, Reason: "It did", Outcome: "carried_out"},
			{Type: "suspend_agent", AgentID: c.accused, Reason: "Until Monday", Outcome: "carried_out"},
			{Type: "terminate_agent", AgentID: other, Reason: "It did", Outcome: "carried_out"},
		}
		if got := c.read(id).Ruling.Penalties; !slices.Equal(got, want) {
			t.Errorf("penalties: %+v", got)
		}
		if got := strings.Join(c.log, " "); got != "case.filed penalty.imposed penalty.imposed penalty.imposed case.ruled" {
			t.Errorf("the ledger has %s", got)
		}
		late := c.file(nil)["id"].(string)
		delete(c.agents, c.accused)
		c.must("issueArbiterRuling", late, body{"decision": "upheld", "penalties": []body{{"type": "warning"}}})
		if got := c.read(late).Ruling.Penalties[0].Outcome; got != "agent_deleted" {
			t.Errorf("an agent that is gone: %s", got)
		}
	})
}

// ruled files a case, and has it ruled.
func (c *company) ruled(decision string) string {
	c.t.Helper()
	filed := c.file(nil)
	ruling := body{"arbiter_id": filed["assigned_arbiter_id"], "decision": decision}
	if decision == court.Upheld {
		ruling["penalties"] = []body{{"type": "warning"}, {"type": "suspend_agent"}, {"type": "terminate_agent", "agent_id": c.judges[0]}}
	}
	c.must("issueArbiterRuling", filed["id"].(string), ruling)
	return filed["id"].(string)
}

func TestAppeals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first   string
		panel   int
		votes   []string
		status  string // of the appeal
		holds   string // the decision
		done    string // by executors after the first ruling
		outcome string // of the first ruling's suspension
	}{
		"it stands":            {"upheld", 3, []string{"upheld", "dismissed", "upheld"}, "upheld", "upheld", "", ""},
		"a majority is enough": {"upheld", 3, []string{"upheld", "upheld"}, "upheld", "upheld", "", ""},
		"a tie":                {"upheld", 2, []string{"dismissed", "upheld"}, "upheld", "upheld", "", ""},
		"it is overturned":     {"upheld", 3, []string{"dismissed", "dismissed"}, "overturned", "dismissed", "activate", "revoked"},
		"a dismissal too":      {"dismissed", 1, []string{"upheld"}, "overturned", "upheld", "suspend", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, c *company) {
				c.register(test.panel, 1, c.judges...)
				id := c.ruled(test.first)
				c.did = nil
				appeal := c.must("fileArbiterAppeal", id, body{"reason": "The run was a test", "filed_by": c.accused})
				panel := appeal["panel_arbiter_ids"].([]any)
				if len(panel) != test.panel || slices.Contains(panel, any(*c.read(id).ArbiterID)) || appeal["status"] != "pending" ||
					appeal["filed_by"] != c.accused || appeal["reason"] != "The run was a test" || appeal["case_id"] != id {
					t.Errorf("filed: %v", appeal)
				}
				for i, decision := range test.votes {
					vote := body{"arbiter_id": panel[i], "decision": decision}
					if test.first == "dismissed" {
						vote["penalties"] = []body{{"type": "suspend_agent"}}
					}
					c.must("issueArbiterRuling", id, vote)
				}
				on := c.read(id)
				got := on.Appeals[0]
				if on.Status != court.Closed || got.Status != test.status || got.ResolvedAt == nil || on.Ruling.Decision != test.holds ||
					len(got.Votes) != len(test.votes) {
					t.Errorf("%s, %+v, %+v", on.Status, got, on.Ruling)
				}
				if done := strings.Join(c.did, "; "); done != strings.TrimSpace(test.done) && done != test.done+" "+c.accused {
					t.Errorf("done: %s", done)
				}
				if test.outcome != "" {
					if p := got.Overturned.Penalties; p[1].Outcome != test.outcome || p[2].Outcome != "carried_out" {
						t.Errorf("the ruling that was overturned: %+v", got.Overturned)
					}
				}
				c.refused("INVALID_STATE_TRANSITION", "fileArbiterAppeal", id, body{"reason": "again"})
			})
		})
	}
}

func TestRefusedAppeals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		c.register(1, 2, c.judges[1:3]...)
		open := c.file(nil)["id"].(string)
		c.refused("INVALID_STATE_TRANSITION", "fileArbiterAppeal", open, body{"reason": "x"})
		id := c.ruled("upheld")
		c.refused("NOT_FOUND", "fileArbiterAppeal", id, body{"reason": "x", "filed_by": ident.New()})
		panel := c.must("fileArbiterAppeal", id, body{"reason": "x"})["panel_arbiter_ids"].([]any)
		c.refused("not_assigned_arbiter", "issueArbiterRuling", id, body{"arbiter_id": *c.read(id).ArbiterID, "decision": "upheld"})
		c.refused("VALIDATION_ERROR", "issueArbiterRuling", id, body{
			"arbiter_id": panel[0], "decision": "upheld", "penalties": []body{{"type": "warning"}},
		})
		c.must("issueArbiterRuling", id, body{"arbiter_id": panel[0], "decision": "upheld"})
		if got := c.read(id).Status; got != court.Ruled {
			t.Errorf("one appeal is left, and it is %s", got)
		}
		c.refused("no_eligible_arbiter", "fileArbiterAppeal", id, body{"reason": "x"}) // both took part
		c.register(1, 1, c.judges...)
		c.refused("appeals_exhausted", "fileArbiterAppeal", id, body{"reason": "x"})

		c.register(3, 2, c.judges...)
		panel = c.must("fileArbiterAppeal", id, body{"reason": "x"})["panel_arbiter_ids"].([]any)
		c.must("issueArbiterRuling", id, body{"arbiter_id": panel[0], "decision": "dismissed"})
		c.refused("ALREADY_VOTED", "issueArbiterRuling", id, body{"arbiter_id": panel[0], "decision": "dismissed"})
	})
}

func TestClosing(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newCompany(t, db)
		id := c.file(nil)["id"].(string)
		end := func() error {
			return db.Write(t.Context(), func(tx txn.Tx) error { return c.court.CloseTx(tx, c.admin, id, "Settled") })
		}
		if err := end(); err != nil || c.read(id).Status != court.Closed {
			t.Errorf("%v, %s", err, c.read(id).Status)
		}
		if err := end(); !fault.Is(err, fault.Conflict) {
			t.Errorf("again: %v", err)
		}
		c.refused("INVALID_STATE_TRANSITION", "issueArbiterRuling", id, body{"decision": "upheld"})
		if got := strings.Join(c.log, " "); got != "case.filed case.closed" {
			t.Errorf("the ledger has %s", got)
		}
	})
}
