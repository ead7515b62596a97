package guardrail

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/rule"
)

type celChecker struct {
	rule        *rule.Rule
	replacement string
}

func (c *celChecker) check(ctx context.Context, q checkInput) (checkResult, error) {
	arguments := map[string]any{}
	if q.part == partArguments && q.text != "" {
		if err := json.Unmarshal([]byte(q.text), &arguments); err != nil {
			return checkResult{}, errors.New("the arguments are not a JSON object")
		}
	}
	matches, err := c.rule.True(ctx, map[string]any{
		"text": q.text, "stage": string(q.stage), "part": q.part, "tool": q.tool, "arguments": arguments, "agent_id": q.run.AgentID,
	})
	if err != nil || !matches {
		return checkResult{}, err
	}
	return wholeTextResult(q, "its rule matches", c.replacement), nil
}
