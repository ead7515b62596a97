package improvement_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/governance/improvement"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// trial is an improvement.Sandbox whose runs end as the test says.
type trial struct {
	clock     *clock.Fake
	started   []improvement.Start
	cancelled []string
	results   map[string]string // status, by failed run
	refuse    map[string]error  // starts, by failed run
	ids       map[string]string // failed runs, by run
}

func (s *trial) Start(_ context.Context, _ authz.Caller, start improvement.Start) error {
	if s.refuse[start.FailedRunID] != nil {
		return s.refuse[start.FailedRunID]
	}
	if s.ids == nil {
		s.ids = map[string]string{}
	}
	if s.ids[start.RunID] == "" {
		s.ids[start.RunID] = start.FailedRunID
		s.started = append(s.started, start)
	}
	return nil
}

func (s *trial) Result(_ context.Context, _, id string) (status, reason string, err error) {
	if status = s.results[s.ids[id]]; status == "failed" {
		reason = "The model failed."
	}
	return status, reason, nil
}

func (s *trial) Cancel(_ context.Context, _, id string) error {
	s.cancelled = append(s.cancelled, s.ids[id])
	return nil
}

func (s *trial) CountUnfinishedTx(_ txn.Tx, _ string, ids []string) (n int, err error) {
	for _, id := range ids {
		if s.results[s.ids[id]] == "" {
			n++
		}
	}
	return n, nil
}

// work does what is due, and returns the error of the last handler.
func (c *company) work() (err error) {
	c.t.Helper()
	for {
		held, failed := c.queue.Claim(c.t.Context(), improvement.WorkKind, "node", 10, time.Minute)
		if failed != nil {
			c.t.Fatal(failed)
		}
		if len(held) == 0 {
			return err
		}
		for _, lease := range held {
			if err = c.improvements.Handle(c.t.Context(), lease); err != nil {
				if failed := c.queue.Release(c.t.Context(), held, c.sandbox.clock.Now().Add(time.Minute)); failed != nil {
					c.t.Fatal(failed)
				}
			}
		}
	}
}

// wake does what the end of a run does.
func (c *company) wake() {
	c.t.Helper()
	id := c.proposal()["id"].(string)
	err := c.db.Write(c.t.Context(), func(tx txn.Tx) error {
		return c.queue.EnqueueTx(tx, work.Item{Kind: improvement.WorkKind, Key: id, TenantID: c.client.Who.TenantID, Due: c.sandbox.clock.Now()})
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// tested proposes a change after two failed runs, and begins its test.
func (c *company) tested(more string) {
	c.t.Helper()
	_, err := c.do("POST", all, c.agent, "", `{"type":"prompt_change","failed_run_ids":["`+c.run+`","`+c.other+`"],"diff":{"name":"Ada"}`+more+`}`)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, to := range []string{`"arbiter_review"`, `"voting","vote_proposal_id":"` + c.vote + `"`, `"sandbox_testing"`} {
		if _, err := c.do("PUT", status, c.agent, "1", `{"status":`+to+`}`); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *company) proposal() map[string]any {
	c.t.Helper()
	now, err := c.do("GET", one, c.agent, "1", "")
	if err != nil {
		c.t.Fatal(err)
	}
	return now
}

// A test starts a run for each failed run, with the change, and its end approves or
// rejects the proposal.
func TestSandboxTests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more    string // of the proposal
		results [2]string
		rate    float64
		want    string
	}{
		"all complete":             {"", [2]string{"completed", "completed"}, 1, "approved"},
		"some complete":            {"", [2]string{"completed", "failed"}, 0.5, "approved"},
		"none completes":           {"", [2]string{"failed", "timeout"}, 0, "rejected"},
		"none is enough":           {`,"baseline_success_rate":0`, [2]string{"failed", "failed"}, 0, "rejected"},
		"fewer than the baseline":  {`,"baseline_success_rate":0.6`, [2]string{"failed", "completed"}, 0.5, "rejected"},
		"as many as the baseline":  {`,"baseline_success_rate":0.5`, [2]string{"failed", "completed"}, 0.5, "approved"},
		"more than the baseline":   {`,"baseline_success_rate":0.9`, [2]string{"completed", "completed"}, 1, "approved"},
		"one that may not begin":   {"", [2]string{"rejected", "completed"}, 0.5, "approved"},
		"none of them may be made": {"", [2]string{"rejected", "rejected"}, 0, "rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newCompany(t, sqldbtest.Open(t, sqldbtest.SQLite))
			for i, id := range []string{o.run, o.other} {
				if c.results[i] == "rejected" {
					o.sandbox.refuse[id] = fault.New(fault.Conflict, "", "The agent is suspended.")
				}
			}
			o.tested(c.more)
			if err := o.work(); err != nil {
				t.Fatal(err)
			}
			for _, s := range o.sandbox.started {
				if string(s.Patch) != `{"name":"Ada"}` || s.ProposalID != o.proposal()["id"] {
					t.Errorf("started %+v", s)
				}
			}
			for i, id := range []string{o.run, o.other} {
				o.sandbox.results[id] = c.results[i]
				o.wake()
				if err := o.work(); err != nil {
					t.Fatal(err)
				}
			}
			now := o.proposal()
			if now["status"] != c.want || now["sandbox_success_rate"] != c.rate || len(now["sandbox_runs"].([]any)) != 2 {
				t.Errorf("now %v", now)
			}
			last := o.entries[len(o.entries)-1]
			if last.Kind != "improvement.tested" || last.Details.(map[string]any)["status"] != c.want {
				t.Errorf("the ledger has %+v", last)
			}
			if item := o.items[len(o.items)-1]; item.Type != "domain.governance.improvement_tested" {
				t.Errorf("sent %+v", item)
			}
		})
	}
}

// A worker that dies, or a limit of the company, delays a test: the next worker starts
// what is not started, and nothing twice.
func TestSandboxTestsGoOn(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newCompany(t, db)
		c.sandbox.refuse[c.other] = fault.New(fault.Limited, "", "Too many runs.")
		c.tested("")
		if err := c.work(); !fault.Is(err, fault.Limited) {
			t.Fatalf("the worker ended with %v", err)
		}
		delete(c.sandbox.refuse, c.other)
		c.sandbox.results[c.run], c.sandbox.results[c.other] = "completed", "completed"
		c.sandbox.clock.Advance(2 * time.Minute)
		if err := c.work(); err != nil {
			t.Fatal(err)
		}
		started := []string{}
		for _, s := range c.sandbox.started {
			started = append(started, s.FailedRunID)
		}
		if now := c.proposal(); now["status"] != "approved" || !slices.Equal(started, []string{c.run, c.other}) {
			t.Errorf("started %v, now %v", started, now)
		}
	})
}

