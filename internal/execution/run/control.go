package run

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/quota"
)

// Pause requests that a running run stops at its next step boundary. A step that
// is under way is finished; an answer is held until the run is resumed. A run
// that waits for a model or for other runs is paused at once. Errors: NotFound; Conflict unless the
// run is running.
func (s *Service) Pause(ctx context.Context, tenant, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		// The item first, the row second, as in mutate.
		if err := s.Release(tx, tenant, id); err != nil {
			return err
		}
		r, err := s.Runs.LockTx(tx, tenant, id)
		switch {
		case err != nil:
			return err
		case r.Status != Running:
			return fault.WrongState("run", string(r.Status), "pausing")
		case r.Options.OnMachine:
			return fault.New(fault.Conflict, "RUNS_ON_MACHINE",
				"A machine carries the run, and cannot hold it half way. Let it go on, or cancel it.")
		case r.Wait.For == "":
			return s.Runs.RequestPauseTx(tx, tenant, id)
		}
		return s.change(tx, r, (*mutation).pauseWait)
	})
}

// pauseWait pauses a run that waits without a person. A worker that was about to
// try again is fenced off.
func (c *mutation) pauseWait() error {
	if err := c.s.Queue.DeleteTx(c.tx, c.s.WorkKind, c.r.RunID); err != nil {
		return err
	}
	if err := c.endWait(); err != nil {
		return err
	}
	if c.r.Wait.For == WaitsForRuns { // its calls go on, and are asked for their results when it is resumed
		return c.pauseByHand()
	}
	for _, p := range c.r.Pending { // a new step follows what may be said meanwhile
		if err := c.s.Runs.Settle(c.r.TenantID, c.r.Options.Budgets, p.Reserved, 0)(c.tx); err != nil {
			return err
		}
		if err := c.endStep(p.Abandoned()); err != nil {
			return err
		}
	}
	c.r.Pending = nil
	return c.pauseByHand()
}

// pauseByHand moves the run to paused, because a caller requested it.
func (c *mutation) pauseByHand() error {
	c.r.Status, c.r.Wait = Paused, Wait{Approvals: c.r.Wait.Approvals}
	return c.emit(Paused.EventName(), struct {
		Status Status `json:"status"`
		Reason string `json:"reason"`
	}{Paused, "manual"})
}

// Resume continues a run that was paused with Pause, with an optional note to
// the agent. Errors: NotFound; Conflict unless it is paused, or if it waits for
// an answer.
func (s *Service) Resume(ctx context.Context, tenant, id, note string) error {
	return s.mutate(ctx, tenant, id, func(c *mutation) error {
		switch {
		case c.r.Status != Paused:
			return fault.WrongState("run", string(c.r.Status), "resuming")
		case c.r.Wait.Input != nil:
			return fault.New(fault.Conflict, "INVALID_STATE_TRANSITION",
				"The run is paused because it waits for an answer; send the answer with respond.")
		}
		if strings.TrimSpace(note) != "" {
			out, err := json.Marshal(NoteOutput{note})
			if err != nil {
				return err
			}
			if err := c.step(&Step{StepID: ident.New(), Type: StepInput, Status: StepCompleted, Output: out}); err != nil {
				return err
			}
		}
		return c.resume()
	})
}

