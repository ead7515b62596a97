package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// The wait before a step's next attempt: a random time below a bound that starts
// at firstBackoff and doubles up to maxBackoff.
const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
	// maxSpread bounds the random time that is added to a Retry-After, so that
	// those that got the same one do not come back at one instant.
	maxSpread = 500 * time.Millisecond
	// minEarly is how long before its next attempt a run was woken early. The queue,
	// which rounds due times, may return a run a little before.
	minEarly = 10 * time.Millisecond
)

// backoff returns how long a step waits after a number of failed attempts: at
// least what the endpoint requested.
func backoff(failed int, requested time.Duration) time.Duration {
	wait := rand.N(min(firstBackoff<<min(failed-1, 16), maxBackoff))
	if requested == 0 {
		return wait
	}
	return max(wait, requested+rand.N(min(maxSpread, requested/20+1)))
}

// waitForModel handles a model call that failed. If the failure passes, the run
// waits in the queue until the step is tried again, and holds no worker.
// Otherwise, and where the next attempt would be beyond what the agent or the run
// allows, it returns the error that ends the run.
func (a *attempt) waitForModel(r callResult) error {
	j := a.journal
	failed, ok := errors.AsType[*model.Error](r.err)
	if !ok || !failed.Passing || a.spec.ModelRetry.MaxElapsed == 0 || context.Cause(a.ctx) != nil {
		return r.err
	}
	p, now := j.newest(), a.e.Clock.Now()
	if from := a.conversation.wokenFrom; now.Before(from.Add(-failed.RetryAfter)) || failed.NotMade && now.Before(from) {
		return a.waitOn(r.used, failed, from)
	}
	p.Fail(now, failed.Detail)
	wait := backoff(p.Failed, failed.RetryAfter)
	retry := a.spec.ModelRetry
	if now.Sub(p.FailedSince) > retry.MaxElapsed-wait || retry.MaxAttempts > 0 && p.Failed >= retry.MaxAttempts {
		return r.err
	}
	if limit := j.limits().MaxDurationMS; limit != nil && j.runningMS()+milliseconds(wait) > float64(*limit) {
		return &outOfTime{failed}
	}
	a.e.Logger.Debug("a run waits for its model", "run", j.rec.RunID, "tenant", j.rec.TenantID,
		"attempt", p.Failed, "after", wait, "status", failed.Status, "err", failed.Cause)
	j.voidText()
	j.emit("step.retrying", run.StepRetryingData{
		StepRef: p.Ref(), Attempt: p.FailedAttempts(), AfterMS: wait.Milliseconds(), Reason: failed.Detail,
	})
	endpoint := endpointKey(r.used)
	a.waitFor(run.Wait{For: run.WaitsForModel, Next: now.Add(wait), Attempts: p.FailedAttempts()}, run.ModelWait{
		TenantID: j.rec.TenantID, RunID: j.rec.RunID, Endpoint: endpoint,
	})
	if err := j.commit(a.ctx, run.PauseAborts); err != nil {
		return err
	}
	a.e.waking.failed(j.rec.RunID, endpoint, r.used, failed, false)
	return nil
}

// waitOn makes a run wait on that was woken early in vain. That was no attempt of
// its step: neither its bounds nor its backoff nor its events count it.
func (a *attempt) waitOn(used model.Target, failed *model.Error, until time.Time) error {
	j := a.journal
	j.voidText()
	endpoint := endpointKey(used)
	a.waitFor(run.Wait{For: run.WaitsForModel, Next: until, Attempts: j.newest().FailedAttempts()}, run.ModelWait{
		TenantID: j.rec.TenantID, RunID: j.rec.RunID, Endpoint: endpoint,
	})
	if err := j.commit(a.ctx, run.PauseAborts); err != nil {
		return err
	}
	a.e.waking.failed(j.rec.RunID, endpoint, used, failed, true)
	return nil
}

// outOfTime is the failure of a model whose next attempt would be after the end
// of the run's time.
type outOfTime struct{ failed *model.Error }

func (e *outOfTime) Error() string { return e.failed.Error() }

func (e *outOfTime) sentence(limitMS int64) string {
	return fmt.Sprintf("The run was given %d ms, and its model's next attempt would be after that. %s", limitMS, e.failed.Detail)
}

// waitFor adds to the next commit that the run waits without a person and without
// a worker. It is woken early if w names an endpoint.
func (a *attempt) waitFor(wait run.Wait, w run.ModelWait) {
	j := a.journal
	wait.Since, wait.Approvals = j.e.Clock.Now(), j.rec.Wait.Approvals
	j.rec.Wait = wait
	if w.Endpoint != "" {
		j.next.ops = append(j.next.ops, j.e.Runs.CreateModelWait(w))
	}
}

// endWait adds to the next commit that the run does not wait any more. The time
// that it waited counts as running.
func (a *attempt) endWait() {
	j := a.journal
	j.earlierMS += milliseconds(max(0, j.began.Sub(j.rec.Wait.Since)))
	j.waited = true
	a.conversation.waitedForLimit = j.rec.Wait.For == run.WaitsForLimit
	if j.rec.Wait.For == run.WaitsForModel && j.rec.Wait.Next.Sub(j.began) > minEarly {
		a.conversation.wokenFrom = j.rec.Wait.Next
	}
	if j.rec.Wait.For != run.WaitsForRuns {
		j.next.ops = append(j.next.ops, j.e.Runs.DeleteModelWait(j.rec.TenantID, j.rec.RunID))
	}
	j.rec.Wait = run.Wait{Approvals: j.rec.Wait.Approvals}
}

// voidText discards the text of the running step. Readers, who may have seen it,
// get an event.
func (j *journal) voidText() {
	j.redact.drop()
	if !j.text.any() {
		return
	}
	_, s := j.text.seal()
	j.events.stored = j.events.seq // the log skips the seqs of the text
	j.events.replacesDrafts = j.events.replacesDrafts || s.drafts
	j.emit("step.draft_void", run.DraftVoidData{StepRef: j.newest().Ref()})
}

// endpointKey identifies what a failure of a model concerns: an endpoint, a model
// there, and the key.
func endpointKey(t model.Target) string {
	h := sha256.New()
	for _, part := range []string{t.BaseURL, t.Model, t.APIKey.Reveal()} {
		fmt.Fprintf(h, "%d %s ", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
