package teamrun

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/delegation"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/tool"
)

// ToolName is the name of the tool with which the supervisor of a team delegates. Its
// runs have it; the agent need not.
const ToolName = "delegate_to_worker"

// Delegate is the tool with which supervisors delegate. It is registered before the
// services exist that it needs; Connect completes it.
type Delegate struct {
	teams *Service
	tasks *delegation.Service
}

// Connect completes the tool.
func (t *Delegate) Connect(teams *Service, tasks *delegation.Service) {
	t.teams, t.tasks = teams, tasks
}

// Tools returns the tool.
func (t *Delegate) Tools() []tool.Tool {
	return []tool.Tool{{
		Name: ToolName,
		Description: "Gives a task to a member of the team that you lead, waits until it is done, and returns the member's answer. " +
			"The member does not know this conversation: the task must say everything that it needs.",
		Parameters: jsontext.Value(`{"type":"object","properties":{` +
			`"agent_id":{"type":"string","minLength":1,"maxLength":64,"description":"The id of the member"},` +
			`"task":{"type":"string","minLength":1,"maxLength":200000,"description":"The task"}},` +
			`"required":["agent_id","task"],"additionalProperties":false}`),
		Idempotent: true, Timeout: delegation.Timeout,
		Run: t.run,
	}}
}

func (t *Delegate) run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args struct {
		AgentID string `json:"agent_id"`
		Task    string `json:"task"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
		return tool.Result{}, err
	}
	r, refusal, err := t.teamRun(ctx, call, args.AgentID)
	if err != nil || refusal != "" {
		return tool.Failure(refusal), err
	}
	return t.tasks.Delegate(ctx, call, delegation.Task{
		AgentID: args.AgentID, Message: args.Task, TeamRunID: r.TeamRunID, WorkspaceID: r.Spec.Workspace, Limits: r.Spec.limits(args.AgentID),
		Admit: func(tx txn.Tx, _ *run.Record) (bool, error) { return true, t.admit(tx, r, call.RunID) },
	})
}

// admit lets a task begin where the run of the team has not ended, and its members do
// fewer tasks than they may at a time.
func (t *Delegate) admit(tx txn.Tx, r *Record, leader string) error {
	err := t.teams.Store.LockTx(tx, r.TenantID, r.TeamRunID)
	if errors.Is(err, ErrOver) {
		return fault.New(fault.Conflict, "", "The run of the team is over.")
	}
	if err != nil {
		return err
	}
	most := r.Spec.Policies.MaxConcurrency
	under, err := t.teams.WorkingTx(tx, r.TenantID, leader, most)
	if err == nil && len(under) >= most {
		err = fault.New(fault.Conflict, "",
			"The members do %d tasks, as many as the team may at a time. Give this one when another has ended.", most)
	}
	return err
}

// teamRun returns the run of the team that a supervisor's run leads, or a sentence why
// it may not give the task.
func (t *Delegate) teamRun(ctx context.Context, call tool.Call, agentID string) (r *Record, refusal string, err error) {
	own, err := t.teams.Runs.Get(ctx, call.TenantID, call.RunID)
	if err != nil {
		return nil, "", err
	}
	if own.TeamRunID == nil {
		return nil, "This run leads no team. Do the task yourself.", nil
	}
	r, err = t.teams.Store.Get(ctx, call.TenantID, *own.TeamRunID)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, "The team was deleted.", nil
	case err != nil:
		return nil, "", err
	case call.Awaits != nil: // it was given before
		return r, "", nil
	case r.Status.Final():
		return nil, "The run of the team is over.", nil
	case call.AgentID != r.Spec.Supervisor:
		return nil, "Only the supervisor of the team may give tasks.", nil
	case !slices.ContainsFunc(r.Spec.Members, func(m Member) bool { return m.AgentID == agentID && m.External == nil }):
		return nil, fmt.Sprintf("There is no member %q in the team. The members are listed in your instructions.", agentID), nil
	}
	return r, "", nil
}
