package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
)

// MachineText is what a machine has streamed of its last answer, and whether that is so.
type MachineText struct {
	Text     string
	Streamed bool
}

// StreamedText returns the text that the machine of a run streamed since its last tool
// call, as far as it is stored.
func (s Carried) StreamedText(ctx context.Context, tenant, id string) (t MachineText, err error) {
	var text strings.Builder
	for after := int64(0); ; {
		const limit = 1000
		events, err := s.Log.Read(ctx, tenant, id, after, limit)
		if err != nil {
			return t, err
		}
		for i := range events {
			after = events[i].Seq
			switch events[i].Name {
			case "tool.call":
				text.Reset()
			case "llm.chunk":
				var data struct {
					Text string `json:"text"`
				}
				if err := json.Unmarshal(events[i].Data, &data); err != nil {
					return t, err
				}
				text.WriteString(data.Text)
			}
		}
		if len(events) < limit {
			return MachineText{Text: text.String(), Streamed: text.Len() > 0}, nil
		}
	}
}

// Complete ends the run with the machine's answer. streamed: the readers of the stream have
// its text already.
func (p *Report) Complete(text string, streamed bool) error {
	c, r := p.c, p.c.r
	r.StepSeq++
	step := &Step{StepID: ident.New(), Seq: r.StepSeq, Type: StepLLM, Status: StepCompleted, StartedAt: c.now}
	out := LLMOutput{Text: text, FinishReason: model.FinishStop}
	var err error
	if step.Output, err = json.Marshal(out); err != nil {
		return err
	}
	if err := c.emit("step.started", StepStartedData{step.Ref(), step.Type}); err != nil {
		return err
	}
	if by := c.s.Redaction.Of(r.TenantID); by != nil {
		text, streamed = by.Text(text), false
		out.Text = text
	}
	if !streamed {
		if err := p.text(text, false); err != nil {
			return err
		}
	}
	if err := c.emit("llm.completed", LLMCompletedOf(step.Ref(), &out, StepMetrics{})); err != nil {
		return err
	}
	if err := c.endStep(step); err != nil {
		return err
	}
	// What a machine says may stand in its files, or come from its tools.
	output, err := json.Marshal(Output{
		Text: text, FinishReason: model.FinishStop, Sources: model.JoinSources(r.Options.Sources, []string{model.SourceFile}),
	})
	if err != nil {
		return err
	}
	if err := p.settle(); err != nil {
		return err
	}
	r.Status, r.Output, r.CompletedAt = Completed, schema.Nullable(output), &c.now
	r.Pending, r.Wait = nil, Wait{Approvals: r.Wait.Approvals}
	return c.emit(Completed.EventName(), struct {
		Status Status `json:"status"`
	}{Completed})
}

// End ends the run as failed, or in another final state, for a reason that has a code.
func (p *Report) End(status Status, code, sentence string) error {
	return p.c.end(status, code, sentence)
}

// settle ends what the run waits for.
func (p *Report) settle() error {
	c := p.c
	if err := c.s.Queue.DeleteTx(c.tx, c.s.WorkKind, c.r.RunID); err != nil {
		return err
	}
	if c.r.Status != AwaitingApproval {
		return c.endWait()
	}
	if err := c.closeApprovals(ApprovalCancelled); err != nil { // the machine went on without an answer
		return err
	}
	return c.resume()
}

// AwaitMachine makes a run go on waiting for its machine, in the worker's transaction, or
// ends it where the machine has been silent for too long. It returns when to look again;
// zero: the run has ended, and its item is deleted.
func (s Carried) AwaitMachine(tx txn.Tx, tenant, id string, now time.Time) (next time.Time, err error) {
	r, err := s.Runs.LockTx(tx, tenant, id)
	switch {
	case err != nil:
		return time.Time{}, err
	case r.Status.Final():
		return time.Time{}, s.Queue.DeleteTx(tx, s.WorkKind, id)
	case r.Status != Running:
		return r.Wait.Until, nil
	case r.Wait.For == WaitsForMachine && now.Before(r.Wait.Next):
		return r.Wait.Next, nil
	}
	err = s.change(tx, r, func(c *mutation) error {
		if r.Wait.For != WaitsForMachine { // it was woken
			r.Wait = Wait{For: WaitsForMachine, Since: now, Approvals: r.Wait.Approvals}
			r.Wait.Next = MachineDeadline(r, now)
			next = r.Wait.Next
			return nil
		}
		next = time.Time{}
		limit, used := r.ResourceLimits.MaxDurationMS, r.Metrics.DurationMS+float64(now.Sub(r.Wait.Since).Milliseconds())
		if limit != nil && used >= float64(*limit) {
			return c.end(TimedOut, CodeMaxDuration, fmt.Sprintf("The run was given %d ms, and its machine had not ended it by then.", *limit))
		}
		return c.end(TimedOut, CodeMachineSilent, fmt.Sprintf("The machine of the agent has reported nothing on the run for %d hours.",
			int(MachinePatience.Hours())))
	})
	return next, err
}
