package guardrail

import (
	"context"
	"errors"
	"fmt"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/policy"
)

// Blocked is the error_code of a run or call that a guardrail blocked.
const Blocked = "guardrail_blocked"

// Gate is a [policy.Gate] that runs an agent's guardrails. An agent without any costs
// nothing. Errors are those of the database and the context; for other failures the
// guardrail's on_error decides.
type Gate struct {
	policy.AllowAll

	All *Guardrails
	// Platform returns the operator's guardrails, which come before those of agents; they
	// may change. Nil: there are none.
	Platform func() *Platform
}

var _ policy.Gate = Gate{}

// Watches implements [policy.Gate].
func (g Gate) Watches(ctx context.Context, r policy.Run) (policy.Watch, error) {
	p := g.platform()
	all := policy.Watch{Input: p.covers(policy.Input), Output: p.covers(policy.Output), Tool: p.covers(policy.Tool)}
	if none(r.Guardrails) {
		return all, nil
	}
	s, invalid := readSettings(r.Guardrails)
	if invalid != nil {
		return policy.Watch{Input: true, Output: true, Tool: true}, nil
	}
	w := all
	for stage, watched := range map[policy.Stage]*bool{policy.Input: &w.Input, policy.Output: &w.Output, policy.Tool: &w.Tool} {
		own, err := g.watchesStage(ctx, r, s, stage)
		if err != nil {
			return policy.Watch{}, err
		}
		*watched = *watched || own
	}
	return w, nil
}

func (g Gate) watchesStage(ctx context.Context, r policy.Run, s *Settings, stage policy.Stage) (bool, error) {
	if len(s.builtIns(stage)) > 0 {
		return true, nil
	}
	for _, u := range s.uses(stage) {
		if !u.enabled() {
			continue
		}
		stored, err := g.All.recent.Get(ctx, r.TenantID, u.GuardrailID)
		if fault.Is(err, fault.NotFound) {
			return true, nil // a missing guardrail blocks
		}
		if err != nil {
			return false, err
		}
		if stored.Enabled {
			return true, nil
		}
	}
	return false, nil
}

// BeforeInput implements [policy.Gate].
func (g Gate) BeforeInput(ctx context.Context, r policy.Run, text string) (policy.Verdict, error) {
	return g.check(ctx, checkInput{run: r, stage: policy.Input, text: text})
}

// BeforeTool implements [policy.Gate].
func (g Gate) BeforeTool(ctx context.Context, r policy.Run, tool, arguments string) (policy.Verdict, error) {
	return g.check(ctx, checkInput{run: r, stage: policy.Tool, part: partArguments, tool: tool, text: arguments})
}

// AfterTool implements [policy.Gate].
func (g Gate) AfterTool(ctx context.Context, r policy.Run, tool, output string) (policy.Verdict, error) {
	return g.check(ctx, checkInput{run: r, stage: policy.Tool, part: partResult, tool: tool, text: output})
}

// BeforeAnswer implements [policy.Gate].
func (g Gate) BeforeAnswer(ctx context.Context, r policy.Run, text string) (policy.Verdict, error) {
	return g.check(ctx, checkInput{run: r, stage: policy.Output, text: text})
}

// check runs the guardrails of a stage: first the built-in ones, which are fast and
// local, then the others in the agent's order. Each receives the text as the ones
// before it left it. The first block ends the check.
func (g Gate) check(ctx context.Context, q checkInput) (policy.Verdict, error) {
	p := g.platform()
	if p == nil && none(q.run.Guardrails) {
		return policy.Verdict{}, nil
	}
	a := gateCheck{gate: g, q: q}
	if p != nil {
		for i := range p.rules {
			rule := &p.rules[i]
			if !rule.of.covers(q.stage) {
				continue
			}
			id := "platform." + rule.of.Name
			if err := a.runChecker(ctx, rule.compiled, id, rule.of.Name, action(rule.of.Action)); err != nil || a.v.Refused {
				return a.v, err
			}
		}
	}
	if none(q.run.Guardrails) {
		return a.v, nil
	}
	s, invalid := readSettings(q.run.Guardrails)
	if invalid != nil {
		a.block("", "guardrails", fmt.Sprintf("The agent's guardrails cannot be read (%s: %s), so everything is blocked.",
			invalid[0].Field, invalid[0].Message))
		return a.v, nil
	}
	for _, b := range s.builtIns(q.stage) {
		if err := a.runChecker(ctx, b.compiled, "built_in."+b.name, b.name, policy.Redact); err != nil || a.v.Refused {
			return a.v, err
		}
	}
	for _, u := range s.uses(q.stage) {
		if !u.enabled() {
			continue
		}
		if err := a.runNamed(ctx, u); err != nil || a.v.Refused {
			return a.v, err
		}
	}
	return a.v, nil
}

// gateCheck is the check of one text by the guardrails of a stage.
type gateCheck struct {
	gate Gate
	q    checkInput
	v    policy.Verdict
}

