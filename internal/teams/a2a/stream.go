package a2a

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/route"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Update is a change of a task: of its state, or of its answer.
type Update struct {
	Seq int64 // of the run's event that it comes from
	At  time.Time

	State   State // "": the answer changed
	Message string

	Text   string // of the answer
	Append bool   // Text follows what was sent; else it takes its place
	Last   bool   // Text is the whole answer, and final

	Gap bool // updates are missing: the reader was slow, or resumed after an unknown place
}

// Follow returns the updates of a task after one of them (0: from the beginning), then
// those that happen, until its state is final. The answer is streamed as the model writes
// it; the last update of it has all of it, so that a client that missed some ends right.
// Errors: those of event.Follower.
func (s *Service) Follow(ctx context.Context, tenant, taskID string, after int64) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		u := &updates{s: s, ctx: ctx, tenant: tenant, task: taskID, resumed: after > 0}
		follow := event.Follower{Log: s.Log, Hub: s.Hub}
		for e, err := range follow.Follow(ctx, tenant, taskID, after) {
			if err != nil {
				yield(Update{}, err)
				return
			}
			more, err := u.of(e)
			if err != nil {
				yield(Update{}, err)
				return
			}
			for _, one := range more {
				one.Seq, one.At = e.Seq, e.At
				if !yield(one, nil) {
					return
				}
			}
			if run.FinalEvent(e.Name) {
				return
			}
		}
	}
}

// updates makes updates of the events of a run.
type updates struct {
	s            *Service
	ctx          context.Context
	tenant, task string
	resumed      bool // what was sent before is not known
	step         string
	state        State
}

// of returns the updates that an event makes.
func (u *updates) of(e event.Event) ([]Update, error) {
	switch e.Name {
	case "gap":
		return []Update{{Gap: true}}, nil
	case run.Queued.EventName():
		return u.moved(Submitted, "")
	case run.Running.EventName(), "run.resumed", "input.received":
		return u.moved(Working, "")
	case run.Paused.EventName(), run.AwaitingApproval.EventName(), run.AuthRequired.EventName():
		return u.waits(e)
	case "llm.chunk":
		return u.chunk(e)
	case "step.draft_void":
		u.step = "" // the next text takes the place of what was sent
		u.resumed = false
	}
	if run.FinalEvent(e.Name) {
		return u.ended()
	}
	return nil, nil
}

// moved returns the update of a state; nothing where the task has it already.
func (u *updates) moved(to State, message string) ([]Update, error) {
	if to == u.state {
		return nil, nil
	}
	u.state = to
	return []Update{{State: to, Message: message}}, nil
}

// waits returns the update of a run that waits for a person, as the event says it: by
// now the run may be elsewhere.
func (u *updates) waits(e event.Event) ([]Update, error) {
	r := &run.Run{Status: run.Status(e.Name[len("run."):])}
	if r.Status == run.Paused {
		var d struct {
			Reason string `json:"reason"`
		}
		if err := json.Unmarshal(e.Data, &d); err != nil || d.Reason != "input" {
			return u.moved(Working, "")
		}
		now, err := u.s.Runs.Get(u.ctx, u.tenant, u.task)
		if err != nil {
			return nil, err
		}
		if r.PendingInput = now.PendingInput; r.PendingInput == nil {
			r.PendingInput = &run.PendingInput{} // it was answered meanwhile
		}
	}
	state, message := stateOf(r, r.PendingInput)
	return u.moved(state, message)
}

// chunk returns the update of a piece of the answer. The text of another model call takes
// the place of the one before.
func (u *updates) chunk(e event.Event) ([]Update, error) {
	var d struct {
		Text   string `json:"text"`
		StepID string `json:"step_id"`
	}
	if err := json.Unmarshal(e.Data, &d); err != nil || d.Text == "" {
		return nil, nil //nolint:nilerr // a chunk of another shape has no text
	}
	one := Update{Text: d.Text, Append: u.resumed || d.StepID != "" && d.StepID == u.step}
	u.step, u.resumed = d.StepID, false
	return []Update{one}, nil
}

// ended returns the updates of a run that has ended: the whole answer, and the state.
func (u *updates) ended() ([]Update, error) {
	r, err := u.s.Runs.Get(u.ctx, u.tenant, u.task)
	if err != nil {
		return nil, err
	}
	var all []Update
	if r.Status == run.Completed {
		var out run.Output
		if err := json.Unmarshal(r.Output, &out); err != nil {
			return nil, err
		}
		if out.Text != "" {
			all = append(all, Update{Text: out.Text, Last: true})
		}
	}
	state, message := stateOf(r, nil)
	return append(all, Update{State: state, Message: message}), nil
}

