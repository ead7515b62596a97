package engine

import (
	"maps"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

func TestReasoningFields(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		thinking, policy, capabilities string
		in                             phase
		want                           string
	}{
		"nothing-set":          {"", "", "", phasePlan, `null`},
		"defaults":             {`{}`, "", "", phasePlan, `{"reasoning_effort":"medium"}`},
		"low":                  {`{"effort":"low"}`, "", "", phaseAct, `{"reasoning_effort":"low"}`},
		"max-is-high":          {`{"effort":"max"}`, "", "", phasePlan, `{"reasoning_effort":"high"}`},
		"max-is-xhigh":         {`{"effort":"max"}`, "", `{"reasoning_effort":["low","high","xhigh"]}`, phasePlan, `{"reasoning_effort":"xhigh"}`},
		"medium-is-low":        {`{"effort":"medium"}`, "", `{"reasoning_effort":["low","high"]}`, phasePlan, `{"reasoning_effort":"low"}`},
		"low-is-the-lowest":    {`{"effort":"low"}`, "", `{"reasoning_effort":["high"]}`, phasePlan, `{"reasoning_effort":"high"}`},
		"number-0":             {`{"effort":0}`, "", "", phasePlan, `{"reasoning_effort":"low"}`},
		"number-60":            {`{"effort":60}`, "", "", phasePlan, `{"reasoning_effort":"high"}`},
		"number-100":           {`{"effort":100}`, "", `{"reasoning_effort":["medium","max"]}`, phasePlan, `{"reasoning_effort":"max"}`},
		"plan":                 {"", `{"plan":"high","act":"low","evaluate":"max"}`, "", phasePlan, `{"reasoning_effort":"high"}`},
		"act":                  {"", `{"plan":"high","act":"low","evaluate":"max"}`, "", phaseAct, `{"reasoning_effort":"low"}`},
		"evaluate":             {"", `{"plan":"high","act":"low","evaluate":"max"}`, "", phaseEvaluate, `{"reasoning_effort":"high"}`},
		"phase-not-named":      {`{"effort":"low"}`, `{"plan":"high"}`, "", phaseAct, `{"reasoning_effort":"low"}`},
		"fixed-ignores-policy": {`{"mode":"fixed","effort":"low"}`, `{"plan":"high"}`, "", phasePlan, `{"reasoning_effort":"low"}`},
		"budget-as-effort":     {`{"budget_tokens":1000}`, "", "", phasePlan, `{"reasoning_effort":"low"}`},
		"large-budget":         {`{"mode":"fixed","budget_tokens":32000}`, "", "", phasePlan, `{"reasoning_effort":"high"}`},
		"middling-budget":      {`{"budget_tokens":8000}`, "", "", phasePlan, `{"reasoning_effort":"medium"}`},
		"budget-thinking":      {`{"budget_tokens":1000}`, "", `{"thinking_budget":"thinking"}`, phasePlan, `{"thinking":{"budget_tokens":1000,"type":"enabled"}}`},
		"budget-reasoning":     {`{"budget_tokens":1000,"effort":"low"}`, "", `{"thinking_budget":"reasoning"}`, phasePlan, `{"reasoning":{"max_tokens":1000}}`},
		"budget-plain":         {`{"budget_tokens":1000}`, "", `{"thinking_budget":"thinking_budget"}`, phasePlan, `{"thinking_budget":1000}`},
		"no-budget-given":      {`{"effort":"low"}`, "", `{"thinking_budget":"thinking"}`, phasePlan, `{"reasoning_effort":"low"}`},
		"model-cannot-think":   {`{"effort":"high"}`, `{"plan":"high"}`, `{"thinking":false}`, phasePlan, `null`},
		"model-can-think":      {`{"effort":"high"}`, "", `{"thinking":true}`, phasePlan, `{"reasoning_effort":"high"}`},
		"takes-no-effort":      {`{"effort":"high"}`, "", `{"reasoning_effort":false}`, phasePlan, `null`},
		"takes-an-empty-list":  {`{"effort":"high"}`, "", `{"reasoning_effort":[]}`, phasePlan, `null`},
		"null":                 {`null`, `null`, "", phasePlan, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := &run.AgentSpec{Thinking: schema.Nullable(tt.thinking), EffortPolicy: schema.Nullable(tt.policy)}
			got := string(encode(reasoningFields(spec, tt.in, model.ParseCapabilities([]byte(tt.capabilities)))))
			if got == "{}" {
				got = "null"
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPhases(t *testing.T) {
	t.Parallel()
	user, result := model.Message{Role: model.User}, model.Message{Role: model.Tool}
	for want, c := range map[phase]*conversation{
		phasePlan:     {messages: []model.Message{user, result, user}},
		phaseAct:      {messages: []model.Message{user, result}},
		phaseEvaluate: {messages: []model.Message{user, result}, closing: true},
	} {
		if got := c.phase(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := (&conversation{}).phase(); got != phasePlan {
		t.Errorf("of nothing: %s", got)
	}
}

// What the caller requested goes with a call, and its effort goes before the
// agent's. Endpoints refuse parallel_tool_calls where there are no tools, so it
// waits for them.
func TestRequestedFields(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ thinking, capabilities, requested, want string }{
		"nothing":              {"", "", `{}`, `null`},
		"agent-only":           {`{"effort":"low"}`, "", `{}`, `{"reasoning_effort":"low"}`},
		"both":                 {`{"effort":"low"}`, "", `{"seed":1}`, `{"reasoning_effort":"low","seed":1}`},
		"caller-goes-before":   {`{"effort":"low"}`, "", `{"reasoning_effort":"minimal"}`, `{"reasoning_effort":"minimal"}`},
		"budget-gives-way":     {`{"budget_tokens":9}`, `{"thinking_budget":"thinking"}`, `{"reasoning_effort":"high"}`, `{"reasoning_effort":"high"}`},
		"what-the-model-takes": {"", `{"reasoning_effort":["low","high"]}`, `{"reasoning_effort":"medium"}`, `{"reasoning_effort":"low"}`},
		"takes-no-effort":      {"", `{"reasoning_effort":false}`, `{"reasoning_effort":"high","seed":1}`, `{"seed":1}`},
		"cannot-think":         {"", `{"thinking":false}`, `{"reasoning_effort":"high"}`, `{}`},
		"parallel":             {"", "", `{"parallel_tool_calls":false}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requested map[string]jsontext.Value
			if err := json.Unmarshal([]byte(tt.requested), &requested); err != nil {
				t.Fatal(err)
			}
			before := maps.Clone(requested)
			spec := &run.AgentSpec{Thinking: schema.Nullable(tt.thinking)}
			got := extraFields(spec, phasePlan, model.ParseCapabilities([]byte(tt.capabilities)), requested)
			if tt.want == "null" {
				if len(got) > 0 {
					t.Errorf("got %s", encode(got))
				}
			} else if diff := cmp.Diff(tt.want, string(encode(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, requested); diff != "" {
				t.Errorf("the run's own requested were changed: %s", diff)
			}
		})
	}
}
