package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// OpenAtOnce is how many tasks that have not ended a machine receives.
const OpenAtOnce = 100

const (
	maxHistory  = 256 << 10        // bytes of the earlier turns of a task; the newest are kept
	tasksAtOnce = 20               // that a poll answers
	offerAgain  = 30 * time.Second // to a machine that polled, and has not reported on the task
	defaultPoll = 25 * time.Second
	maxPoll     = 60 * time.Second
	// lookAgain is how often those that wait look into the store: signals may be lost.
	lookAgain = 15 * time.Second
)

// OfferTx implements the engine's port: it stores a run as a task for the machine of its
// agent.
func (s *Service) OfferTx(tx txn.Tx, t *run.MachineTask) error {
	task := &Task{
		TenantID: t.TenantID, TaskID: t.RunID, AgentID: t.AgentID, QueuedAt: s.Clock.Now(),
		Body: PendingTask{
			TaskID: t.RunID, RunID: t.RunID, AgentID: t.AgentID, SessionID: ptr.Value(t.SessionID), QueuedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
			Input:  TaskInput{Message: t.Message, History: turns(t.History), Files: t.FileIDs},
			Source: sourceOf(t),
		},
	}
	if err := s.Store.CreateTaskTx(tx, task); err != nil {
		return err
	}
	tx.AfterCommit(func() { s.Hub.Signal(Signal, t.AgentID) })
	return nil
}

// turns returns the newest turns that a task may have.
func turns(history []model.Message) []Turn {
	size, from := 0, len(history)
	for i, m := range slices.Backward(history) {
		if size += len(m.Text); size > maxHistory {
			break
		}
		from = i
	}
	all := make([]Turn, 0, len(history)-from)
	for _, m := range history[from:] {
		all = append(all, Turn{Role: string(m.Role), Content: m.Text})
	}
	return all
}

func sourceOf(t *run.MachineTask) TaskSource {
	source := TaskSource{Type: "user"}
	switch by := t.StartedBy; {
	case t.TeamRunID != nil:
		source.Type = "team"
	case by != nil && by.Type == run.ByRun:
		source.Type, source.AgentID = "head_agent", by.ID
	case by != nil && (by.Type == run.ByKey || by.Type == run.ByMember):
		source.UserID = by.ID
	}
	return source
}

// OnRunState ends the task of a run that has ended, and tells its machine of decisions.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if !r.Options.OnMachine {
		return nil
	}
	agentID, runID := r.AgentID, r.RunID
	tx.AfterCommit(func() {
		s.Hub.Signal(Signal, runID)
		s.Hub.Signal(Signal, agentID)
	})
	if !r.Status.Final() {
		return nil
	}
	return s.Store.DeleteTaskTx(tx, r.TenantID, r.RunID)
}

// Open returns the tasks of a machine's agent that have not ended, oldest first: at most
// OpenAtOnce.
func (s *Service) Open(ctx context.Context, m *Machine) ([]Task, error) {
	return s.Store.ListTasks(ctx, m.TenantID, m.AgentID, OpenAtOnce)
}

// Poll returns tasks for the caller's machine, and waits for the first one. A task is
// offered again after a while unless the machine reports on it.
func (s *Service) Poll(ctx context.Context, who authz.Caller, machineID, agentID string, wait time.Duration) ([]PendingTask, error) {
	m, err := s.pollingMachine(ctx, who, machineID, agentID)
	if err != nil {
		return nil, err
	}
	if err := s.touch(ctx, m); err != nil {
		return nil, err
	}
	rang, stop := s.bells.listen(m.AgentID)
	defer stop()
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		tasks, err := s.offer(ctx, m)
		if err != nil || len(tasks) > 0 {
			return tasks, err
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-ctx.Done():
			again.Stop()
			return nil, context.Cause(ctx)
		case <-end.C:
			again.Stop()
			return nil, nil
		case <-rang:
		case <-again.C:
		}
		again.Stop()
	}
}

// pollingMachine returns the machine that polls: by its id, or the only one of an agent.
func (s *Service) pollingMachine(ctx context.Context, who authz.Caller, machineID, agentID string) (*Machine, error) {
	if machineID != "" {
		return s.machine(ctx, who, machineID, agentID)
	}
	if agentID == "" {
		return nil, fault.New(fault.Malformed, "INVALID_QUERY", "Say which machine polls: with machine_id, agent_id or both.")
	}
	return s.machineOf(ctx, who, agentID)
}

