package engine

import (
	"context"
	"sync"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

const (
	// maxToolDeaths is how often a process may die during a tool's call before the
	// call is given up. The model receives that as the result, and goes on.
	maxToolDeaths = 2
	// maxModelDeaths is the same for a call of the model, whose end fails the run:
	// answers take minutes and seldom harm, and processes are killed for other
	// reasons too.
	maxModelDeaths = 5
	// gatherTime is how long a run whose worker died waits for others that were
	// under way in the same process, so that it is known which of them were alone.
	gatherTime = 100 * time.Millisecond
)

// deathWaits is how long a step waits after so many deaths during its calls of the
// model, before the model is called again. Processes that are killed several times
// within seconds, for whatever reason, do not fail an innocent run that way, and an
// input that does kill them leaves time for other runs in between.
var deathWaits = [maxModelDeaths]time.Duration{2: 2 * time.Second, 3: 8 * time.Second, 4: 30 * time.Second}

// deathSentence is why an attempt of a model call failed during which the process died.
const deathSentence = "The program stopped while it called the model."

// killedNote is the result of a tool call during which the process died twice.
const killedNote = "failed: the program stopped twice while it made this call, and does not make it again."

// suspects are the runs of this node that were under way when their process died:
// a step of one of them may have killed it. The runs that merely ran beside it
// must not suffer. After a first death all go on at once. Whoever was under way
// alone in that try, and during another death, is the culprit. Those who were not
// alone are then tried one at a time.
type suspects struct {
	mu     sync.Mutex
	count  int           // under way
	joined int           // ever
	line   chan struct{} // capacity 1: held by the one that is tried alone
}

func newSuspects() *suspects { return &suspects{line: make(chan struct{}, 1)} }

// trial is a suspect's try.
type trial struct {
	s     *suspects
	alone bool
	inRow bool // it holds the line
}

// join begins a try; of deaths, which the caller counted, more than one makes it
// wait until it is the only one. Errors: the context's.
func (s *suspects) join(ctx context.Context, deaths int) (*trial, error) {
	t := &trial{s: s, alone: true}
	if deaths > 1 {
		select {
		case s.line <- struct{}{}:
			t.inRow = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	s.count++
	s.joined++
	ticket, before := s.joined, s.count
	s.mu.Unlock()
	if !t.inRow {
		timer := time.NewTimer(gatherTime)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.end()
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
		t.alone = before == 1 && s.joined == ticket
		s.mu.Unlock()
	}
	return t, nil
}

// end ends the try; a nil receiver has none.
func (t *trial) end() {
	if t == nil {
		return
	}
	t.s.mu.Lock()
	t.s.count--
	t.s.mu.Unlock()
	if t.inRow {
		<-t.s.line
	}
}

// countDeaths counts that the process died during the steps that are under way. A
// step that it was certainly due to is given up: the call's result is a failure, or
// the run fails. It returns how long the run waits before the model is called again.
func (a *attempt) countDeaths() (wait time.Duration) {
	rec := a.journal.rec
	given := false
	for i := range rec.Pending {
		p := &rec.Pending[i]
		if p.Held {
			continue
		}
		p.Deaths++
		if p.Tool == nil {
			p.Note(a.e.Clock.Now(), deathSentence)
		}
		if p.Deaths >= maxDeaths(p) && p.Alone {
			p.Killed, given = true, true
			a.e.Logger.Error("a step is given up: the program stopped each time that it was under way",
				"run", rec.RunID, "tenant", rec.TenantID, "step", p.StepID, "type", p.Type, "tool", toolName(p), "times", p.Deaths)
			if a.e.Observer.StepKilled != nil {
				a.e.Observer.StepKilled(p.Type)
			}
		}
		if p.Tool == nil {
			wait = max(wait, deathWaits[min(p.Deaths, maxModelDeaths-1)])
		}
	}
	if given {
		return 0
	}
	return wait
}

// beginTrial makes the attempt a try of a suspect, if a process died during a step
// that is under way. It waits until others do not blur whether that step kills.
func (a *attempt) beginTrial(ctx context.Context) (err error) {
	rec, worst := a.journal.rec, 0
	for _, p := range rec.Pending {
		if p.Killed {
			return nil
		}
		if !p.Held {
			worst = max(worst, p.Deaths)
		}
	}
	if worst == 0 {
		return nil
	}
	if a.trial, err = a.e.suspects.join(ctx, worst); err != nil {
		return err
	}
	for i := range rec.Pending {
		rec.Pending[i].Alone = a.trial.alone && !rec.Pending[i].Held
	}
	return nil
}

// waitAfterDeath makes the run wait in the queue before its model is called again. That
// does not count towards the bounds of model_retry.
func (a *attempt) waitAfterDeath(ctx context.Context, wait time.Duration) error {
	j, p := a.journal, a.journal.newest()
	if limit := j.limits().MaxDurationMS; limit != nil { // it ends then
		wait = max(0, min(wait, time.Duration(float64(*limit)-j.runningMS())*time.Millisecond))
	}
	a.e.Logger.Warn("a run waits before its model is called again: the program stopped each time that it was called",
		"run", j.rec.RunID, "tenant", j.rec.TenantID, "step", p.StepID, "times", p.Deaths, "after", wait)
	j.emit("step.retrying", run.StepRetryingData{
		StepRef: p.Ref(), Attempt: p.FailedAttempts(), AfterMS: wait.Milliseconds(), Reason: deathSentence,
	})
	a.waitFor(run.Wait{For: run.WaitsForModel, Next: a.e.Clock.Now().Add(wait), Attempts: p.FailedAttempts()}, run.ModelWait{})
	return j.commit(ctx, run.PauseAborts)
}

func maxDeaths(p *run.PendingStep) int {
	if p.Tool == nil {
		return maxModelDeaths
	}
	return maxToolDeaths
}

func toolName(p *run.PendingStep) string {
	if p.Tool == nil {
		return ""
	}
	return p.Tool.Name
}

// endTrial ends the try of a suspect once the steps that it was suspected for have
// ended.
func (a *attempt) endTrial() {
	for _, p := range a.journal.rec.Pending {
		if p.Deaths > 0 {
			return
		}
	}
	a.trial.end()
	a.trial = nil
}

// killedModelCall reports whether a call of the model is given up.
func (a *attempt) killedModelCall() bool {
	for _, p := range a.journal.rec.Pending {
		if p.Killed && p.Tool == nil {
			return true
		}
	}
	return false
}

// noteAlive stores that the attempt ends although its process lives, so that the
// steps that were under way are not suspected. It is best effort.
func (a *attempt) noteAlive(ctx context.Context) {
	j := a.journal
	if len(j.rec.Pending) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := j.e.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := j.e.Queue.HoldTx(tx, j.lease, j.e.Lease); err != nil {
			return err
		}
		r, err := j.e.Runs.LockTx(tx, j.rec.TenantID, j.rec.RunID)
		if err != nil || r.Status != run.Running {
			return err
		}
		r.Wait.Released = true
		u := run.UpdateOf(r)
		u.Pause = run.PauseKept
		return j.e.Runs.Update(r.TenantID, r.RunID, u)(tx)
	})
	if err != nil {
		j.e.Logger.Debug("a run's release could not be noted", "run", j.rec.RunID, "err", err)
	}
}
