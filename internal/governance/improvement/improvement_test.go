package improvement_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/governance/improvement"
	"agentd/internal/governance/inbox"
	"agentd/internal/governance/ledger"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/kernel/work"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

const (
	all    = "/api/v1/governance/improvement/{agentId}"
	one    = all + "/{version}"
	status = one + "/status"
)

// company is one with an agent, a run of it, and a vote. It notes what is recorded and sent.
type company struct {
	t                       *testing.T
	db                      *sqldb.DB
	client                  resourcetest.Client
	improvements            *improvement.Improvements
	agent, other, run, vote string
	sandbox                 *trial
	queue                   work.Queue
	passed                  bool     // the vote
	patched                 []string // of agents

	mu      sync.Mutex
	entries []ledger.Entry
	items   []inbox.Item
}

func newCompany(t *testing.T, db *sqldb.DB) *company {
	t.Helper()
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	c := &company{t: t, db: db, agent: ident.New(), other: ident.New(), run: ident.New(), vote: ident.New(), passed: true}
	c.sandbox = &trial{clock: clock.NewFake(), results: map[string]string{}, refuse: map[string]error{}}
	c.queue = worksql.New(db, c.sandbox.clock, nil)
	known := func(id string, ids ...string) error {
		if slices.Contains(ids, id) {
			return nil
		}
		return fault.NewNotFound("thing")
	}
	c.improvements = improvement.New(deps, improvement.Options{
		Ledger: c, Inbox: c,
		KnownAgent: func(_ context.Context, _, id string) error { return known(id, c.agent, c.other) },
		LockAgent:  func(_ txn.Tx, _, id string) error { return known(id, c.agent, c.other) },
		CheckPatch: func(_ context.Context, _, _ string, patch jsontext.Value) error {
			if string(patch) == `{"name":1}` {
				return fault.BadFields(fault.Field{Field: "name", Message: "it is no text"})
			}
			return nil
		},
		AgentOfRun: func(_ context.Context, _, id string) (string, error) { return c.agent, known(id, c.run, c.other) },
		Vote:       func(_ context.Context, _, id string) error { return known(id, c.vote) },
		PassedTx: func(txn.Tx, string, string) error {
			if !c.passed {
				return fault.New(fault.Conflict, "PROPOSAL_NOT_PASSED", "It is open.")
			}
			return nil
		},
		PatchTx: func(_ txn.Tx, _ authz.Caller, id string, patch jsontext.Value) (string, error) {
			c.patched = append(c.patched, id+" "+string(patch))
			return "7", nil
		},
		Sandbox: c.sandbox, Queue: c.queue, Clock: c.sandbox.clock,
	})
	c.client = resourcetest.NewClient(c.improvements.Routes())
	return c
}

func (c *company) AppendTx(tx txn.Tx, _ string, e ledger.Entry) error {
	tx.AfterCommit(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.entries = append(c.entries, e)
	})
	return nil
}

func (c *company) SendTx(tx txn.Tx, _ string, item inbox.Item) error {
	tx.AfterCommit(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.items = append(c.items, item)
	})
	return nil
}

func (c *company) do(method, path, agent, version, body string) (map[string]any, error) {
	c.t.Helper()
	args := resourcetest.Args{"agentId": agent, "version": version, "": body}
	if path == all {
		delete(args, "version")
	}
	if method == "GET" {
		delete(args, "")
	}
	reply, err := c.client.Do(context.WithoutCancel(c.t.Context()), method, path, args)
	if err != nil {
		return nil, err
	}
	return resourcetest.Object(c.t, reply), nil
}

// versions lists the proposals about an agent.
func (c *company) versions(agent string) (versions []string) {
	c.t.Helper()
	reply, err := c.client.Do(c.t.Context(), "GET", all, resourcetest.Args{"agentId": agent})
	if err != nil {
		c.t.Fatal(err)
	}
	var listed []struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(reply.JSON, &listed); err != nil {
		c.t.Fatal(err)
	}
	for _, p := range listed {
		versions = append(versions, p.Version)
	}
	return versions
}

