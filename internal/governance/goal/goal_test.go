package goal_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/goal"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// entries is a ledger that only notes.
type entries struct{ kinds []string }

func (e *entries) AppendTx(_ txn.Tx, _ string, entry ledger.Entry) error {
	e.kinds = append(e.kinds, entry.Kind)
	return nil
}

func known(id string) func(txn.Tx, string, string) error {
	return func(_ txn.Tx, _, asked string) error {
		if asked == id {
			return nil
		}
		return fault.NewNotFound("agent")
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	agent := ident.New()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[goal.Goal] {
			return goal.New(deps, goal.Options{Ledger: &entries{}, Agent: known(agent)}).Store()
		}, resourcetest.Samples{
			Minimal: `{"agent_id":"` + agent + `","title":"Answer %d"}`,
			Defaults: map[string]string{
				"status": `"draft"`, "target_date": `null`, "proposal_id": `null`, "constitution_check_passed": `null`, "description": `""`,
			},
			Full: `{"agent_id":"` + agent + `","title":"Answer %d","description":"within a minute","rationale":"customers wait","expected_impact":"fewer do",
				"alignment_justification":"rule 1","resource_estimate_usd":12.5,"target_date":"2027-01-01T00:00:00Z"}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"agent_id", "title"}},
				{Body: `{"agent_id":"` + agent + `","title":" "}`, Fields: []string{"title"}},
				{
					Body:   `{"agent_id":1,"title":"x","resource_estimate_usd":-1,"target_date":"soon"}`,
					Fields: []string{"agent_id", "resource_estimate_usd", "target_date"},
				},
			},
		})
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		deps, _ := resourcetest.Deps(resourcesql.New(db), db)
		agent, log := ident.New(), &entries{}
		goals := goal.New(deps, goal.Options{Ledger: log, Agent: known(agent)})
		routes := goals.Routes()
		set := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == "updateGoalStatus" })]
		who := authz.Caller{TenantID: ident.New(), UserID: "ada"}
		g := goals.Store().Blank()
		g.AgentID, g.Title = agent, "Answer"
		if err := goals.Store().Create(t.Context(), who, g); err != nil {
			t.Fatal(err)
		}
		put := func(who authz.Caller, body string) error {
			in := reflect.New(set.In)
			in.Elem().FieldByName("ID").SetString(g.ID)
			in.Elem().FieldByName("Body").SetBytes(jsontext.Value(body))
			_, err := set.Call(t.Context(), who, in.Interface())
			return err
		}
		for _, step := range []struct {
			body string
			kind fault.Kind // 0: taken
		}{
			{`{"status":"active","proposal_id":"p1","constitution_check_passed":true}`, 0},
			{`{"status":"done"}`, fault.Invalid},
			{`{}`, fault.Invalid},
			{`{"status":"draft"}`, 0},
			{`{"status":"achieved"}`, 0},
			{`{"status":"achieved"}`, 0},
			{`{"status":"active"}`, fault.Conflict},
		} {
			if err := put(who, step.body); step.kind == 0 && err != nil || step.kind != 0 && !fault.Is(err, step.kind) {
				t.Errorf("%s: %v", step.body, err)
			}
		}
		if err := put(authz.Caller{TenantID: ident.New()}, `{"status":"active"}`); !fault.Is(err, fault.NotFound) {
			t.Errorf("another company's: %v", err)
		}
		now, err := goals.Store().Get(t.Context(), who.TenantID, g.ID)
		if err != nil || now.Status != "achieved" || *now.ProposalID != "p1" || !*now.CheckPassed {
			t.Errorf("%+v, %v", now, err)
		}
		if !slices.Equal(log.kinds, []string{"goal.created", "goal.moved", "goal.moved", "goal.moved", "goal.moved"}) {
			t.Errorf("the ledger has %v", log.kinds)
		}
	})
}
