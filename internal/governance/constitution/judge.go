package constitution

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/rule"
)

// SafeModeRule is the rule that blocks every act in safe mode.
const SafeModeRule = "emergency-safe-mode"

// compiled is a rule that is ready to judge.
type compiled struct {
	*Rule

	condition *rule.Rule // nil: none
	broken    error      // why the condition cannot be compiled
}

// ruleset is a constitution that is ready to judge, indexed by actions. It is never
// changed.
type ruleset struct {
	exact    map[string][]*compiled
	prefixes map[string][]*compiled // of rules whose action ends in *, by what is before it
	lengths  []int                  // of these prefixes
	perRun   bool                   // whether a condition may look at the run itself
	limit    time.Duration          // for one act; a rule that is not evaluated by then blocks
}

// maxJudging is how long the rules may take over one act.
const maxJudging = 2 * time.Second

// compile returns nil if no rule judges an act.
func compile(rules []Rule) *ruleset {
	set := &ruleset{exact: map[string][]*compiled{}, prefixes: map[string][]*compiled{}, limit: maxJudging}
	known := map[int]bool{}
	for i := range rules {
		r := &rules[i]
		if r.Action == "" || r.RuleType == Requirement {
			continue
		}
		c := &compiled{Rule: r}
		if r.Condition != "" {
			c.condition, c.broken = rule.Compile(r.Condition, names...)
			set.perRun = set.perRun || strings.Contains(r.Condition, "run")
		}
		prefix, open := strings.CutSuffix(r.Action, "*")
		if !open {
			set.exact[r.Action] = append(set.exact[r.Action], c)
			continue
		}
		set.prefixes[prefix] = append(set.prefixes[prefix], c)
		if !known[len(prefix)] {
			known[len(prefix)] = true
			set.lengths = append(set.lengths, len(prefix))
		}
	}
	if len(set.exact)+len(set.prefixes) == 0 {
		return nil
	}
	return set
}

// match returns the rules that are for an act of an agent, each once, with the first
// action that it matched.
func (s *ruleset) match(agent string, actions []string) (found []*compiled, by []string) {
	var seen map[*compiled]bool // a rule can match several actions, but one only once
	if len(actions) > 1 {
		seen = map[*compiled]bool{}
	}
	add := func(rules []*compiled, action string) {
		for _, r := range rules {
			if !r.binds(agent) || seen[r] {
				continue
			}
			found, by = append(found, r), append(by, action)
			if seen != nil {
				seen[r] = true
			}
		}
	}
	for _, action := range actions {
		add(s.exact[action], action)
		for _, n := range s.lengths {
			if n <= len(action) {
				add(s.prefixes[action[:n]], action)
			}
		}
	}
	return found, by
}

// count returns how many rules are for any agent's act, or a few more.
func (s *ruleset) count(actions []string) (n int) {
	for _, action := range actions {
		n += len(s.exact[action])
		for _, length := range s.lengths {
			if length <= len(action) {
				n += len(s.prefixes[action[:length]])
			}
		}
	}
	return n
}

// judge judges an act. An error is that of ctx.
func (s *ruleset) judge(ctx context.Context, r policy.Run, act policy.Act) (policy.Ruling, error) {
	if s == nil {
		return policy.Ruling{}, nil
	}
	return s.decide(ctx, &values{run: r, act: act})
}

// decide judges the act of which these are the values.
func (s *ruleset) decide(ctx context.Context, v *values) (policy.Ruling, error) {
	var ruling policy.Ruling
	found, by := s.match(v.run.AgentID, v.act.Actions)
	if len(found) == 0 {
		return ruling, nil
	}
	bounded, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	lifts, lifted := int64(0), false
	for _, c := range found {
		if c.RuleType != Permission || c.Shadow {
			continue
		}
		if holds, err := c.holds(bounded, v); err == nil && holds && (!lifted || c.Priority > lifts) {
			lifts, lifted = c.Priority, true
		}
	}
	for i, c := range found {
		if c.RuleType != Prohibition || lifted && lifts > c.Priority && !c.Immutable {
			continue
		}
		holds, err := c.holds(bounded, v)
		if e := ctx.Err(); e != nil {
			return ruling, e
		}
		if err == nil && !holds {
			continue
		}
		effect, message := c.effect(), c.Principle
		if err != nil {
			// What the rule would have decided is not known, so the act is not done.
			if c.forbids() {
				effect = max(effect, policy.Deny)
			}
			message = fmt.Sprintf("The rule's condition cannot be evaluated (%v). %s", err, c.Principle)
			v.hasty = v.hasty || errors.Is(err, rule.ErrTooExpensive) || bounded.Err() != nil
		}
		ruling.Findings = append(ruling.Findings, policy.Finding{
			RuleID: c.RuleID, Severity: c.Severity, Action: by[i], Decision: effect.String(), Message: message, Shadow: c.Shadow,
		})
		if !c.Shadow {
			ruling.Effect = max(ruling.Effect, effect)
		}
	}
	return ruling, nil
}

// holds evaluates the condition on an act.
func (c *compiled) holds(ctx context.Context, v *values) (bool, error) {
	switch {
	case c.broken != nil:
		return false, c.broken
	case c.condition == nil:
		return true, nil
	}
	values, err := v.ready()
	if err != nil {
		return false, err
	}
	return c.condition.Holds(ctx, values)
}

// values are the variables of conditions, made when the first is evaluated.
type values struct {
	run   policy.Run
	act   policy.Act
	done  bool
	made  rule.Values
	err   error
	hasty bool // a condition ran out of time, which it might not do again
}

func (v *values) ready() (rule.Values, error) {
	if !v.done {
		v.done = true
		v.made, v.err = v.make()
	}
	return v.made, v.err
}

// maxFacts is more than the bytes of what conditions see beside arguments and sources:
// IDs and names.
const maxFacts = 16 << 10

func (v *values) make() (rule.Values, error) {
	args := map[string]any{}
	if len(v.act.Arguments) > 0 {
		if err := json.Unmarshal(v.act.Arguments, &args); err != nil {
			return rule.Values{}, errors.New("the arguments are not a JSON object")
		}
	}
	agent, run := map[string]any{}, map[string]any{}
	if v.act.Facts != nil {
		agent, run = v.act.Facts()
	}
	agent["id"], run["id"] = v.run.AgentID, v.run.RunID
	sources, size := make([]any, len(v.act.Sources)), maxFacts+len(v.act.Arguments)
	for i, s := range v.act.Sources {
		sources[i], size = s, size+len(s)
	}
	return rule.NewValues(map[string]any{
		"args": args, "agent": agent, "run": run, "tenant": map[string]any{"id": v.run.TenantID}, "sources": sources,
	}, size)
}
