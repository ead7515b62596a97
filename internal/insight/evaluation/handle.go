package evaluation

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	kernelwork "agentd/internal/kernel/work"
)

const (
	// recheck is after how long an evaluation looks at its runs although none has ended.
	recheck = 5 * time.Minute
	// atOnce is how many cases are scored at a time. Runs are all started together: those that
	// are stored at the same moment share a commit.
	atOnce = 16
	// caseSpan bounds the cases that are read together.
	caseSpan = 2 * maxConcurrency
	// maxStreak is after how many failures in a row a scorer is not called any more.
	maxStreak = 20
	// maxOutput is how many characters of an answer are kept with its result.
	maxOutput = 1000
)

// drive is one worker's holding of an evaluation.
type drive struct {
	*Service
	ctx     context.Context
	lease   kernelwork.Lease
	r       *Record
	who     authz.Caller
	open    []Result // begun, and not ended
	results []Result // to be stored
}

// Handle is the work.Handler of WorkKind.
func (s *Service) Handle(ctx context.Context, lease kernelwork.Lease) error {
	r, err := s.Store.Get(ctx, lease.TenantID, lease.Key)
	if fault.Is(err, fault.NotFound) || err == nil && r.Status.Final() {
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
	}
	if err != nil {
		return err
	}
	d := &drive{Service: s, ctx: ctx, lease: lease, r: r}
	d.who = authz.Caller{TenantID: r.TenantID, KeyID: r.Spec.KeyID, UserID: r.Spec.UserID}
	if d.open, err = s.Store.ListUnended(ctx, r.TenantID, r.EvalRunID); err != nil {
		return err
	}
	err = d.step()
	if fault.Is(err, fault.NotFound) { // it was deleted with its agent
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
	}
	return err
}

// step judges the runs that have ended, and starts further ones. Cases are stored as begun
// before their runs exist, under ids that follow from them, so that a worker that takes
// over finds every run that was started.
func (d *drive) step() error {
	if d.r.Cancel {
		return d.stop()
	}
	missing, err := d.observe()
	if err != nil {
		return err
	}
	planned := d.plan()
	if planned != nil {
		d.results = append(d.results, planned...)
		if err := d.commit(func(tx txn.Tx) error { return d.Queue.HoldTx(tx, d.lease, d.Lease) }); err != nil {
			return err
		}
	}
	d.open = append(d.open, planned...)
	if err := d.start(append(missing, planned...)); err != nil {
		return err
	}
	if len(d.open) == 0 && (d.r.Next >= d.r.Total || d.r.Error != "") {
		return d.end()
	}
	return d.commit(d.wait)
}

// observe judges the cases whose runs have ended, and returns those whose runs do not
// exist: an earlier worker did not come to start them.
func (d *drive) observe() (missing []Result, err error) {
	if len(d.open) == 0 {
		return nil, nil
	}
	states, err := d.Runs.ListStatuses(d.ctx, d.r.TenantID, runIDs(d.open))
	if err != nil {
		return nil, err
	}
	var left, ended []Result
	for _, c := range d.open {
		state, exists := states[c.RunID]
		switch {
		case !exists:
			missing, left = append(missing, c), append(left, c)
		case state.Final():
			ended = append(ended, c)
		case state.Waits():
			if err := d.Runs.Cancel(d.ctx, d.r.TenantID, c.RunID); err != nil && !fault.Is(err, fault.NotFound) {
				return nil, err
			}
			c.Error = "The run waited for a person (" + string(state) + "), which no one can answer in an evaluation. " +
				"Evaluate with sandbox, or let the agent decide by itself."
			d.finish(&c)
		default:
			left = append(left, c)
		}
	}
	if err := d.judgeAll(ended); err != nil {
		return nil, err
	}
	d.open = left
	return missing, nil
}

func runIDs(all []Result) []string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].RunID
	}
	return ids
}

// judgeAll judges cases whose runs have ended, several at a time.
func (d *drive) judgeAll(ended []Result) error {
	if len(ended) == 0 {
		return nil
	}
	cases, err := d.casesOf(ended)
	if err != nil {
		return err
	}
	failed := make([][]string, len(ended))
	broke := make([]bool, len(ended))
	err = each(len(ended), atOnce, func(i int) (err error) {
		failed[i], broke[i], err = d.judge(&ended[i], cases[ended[i].Seq])
		return err
	})
	if err != nil {
		return err
	}
	for i := range ended {
		d.count(&ended[i], failed[i])
		d.finish(&ended[i])
		if broke[i] && d.r.Error == "" {
			d.r.Error = fmt.Sprintf("The runs spent the %g US dollars of max_cost_usd.", d.r.Spec.MaxCostUSD)
		}
	}
	return nil
}

