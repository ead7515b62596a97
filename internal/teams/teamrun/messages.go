package teamrun

import (
	"context"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/execution/run"
)

func (s *Service) messages(ctx context.Context, who authz.Caller, in *runIn) (*messages, error) {
	r, err := s.get(ctx, who.TenantID, in.TeamID, in.TeamRunID)
	if err != nil {
		return nil, err
	}
	tasks, err := s.Store.ListTasks(ctx, who.TenantID, in.TeamRunID)
	if err != nil {
		return nil, err
	}
	if tasks, err = s.withDelegated(ctx, r, tasks); err != nil {
		return nil, err
	}
	m := &messages{
		TeamID: r.TeamID, TeamRunID: r.TeamRunID, Messages: []exchange{{UserMessage: r.Message, AssistantMessage: r.answer()}},
		Protocol: protocol(r, tasks),
	}
	m.Total = len(m.Protocol)
	return m, nil
}

// protocol returns what the members of a team said to one another: each task, and its
// result.
func protocol(r *Record, tasks []Task) []protocolMessage {
	all := []protocolMessage{}
	for _, t := range tasks {
		from, kind := r.Spec.Supervisor, "delegation"
		if t.AgentID == from {
			from = ""
		}
		switch t.Purpose {
		case merge:
			kind = "merge_request"
		case peer, ballot, reply:
			kind = "question"
		case validate, judge:
			kind = "validation"
		}
		given := protocolMessage{
			MessageID: ident.Derive(t.RunID, "given"), TeamRunID: r.TeamRunID, From: from, To: t.AgentID, Type: kind,
			Content: t.Message, Round: t.Round, Timestamp: t.At,
		}
		all = append(all, given)
		if t.done() {
			all = append(all, protocolMessage{
				MessageID: ident.Derive(t.RunID, "result"), TeamRunID: r.TeamRunID, From: t.AgentID, To: from, Type: "result",
				Content: t.Text, Round: t.Round, Timestamp: t.EndedAt, ParentID: given.MessageID,
			})
		}
	}
	return all
}

// maxDelegated bounds the tasks of one run that are shown of a supervisor that delegates
// by its own tool calls.
const maxDelegated = 500

// withDelegated returns the tasks with those that a supervisor gave by its own tool
// calls, which are runs that its run started.
func (s *Service) withDelegated(ctx context.Context, r *Record, tasks []Task) ([]Task, error) {
	if !r.Spec.ToolDriven {
		return tasks, nil
	}
	all := append([]Task(nil), tasks...)
	for _, t := range tasks {
		if t.Purpose != lead {
			continue
		}
		children, err := s.Children(ctx, r.TenantID, t.RunID, maxDelegated)
		if err != nil {
			return nil, err
		}
		for _, c := range children {
			one, err := s.Runs.Get(ctx, r.TenantID, c.RunID)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			all = append(all, delegated(one, t.Round))
		}
	}
	return all, nil
}

// delegated returns a run as the task that it does.
func delegated(r *run.Run, round int) Task {
	t := Task{RunID: r.RunID, AgentID: r.AgentID, Purpose: work, Round: round, Started: true, At: r.CreatedAt}
	var in run.Input
	if json.Unmarshal(r.Input, &in) == nil { // an input of another shape has no message
		t.Message = in.Message
	}
	if !r.Status.Final() {
		return t
	}
	t.Status = r.Status
	if r.CompletedAt != nil {
		t.EndedAt = *r.CompletedAt
	}
	var out run.Output
	if json.Unmarshal(r.Output, &out) == nil { // a run that failed has none
		t.Text = out.Text
	}
	return t
}