// The frames of the stream of a task.
type (
	statusFrame struct {
		Event         string    `json:"event"`
		TaskID        string    `json:"task_id"`
		ContextID     string    `json:"context_id"`
		Timestamp     time.Time `json:"timestamp"`
		Status        State     `json:"status"`
		StatusMessage string    `json:"status_message,omitzero"`
		Final         bool      `json:"final"`
	}
	artifactFrame struct {
		Event     string    `json:"event"`
		TaskID    string    `json:"task_id"`
		ContextID string    `json:"context_id"`
		Timestamp time.Time `json:"timestamp"`
		Artifact  Artifact  `json:"artifact"`
		Append    bool      `json:"append"`
		LastChunk bool      `json:"last_chunk"`
	}
	gapFrame struct {
		Event     string    `json:"event"`
		TaskID    string    `json:"task_id"`
		Timestamp time.Time `json:"timestamp"`
		Detail    string    `json:"detail"`
	}
	doneFrame struct {
		Event  string `json:"event"`
		TaskID string `json:"task_id"`
		Status State  `json:"status"`
		Task   *Task  `json:"task"`
	}
)

// stream returns the frames of a task's stream: the updates after lastEventID, then those
// that happen, and after the last one a frame done and a bare [DONE].
func (s *Service) stream(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error) {
	rec, err := s.get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	r, err := s.Records.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	after, bad := strconv.ParseInt(lastEventID, 10, 64)
	unknown := lastEventID != "" && (bad != nil || after < 0)
	if unknown {
		after = 0
	}
	over := r.Status.Final() && after == r.EventSeq
	f := frames{rec}
	return func(yield func(route.Frame, error) bool) {
		if unknown && !yield(f.notice("gap", "The id to resume after is unknown; the stream starts over.", s.Clock.Now()), nil) {
			return
		}
		if over {
			s.done(ctx, f, yield)
			return
		}
		last := State("")
		for u, err := range s.Follow(ctx, tenant, id, after) {
			if err != nil {
				yield(f.notice("error", "The stream was interrupted; reconnect with the last id.", s.Clock.Now()), nil)
				return
			}
			if !yield(f.of(u), nil) {
				return
			}
			last = u.State
		}
		if last.Final() {
			s.done(ctx, f, yield)
		}
	}, nil
}

// done sends the result of the task and the end of the stream.
func (s *Service) done(ctx context.Context, f frames, yield func(route.Frame, error) bool) {
	t, err := s.Get(ctx, f.TenantID, f.TaskID)
	if err != nil {
		return // the client reconnects with its last id
	}
	if yield(frame("done", 0, doneFrame{"done", t.ID, t.Status, t}), nil) {
		yield(route.Frame{Data: []byte("[DONE]")}, nil)
	}
}

// frames renders the updates of a task.
type frames struct{ *Record }

// of returns an update as a frame. A piece of the answer that comes with the end of the
// task has no id, so that a client that resumes gets both.
func (f frames) of(u Update) route.Frame {
	switch {
	case u.Gap:
		return f.notice("gap", "Updates are missing; the last one of the answer has all of it.", u.At)
	case u.State != "":
		return frame("task.status", u.Seq, statusFrame{"task.status", f.TaskID, f.ContextID, u.At, u.State, u.Message, u.State.Final()})
	}
	seq := u.Seq
	if u.Last {
		seq = 0
	}
	piece := answerArtifact(f.TaskID, u.Text)
	return frame("task.artifact", seq, artifactFrame{"task.artifact", f.TaskID, f.ContextID, u.At, piece, u.Append, u.Last})
}

func (f frames) notice(name, detail string, at time.Time) route.Frame {
	return frame(name, 0, gapFrame{name, f.TaskID, at, detail})
}

func frame(name string, seq int64, data any) route.Frame {
	encoded, err := json.Marshal(data)
	if err != nil {
		encoded = []byte("{}")
	}
	f := route.Frame{Name: name, Data: encoded}
	if seq > 0 {
		f.ID = strconv.FormatInt(seq, 10)
	}
	return f
}

// LastSeq returns the place of the newest event of a task.
func (s *Service) LastSeq(ctx context.Context, tenant, id string) (int64, error) {
	r, err := s.Records.Get(ctx, tenant, id)
	if err != nil {
		return 0, err
	}
	return r.EventSeq, nil
}

// LastAnswered returns the place at which a task got the newest answer to a question; 0:
// it got none.
func (s *Service) LastAnswered(ctx context.Context, tenant, id string) (seq int64, err error) {
	for after := int64(0); ; {
		got, err := s.Log.Read(ctx, tenant, id, after, pageOfEvents)
		if err != nil {
			return 0, err
		}
		for _, e := range got {
			if after = e.Seq; e.Name == "input.received" {
				seq = e.Seq
			}
		}
		if len(got) < pageOfEvents {
			return seq, nil
		}
	}
}

const pageOfEvents = 500
