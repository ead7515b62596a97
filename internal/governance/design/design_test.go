package design_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/governance/design"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// world notes what is recorded and sent.
type world struct {
	agent string
	kinds []string
	items []inbox.Item
	mu    sync.Mutex
}

func (w *world) note(add func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add()
}

func (w *world) AppendTx(_ txn.Tx, _ string, e ledger.Entry) error {
	w.note(func() { w.kinds = append(w.kinds, e.Kind) })
	return nil
}

func (w *world) SendTx(_ txn.Tx, _ string, item inbox.Item) error {
	w.note(func() { w.items = append(w.items, item) })
	return nil
}

func (w *world) options() design.Options {
	return design.Options{Ledger: w, Inbox: w, Agent: func(_ txn.Tx, _, id string) error {
		if id == w.agent {
			return nil
		}
		return fault.NewNotFound("agent")
	}}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := &world{agent: ident.New()}
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[design.Request] {
			return design.New(deps, w.options()).Store()
		}, resourcetest.Samples{
			Minimal: `{"title":"A translator %d"}`,
			Defaults: map[string]string{
				"status": `"pending"`, "design": `null`, "tools": `[]`, "parent_agent_id": `null`, "proposal_id": `null`, "result_agent_id": `null`,
			},
			Full: `{"title":"A translator %d","description":"for French","agent_name":"Babel","agent_description":"translates","agent_role":"translator",
				"tools":["web_search"],"parent_agent_id":"` + w.agent + `","rationale":"customers ask","design":{"name":"Babel"}}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"title"}},
				{Body: `{"title":" "}`, Fields: []string{"title"}},
				{Body: `{"title":1,"tools":"x","parent_agent_id":2}`, Fields: []string{"title", "tools", "parent_agent_id"}},
			},
		})
	})
}

// A request is spawned only by naming an agent of the company.
func TestStatus(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		deps, _ := resourcetest.Deps(resourcesql.New(db), db)
		w := &world{agent: ident.New()}
		requests := design.New(deps, w.options())
		client := resourcetest.NewClient(requests.Routes())
		client.Who = authz.Caller{TenantID: ident.New(), UserID: "ada"}
		do := func(method, path string, args resourcetest.Args) (map[string]any, error) {
			reply, err := client.Do(context.WithoutCancel(t.Context()), method, path, args)
			if err != nil {
				return nil, err
			}
			return resourcetest.Object(t, reply), nil
		}
		const all = "/api/v1/governance/builder/requests"
		made, err := do("POST", all, resourcetest.Args{"": `{"agent_name":"Babel"}`})
		if err != nil || made["title"] != "Babel" || made["requested_by"] != "ada" {
			t.Fatal(made, err)
		}
		if _, err := do("POST", all, resourcetest.Args{"": `{"title":"x","parent_agent_id":"` + ident.New() + `"}`}); !fault.Is(err, fault.NotFound) {
			t.Errorf("below a stranger's agent: %v", err)
		}
		id := made["id"].(string)
		for _, step := range []struct {
			body string
			kind fault.Kind // 0: taken
		}{
			{`{"status":"voting","proposal_id":"p1"}`, 0},
			{`{"status":"done"}`, fault.Invalid},
			{`{}`, fault.Invalid},
			{`{"status":"spawned"}`, fault.Invalid},
			{`{"status":"spawned","spawned_agent_id":"` + ident.New() + `"}`, fault.NotFound},
			{`{"status":"rejected"}`, 0},
			{`{"status":"spawned","spawned_agent_id":"` + w.agent + `"}`, 0},
			{`{"status":"approved"}`, 0},
			{`{"status":"spawned"}`, 0},
		} {
			_, err := do("PUT", all+"/{designRequestId}/status", resourcetest.Args{"designRequestId": id, "": step.body})
			if step.kind == 0 && err != nil || step.kind != 0 && !fault.Is(err, step.kind) {
				t.Errorf("%s: %v", step.body, err)
			}
		}
		now, err := requests.Store().Get(t.Context(), client.Who.TenantID, id)
		if err != nil || now.Status != "spawned" || *now.ProposalID != "p1" || *now.ResultAgentID != w.agent {
			t.Errorf("%+v, %v", now, err)
		}
		want := []string{"design_request.created", "design_request.moved", "design_request.moved", "design_request.moved", "design_request.moved",
			"design_request.moved"}
		if !slices.Equal(w.kinds, want) || len(w.items) != 1 || w.items[0].Type != "domain.governance.design_requested" {
			t.Errorf("the ledger has %v, sent %+v", w.kinds, w.items)
		}
	})
}
