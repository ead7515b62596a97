package teamrun

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// External does the tasks of workers that are not agents of the company (see
// Member.External). It is asked when the team run's work is due. To have it due when a
// task has ended, it enqueues the item of WorkKind whose key is ExternalTask.TeamRunID.
// It must be safe for concurrent use.
type External interface {
	// Start starts a task. A start may be repeated after a crash, with the same id, and
	// must not start the task twice. An error of the kinds fault.Internal and
	// fault.Unavailable is tried again; any other one is the end of the task.
	Start(ctx context.Context, t ExternalTask) error
	// Poll returns how far a task is. Errors: fault.NotFound where there is none.
	Poll(ctx context.Context, tenant, id string) (ExternalState, error)
	// Cancel ends a task. One that has ended, or that is unknown, is no error.
	Cancel(ctx context.Context, tenant, id string) error
}

// ExternalTask is a task of a worker that is not an agent of the company.
type ExternalTask struct {
	TenantID  string
	ID        string // of the task, in the place of a run's
	TeamID    string
	TeamRunID string
	WorkerID  string         // its Member.AgentID
	Worker    jsontext.Value // its Member.External
	Input     run.Input
	// Until is when the team gives up; zero: it does not.
	Until time.Time
}

// ExternalState is how far such a task is.
type ExternalState struct {
	Status run.Status // final once it has ended
	Text   string     // the answer, if it completed
	Error  string     // why it did not, as a sentence
	// Again is when to poll at the latest; zero: the end of the task makes the work due.
	Again time.Time
}

// external returns how the worker of a task is reached that is not an agent of the
// company; nil: an agent does the task.
func (d *drive) external(t *Task) jsontext.Value {
	if d.External == nil {
		return nil
	}
	for i := range d.r.Spec.Members {
		if m := &d.r.Spec.Members[i]; m.AgentID == t.AgentID {
			return m.External
		}
	}
	return nil
}

func (d *drive) startExternal(t *Task, worker jsontext.Value, in run.Input) error {
	task := ExternalTask{
		TenantID: d.r.TenantID, ID: t.RunID, TeamID: d.r.TeamID, TeamRunID: d.r.TeamRunID, WorkerID: t.AgentID, Worker: worker, Input: in,
	}
	if ms := d.r.Spec.Policies.SubtaskTimeoutMS; ms > 0 {
		task.Until = d.Clock.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	d.poll = d.Clock.Now() // it may have ended by now, or know when to look
	return d.External.Start(d.ctx, task)
}

// observeExternal notes whether the task of an external worker has ended, and cancels it
// when its time is up.
func (d *drive) observeExternal(t *Task) error {
	if err := d.look(t); err != nil || t.ended() || !d.late(t.At, d.r.Spec.Policies.SubtaskTimeoutMS) {
		return err
	}
	if err := d.cancelTask(t); err != nil {
		return err
	}
	d.finish(t, run.TimedOut, "", "It took longer than policies.subtask_timeout_ms.")
	return nil
}

// look polls the task of an external worker.
func (d *drive) look(t *Task) error {
	state, err := d.External.Poll(d.ctx, d.r.TenantID, t.RunID)
	switch {
	case fault.Is(err, fault.NotFound):
		state = ExternalState{Status: run.Failed, Error: "The external worker does not know the task any more."}
	case err != nil:
		return err
	}
	switch {
	case state.Status.Final():
		t.Sources = []string{model.SourceWeb}
		d.finish(t, state.Status, state.Text, state.Error)
	case !state.Again.IsZero() && (d.poll.IsZero() || state.Again.Before(d.poll)):
		d.poll = state.Again
	}
	return nil
}