// judge judges one case, and returns the scorers that gave no score, and whether its run
// spent the rest of the evaluation's budget. Errors are those of the platform, after which
// the evaluation is tried again; all others are the case's.
func (d *drive) judge(c *Result, of *Case) (failed []string, broke bool, err error) {
	r, err := d.Runs.Get(d.ctx, d.r.TenantID, c.RunID)
	if fault.Is(err, fault.NotFound) {
		c.Error = "Its run was deleted."
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	c.DurationMS, c.CostUSD = r.Metrics.DurationMS, ptr.Value(r.Metrics.TotalCostUSD)
	c.Tokens = r.Metrics.InputTokens + r.Metrics.OutputTokens
	if r.Status != run.Completed {
		c.Error = "The run ended as " + string(r.Status) + "."
		if r.Error != nil && *r.Error != "" {
			c.Error = *r.Error
		}
		return nil, d.r.Spec.MaxCostUSD > 0 && r.ErrorCode == run.CodeBudgetExceeded, nil
	}
	if most := float64(d.r.Spec.CaseTimeoutMS); c.DurationMS > most {
		c.Error = fmt.Sprintf("The run took %.0f ms, and case_timeout_ms allows %.0f.", c.DurationMS, most)
		return nil, false, nil
	}
	var out run.Output
	if err := json.Unmarshal(r.Output, &out); err != nil {
		c.Error = "The output of the run cannot be read."
		return nil, false, nil
	}
	c.Output = text.Truncate(out.Text, maxOutput)
	if of == nil {
		c.Error = "Its dataset was deleted."
		return nil, false, nil
	}
	on := &subject{
		who: d.who, agent: d.r.AgentID, eval: d.r.EvalRunID, caseID: c.CaseID, runID: c.RunID, of: of, answer: out.Text,
	}
	if r.Metrics.ToolCallsCount > 0 {
		if on.calls, err = d.callsOf(d.ctx, d.r.TenantID, c.RunID); err != nil {
			return nil, false, err
		}
	}
	return d.scoreAll(c, on), false, d.ctx.Err()
}

// scoreAll sets the scores of a case, and returns the scorers that gave none.
func (d *drive) scoreAll(c *Result, on *subject) (failed []string) {
	c.Scores, c.Reasons, c.Passed = map[string]float64{}, map[string]string{}, true
	for i := range d.r.Spec.Scorers {
		scorer := &d.r.Spec.Scorers[i]
		if d.r.Tally.Streaks[scorer.Name] >= maxStreak {
			c.Error = fmt.Sprintf("The scorer %s gave no score %d times in a row, and is not called any more.", scorer.Name, maxStreak)
			continue
		}
		v, err := scoring{&d.Options}.score(d.ctx, &scorer.Config, on)
		switch {
		case err != nil:
			failed = append(failed, scorer.Name)
			c.Error = fmt.Sprintf("The scorer %s gave no score: %s.", scorer.Name, text.Truncate(err.Error(), maxReason))
		case !v.skipped:
			c.Scores[scorer.Name] = v.score
			c.Passed = c.Passed && v.score >= scorer.Config.threshold()
			if v.reason != "" {
				c.Reasons[scorer.Name] = v.reason
			}
		}
	}
	if c.Error == "" && len(c.Scores) == 0 {
		c.Error = "No scorer of the evaluation applies to the case: it has no expected_output or expected_tool_calls."
	}
	c.Passed = c.Passed && c.Error == ""
	return failed
}

// count notes which scorers failed in a case that was judged, and which did not.
func (d *drive) count(c *Result, failed []string) {
	t := &d.r.Tally
	for name := range c.Scores {
		delete(t.Streaks, name)
	}
	for _, name := range failed {
		if t.Streaks == nil {
			t.Streaks = map[string]int{}
		}
		t.Streaks[name]++
	}
}

// finish ends a case.
func (d *drive) finish(c *Result) {
	c.Ended = true
	t := &d.r.Tally
	switch {
	case c.Error != "":
		t.Errored++
	case c.Passed:
		t.Passed++
	default:
		t.Failed++
	}
	t.DurationMS += c.DurationMS
	t.Tokens += c.Tokens
	t.CostUSD += c.CostUSD
	d.results = append(d.results, *c)
}

// plan begins further cases, as many as there may be at a time.
func (d *drive) plan() (planned []Result) {
	d.r.Status = Running
	n := min(d.r.Spec.Concurrency-len(d.open), d.r.Total-d.r.Next)
	if n <= 0 || d.r.Error != "" {
		return nil
	}
	for range n {
		planned = append(planned, Result{
			Seq: d.r.Next, CaseID: caseID(d.r.DatasetID, d.r.Next), RunID: ident.Derive(d.r.EvalRunID, "case", itoa(int64(d.r.Next))),
			BeganAt: d.Clock.Now(),
		})
		d.r.Next++
	}
	return planned
}

// start starts the runs of cases. A refusal that is not for the case alone ends the
// evaluation; those that were started end first.
func (d *drive) start(all []Result) error {
	if len(all) == 0 {
		return nil
	}
	first := all[0].Seq
	for i := range all {
		first = min(first, all[i].Seq)
	}
	span := 0
	for i := range all {
		span = max(span, all[i].Seq-first+1)
	}
	cases, err := d.Store.ListCases(d.ctx, d.r.TenantID, d.r.DatasetID, first, span)
	if err != nil {
		return err
	}
	refused := make([]error, len(all))
	err = each(len(all), maxConcurrency, func(i int) error {
		at := all[i].Seq - first
		if at >= len(cases) {
			refused[i] = fault.New(fault.Invalid, "", "Its dataset was deleted.")
			return nil
		}
		refused[i] = d.startRun(&all[i], &cases[at])
		if f := fault.From(refused[i]); f != nil && (f.Kind == fault.Internal || f.Kind == fault.Unavailable) {
			return refused[i]
		}
		return nil
	})
	if err != nil {
		return err
	}
	ended := map[string]bool{}
	for i := range all {
		f := fault.From(refused[i])
		if f == nil {
			continue
		}
		all[i].Error = f.Detail
		if len(f.Fields) > 0 {
			all[i].Error = f.Fields[0].Field + ": " + f.Fields[0].Message
		}
		if f.Kind != fault.Invalid && f.Kind != fault.Malformed && d.r.Error == "" {
			d.r.Error = "A run could not be started: " + f.Detail
		}
		d.finish(&all[i])
		ended[all[i].RunID] = true
	}
	left := d.open[:0]
	for _, c := range d.open {
		if !ended[c.RunID] {
			left = append(left, c)
		}
	}
	d.open = left
	return nil
}

// origin is the metadata of the runs of an evaluation.
type origin struct {
	Source    string `json:"source"`
	EvalRunID string `json:"eval_run_id"`
	DatasetID string `json:"dataset_id"`
	CaseID    string `json:"case_id"`
}

// startRun starts the run of a case, unless an earlier worker has.
func (d *drive) startRun(c *Result, of *Case) error {
	metadata, err := json.Marshal(origin{run.SourceEvaluation, d.r.EvalRunID, d.r.DatasetID, c.CaseID})
	if err != nil {
		return err
	}
	req := run.Request{
		RunID: c.RunID, AgentID: d.r.AgentID, AgentVersion: d.r.Version, Input: of.Input, Metadata: schema.Object(metadata),
		Wakes:     run.Wakes{Kind: WorkKind, Key: d.r.EvalRunID},
		StartedBy: run.Initiator{Type: run.ByEvaluation, ID: d.r.EvalRunID},
		Limits:    run.Limits{MaxDurationMS: &d.r.Spec.CaseTimeoutMS},
		// A request that cancels or deletes the evaluation finds the run, or comes first.
		Admit: func(tx txn.Tx, _ *run.Record) (bool, error) {
			cancel, over, err := d.Store.LockTx(tx, d.r.TenantID, d.r.EvalRunID)
			if err == nil && (cancel || over) {
				err = fault.New(fault.Conflict, "", "The evaluation was cancelled.")
			}
			return true, err
		},
	}
	if d.r.Spec.Sandbox {
		req.Options.Sandbox = &run.Sandbox{Patch: []byte("{}")}
	}
	if m := d.r.Spec.Model; m != nil {
		req.Options.Model = &model.Spec{Provider: m.Provider, ModelRef: m.ModelRef}
	}
	if d.r.Spec.MaxCostUSD > 0 {
		req.Budgets = []string{d.r.EvalRunID}
	}
	_, err = d.Runs.Create(d.ctx, d.who, req)
	if f := fault.From(err); f != nil && f.Kind == fault.Conflict && f.Code == "ALREADY_EXISTS" {
		return nil
	}
	return err
}

// wait lets go of the work until a run ends.
func (d *drive) wait(tx txn.Tx) error {
	now := d.Clock.Now()
	if len(d.open) == 0 {
		return d.Queue.RescheduleTx(tx, d.lease, now, nil)
	}
	if err := d.Queue.RescheduleTx(tx, d.lease, now.Add(recheck), nil); err != nil {
		return err
	}
	// What happened while this worker held the work woke nothing.
	cancel, _, err := d.Store.LockTx(tx, d.r.TenantID, d.r.EvalRunID)
	if err != nil {
		return err
	}
	working, err := d.Runs.CountWorkingTx(tx, d.r.TenantID, runIDs(d.open))
	if err != nil || !cancel && working == len(d.open) {
		return err
	}
	return d.Queue.EnqueueTx(tx, d.item(d.r))
}

// stop ends an evaluation that was cancelled, and its runs.
func (d *drive) stop() error {
	err := each(len(d.open), atOnce, func(i int) error {
		c := &d.open[i]
		if err := d.Runs.Cancel(d.ctx, d.r.TenantID, c.RunID); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		c.Error = "The evaluation was cancelled."
		return nil
	})
	if err != nil {
		return err
	}
	for i := range d.open {
		d.finish(&d.open[i])
	}
	return d.end()
}

// commit stores what was collected. lease proves that the work is still held.
func (d *drive) commit(lease func(txn.Tx) error) error {
	err := d.Writer.Write(d.ctx, func(tx txn.Tx) error {
		if err := lease(tx); err != nil {
			return err
		}
		return d.storeTx(tx)
	})
	if err == nil {
		d.results = nil
	}
	return err
}

func (d *drive) storeTx(tx txn.Tx) error {
	if err := d.Store.UpdateTx(tx, d.r); err != nil {
		return err
	}
	return d.Store.PutResultsTx(tx, d.r.TenantID, d.r.EvalRunID, d.results)
}
