package operator

import (
	"fmt"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
)

// The operator's guardrails check the agents of every company, before the model sees a
// message and before a caller sees an answer, and no longer when they are taken back.
func TestPlatformGuardrails(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	_, other := n.CreateTenant(object{"name": "Other"})
	agent := other.CreateAgent(object{"model": apptest.EchoModel})
	run := func(message string) object { return other.WaitRun(other.StartRun(agent, message, nil)) }
	put(n, "guardrails", object{"guardrails": []object{
		{"name": "no walruses", "kind": "keyword", "stage": "input", "action": "block", "config": object{"keywords": []string{"walrus"}}},
		{"name": "no codes", "kind": "regex", "stage": "output", "action": "redact", "config": object{"pattern": `code-\d+`}},
	}})
	if r := run("say: a walrus"); r["status"] != "guardrail_blocked" || !strings.Contains(fmt.Sprint(r["error"]), "no walruses") {
		t.Errorf("the run became %v: %v", r["status"], r["error"])
	}
	if got := apptest.OutputText(run("say: code-123 is it")); got != "[REDACTED] is it" {
		t.Errorf("the answer is %q", got)
	}
	refusedKeys(t, n, "guardrails", map[string]string{
		`{"guardrails":[{"name":"x","kind":"regex","stage":"input","action":"block","config":{"pattern":"("}}]}`: "guardrails[0].config",
		`{"guardrails":[{"name":"x","kind":"webhook","stage":"input","action":"block"}]}`:                        "guardrails[0].kind",
	})
	put(n, "guardrails", object{"guardrails": []object{}})
	if got := apptest.OutputText(run("say: a walrus has code-123")); got != "a walrus has code-123" {
		t.Errorf("without guardrails the answer is %q", got)
	}
}