// Respond answers the question of a waiting run: the answer becomes the result
// of its call of ask_user. Errors: NotFound; Conflict unless it waits for one.
func (s *Service) Respond(ctx context.Context, tenant, id, response string) error {
	return s.mutate(ctx, tenant, id, func(c *mutation) error {
		ask := c.r.Wait.Input
		switch {
		case c.r.Status != Paused:
			return fault.WrongState("run", string(c.r.Status), "an answer")
		case ask == nil:
			return fault.New(fault.Conflict, "INVALID_STATE_TRANSITION",
				"The run was paused by hand and asked no question; continue it with resume.")
		}
		args, err := json.Marshal(struct {
			Question string `json:"question"`
		}{ask.Question})
		if err != nil {
			return err
		}
		in := ToolInput{ToolCallID: ask.ToolCallID, Name: AskUser, Arguments: string(args)}
		step := &Step{StepID: ident.New(), Type: StepTool, Status: StepCompleted, StartedAt: ask.RequestedAt}
		if step.Input, err = json.Marshal(in); err != nil {
			return err
		}
		if step.Output, err = json.Marshal(ToolOutput{Content: response}); err != nil {
			return err
		}
		if step.Metrics, err = json.Marshal(StepMetrics{ToolCallsCount: 1}); err != nil {
			return err
		}
		c.r.Metrics.ToolCallsCount++
		c.uses = append(c.uses, quota.Use{ToolCalls: 1})
		err = c.emit("input.received", struct {
			InputID  string `json:"input_id"`
			Response string `json:"response"`
		}{ask.InputID, response})
		if err != nil {
			return err
		}
		if err := c.emitResult(StepRef{step.StepID, c.r.StepSeq + 1}, in, response); err != nil {
			return err
		}
		if err := c.step(step); err != nil {
			return err
		}
		return c.resume()
	})
}

// AskUser is the name of the built-in tool that asks a person; see Respond.
const AskUser = "ask_user"

// emitResult adds tool.result of the step that is added next. Only the step
// stores the output.
func (c *mutation) emitResult(ref StepRef, in ToolInput, output string) error {
	type result struct {
		StepRef
		ToolCallID string `json:"tool_call_id"`
		Name       string `json:"name"`
		Status     string `json:"status"`
		DurationMS int    `json:"duration_ms"`
		Output     any    `json:"output,omitzero"`
	}
	d := result{ToolCallID: in.ToolCallID, Name: in.Name, Status: "done"}
	stored, err := json.Marshal(d)
	if err != nil {
		return err
	}
	d.StepRef, d.Output = ref, output
	live, err := json.Marshal(d)
	if err != nil {
		return err
	}
	c.emitRaw(event.Entry{Name: "tool.result", At: c.now, Data: stored, Step: c.r.StepSeq + 1}, live)
	return nil
}

// Authorized resumes the runs that wait for the authorization of a server.
func (s *Service) Authorized(ctx context.Context, tenant, serverID string) error {
	for {
		ids, err := s.Runs.ListWaiting(ctx, tenant, serverID, 100)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			err := s.mutate(ctx, tenant, id, func(c *mutation) error {
				if c.r.Status != AuthRequired || c.r.Wait.Auth == nil || c.r.Wait.Auth.ServerID != serverID {
					return nil // it was resumed meanwhile
				}
				return c.resume()
			})
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}
}

// Expire ends a run that has waited too long, in the worker's transaction, and
// reports whether it did. A run that was woken meanwhile is not ended.
func (s *Service) Expire(tx txn.Tx, tenant, id string, now time.Time) (ended bool, err error) {
	r, err := s.Runs.LockTx(tx, tenant, id)
	if err != nil || r.Status == Running || r.Status.Final() {
		return false, err
	}
	if r.Wait.Until.IsZero() || now.Before(r.Wait.Until) {
		return false, nil
	}
	return true, s.change(tx, r, func(c *mutation) error {
		if err := c.closeApprovals(ApprovalExpired); err != nil {
			return err
		}
		code, sentence := CodeApprovalExpired, "Nobody approved the call in time."
		switch {
		case r.Wait.Input != nil:
			code, sentence = CodeInputTimeout, "Nobody answered the question in time."
		case r.Wait.Auth != nil:
			code, sentence = CodeAuthExpired, "Nobody authorized "+r.Wait.Auth.Name+" in time."
		}
		return c.end(TimedOut, code, sentence)
	})
}

// noteOf returns the note in the input of a resume.
func noteOf(in schema.Object) (note string, err error) {
	if len(in) == 0 {
		return "", nil
	}
	var v struct {
		Note    string `json:"note"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(in, &v); err != nil {
		return "", fault.BadFields(fault.Field{Field: "input", Message: "note and message are strings"})
	}
	if v.Note == "" {
		v.Note = v.Message
	}
	return v.Note, nil
}
