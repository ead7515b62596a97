package guardrail_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/guardrail"
)

// hooks answers every call.
type hooks struct {
	reply guardrail.Reply
	err   error
	calls []guardrail.Call
}

func (h *hooks) Call(_ context.Context, c guardrail.Call) (guardrail.Reply, error) {
	h.calls = append(h.calls, c)
	return h.reply, h.err
}

func hookBody(action, stage, more string) string {
	return fmt.Sprintf(`{"name":"hook","webhook_url":"https://example.com/check","stage":%q,"action":%q,"secret":"hush","timeout_ms":700%s}`, stage, action, more)
}

func TestWebhookAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		action, stage, answer, want string
	}{
		{"block", "input", `{"allowed":true}`, "pass"},
		{"block", "input", `{"allowed":false}`, "block"},
		{"block", "input", `{"allowed":false,"reason":"bad\n words.","more":1}`, "block"},
		{"warn", "input", `{"allowed":false}`, "flag"},
		{"redact", "input", `{"allowed":false,"text":"better"}`, "better"},
		{"redact", "input", `{"allowed":false,"text":""}`, ""},
		{"redact", "input", `{"allowed":false}`, "[REDACTED]"},
		{"block", "input", `{"action":"allow"}`, "pass"},
		{"block", "input", `{"action":"allow","allowed":true}`, "pass"},
		{"block", "input", `{"action":"flag"}`, "flag"},
		{"block", "input", `{"action":"log","allowed":true}`, "flag"},
		{"block", "input", `{"action":"redact","text":"better"}`, "better"},
		{"flag", "input", `{"action":"block"}`, "block"},
		{"redact", "arguments", `{"allowed":false,"text":"{\"n\":1}"}`, `{"n":1}`},
		{"redact", "arguments", `{"allowed":false}`, "block"},
		{"redact", "arguments", `{"allowed":false,"text":"no JSON"}`, "fail"},
		{"redact", "arguments", `{"allowed":false,"text":"{"}`, "fail"},
		{"redact", "result", `{"allowed":false,"text":"better"}`, "better"},
		{"redact", "input", `{"allowed":false,"text":"\u0000"}`, "fail"},
		{"block", "input", `{"allowed":true,"action":"block"}`, "fail"},
		{"block", "input", `{"allowed":false,"action":"allow"}`, "fail"},
		{"block", "input", `{"action":"explode"}`, "fail"},
		{"block", "input", `{"allowed":"yes"}`, "fail"},
		{"block", "input", `{"allowed":true,"allowed":true}`, "fail"},
		{"block", "input", `{}`, "fail"},
		{"block", "input", `[]`, "fail"},
		{"block", "input", `true`, "fail"},
		{"block", "input", `<html>`, "fail"},
		{"block", "input", ``, "fail"},
	} {
		h := &hooks{reply: guardrail.Reply{Status: 200, Body: []byte(test.answer)}}
		b := newBench(t, rig{hooks: h})
		stage := test.stage
		if stage == "arguments" || stage == "result" {
			stage = "tool"
		}
		wants := map[string]string{`,"config":{}`: test.want, `,"config":{"on_error":"allow"}`: test.want}
		if test.want == "fail" {
			wants = map[string]string{`,"config":{}`: "block", `,"config":{"on_error":"allow"}`: "pass"}
		}
		for more, want := range wants {
			id := b.make(t, hookBody(test.action, stage, more))
			if got := outcome(b.ask(t, field(stage, id), asked{stage: test.stage, text: `{"n":7}`})); got != want {
				t.Errorf("%s, %s, answered %s: %q, want %q", test.action, test.stage, test.answer, got, want)
			}
		}
	}
}

func TestWebhookFailures(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*hooks{
		"did not answer":               {err: errors.New("dial tcp 10.0.0.7:80: refused")},
		"answered with the status 302": {reply: guardrail.Reply{Status: 302, Body: []byte(`{"allowed":true}`)}},
		"answered with the status 500": {reply: guardrail.Reply{Status: 500, Body: []byte(`{"allowed":true}`)}},
	} {
		b := newBench(t, rig{hooks: h})
		for action, want := range map[string]string{"block": "block", "redact": "block", "flag": "pass"} {
			v := b.ask(t, field("input", b.make(t, hookBody(action, "input", ""))), asked{stage: "input", text: "hello"})
			if got := outcome(v); got != want || v.Checks != 1 {
				t.Errorf("%s, %s: %s, want %s", name, action, got, want)
			}
			if v.Refused && (!strings.Contains(v.Reason, name) || strings.Contains(v.Reason, "10.0.0.7")) {
				t.Errorf("the reason is %q", v.Reason)
			}
		}
	}
}

func TestWebhookIsAsked(t *testing.T) {
	t.Parallel()
	h := &hooks{reply: guardrail.Reply{Status: 204, Body: []byte(`{"allowed":true}`)}}
	b := newBench(t, rig{hooks: h})
	id, tool := b.make(t, hookBody("block", "both", "")), b.make(t, hookBody("block", "tool", ""))
	b.ask(t, field("input", id), asked{stage: "input", text: "say \"hi\""})
	b.ask(t, field("tool", tool), asked{stage: "arguments", text: `{"n": 1}`, tool: "pay"})
	b.ask(t, field("tool", tool), asked{stage: "arguments", text: `{"n": `, tool: "pay"})
	b.ask(t, field("tool", tool), asked{stage: "result", text: "ok", tool: "pay"})
	var got []string
	for _, c := range h.calls {
		got = append(got, strings.NewReplacer(id, "G", tool, "T").Replace(string(c.Body)))
		if c.URL != "https://example.com/check" || c.Secret != "hush" || c.Timeout.Milliseconds() != 700 || c.MaxAnswer < 64<<10 {
			t.Errorf("called as %+v", c)
		}
	}
	want := []string{
		`{"text":"say \"hi\"","stage":"input","run_id":"run-1","agent_id":"agent-1","guardrail_id":"G"}`,
		`{"text":"{\"n\": 1}","stage":"tool","part":"arguments","tool":"pay","arguments":{"n":1},"run_id":"run-1","agent_id":"agent-1","guardrail_id":"T"}`,
		`{"text":"{\"n\": ","stage":"tool","part":"arguments","tool":"pay","run_id":"run-1","agent_id":"agent-1","guardrail_id":"T"}`,
		`{"text":"ok","stage":"tool","part":"result","tool":"pay","run_id":"run-1","agent_id":"agent-1","guardrail_id":"T"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOverrideTamesAWebhook(t *testing.T) {
	t.Parallel()
	h := &hooks{reply: guardrail.Reply{Status: 200, Body: []byte(`{"action":"block","reason":"so it is"}`)}}
	b := newBench(t, rig{hooks: h})
	id := b.make(t, hookBody("block", "input", ""))
	v := b.ask(t, `{"input":[{"guardrail_id":"`+id+`","action_override":"flag"}]}`, asked{stage: "input", text: "hello"})
	if outcome(v) != "flag" || v.Violations[0].Reason != `The guardrail "hook" flagged the message: so it is.` {
		t.Errorf("the verdict is %+v", v)
	}
}
