package improvement

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/governance/inbox"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of work that tests proposals; the key is the proposal's id.
const WorkKind = "improvement.sandbox"

// testTime is how long a test may take. Runs that have not ended by then have failed.
const testTime = time.Hour

// Test is the sandbox test of a proposal: the failed runs, run again with the change.
type Test struct {
	Deadline    time.Time `json:"deadline"`
	UserID      string    `json:"user_id"` // who began it, in whose name its runs are
	KeyID       string    `json:"key_id"`
	Runs        []TestRun `json:"runs"`
	SuccessRate *float64  `json:"success_rate"` // nil: it has not ended
}

// TestRun is one run of a test.
type TestRun struct {
	_ struct{} `json:"-" name:"ImprovementSandboxRun"`

	FailedRunID string `json:"failed_run_id" required:"true" doc:"The run whose input it has."`
	RunID       string `json:"run_id" required:"true" doc:"The run of the test."`
	Status      string `json:"status" required:"true" doc:"How the run ended; empty while it has not."`
	Error       string `json:"error" required:"true" doc:"Why it did not complete; empty if it did."`
}

// Sandbox is the port to the runs of tests.
type Sandbox interface {
	// Start starts a run, unless it was started before. Errors: fault.NotFound if the
	// failed run is gone; those of starting a run.
	Start(ctx context.Context, who authz.Caller, s Start) error
	// Result returns how a run ended, and why it did not complete. An empty status: it
	// has not ended.
	Result(ctx context.Context, tenant, id string) (status, reason string, err error)
	// Cancel ends a run that has not ended. One that does not exist is ended.
	Cancel(ctx context.Context, tenant, id string) error
	// CountUnfinishedTx returns how many of the runs have not ended.
	CountUnfinishedTx(tx txn.Tx, tenant string, ids []string) (int, error)
}

// Start is a run of a test that is to be started.
type Start struct {
	ProposalID  string
	FailedRunID string
	RunID       string
	Patch       jsontext.Value
}

// completed is the status of runs that succeeded.
const completed = "completed"

// beginTest has a proposal tested.
func (m *Improvements) beginTest(tx txn.Tx, who authz.Caller, p *Proposal) error {
	if len(p.FailedRunIDs) == 0 {
		return fault.New(fault.Conflict, "NOTHING_TO_TEST",
			"The proposal names no failed_run_ids, whose inputs a test would run. Propose it again with some.")
	}
	if p.VoteID != nil {
		if err := m.PassedTx(tx, who.TenantID, *p.VoteID); err != nil {
			return err
		}
	}
	p.Test = &Test{Deadline: m.Clock.Now().Add(testTime), UserID: who.UserID, KeyID: who.KeyID}
	for _, failed := range p.FailedRunIDs {
		p.Test.Runs = append(p.Test.Runs, TestRun{FailedRunID: failed, RunID: ident.Derive(p.ID, "sandbox", failed)})
	}
	return nil
}

func (m *Improvements) item(p *Proposal) work.Item {
	return work.Item{Kind: WorkKind, Key: p.ID, TenantID: p.TenantID, Due: m.Clock.Now()}
}

// Handle is the work.Handler of WorkKind. It is called when a test begins, and again
// when a run of it has ended.
func (m *Improvements) Handle(ctx context.Context, lease work.Lease) error {
	p, err := m.store.Get(ctx, lease.TenantID, lease.Key)
	if fault.Is(err, fault.NotFound) || err == nil && p.Test == nil {
		return m.writer.Write(ctx, func(tx txn.Tx) error { return m.Queue.FinishTx(tx, lease) })
	}
	if err != nil {
		return err
	}
	if p.Status != sandboxTesting {
		return m.abandon(ctx, lease, p)
	}
	left, err := m.advance(ctx, p)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return m.writer.Write(ctx, func(tx txn.Tx) error { return m.endTest(tx, lease, p) })
	}
	return m.writer.Write(ctx, func(tx txn.Tx) error { return m.wait(tx, lease, p, left) })
}

// abandon ends the runs of a test whose result no longer matters.
func (m *Improvements) abandon(ctx context.Context, lease work.Lease, p *Proposal) error {
	for _, r := range p.Test.Runs {
		if err := m.Sandbox.Cancel(ctx, p.TenantID, r.RunID); err != nil {
			return err
		}
	}
	return m.writer.Write(ctx, func(tx txn.Tx) error { return m.Queue.FinishTx(tx, lease) })
}