// runNamed runs a guardrail that the agent names.
func (a *gateCheck) runNamed(ctx context.Context, u Use) error {
	all := a.gate.All
	g, err := all.recent.Get(ctx, a.q.run.TenantID, u.GuardrailID)
	switch {
	case fault.Is(err, fault.NotFound):
		a.block(u.GuardrailID, u.GuardrailID, fmt.Sprintf("The agent names the guardrail %s, which does not exist, so everything is "+
			"blocked; remove it from the agent.", u.GuardrailID))
		return nil
	case err != nil:
		return err
	case !g.Enabled:
		return nil
	case !g.covers(a.q.stage):
		a.block(g.ID, g.Name, fmt.Sprintf("The guardrail %q is for the stage %s, but the agent names it for %s, so everything is "+
			"blocked.", g.Name, g.Stage, a.q.stage))
		return nil
	}
	c, invalid := all.prepared(g, u.ConfigOverride)
	if invalid != nil {
		a.block(g.ID, g.Name, fmt.Sprintf("The agent's config_override of the guardrail %q is invalid (%s: %s), so everything is "+
			"blocked.", g.Name, invalid[0].Field, invalid[0].Message))
		return nil
	}
	do := action(g.Action)
	if u.ActionOverride != nil {
		do = action(*u.ActionOverride)
		c.checker = actionOverridden{c.checker}
	}
	return a.runChecker(ctx, c, g.ID, g.Name, do)
}

// actionOverridden makes the agent's action prevail over a webhook's.
type actionOverridden struct{ checker }

func (o actionOverridden) check(ctx context.Context, q checkInput) (checkResult, error) {
	f, err := o.checker.check(ctx, q)
	f.action = ""
	return f, err
}

// runChecker checks the current text with one guardrail.
func (a *gateCheck) runChecker(ctx context.Context, c compiled, id, name string, do policy.Action) error {
	if a.q.part != "" && c.Part != "" && c.Part != "both" && c.Part != a.q.part {
		return nil
	}
	a.v.Checks++
	a.q.action = do
	f, err := c.check(ctx, a.q)
	if f.usage != nil && a.gate.All.options.OnUsage != nil {
		a.gate.All.options.OnUsage(a.q.run, f.usage.target, f.usage.usage)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.handleError(c, id, name, do, err)
		return nil
	}
	if f.violated {
		a.handleViolation(f, id, name, do)
	}
	return nil
}

// handleError blocks or passes a text that a guardrail could not check.
func (a *gateCheck) handleError(c compiled, id, name string, do policy.Action, err error) {
	a.gate.All.options.Logger.Warn("a guardrail failed", "guardrail_id", id, "tenant_id", a.q.run.TenantID,
		"run_id", a.q.run.RunID, "stage", a.q.stage, "err", err, "cause", cause(err))
	if c.OnError == "allow" || c.OnError == "" && do == policy.Flag {
		return
	}
	a.block(id, name, fmt.Sprintf("The guardrail %q could not check %s, so it is blocked: %s.", name, a.subject(), err))
}

func cause(err error) error {
	if h, ok := errors.AsType[webhookError](err); ok {
		return h.cause
	}
	return nil
}

// handleViolation applies the action of a violation.
func (a *gateCheck) handleViolation(f checkResult, id, name string, do policy.Action) {
	if f.action != "" {
		do = f.action
	}
	switch {
	case do == policy.Redact && !f.redacted:
		a.block(id, name, fmt.Sprintf("The guardrail %q blocked %s: %s, and it cannot be redacted.", name, a.subject(), f.reason))
	case do == policy.Redact:
		a.q.text = f.text
		a.v.Changed, a.v.Text = true, f.text
		a.addViolation(id, name, do, fmt.Sprintf("The guardrail %q redacted %s: %s.", name, a.subject(), f.reason))
	case do == policy.Flag:
		a.addViolation(id, name, do, fmt.Sprintf("The guardrail %q flagged %s: %s.", name, a.subject(), f.reason))
	default:
		a.block(id, name, fmt.Sprintf("The guardrail %q blocked %s: %s.", name, a.subject(), f.reason))
	}
}

func (a *gateCheck) addViolation(id, name string, do policy.Action, reason string) {
	a.v.Violations = append(a.v.Violations, policy.Violation{GuardrailID: id, Name: name, Stage: a.q.stage, Action: do, Reason: reason})
}

// block ends the check. Earlier redactions remain.
func (a *gateCheck) block(id, name, reason string) {
	a.v.Refused, a.v.Code, a.v.Reason = true, Blocked, reason
	a.addViolation(id, name, policy.Block, reason)
}

// subject returns what is checked, for a sentence.
func (a *gateCheck) subject() string {
	switch {
	case a.q.part == partArguments:
		return "the call of the tool " + a.q.tool
	case a.q.part == partResult:
		return "the result of the tool " + a.q.tool
	case a.q.stage == policy.Input:
		return "the message"
	}
	return "the answer"
}