// machineOf returns the caller's machine of an agent.
func (s *Service) machineOf(ctx context.Context, who authz.Caller, agentID string) (*Machine, error) {
	if err := byKey(who); err != nil {
		return nil, err
	}
	all, err := s.Store.ListMachinesOfAgent(ctx, who.TenantID, agentID)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if m := &all[i]; m.UserID == who.UserID && m.DeletedAt.IsZero() {
			return m, nil
		}
	}
	return nil, notMachine()
}

// offer returns the tasks that a poll may give now.
func (s *Service) offer(ctx context.Context, m *Machine) (offered []PendingTask, err error) {
	open, err := s.Open(ctx, m)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	open = slices.DeleteFunc(open, func(t Task) bool { return t.Taken || t.OfferAt.After(now) })
	if len(open) == 0 {
		return nil, nil
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		offered = nil
		for i := range open[:min(len(open), tasksAtOnce)] {
			mine, err := s.Store.OfferTx(tx, m.TenantID, open[i].TaskID, now, now.Add(offerAgain))
			if err != nil {
				return err
			}
			if mine {
				offered = append(offered, open[i].Body)
			}
		}
		return nil
	})
	return offered, err
}

// Delegation is what a machine's agent is asked to do.
type Delegation struct {
	_ struct{} `json:"-" name:"BridgeDelegate"`

	AgentID  string        `json:"agent_id" required:"true" format:"uuid" ref:"agent" doc:"The agent of a machine."`
	Message  string        `json:"message" required:"true" minLength:"1" maxLength:"100000" doc:"What it is to do."`
	Priority string        `json:"priority,omitzero" maxLength:"50" doc:"How urgent it is. Kept and shown; has no effect yet."`
	Context  schema.Object `json:"context,omitzero" doc:"Anything that belongs to it; a free object, which the machine gets with the message."`
}

// Delegated is the answer of a delegation.
type Delegated struct {
	_ struct{} `json:"-" name:"BridgeDelegated"`

	Success bool   `json:"success" required:"true"`
	TaskID  string `json:"task_id" format:"uuid" required:"true" doc:"Id of the task."`
	RunID   string `json:"run_id" format:"uuid" required:"true" doc:"Id of its run, the same."`
	Status  string `json:"status" enum:"enqueued,queued_offline" required:"true" doc:"queued_offline: no machine of the agent is online; one that comes back gets the task."`
}

// Delegate starts a run of a machine's agent. Errors: NotFound for the agent; Malformed with
// NOT_BRIDGE_AGENT for one that no machine carries.
func (s *Service) Delegate(ctx context.Context, who authz.Caller, b *Delegation) (*Delegated, error) {
	g, err := s.Agents.Get(ctx, who.TenantID, b.AgentID)
	if err != nil {
		return nil, err
	}
	if !isOnMachine(&g) {
		return nil, fault.New(fault.Malformed, "NOT_BRIDGE_AGENT",
			"No machine carries the runs of this agent; start a run of it with POST /api/v1/runs.")
	}
	machines, err := s.Store.ListMachinesOfAgent(ctx, who.TenantID, b.AgentID)
	if err != nil {
		return nil, err
	}
	status := "queued_offline"
	if slices.ContainsFunc(machines, func(m Machine) bool { return m.Status(s.Clock.Now()) == Online }) {
		status = "enqueued"
	}
	message := b.Message
	if len(b.Context) > len("{}") {
		message += "\n\nContext:\n" + string(b.Context)
	}
	input, err := json.Marshal(map[string]string{"message": message})
	if err != nil {
		return nil, err
	}
	metadata, err := json.Marshal(map[string]string{"source": "bridge", "priority": b.Priority}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	answer := func(r *run.Run) any {
		return &Delegated{Success: true, TaskID: r.RunID, RunID: r.RunID, Status: status}
	}
	r, err := s.runs.Create(ctx, who, run.Request{
		AgentID: b.AgentID, Input: schema.Object(input), Metadata: schema.Object(metadata), Answer: answer,
	})
	if err != nil {
		return nil, err
	}
	return answer(r).(*Delegated), nil
}
