package engine_test

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
)

// journal is the part of a run that must never change again.
type journal struct {
	steps     map[int64]string // by seq
	approvals map[string]string
	final     string
	events    map[int64]string // names of what is no chunk, by seq
}

func asJSON(w *world, v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		w.t.Error(err)
	}
	return string(b)
}

// check compares every run with what was read of it before.
func (w *world) check() {
	w.t.Helper()
	ctx, tenant := context.Background(), w.who.TenantID
	for _, id := range w.ids {
		j := w.seen[id]
		r, err := w.api.Get(ctx, tenant, id)
		if fault.Is(err, fault.NotFound) && j == nil && !w.accepted[id] {
			continue
		}
		if err != nil {
			w.t.Errorf("seed %d: %s: %v", w.seed, w.short(id), err)
			continue
		}
		if j == nil {
			j = &journal{steps: map[int64]string{}, approvals: map[string]string{}, events: map[int64]string{}}
			w.seen[id] = j
		}
		if j.final != "" {
			if diff := cmp.Diff(j.final, asJSON(w, r)); diff != "" {
				w.t.Errorf("seed %d: %s changed after its end:\n%s", w.seed, w.short(id), diff)
			}
		}
		if r.Status.Final() {
			j.final = asJSON(w, r)
		}
		w.checkSteps(j, id)
		for _, a := range r.Approvals {
			w.stays(j.approvals, a.ApprovalID, asJSON(w, a), "approval", id)
		}
		w.checkEvents(j, r)
	}
}

// stays fails if what was read under a key has changed.
func (w *world) stays(before map[string]string, key, now, what, id string) {
	w.t.Helper()
	if was, known := before[key]; known && was != now {
		w.t.Errorf("seed %d: a decided %s of %s changed:\n%s", w.seed, what, w.short(id), cmp.Diff(was, now))
	}
	before[key] = now
}

func (w *world) stepsOf(id string) []run.Step {
	steps, err := w.runs.ListSteps(context.Background(), w.who.TenantID, id, 0, 0)
	if err != nil {
		w.t.Error(err)
	}
	return steps
}

func (w *world) checkSteps(j *journal, id string) {
	w.t.Helper()
	there := map[int64]string{}
	for _, s := range w.stepsOf(id) {
		if there[s.Seq] != "" {
			w.t.Errorf("seed %d: %s has step %d twice", w.seed, w.short(id), s.Seq)
		}
		there[s.Seq] = asJSON(w, s)
	}
	for seq, was := range j.steps {
		if diff := cmp.Diff(was, there[seq]); diff != "" {
			w.t.Errorf("seed %d: the committed step %d of %s changed:\n%s", w.seed, seq, w.short(id), diff)
		}
	}
	j.steps = there
}

// checkEvents fails unless a run's log only grows, ends with the final event, and
// has gaps only where a worker may have died or been fenced off.
func (w *world) checkEvents(j *journal, r *run.Run) {
	w.t.Helper()
	all, err := w.log.Read(context.Background(), w.who.TenantID, r.RunID, 0, 100_000)
	if err != nil {
		w.t.Error(err)
		return
	}
	there, last := map[int64]string{}, int64(0)
	for i, e := range all {
		hole := e.Seq - last - 1
		switch {
		case hole < 0:
			w.t.Errorf("seed %d: %s: event %d follows %d", w.seed, w.short(r.RunID), e.Seq, last)
		case hole > 0 && e.Name == "step.draft_void": // the seqs of the void text
		case hole > 0 && (!slices.Contains([]string{"run.resumed", "run.cancelled", "step.completed"}, e.Name) || hole < run.SeqJump-1):
			w.t.Errorf("seed %d: %s: %s has seq %d after %d", w.seed, w.short(r.RunID), e.Name, e.Seq, last)
		}
		last = e.Seq
		if run.FinalEvent(e.Name) != (i == len(all)-1 && r.Status.Final()) {
			w.t.Errorf("seed %d: %s is %s; its event %d of %d is %s", w.seed, w.short(r.RunID), r.Status, i+1, len(all), e.Name)
		}
		if !e.Droppable() {
			there[e.Seq] = e.Name + " " + string(e.Data)
		}
	}
	for seq, was := range j.events {
		if there[seq] != was {
			w.t.Errorf("seed %d: %s: event %d was %q and is %q", w.seed, w.short(r.RunID), seq, was, there[seq])
		}
	}
	j.events = there
}

