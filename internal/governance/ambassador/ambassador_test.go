package ambassador_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ambassador"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

var errTarget = errors.New("the disk is full")

// company is one with an agent and ambassadors.
type company struct {
	t      *testing.T
	people *ambassador.Ambassadors
	owner  authz.Caller
	agent  string
	kinds  []string
	items  []inbox.Item
	vetoed []string
	fails  bool // vetoes do
	mu     sync.Mutex
}

func (c *company) note(add func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add()
}

func (c *company) AppendTx(tx txn.Tx, _ string, e ledger.Entry) error {
	tx.AfterCommit(func() { c.note(func() { c.kinds = append(c.kinds, e.Kind) }) })
	return nil
}

func (c *company) SendTx(tx txn.Tx, _ string, item inbox.Item) error {
	tx.AfterCommit(func() { c.note(func() { c.items = append(c.items, item) }) })
	return nil
}

func (c *company) options() ambassador.Options {
	return ambassador.Options{
		Clock: clock.System{}, Ledger: c, Inbox: c,
		Agent: func(_ txn.Tx, _, id string) error {
			if id == c.agent {
				return nil
			}
			return fault.NewNotFound("agent")
		},
		Targets: map[string]ambassador.TargetFunc{"agent": func(_ context.Context, _ authz.Caller, id string) (func(txn.Tx, string) error, error) {
			if id != c.agent {
				return nil, fault.NewNotFound("agent")
			}
			return func(tx txn.Tx, reason string) error {
				if c.fails {
					return errTarget
				}
				tx.AfterCommit(func() { c.vetoed = append(c.vetoed, id+": "+reason) })
				return nil
			}, nil
		}},
	}
}

func newCompany(t *testing.T, db *sqldb.DB) *company {
	t.Helper()
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	c := &company{t: t, agent: ident.New(), owner: authz.Caller{TenantID: ident.New(), UserID: "ada", Role: authz.Owner}}
	c.people = ambassador.New(deps, c.options())
	return c
}

// call calls an operation, and returns its answer as JSON.
func (c *company) call(who authz.Caller, op, id, body string) (string, error) {
	c.t.Helper()
	routes := c.people.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == op })]
	in := reflect.New(r.In)
	if id != "" {
		in.Elem().FieldByName("ID").SetString(id)
	}
	if f := in.Elem().FieldByName("Body"); body != "" && f.Kind() == reflect.Slice {
		f.SetBytes(jsontext.Value(body))
	} else if body != "" {
		if err := json.Unmarshal([]byte(body), f.Addr().Interface()); err != nil {
			c.t.Fatal(err)
		}
	}
	out, err := r.Call(c.t.Context(), who, in.Interface())
	if err != nil {
		return "", err
	}
	if reply, ok := out.(*route.Reply); ok {
		return string(reply.JSON), nil
	}
	text, err := json.Marshal(out)
	return string(text), err
}

func (c *company) must(op, id, body string) map[string]any {
	c.t.Helper()
	text, err := c.call(c.owner, op, id, body)
	if err != nil {
		c.t.Fatalf("%s: %v", op, err)
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		c.t.Fatalf("%s: %s", op, text)
	}
	return answer
}

func each(t *testing.T, test func(t *testing.T, c *company)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newCompany(t, db)) })
}

