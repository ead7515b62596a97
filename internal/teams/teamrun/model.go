package teamrun

import (
	"context"
	"iter"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Model serves teams in the place of agents, to clients that name one as their model: a
// run of a team looks to them like a run.
type Model struct{ Service *Service }

// Create starts a run of a team for a request that names it as its model. Errors:
// fault.NotFound for the team, fault.Invalid for what a team does not take, and those
// of starting a run of a team.
func (m Model) Create(ctx context.Context, who authz.Caller, teamID string, req run.Request) (*run.Run, error) {
	in, err := modelInput(&req)
	if err != nil {
		return nil, err
	}
	asked := request{message: in.Message, history: in.History, instructions: in.Instructions, metadata: req.Metadata}
	if req.Answer != nil {
		asked.answer = func(r *Record) any { return req.Answer(asRun(r, nil)) }
	}
	r, err := m.Service.create(ctx, who, teamID, asked)
	if err != nil {
		return nil, err
	}
	return asRun(r, nil), nil
}

// modelInput returns the message of a request to a team, with what comes before it.
func modelInput(req *run.Request) (*run.Input, error) {
	in := req.Parsed
	if in == nil {
		in = &run.Input{}
		if err := json.Unmarshal(req.Input, in); err != nil {
			return nil, err
		}
	}
	var wrong []fault.Field
	refuse := func(bad bool, field, message string) {
		if bad {
			wrong = append(wrong, fault.Field{Field: field, Message: message})
		}
	}
	refuse(len(req.Options.Tools) > 0, "tools", "a team calls no tools of its caller; name an agent as the model")
	refuse(req.Options.Extra["response_format"] != nil, "response_format", "a team keeps to no form; name an agent as the model")
	refuse(req.Options.Follows != "", "previous_response_id", "the answers of teams are not stored as responses; send the conversation")
	refuse(len(in.Parts) > 0, "messages", "a team reads text only; leave images and files out")
	refuse(blank(in.Message), "messages", "the last message is not a text of the user, which a team answers")
	if wrong != nil {
		return nil, fault.BadFields(wrong...)
	}
	return in, nil
}

// Get returns a run of a team as a run. Errors: fault.NotFound.
func (m Model) Get(ctx context.Context, tenant, id string) (*run.Run, error) {
	r, err := m.Service.Store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	tasks, err := m.Service.Store.ListTasks(ctx, tenant, id)
	return asRun(r, tasks), err
}

// Follow returns the end of a run of a team, when it has ended, as the final event of a
// run: a team's answer comes as a whole.
func (m Model) Follow(ctx context.Context, tenant, id string) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		follow := event.Follower{Log: m.Service.Log, Hub: m.Service.Hub}
		for e, err := range follow.Follow(ctx, tenant, id, 0) {
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			if !finalEvent(e.Name) {
				continue
			}
			r, err := m.Get(ctx, tenant, id)
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			yield(event.Event{Seq: e.Seq, Name: r.Status.EventName(), At: e.At, Result: r}, nil)
			return
		}
	}
}

// asRun returns a run of a team as a run, with what its members used.
func asRun(r *Record, tasks []Task) *run.Run {
	out := &run.Run{
		RunID: r.TeamRunID, TenantID: r.TenantID, Status: run.Running, Metadata: r.Metadata, CreatedAt: r.CreatedAt, CompletedAt: r.ended(),
	}
	for i := range tasks {
		out.Metrics.InputTokens += tasks[i].InputTokens
		out.Metrics.OutputTokens += tasks[i].OutputTokens
	}
	switch r.Status {
	case Completed, PartialFailure:
		out.Status = run.Completed
	case Cancelled:
		out.Status = run.Cancelled
	case Failed:
		out.Status = run.Failed
	case Pending, Running:
	}
	if answer := r.answer(); answer != nil {
		enc, err := json.Marshal(run.Output{Text: *answer, FinishReason: "stop"})
		if err == nil { // a text can always be encoded
			out.Output = enc
		}
	} else if r.Error != "" {
		out.Error = &r.Error
	}
	return out
}
