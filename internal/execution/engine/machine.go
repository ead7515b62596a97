package engine

import (
	"context"
	"strings"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/work"
)

// The run of an agent that is bound to a machine is carried there. The engine does what
// comes before the first call of a model: it checks the message, recalls what the agent
// remembers and reads the earlier turns. Then it hands the run over and releases it. What
// the machine reports goes through run.Service.Report. The item of the run falls due again
// when the machine has been silent for too long.

// Machines is the port to the machines that carry runs.
type Machines interface {
	// OfferTx stores a run as a task for the machine of its agent. A task that is there
	// already stays as it is.
	OfferTx(tx txn.Tx, t *run.MachineTask) error
}

// onMachine reports whether a machine carries the run.
func onMachine(a *attempt) bool {
	return a.spec != nil && a.journal.rec.Options.OnMachine && a.e.Machines != nil
}

// isHandedOver reports whether the machine has the run: it waits for it, or was woken
// from a wait for a person that the machine asked for.
func isHandedOver(a *attempt) bool {
	rec := a.journal.rec
	return onMachine(a) && rec.Status == run.Running && (rec.Wait.For == run.WaitsForMachine || rec.Wait.Woken)
}

// handOver leaves the run to the machine of its agent, in the commit that releases it.
func (a *attempt) handOver() error {
	j, now := a.journal, a.e.Clock.Now()
	rec := j.rec
	rec.Wait = run.Wait{For: run.WaitsForMachine, Since: now, Approvals: rec.Wait.Approvals}
	rec.Metrics.DurationMS = j.runningMS()
	rec.Wait.Next = run.MachineDeadline(rec, now)
	task := &run.MachineTask{
		TenantID: rec.TenantID, RunID: rec.RunID, AgentID: rec.AgentID, SessionID: rec.SessionID, TeamRunID: rec.TeamRunID,
		StartedBy: rec.StartedBy, FileIDs: rec.ParsedInput().FileIDs, CreatedAt: rec.CreatedAt, ExpiresAt: rec.Wait.Next,
	}
	task.Message, task.History = asTask(a.conversation.messages)
	task.Message = j.redact.by.Text(task.Message) // tasks are stored
	for i := range task.History {
		task.History[i].Text = j.redact.by.Text(task.History[i].Text)
	}
	j.next.ops = append(j.next.ops, func(tx txn.Tx) error { return a.e.Machines.OfferTx(tx, task) })
	return j.commit(a.ctx, run.PauseCleared)
}

// asTask returns the newest message of a conversation, and the turns before it: what was
// said, without the agent's prompt, calls of tools and what is no text.
func asTask(messages []model.Message) (message string, history []model.Message) {
	for i := range messages {
		m := &messages[i]
		text := model.Plain(m)
		if m.Role != model.User && m.Role != model.Assistant || strings.TrimSpace(text) == "" {
			continue
		}
		history = append(history, model.Message{Role: m.Role, Text: text})
	}
	if n := len(history); n > 0 && history[n-1].Role == model.User {
		return history[n-1].Text, history[:n-1]
	}
	return "", history
}

// awaitMachine lets a run go on waiting for its machine, or ends it where the machine has
// been silent for too long. What the machine reports meanwhile changes the row, so that
// it is read in the transaction.
func (e *Engine) awaitMachine(ctx context.Context, lease work.Lease) error {
	return e.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := e.Queue.HoldTx(tx, lease, e.Lease); err != nil {
			return err
		}
		next, err := e.service.AwaitMachine(tx, lease.TenantID, lease.Key, e.Clock.Now())
		if err != nil || next.IsZero() {
			return err
		}
		return e.Queue.RescheduleTx(tx, lease, next, nil)
	})
}