// follows fails unless a model is sent what the journal has. A worker that lost
// its lease may be behind the journal, but must not differ from it.
func (w *world) follows(n *simNode, messages []model.Message) {
	id := ""
	for _, m := range messages {
		if m.From.RunID != "" {
			id = m.From.RunID
		}
	}
	r, err := w.runs.Get(context.Background(), w.who.TenantID, id)
	if err != nil {
		if !fault.Is(err, fault.NotFound) { // the first call begins while the run is stored
			w.t.Errorf("seed %d: %s: %v", w.seed, n.name, err)
		}
		return
	}
	want, err := run.ConversationAfter(nil, r, w.stepsOf(id))
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		return
	}
	got := slices.DeleteFunc(slices.Clone(messages), func(m model.Message) bool {
		return m.Role == model.System || m.From.RunID == "" // the agent's prompt, and the closing note
	})
	if len(got) > len(want) {
		w.t.Errorf("seed %d: %s sends the model %d messages, the journal has %d", w.seed, w.short(id), len(got), len(want))
		return
	}
	if diff := cmp.Diff(asJSON(w, want[:len(got)]), asJSON(w, got)); diff != "" {
		w.t.Errorf("seed %d: what %s sends the model is not its journal:\n%s", w.seed, w.short(id), diff)
	}
}

// whole checks a run that ended, once.
func (w *world) whole(id string) {
	w.t.Helper()
	if w.seen[id] == nil {
		return
	}
	rec, err := w.runs.Get(context.Background(), w.who.TenantID, id)
	if err != nil {
		w.t.Error(err)
		return
	}
	name, steps := w.short(id), w.stepsOf(id)
	w.tally.count(string(rec.Status))
	switch rec.ErrorCode {
	case run.CodeApprovalExpired, run.CodeInputTimeout, run.CodeAuthExpired:
		w.tally.count("expired")
	case run.CodeBudgetExceeded:
		w.tally.count("over budget")
	case run.CodeMaxDuration:
		w.tally.count("out of time")
	case run.CodeStepCrashed:
		w.tally.count("step given up")
	case run.CodeInternalError:
		w.t.Errorf("seed %d: %s ended by our own mistake: %s", w.seed, name, ptr.Value(rec.Error))
	}
	began, crashed := w.begun(id)
	w.mustNotFail(rec, crashed)
	var sum run.StepMetrics
	var cost float64
	results, calls := map[string]int{}, map[string]bool{}
	next := int64(1)
	for _, s := range steps {
		for ; next < s.Seq; next++ {
			outside := rec.Status == run.Cancelled || rec.Status == run.Rejected || rec.Status == run.TimedOut
			if !outside || began[next] == 0 {
				w.t.Errorf("seed %d: %s (%s) has no step %d", w.seed, name, rec.Status, next)
			}
		}
		next = s.Seq + 1
		if began[s.Seq] != 1 {
			w.t.Errorf("seed %d: step %d of %s began %d times", w.seed, s.Seq, name, began[s.Seq])
		}
		var m run.StepMetrics
		if err := json.Unmarshal(s.Metrics, &m); err != nil {
			w.t.Error(err)
		}
		sum.InputTokens += m.InputTokens
		sum.OutputTokens += m.OutputTokens
		sum.LLMCalls += m.LLMCalls
		if m.CostUSD != nil {
			cost += *m.CostUSD
		}
		w.readStep(s, calls, results)
		if !crashed && unknownOutcome(s) {
			w.t.Errorf("seed %d: %s: the outcome of step %d is unknown, and no worker died", w.seed, name, s.Seq)
		}
	}
	total := rec.Metrics
	if total.InputTokens != sum.InputTokens || total.OutputTokens != sum.OutputTokens || total.LLMCallsCount != sum.LLMCalls || total.StepsCount != int64(len(steps)) {
		w.t.Errorf("seed %d: %s: metrics %+v do not sum up to %+v in %d steps", w.seed, name, total, sum, len(steps))
	}
	w.answered(rec, calls, results)
	if rec.ResourceLimits.MaxCostUSD != nil {
		w.budget(rec, cost)
	}
	for _, id := range rec.Options.Budgets {
		w.spent[id] += cost
	}
}

// families fails if the runs of a family spent more together than the budget of one of
// them, or than was counted.
func (w *world) families() {
	w.t.Helper()
	for id, cost := range w.spent {
		var limit, spent, reserved int64
		err := w.db.QueryRow(context.Background(), `SELECT cap, spent, reserved FROM run_budgets WHERE tenant_id = ? AND budget_id = ?`, w.who.TenantID, id).
			Scan(&limit, &spent, &reserved)
		if err != nil {
			w.t.Error(err)
			continue
		}
		w.tally.count("family with a budget")
		if nano := int64(cost * 1e9); reserved != 0 || spent > limit || nano > limit+1 || spent < nano-int64(len(w.ids)) {
			w.t.Errorf("seed %d: the family of %s cost %d; of %d it spent %d, %d are reserved", w.seed, w.short(id), nano, limit, spent, reserved)
		}
	}
}

