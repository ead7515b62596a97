package agent

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/rule"
)

// checkPolicies refuses conditions of approvals that cannot be evaluated.
func checkPolicies(raw schema.ObjectOf[Policies]) (wrong []fault.Field) {
	var p struct {
		Rules []ToolApproval `json:"tool_approvals"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &p) != nil {
		return nil
	}
	for i, r := range p.Rules {
		at := fmt.Sprintf("policies.tool_approvals[%d].condition", i)
		if r.Approval != "when" {
			if r.Condition != "" {
				wrong = append(wrong, fault.Field{Field: at, Message: "only approval when has a condition"})
			}
			continue
		}
		if _, err := rule.Compile(r.Condition, "arguments"); err != nil {
			wrong = append(wrong, fault.Field{Field: at, Message: err.Error()})
		}
	}
	return wrong
}

// checkOverrides refuses two overrides of one tool.
func checkOverrides(overrides []ToolOverride) (wrong []fault.Field) {
	for i, o := range overrides {
		if slices.ContainsFunc(overrides[:i], func(other ToolOverride) bool { return other.Tool == o.Tool }) {
			wrong = append(wrong, fault.Field{
				Field: fmt.Sprintf("tool_overrides[%d].tool_name", i), Message: "another override in the list is of the same tool",
			})
		}
	}
	return wrong
}