func TestRequests(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newCompany(t, db)
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[ambassador.Request] {
			return ambassador.New(deps, c.options()).Requests()
		}, resourcetest.Samples{
			Minimal:  `{"from_agent_id":"` + c.agent + `","type":"approval","subject":"May I %d","body":""}`,
			Defaults: map[string]string{"status": `"pending"`, "response": `null`, "resolved_at": `null`, "resolved_by": `null`},
			Full:     `{"from_agent_id":"` + c.agent + `","type":"report","subject":"Done %d","body":"All of it"}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"from_agent_id", "type", "subject", "body"}},
				{Body: `{"from_agent_id":"` + c.agent + `","type":"report","subject":" ","body":"x"}`, Fields: []string{"subject"}},
				{Body: `{"from_agent_id":1,"type":"wish","subject":"x","body":[]}`, Fields: []string{"from_agent_id", "type", "body"}},
			},
		})
	})
}

func TestResolving(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		body := `{"from_agent_id":"` + c.agent + `","type":"approval","subject":"May I?","body":"Please"}`
		id := c.must("createAmbassadorRequest", "", body)["id"].(string)
		if len(c.items) != 1 || c.items[0].AgentID != c.agent || c.items[0].Type != "domain.governance.request_created" {
			t.Errorf("sent: %+v", c.items)
		}
		for _, response := range []string{"No", "Yes"} { // it may be repeated
			got := c.must("resolveAmbassadorRequest", id, `{"response":"`+response+`"}`)
			if got["status"] != "resolved" || got["response"] != response || got["resolved_by"] != "ada" || got["resolved_at"] == nil {
				t.Errorf("resolved: %v", got)
			}
		}
		other := authz.Caller{TenantID: ident.New(), UserID: "eve", Role: authz.Owner}
		if _, err := c.call(other, "resolveAmbassadorRequest", id, `{"response":"x"}`); !fault.Is(err, fault.NotFound) {
			t.Errorf("by a stranger: %v", err)
		}
		if _, err := c.call(c.owner, "resolveAmbassadorRequest", id, `{"response":""}`); !fault.Is(err, fault.Invalid) {
			t.Errorf("without an answer: %v", err)
		}
		foreign := `{"from_agent_id":"` + ident.New() + `","type":"approval","subject":"x","body":"x"}`
		if _, err := c.call(c.owner, "createAmbassadorRequest", "", foreign); !fault.Is(err, fault.NotFound) {
			t.Errorf("of a stranger's agent: %v", err)
		}
		if want := []string{"ambassador_request.created", "ambassador_request.resolved", "ambassador_request.resolved"}; !slices.Equal(c.kinds, want) {
			t.Errorf("the ledger has %v", c.kinds)
		}
	})
}

func TestAmbassadors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		for _, test := range []struct{ body, role, permissions string }{
			{`{"ambassador_id":"bob"}`, "observer", `{"can_veto":false,"can_audit":true,"can_propose":false}`},
			{`{"ambassador_id":"bob","role":"king"}`, "observer", `{"can_veto":false,"can_audit":true,"can_propose":false}`},
			{`{"ambassador_id":"bob","role":"founder"}`, "founder", `{"can_veto":true,"can_audit":true,"can_propose":true}`},
			{
				`{"ambassador_id":"bob","role":"ambassador","name":"Bob","permissions":{"can_veto":true,"can_audit":false}}`, "ambassador",
				`{"can_veto":true,"can_audit":false,"can_propose":false}`,
			},
		} {
			if got := c.must("registerAmbassador", "", test.body); got["ok"] != true {
				t.Errorf("%s: %v", test.body, got)
			}
			got := c.must("getAmbassador", "bob", "")
			permissions, _ := json.Marshal(got["permissions"], json.Deterministic(true))
			var want, have any
			_, _ = json.Unmarshal([]byte(test.permissions), &want), json.Unmarshal(permissions, &have)
			if got["role"] != test.role || got["ambassador_id"] != "bob" || !reflect.DeepEqual(have, want) {
				t.Errorf("%s: %v", test.body, got)
			}
		}
		founder := c.must("bootstrapAmbassador", "", `{"name":"Ada","founder_id":"ada"}`)
		if founder["ambassador_id"] != "ada" || founder["role"] != "founder" || founder["name"] != "Ada" {
			t.Errorf("the founder: %v", founder)
		}
		if _, err := c.call(c.owner, "bootstrapAmbassador", "", `{"founder_id":"eve"}`); !fault.Is(err, fault.Invalid) {
			t.Errorf("another founder: %v", err)
		}
		text, err := c.call(c.owner, "listAmbassadors", "", "")
		var all []map[string]any
		if json.Unmarshal([]byte(text), &all) != nil || err != nil || len(all) != 2 || all[0]["name"] != "Bob" || all[1]["name"] != "Ada" {
			t.Errorf("%s, %v", text, err)
		}
		if _, err := c.call(c.owner, "getAmbassador", "eve", ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("no ambassador: %v", err)
		}
		if text, err := c.call(authz.Caller{TenantID: ident.New()}, "listAmbassadors", "", ""); text != "[]" {
			t.Errorf("of others: %s, %v", text, err)
		}
	})
}

// A veto acts together with its record, or not at all.
func TestVetoes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c *company) {
		veto := `{"target_type":"agent","target_id":"` + c.agent + `","reason":"It lies"}`
		for _, register := range []string{"", `{"ambassador_id":"ada","role":"ambassador"}`} {
			if register != "" {
				c.must("registerAmbassador", "", register)
			}
			if _, err := c.call(c.owner, "ambassadorVeto", "", veto); !fault.Is(err, fault.Forbidden) {
				t.Errorf("%q may veto: %v", register, err)
			}
		}
		c.must("bootstrapAmbassador", "", "")
		c.fails = true
		if _, err := c.call(c.owner, "ambassadorVeto", "", veto); !errors.Is(err, errTarget) {
			t.Errorf("a target that fails: %v", err)
		}
		c.fails, c.kinds = false, nil
		got := c.must("ambassadorVeto", "", veto)
		if got["issued_by"] != "ada" || got["target_type"] != "agent" || got["target_id"] != c.agent || got["reason"] != "It lies" || got["issued_at"] == nil {
			t.Errorf("issued: %v", got)
		}
		all := c.must("listAmbassadorVetoes", "", "")["vetoes"].([]any)
		if len(all) != 1 || !slices.Equal(c.vetoed, []string{c.agent + ": It lies"}) || !slices.Equal(c.kinds, []string{"veto.issued"}) {
			t.Errorf("%v, vetoed %v, the ledger has %v", all, c.vetoed, c.kinds)
		}
		if last := c.items[len(c.items)-1]; last.Type != "domain.governance.veto_issued" || last.AgentID != c.agent {
			t.Errorf("sent: %+v", last)
		}
		stranger := `{"target_type":"agent","target_id":"` + ident.New() + `","reason":"x"}`
		if _, err := c.call(c.owner, "ambassadorVeto", "", stranger); !fault.Is(err, fault.NotFound) {
			t.Errorf("of a stranger's agent: %v", err)
		}
	})
}
