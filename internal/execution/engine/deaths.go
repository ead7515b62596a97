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
// the run fails.
func (a *attempt) countDeaths(ctx context.Context) error {
	rec := a.journal.rec
	worst, given := 0, false
	for i := range rec.Pending {
		p := &rec.Pending[i]
		if p.Held {
			continue
		}
		p.Deaths++
		if p.Deaths >= maxDeaths(p) && p.Alone {
			p.Killed, given = true, true
			a.e.Logger.Error("a step is given up: the program stopped each time that it was under way",
				"run", rec.RunID, "tenant", rec.TenantID, "step", p.StepID, "type", p.Type, "tool", toolName(p), "times", p.Deaths)
			if a.e.Observer.StepKilled != nil {
				a.e.Observer.StepKilled(p.Type)
			}
		}
		worst = max(worst, p.Deaths)
	}
	if worst == 0 || given {
		return nil
	}
	var err error
	if a.trial, err = a.e.suspects.join(ctx, worst); err != nil {
		return err
	}
	for i := range rec.Pending {
		rec.Pending[i].Alone = a.trial.alone && !rec.Pending[i].Held
	}
	return nil
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
