package engine

import (
	"context"

	"agentd/internal/execution/run"
)

// suspend adds the run's move to a waiting state to the next commit. From
// that commit on the run holds no worker.
func (j *journal) suspend(status run.Status, wait run.Wait, data any) {
	j.rec.Status, j.rec.Wait = status, wait
	j.rec.PendingInput, j.rec.PendingAuth = wait.Input, wait.Auth
	j.emit(status.EventName(), data)
}

// pause suspends the run because a caller requested it since the last commit.
// The results of the commit that was refused are stored. The steps that it was
// to begin are not begun, and an answer that was to end the run is held.
func (j *journal) pause(ctx context.Context) error {
	mode := run.PauseCleared
	if j.rec.Status.Waits() { // it pauses when it comes back from its wait
		mode = run.PauseKept
	}
	if j.rec.Status.Final() {
		j.events.dropLast()
		j.rec.Status, j.rec.CompletedAt, j.rec.Output = run.Running, nil, nil
	}
	if n := len(j.rec.Pending); n > 0 && j.rec.Pending[n-1].Seq > j.committedStep {
		if kind := j.rec.Pending[n-1].Type; kind == run.StepLLM || kind == run.StepCompaction || kind == run.StepJudge {
			j.events.dropLast()
			j.rec.Pending = j.rec.Pending[:n-1]
			j.step--
		}
	}
	j.holdBegun()
	if j.rec.Wait.For == run.WaitsForRuns { // the calls that wait are made again when it is resumed
		j.rec.Wait = run.Wait{Approvals: j.rec.Wait.Approvals}
	}
	if j.rec.Wait.For != "" { // the wait that was to begin: a new step follows what may be said meanwhile
		if n := len(j.events.live); n > 0 && j.events.live[n-1].Name == "step.retrying" { // not all waits have the event
			j.events.dropLast()
		}
		j.next.ops = append(j.next.ops, j.e.Runs.DeleteModelWait(j.rec.TenantID, j.rec.RunID))
		j.endStep(j.newest().Abandoned(), run.StepMetrics{})
	}
	if j.rec.Status == run.Running {
		j.suspend(run.Paused, run.Wait{Approvals: j.rec.Wait.Approvals}, pausedData{Status: run.Paused, Reason: "manual"})
	}
	return j.commit(ctx, mode)
}
