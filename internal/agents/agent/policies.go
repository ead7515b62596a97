package agent

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/rule"
)

// approvalModes are what a rule of policies.tool_approvals may say.
var approvalModes = []string{"always", "never", "when"}

// checkPolicies refuses what runs would have to guess about: a rule on
// approvals that cannot be followed. Other keys of policies are free.
func checkPolicies(raw schema.Object) (wrong []fault.Field) {
	var keys map[string]jsontext.Value
	if len(raw) == 0 || json.Unmarshal(raw, &keys) != nil {
		return nil
	}
	add := func(field, message string) {
		wrong = append(wrong, fault.Field{Field: "policies." + field, Message: message})
	}
	if v, has := keys["approval_timeout_ms"]; has {
		var ms int64
		if json.Unmarshal(v, &ms) != nil || ms <= 0 {
			add("approval_timeout_ms", "expected a whole number of milliseconds, greater than 0")
		}
	}
	v, has := keys["tool_approvals"]
	if !has {
		return wrong
	}
	var rules []struct {
		Tool      string `json:"tool_name"`
		Approval  string `json:"approval"`
		Condition string `json:"condition"`
	}
	if json.Unmarshal(v, &rules) != nil {
		add("tool_approvals", "expected a list of {tool_name, approval, condition}")
		return wrong
	}
	for i, r := range rules {
		at := fmt.Sprintf("tool_approvals[%d].", i)
		if r.Tool == "" {
			add(at+"tool_name", "it is missing")
		}
		switch {
		case !slices.Contains(approvalModes, r.Approval):
			add(at+"approval", "expected always, never or when")
		case r.Approval != "when" && r.Condition != "":
			add(at+"condition", "only approval when has a condition")
		case r.Approval == "when":
			if _, err := rule.Compile(r.Condition, "arguments"); err != nil {
				add(at+"condition", err.Error())
			}
		}
	}
	return wrong
}
