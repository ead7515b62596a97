// Package runtest is the suite that every run.Store passes.
package runtest

import (
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

var at = time.Date(2026, 9, 10, 12, 0, 0, 123456000, time.UTC)

// Sample is a queued run with every field set that a new run can have.
func Sample(tenant, agent string) *run.Record {
	ten, temperature := int64(10), 0.5
	session, root, step := ident.New(), ident.New(), ident.New()
	r := &run.Record{
		Run: run.Run{
			RunID: ident.New(), TenantID: tenant, AgentID: agent, AgentVersion: 3, SessionID: &session,
			Status: run.Queued, Input: schema.Object(`{"message":"hé\u0000llo \"there\""}`), Metadata: schema.Object(`{"a":[1,null]}`),
			CreatedAt: at, ResourceLimits: run.Limits{MaxSteps: &ten}, Artifacts: []run.Artifact{},
		},
		EventSeq: 2,
		Options:  run.Options{Plain: true, Temperature: &temperature, Stop: []string{"x"}, Tools: []run.CallerTool{{Name: "t"}}},
		Pending:  []run.PendingStep{{StepID: ident.New(), Seq: 1, Type: run.StepLLM, StartedAt: at}},
	}
	r.SetInitiator(run.Initiator{Type: run.ByRun, ID: ident.New()})
	r.RootRunID, r.ParentStepID = &root, &step
	return r
}

// Store runs the suite.
func Store(t *testing.T, s run.Store, w txn.Writer) {
	c := suite{s, w}
	t.Run("round_trip", c.roundTrip)
	t.Run("an_id_is_taken_once", c.idIsTakenOnce)
	t.Run("update_replaces_what_moves", c.updateReplaces)
	t.Run("another_tenants_run_is_absent", c.otherTenant)
	t.Run("lists_walk_in_order_and_filter", c.lists)
	t.Run("steps", c.steps)
	t.Run("summaries", c.summaries)
	t.Run("families", c.families)
}

// suite is the store under test.
type suite struct {
	run.Store
	writer txn.Writer
}

func (s suite) write(t *testing.T, do func(txn.Tx) error) {
	t.Helper()
	if err := s.writer.Write(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

// create stores a run and returns it.
func (s suite) create(t *testing.T, r *run.Record) *run.Record {
	t.Helper()
	s.write(t, s.Create(r))
	return r
}

func (s suite) roundTrip(t *testing.T) {
	r := s.create(t, Sample(ident.New(), ident.New()))
	got, err := s.Get(t.Context(), r.TenantID, r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func (s suite) idIsTakenOnce(t *testing.T) {
	r := s.create(t, Sample(ident.New(), ident.New()))
	second := Sample(r.TenantID, ident.New())
	second.RunID = r.RunID
	err := s.writer.Write(t.Context(), s.Create(second))
	if e := fault.From(err); !fault.Is(err, fault.Conflict) || e.Code != "ALREADY_EXISTS" {
		t.Errorf("the same id: %v", err)
	}
	got, err := s.Get(t.Context(), r.TenantID, r.RunID)
	if err != nil || got.AgentID != r.AgentID {
		t.Errorf("the first run is %+v, %v", got, err)
	}
	other := Sample(ident.New(), ident.New())
	other.RunID = r.RunID
	s.create(t, other) // another tenant may use the same id
}

func (s suite) updateReplaces(t *testing.T) {
	r := s.create(t, Sample(ident.New(), ident.New()))
	sentence, cost := "It broke.", 0.25
	began, ended := at.Add(time.Second), at.Add(time.Minute)
	u := run.Update{
		Status: run.Failed, Output: schema.Nullable(`{"text":""}`), Metrics: run.Metrics{StepsCount: 4, TotalCostUSD: &cost},
		Error: &sentence, ErrorCode: run.CodeModelError, StartedAt: &began, CompletedAt: &ended, StepSeq: 5, EventSeq: 77,
	}
	s.write(t, s.Update(r.TenantID, r.RunID, u))
	want := *r
	want.Status, want.Output, want.Metrics, want.Error, want.ErrorCode = u.Status, u.Output, u.Metrics, u.Error, u.ErrorCode
	want.StartedAt, want.CompletedAt, want.StepSeq, want.EventSeq, want.Pending = u.StartedAt, u.CompletedAt, u.StepSeq, u.EventSeq, nil
	var got *run.Record
	s.write(t, func(tx txn.Tx) (err error) {
		got, err = s.LockTx(tx, r.TenantID, r.RunID)
		return err
	})
	if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func (s suite) otherTenant(t *testing.T) {
	r, other := s.create(t, Sample(ident.New(), ident.New())), ident.New()
	if _, err := s.Get(t.Context(), other, r.RunID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get: %v", err)
	}
	err := s.writer.Write(t.Context(), s.Update(other, r.RunID, run.Update{Status: run.Failed}))
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("Update: %v", err)
	}
	err = s.writer.Write(t.Context(), func(tx txn.Tx) error { _, err := s.LockTx(tx, other, r.RunID); return err })
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("LockTx: %v", err)
	}
	if got, err := s.List(t.Context(), other, run.Filter{}, page.Window{Limit: 10}); err != nil || len(got) != 0 {
		t.Errorf("List: %v, %v", got, err)
	}
	if got, err := s.ListUnfinished(t.Context(), other, r.AgentID, 10); err != nil || len(got) != 0 {
		t.Errorf("ListUnfinished: %v, %v", got, err)
	}
}

func (s suite) lists(t *testing.T) {
	tenant, agent := ident.New(), ident.New()
	var all []string
	for i := range 7 {
		r := Sample(tenant, agent)
		if i%2 == 1 {
			r.AgentID = ident.New()
		}
		if i >= 5 {
			r.Status = run.Completed
		}
		s.create(t, r)
		all = append(all, r.RunID)
	}
	readAll := func(f run.Filter, w page.Window) (ids []string) {
		for {
			found, err := s.List(t.Context(), tenant, f, w)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range found {
				ids = append(ids, r.RunID)
			}
			if len(found) < w.Limit {
				return ids
			}
			last := found[len(found)-1]
			w.After = page.MomentOf(last.CreatedAt, last.RunID)
		}
	}
	pick := func(keep ...int) (ids []string) {
		for _, i := range keep {
			ids = append(ids, all[i])
		}
		return ids
	}
	for name, c := range map[string]struct {
		filter run.Filter
		want   []string
	}{
		"all":        {run.Filter{}, pick(6, 5, 4, 3, 2, 1, 0)},
		"by_agent":   {run.Filter{AgentID: agent}, pick(6, 4, 2, 0)},
		"by_status":  {run.Filter{Status: []run.Status{run.Completed}}, pick(6, 5)},
		"by_both":    {run.Filter{Status: []run.Status{run.Completed}, AgentID: agent}, pick(6)},
		"by_session": {run.Filter{SessionID: ident.New()}, nil},
	} {
		for limit := 1; limit <= 8; limit += 3 {
			if diff := cmp.Diff(c.want, readAll(c.filter, page.Window{Limit: limit})); diff != "" {
				t.Errorf("%s limit %d (-want +got):\n%s", name, limit, diff)
			}
			slices.Reverse(c.want)
			if diff := cmp.Diff(c.want, readAll(c.filter, page.Window{Limit: limit, Ascending: true})); diff != "" {
				t.Errorf("%s oldest first, limit %d (-want +got):\n%s", name, limit, diff)
			}
			slices.Reverse(c.want)
		}
	}
	got, err := s.ListUnfinished(t.Context(), tenant, agent, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pick(0, 2, 4), got); diff != "" {
		t.Errorf("unfinished (-want +got):\n%s", diff)
	}
}

func (s suite) steps(t *testing.T) {
	tenant, id := ident.New(), ident.New()
	sentence := "no"
	var want []run.Step
	for seq := int64(1); seq <= 5; seq++ {
		st := run.Step{
			StepID: ident.New(), RunID: id, TenantID: tenant, Seq: seq, StepIndex: seq - 1, Type: run.StepTool, Status: run.StepFailed,
			StartedAt: at, CompletedAt: &at, DurationMS: 1.5, Input: schema.Nullable(`{"name":"x"}`),
			Output: schema.Nullable(`{"content":"y"}`), Error: &sentence, Metrics: schema.Nullable(`{}`), ToolCalls: []string{"a", "b"},
		}
		if seq == 2 {
			st.Input, st.Output, st.Error, st.Metrics, st.ToolCalls = nil, nil, nil, nil, nil
		}
		s.write(t, s.AppendStep(&st))
		want = append(want, st)
	}
	const call = `{"tool_call_id":"c","name":"x","arguments":"{\"n\":1}"}`
	cost := .5
	for _, st := range []run.Step{
		{Type: run.StepLLM, Output: schema.Nullable(
			`{"text":"","tool_calls":[{"id":"b","name":"x","arguments":""},{"id":"c","name":"x","arguments":"{\"n\":1}"}]}`),
			Opaque: &run.StepOpaque{Source: "s", Message: `{"reasoning_content":"hm"}`, Calls: map[string]string{"c": `{"k":1}`}}},
		{Type: run.StepTool, CallOf: 6, Input: schema.Nullable(call), Metrics: stepMetrics(t, run.StepMetrics{ToolCallsCount: 1})},
		{Type: run.StepTool, Input: schema.Nullable(call), Metrics: stepMetrics(t, run.StepMetrics{
			InputTokens: 1, OutputTokens: 2, ThinkingTokens: 3, LLMCalls: 4, CostUSD: &cost,
		})},
		{Type: run.StepTool, Metrics: stepMetrics(t, run.StepMetrics{InputTokens: 1, Estimated: true})},
		{Type: run.StepTool, Metrics: stepMetrics(t, run.StepMetrics{InputTokens: 9, CachedTokens: 5, CacheWriteTokens: 2})},
	} {
		st.Seq = int64(len(want)) + 1
		st.StepID, st.RunID, st.TenantID, st.StepIndex = ident.New(), id, tenant, st.Seq-1
		st.Status, st.StartedAt, st.CompletedAt = run.StepCompleted, at, &at
		s.write(t, s.AppendStep(&st))
		st.CallOf = 0 // readers get 0, however the step is stored
		want = append(want, st)
	}
	for _, c := range []struct {
		after int64
		limit int
		want  []run.Step
	}{{0, 0, want}, {2, 0, want[2:]}, {1, 2, want[1:3]}, {6, 1, want[6:7]}, {10, 0, nil}} {
		got, err := s.ListSteps(t.Context(), tenant, id, c.after, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after %d limit %d (-want +got):\n%s", c.after, c.limit, diff)
		}
	}
	for _, st := range want {
		got, err := s.GetStep(t.Context(), tenant, id, st.StepID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&st, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("one step (-want +got):\n%s", diff)
		}
		if got, err := s.GetStep(t.Context(), ident.New(), id, st.StepID); got != nil || err != nil {
			t.Errorf("another tenant's step: %v, %v", got, err)
		}
	}
	if got, err := s.ListSteps(t.Context(), ident.New(), id, 0, 0); err != nil || len(got) != 0 {
		t.Errorf("another tenant's: %v, %v", got, err)
	}
}

func stepMetrics(t *testing.T, m run.StepMetrics) schema.Nullable {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