// A test whose time is up counts what has not ended as failed, and one that a person
// ends is abandoned.
func TestSandboxTestsEnd(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		late := newCompany(t, db)
		late.tested("")
		if err := late.work(); err != nil {
			t.Fatal(err)
		}
		late.sandbox.clock.Advance(time.Hour)
		if err := late.work(); err != nil {
			t.Fatal(err)
		}
		if now := late.proposal(); now["status"] != "rejected" || !slices.Equal(late.sandbox.cancelled, []string{late.run, late.other}) {
			t.Errorf("cancelled %v, now %v", late.sandbox.cancelled, now)
		}
		ended := newCompany(t, db)
		ended.tested("")
		if err := ended.work(); err != nil {
			t.Fatal(err)
		}
		if _, err := ended.do("PUT", status, ended.agent, "1", `{"status":"rejected"}`); err != nil {
			t.Fatal(err)
		}
		if err := ended.work(); err != nil {
			t.Fatal(err)
		}
		if now := ended.proposal(); now["sandbox_success_rate"] != nil || !slices.Equal(ended.sandbox.cancelled, []string{ended.run, ended.other}) {
			t.Errorf("cancelled %v, now %v", ended.sandbox.cancelled, now)
		}
	})
}

// Only the vote that was named lets a proposal be tested, and only an approved one
// changes the agent, once.
func TestApplied(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := newCompany(t, db)
		c.tested("")
		for _, to := range []string{"approved", "applied"} {
			if _, err := c.do("PUT", status, c.agent, "1", `{"status":"`+to+`"}`); !fault.Is(err, fault.Conflict) {
				t.Errorf("%s before the test has ended: %v", to, err)
			}
		}
		c.sandbox.results[c.run], c.sandbox.results[c.other] = "completed", "completed"
		if err := c.work(); err != nil {
			t.Fatal(err)
		}
		moved, err := c.do("PUT", status, c.agent, "1", `{"status":"applied"}`)
		if err != nil || moved["status"] != "applied" || moved["applied_version"] != "7" {
			t.Errorf("moved %v, %v", moved, err)
		}
		if _, err := c.do("PUT", status, c.agent, "1", `{"status":"applied"}`); !fault.Is(err, fault.Conflict) {
			t.Errorf("applied twice: %v", err)
		}
		if diff := cmp.Diff([]string{c.agent + ` {"name":"Ada"}`}, c.patched); diff != "" {
			t.Errorf("the agent (-want +got):\n%s", diff)
		}
		if last := c.entries[len(c.entries)-1]; last.Kind != "improvement.moved" || *last.Details.(map[string]any)["applied_version"].(*string) != "7" {
			t.Errorf("the ledger has %+v", last)
		}
		unvoted := newCompany(t, db)
		unvoted.passed = false
		if _, err := unvoted.do("POST", all, unvoted.agent, "", `{"type":"model_change","failed_run_ids":["`+unvoted.run+`"]}`); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{`"arbiter_review"`, `"voting","vote_proposal_id":"` + unvoted.vote + `"`} {
			if _, err := unvoted.do("PUT", status, unvoted.agent, "1", `{"status":`+to+`}`); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := unvoted.do("PUT", status, unvoted.agent, "1", `{"status":"sandbox_testing"}`); !fault.Is(err, fault.Conflict) {
			t.Errorf("tested before the vote was passed: %v", err)
		}
	})
}