// advance starts the runs of a test that have not been, and notes those that ended. It
// returns the ids of those that have not.
func (m *Improvements) advance(ctx context.Context, p *Proposal) (left []string, err error) {
	who := authz.Caller{TenantID: p.TenantID, UserID: p.Test.UserID, KeyID: p.Test.KeyID}
	late := !m.Clock.Now().Before(p.Test.Deadline)
	for i := range p.Test.Runs {
		r := &p.Test.Runs[i]
		if r.Status != "" {
			continue
		}
		if !late {
			err = m.Sandbox.Start(ctx, who, Start{ProposalID: p.ID, FailedRunID: r.FailedRunID, RunID: r.RunID, Patch: jsontext.Value(p.Diff)})
			if f := fault.From(err); err != nil && passes(f) {
				return nil, err
			} else if err != nil {
				r.Status, r.Error = "rejected", f.Detail
				continue
			}
		}
		if r.Status, r.Error, err = m.Sandbox.Result(ctx, p.TenantID, r.RunID); err != nil {
			return nil, err
		}
		switch {
		case r.Status == "" && late:
			if err := m.Sandbox.Cancel(ctx, p.TenantID, r.RunID); err != nil {
				return nil, err
			}
			r.Status, r.Error = "timeout", "It had not ended within "+testTime.String()+"."
		case r.Status == "":
			left = append(left, r.RunID)
		}
	}
	return left, nil
}

// passes reports whether what refused a run may not refuse it later.
func passes(f *fault.Error) bool {
	return slices.Contains([]fault.Kind{fault.Internal, fault.Unavailable, fault.Limited}, f.Kind)
}

// wait lets go of the work until a run of the test ends or its time is up. What ended
// while this worker held the work woke nothing.
func (m *Improvements) wait(tx txn.Tx, lease work.Lease, p *Proposal, left []string) error {
	if err := m.keep(tx, p, sandboxTesting); err != nil {
		return err
	}
	if err := m.Queue.RescheduleTx(tx, lease, p.Test.Deadline, nil); err != nil {
		return err
	}
	unfinished, err := m.Sandbox.CountUnfinishedTx(tx, p.TenantID, left)
	if err != nil || unfinished == len(left) {
		return err
	}
	return m.Queue.EnqueueTx(tx, m.item(p))
}

// endTest moves a proposal whose test has ended: it is approved if any run completed,
// and no smaller share of them than succeeded before.
func (m *Improvements) endTest(tx txn.Tx, lease work.Lease, p *Proposal) error {
	good := 0
	for _, r := range p.Test.Runs {
		if r.Status == completed {
			good++
		}
	}
	rate := float64(good) / float64(len(p.Test.Runs))
	p.Test.SuccessRate = &rate
	p.Status = rejected
	if good > 0 && (p.BaselineSuccess == nil || rate >= *p.BaselineSuccess) {
		p.Status = approved
	}
	if err := m.keep(tx, p, p.Status); err != nil {
		return err
	}
	if err := m.record(tx, authz.Caller{TenantID: p.TenantID}, "improvement.tested", p); err != nil {
		return err
	}
	err := m.Inbox.SendTx(tx, p.TenantID, inbox.Item{
		Type: "domain.governance.improvement_tested", Title: "The sandbox test of an improvement has ended: it is " + p.Status,
		Message: p.Title, Path: p.path(), AgentID: p.AgentID, Key: "improvement/" + p.ID + "/tested",
	})
	if err != nil {
		return err
	}
	return m.Queue.FinishTx(tx, lease)
}

// keep stores what a test found, unless a person has moved the proposal meanwhile.
func (m *Improvements) keep(tx txn.Tx, found *Proposal, status string) error {
	_, err := m.store.UpdateTx(tx, authz.Caller{TenantID: found.TenantID}, found.ID, func(p *Proposal) error {
		if p.Status != sandboxTesting {
			return fault.New(fault.Unavailable, "", "The proposal was moved while it was tested.")
		}
		p.Test, p.Status = found.Test, status
		return nil
	})
	return err
}