// A proposal has the next version of its agent. It names only runs of the agent, and
// brings a patch that the agent takes.
func TestProposals(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newCompany(t, db)
		made, err := c.do("POST", all, c.agent, "", `{"type":"prompt_change","title":"Ask first","description":"at length","rationale":"it refunds",
			"failed_run_ids":["`+c.run+`"],"diff":{"name":"Ada"},"baseline_success_rate":0.5}`)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"agent_id": c.agent, "version": "1", "type": "prompt_change", "title": "Ask first", "description": "at length", "rationale": "it refunds",
			"failed_run_ids": []any{c.run}, "diff": map[string]any{"name": "Ada"}, "baseline_success_rate": 0.5, "status": "proposed",
			"submitted_by": c.client.Who.UserID, "vote_proposal_id": nil, "sandbox_success_rate": nil, "sandbox_runs": []any{}, "applied_version": nil, "tenant_id": c.client.Who.TenantID,
			"id": made["id"], "created_at": made["created_at"], "updated_at": made["updated_at"],
		}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("made (-want +got):\n%s", diff)
		}
		if read, err := c.do("GET", one, c.agent, "1", ""); err != nil || cmp.Diff(want, read) != "" {
			t.Errorf("read %v, %v", read, err)
		}
		second, err := c.do("POST", all, c.agent, "", `{"type":"model_change"}`)
		if err != nil || second["version"] != "2" || cmp.Diff(map[string]any{}, second["diff"]) != "" || second["baseline_success_rate"] != nil {
			t.Errorf("the second is %v, %v", second, err)
		}
		if versions := c.versions(c.agent); !slices.Equal(versions, []string{"2", "1"}) {
			t.Errorf("listed %v", versions)
		}
		if first, err := c.do("POST", all, c.other, "", `{"type":"model_change"}`); err != nil || first["version"] != "1" {
			t.Errorf("the first of another agent is %v, %v", first, err)
		}
		if len(c.entries) != 3 || c.entries[0].Kind != "improvement.proposed" || c.entries[0].SubjectAgentID != c.agent || len(c.items) != 3 ||
			c.items[0].Path != "/api/v1/governance/improvement/"+c.agent+"/1" {
			t.Errorf("recorded %+v, sent %+v", c.entries, c.items)
		}
		for _, refused := range []struct {
			agent, body string
			kind        fault.Kind
			field       string
		}{
			{c.agent, `{"type":"model_change","diff":{"name":1}}`, fault.Invalid, "diff.name"},
			{c.agent, `{"type":"model_change","failed_run_ids":["` + ident.New() + `"]}`, fault.Invalid, "failed_run_ids[0]"},
			{c.other, `{"type":"model_change","failed_run_ids":["` + c.run + `"]}`, fault.Invalid, "failed_run_ids[0]"},
			{ident.New(), `{"type":"model_change"}`, fault.NotFound, ""},
		} {
			_, err := c.do("POST", all, refused.agent, "", refused.body)
			if !fault.Is(err, refused.kind) || refused.field != "" && fault.From(err).Fields[0].Field != refused.field {
				t.Errorf("%s: %v", refused.body, err)
			}
		}
		for path, agent := range map[string]string{all: ident.New(), one: c.other} {
			if _, err := c.do("GET", path, agent, "2", ""); !fault.Is(err, fault.NotFound) {
				t.Errorf("GET %s: %v", path, err)
			}
		}
	})
}

// Proposals that are made at once have versions without a gap.
func TestProposalsAtOnce(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newCompany(t, db)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					_, err := c.do("POST", all, c.agent, "", `{"type":"model_change"}`)
					if fault.Is(err, fault.Conflict) { // without the lock of the agent, which this test does not have
						continue
					}
					if err != nil {
						t.Error(err)
					}
					return
				}
			})
		}
		wg.Wait()
		for v := range 8 {
			if _, err := c.do("GET", one, c.agent, strconv.Itoa(v+1), ""); err != nil {
				t.Errorf("version %d: %v", v+1, err)
			}
		}
		if _, err := c.do("GET", one, c.agent, "9", ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("version 9: %v", err)
		}
	})
}

// A proposal moves one step at a time.
func TestSteps(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newCompany(t, db)
		for range 2 {
			if _, err := c.do("POST", all, c.agent, "", `{"type":"model_change"}`); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			version, body string
			kind          fault.Kind // 0: taken
		}{
			{"1", `{"status":"voting"}`, fault.Conflict},
			{"1", `{"status":"applied"}`, fault.Conflict},
			{"1", `{"status":"proposed"}`, fault.Conflict},
			{"1", `{"status":"arbiter_review","vote_proposal_id":"` + c.vote + `"}`, fault.Invalid},
			{"1", `{"status":"arbiter_review"}`, 0},
			{"1", `{"status":"sandbox_testing"}`, fault.Conflict},
			{"1", `{"status":"voting","vote_proposal_id":"` + ident.New() + `"}`, fault.NotFound},
			{"1", `{"status":"voting","vote_proposal_id":"` + c.vote + `"}`, 0},
			{"1", `{"status":"sandbox_testing"}`, fault.Conflict}, // it names no failed runs
			{"1", `{"status":"approved"}`, fault.Conflict},
			{"1", `{"status":"rejected"}`, 0},
			{"1", `{"status":"arbiter_review"}`, fault.Conflict},
			{"2", `{"status":"rejected"}`, 0},
			{"3", `{"status":"rejected"}`, fault.NotFound},
		} {
			_, err := c.do("PUT", status, c.agent, step.version, step.body)
			if step.kind == 0 && err != nil || step.kind != 0 && !fault.Is(err, step.kind) {
				t.Errorf("%s %s: %v", step.version, step.body, err)
			}
		}
		now, err := c.do("GET", one, c.agent, "1", "")
		if err != nil || now["status"] != "rejected" || now["vote_proposal_id"] != c.vote {
			t.Errorf("now %v, %v", now, err)
		}
		var moved []any
		for _, e := range c.entries[2:] {
			moved = append(moved, e.Kind, e.Details.(map[string]any)["status"])
		}
		want := []any{
			"improvement.moved", "arbiter_review", "improvement.moved", "voting", "improvement.moved", "rejected", "improvement.moved", "rejected",
		}
		if diff := cmp.Diff(want, moved); diff != "" {
			t.Errorf("the ledger (-want +got):\n%s", diff)
		}
	})
}