// answered checks that calls have one result each.
func (w *world) answered(rec *run.Record, calls map[string]bool, results map[string]int) {
	w.t.Helper()
	name := w.short(rec.RunID)
	limited := rec.ResourceLimits.MaxSteps != nil || rec.ResourceLimits.MaxToolCalls != nil || rec.ResourceLimits.MaxTokensPerRun != nil
	for call, n := range results {
		if n != 1 || !calls[call] {
			w.t.Errorf("seed %d: %s: the call %s has %d results, asked for: %t", w.seed, name, call, n, calls[call])
		}
	}
	if rec.Status == run.Completed && !limited {
		for call := range calls {
			if results[call] != 1 {
				w.t.Errorf("seed %d: %s completed, and the call %s has %d results", w.seed, name, call, results[call])
			}
		}
	}
}

// begun counts the events step.started, by step, and reports whether a worker of
// the run died.
func (w *world) begun(id string) (began map[int64]int, crashed bool) {
	began = map[int64]int{}
	for _, e := range w.eventsOf(id) {
		switch e.Name {
		case "step.started":
			var d struct {
				StepSeq int64 `json:"step_seq"`
			}
			if err := json.Unmarshal(e.Data, &d); err != nil {
				w.t.Error(err)
			}
			began[d.StepSeq]++
		case "run.resumed":
			if strings.Contains(string(e.Data), "attempt") {
				w.tally.count("run resumed after a crash")
				crashed = true
			}
		}
	}
	return began, crashed
}

func (w *world) eventsOf(id string) []event.Event {
	all, err := w.log.Read(context.Background(), w.who.TenantID, id, 0, 100_000)
	if err != nil {
		w.t.Error(err)
	}
	return all
}

// readStep records the calls that a step asks for, and the results that it has.
func (w *world) readStep(s run.Step, calls map[string]bool, results map[string]int) {
	switch s.Type {
	case run.StepLLM:
		var out run.LLMOutput
		if err := json.Unmarshal(s.Output, &out); err != nil {
			w.t.Error(err)
		}
		for _, c := range out.ToolCalls {
			if calls[c.ID] {
				w.t.Errorf("seed %d: two calls have the id %s", w.seed, c.ID)
			}
			calls[c.ID] = true
		}
	case run.StepTool:
		var in run.ToolInput
		if err := json.Unmarshal(s.Input, &in); err != nil {
			w.t.Error(err)
		}
		results[in.ToolCallID]++
		if unknownOutcome(s) {
			w.tally.count("tool: outcome unknown")
		}
	}
}

func unknownOutcome(s run.Step) bool { return strings.Contains(string(s.Output), "outcome unknown") }

// budget fails if an ended run still has a reservation, or a cost that was not
// counted.
func (w *world) budget(r *run.Record, cost float64) {
	var limit, spent, reserved int64
	err := w.db.QueryRow(context.Background(), `SELECT cap, spent, reserved FROM run_budgets WHERE tenant_id = ? AND budget_id = ?`, r.TenantID, r.RunID).
		Scan(&limit, &spent, &reserved)
	if err != nil {
		w.t.Error(err)
		return
	}
	if reserved != 0 || spent > limit || spent < int64(cost*1e9)-1 {
		w.t.Errorf("seed %d: %s (%s) cost $%f; of %d it spent %d, %d are reserved", w.seed, w.short(r.RunID), r.Status, cost, limit, spent, reserved)
	}
}

// mustNotFail fails if a run ended for a failure of a model that passes, or if a
// call was paid for twice though no worker died.
func (w *world) mustNotFail(r *run.Record, crashed bool) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	ofModel := r.ErrorCode == run.CodeModelError || r.ErrorCode == run.CodeModelRateLimited
	if ofModel && !w.lasting[r.RunID] && w.agents.spec.ModelRetry.MaxElapsed > 0 {
		w.t.Errorf("seed %d: a run ended as %s, %s, for a failure that passes", w.seed, r.Status, r.ErrorCode)
	}
	if r.ErrorCode == run.CodeStepCrashed && !crashed {
		w.t.Errorf("seed %d: a step was given up, and no worker died", w.seed)
	}
	for call, n := range w.paid {
		if n > 1 && !crashed && strings.HasPrefix(call, r.RunID) {
			w.t.Errorf("seed %d: a call was paid %d times, and no worker died", w.seed, n)
		}
	}
}
