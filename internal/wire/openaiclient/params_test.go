package openaiclient

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// A parameter that a model refuses is left out, in this call and the next ones, and the
// answer says so (rule D23-refused-parameters).
func TestRefusedParameters(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		refusals []string // what the endpoint says while the field, which comes first, is there
		dropped  []string
		fails    bool
	}{
		"OpenAI's value":     {[]string{`"temperature"`, "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported."}, []string{"temperature"}, false},
		"OpenAI's parameter": {[]string{`"top_p"`, "Unsupported parameter: 'top_p' is not supported with this model."}, []string{"top_p"}, false},
		"two in turn": {[]string{
			`"top_p"`, "Unsupported parameter: 'top_p' is not supported with this model.",
			`"seed"`, "Unknown parameter: 'seed'.",
		}, []string{"top_p", "seed"}, false},
		"one of two":     {[]string{`"top_p"`, "`temperature` and `top_p` cannot both be specified for this model. Please use only one."}, []string{"top_p"}, false},
		"xAI":            {[]string{`"presence_penalty"`, "Model grok-4 does not support parameter presencePenalty."}, []string{"presence_penalty"}, false},
		"xAI's stop":     {[]string{`"stop"`, "Argument not supported on this model: stop"}, []string{"stop"}, false},
		"Mistral":        {[]string{`"seed"`, `[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted"}]`}, []string{"seed"}, false},
		"parallel calls": {[]string{`"parallel_tool_calls"`, "Unrecognized request argument supplied: parallel_tool_calls"}, []string{"parallel_tool_calls"}, false},
		"out of range":   {[]string{`"temperature"`, "temperature must be at most 0.5"}, nil, true},
		"another field":  {[]string{`"temperature"`, "Unsupported parameter: 'frobnicate'"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{}, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
				for i := 0; i < len(tt.refusals); i += 2 {
					if strings.Contains(string(r.Body), tt.refusals[i]) {
						return modeltest.Answer{Status: http.StatusBadRequest, Error: tt.refusals[i+1]}
					}
				}
				return modeltest.Answer{Text: "fine"}
			}))
			b.req.Temperature, b.req.TopP, b.req.Stop = new(.7), new(.9), []string{"x"}
			b.req.Tools = []model.ToolSpec{{Name: "t"}}
			b.req.Extra = map[string]jsontext.Value{
				"seed": jsontext.Value("1"), "presence_penalty": jsontext.Value("1"), "parallel_tool_calls": jsontext.Value("false"),
			}
			for range 2 {
				resp, _, err := b.call(t)
				if (err != nil) != tt.fails {
					t.Fatalf("%+v, %v", resp, err)
				}
				if diff := cmp.Diff(tt.dropped, resp.Dropped); diff != "" {
					t.Errorf("dropped (-want +got):\n%s", diff)
				}
			}
			if want := 2 + len(tt.dropped); b.sim.Calls() != want {
				t.Errorf("two answers took %d calls, not %d", b.sim.Calls(), want)
			}
		})
	}
}
