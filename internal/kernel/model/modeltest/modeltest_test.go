package modeltest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func post(t *testing.T, sim *modeltest.Server, body string) (status int, answer string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Post(sim.URL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil && err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestScriptThenDefault(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Script(modeltest.Answer{Status: 429, RetryAfter: "1"}, modeltest.Answer{Text: "scripted"}))
	if status, _ := post(t, sim, `{"messages":[{"role":"user","content":"one"}]}`); status != 429 {
		t.Errorf("status %d", status)
	}
	if _, answer := post(t, sim, `{}`); !strings.Contains(answer, `"content":"scripted"`) {
		t.Error(answer)
	}
	_, answer := post(t, sim, `{"stream": true}`)
	if got := strings.Count(answer, `"content":"tok`); got != 20 || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("%d tokens in %s", got, answer)
	}
	requests := sim.Requests()
	if sim.Calls() != 3 || len(requests) != 3 || requests[0].Chat().Last(model.User) != "one" || requests[1].Stream || !requests[2].Stream {
		t.Errorf("%d calls, %+v", sim.Calls(), requests)
	}
}

func TestToolRounds(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(modeltest.ToolRounds(2, modeltest.Answer{Text: "done"})))
	tools := `"tools":[{"type":"function","function":{"name":"calculator"}}]`
	result := `{"role":"tool","tool_call_id":"x","content":"42"}`
	for messages, want := range map[string]string{
		``:                            `6*7`,
		result:                        `6*7`,
		result + `,` + result:         `"content":"done"`,
		`{"role":"user"},` + result:   `6*7`,
		`{"role":"tool"},` + result:   `"content":"done"`,
		`{"role":"user","content":1}`: `6*7`,
	} {
		if _, answer := post(t, sim, `{"messages":[`+messages+`],`+tools+`}`); !strings.Contains(answer, want) {
			t.Errorf("%s: %s", messages, answer)
		}
	}
	if _, answer := post(t, sim, `{"messages":[]}`); !strings.Contains(answer, "done") {
		t.Errorf("no tools offered: %s", answer)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "a b c", TTFT: 20 * time.Millisecond, Delay: 10 * time.Millisecond}))
	for _, body := range []string{`{"stream":true}`, `{"stream":false}`} {
		began := time.Now()
		if _, answer := post(t, sim, body); !strings.Contains(answer, "c") || time.Since(began) < 50*time.Millisecond {
			t.Errorf("%s: %v", body, time.Since(began))
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for body, answer := range map[string]modeltest.Answer{
		"raw bytes":    {Raw: []byte("raw bytes")},
		`"tok1 "`:      {Text: modeltest.Tokens(9), BreakAfter: 2},
		`"a "`:         {Text: "a b", EndAfter: 1},
		"out of order": {Text: "a", Error: "out of order"},
		"filler":       {Text: "a", Filler: 1 << 20},
	} {
		sim := modeltest.New(t, modeltest.Default(answer))
		_, got := post(t, sim, `{"stream":true}`)
		if !strings.Contains(got, body) || strings.Contains(got, "[DONE]") != (answer.Filler > 0) || strings.Contains(got, "tok2") {
			t.Errorf("%+v: %.300s", answer, got)
		}
		if answer.Filler > 0 && len(got) < answer.Filler {
			t.Errorf("%d bytes", len(got))
		}
	}
}

// Arguments are streamed in two pieces, each of which is valid UTF-8.
func TestArgumentsOfOtherScripts(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{}`, `{"q":"é"}`, `{"q":"日本"}`, `{"q":"日本語"}`, `{"q":"🙂🙂"}`, `🙂`, ``} {
		sim := modeltest.New(t, modeltest.Default(modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c", Name: "n", Arguments: arguments}}}))
		_, answer := post(t, sim, `{"stream":true}`)
		var got strings.Builder
		for line := range strings.Lines(answer) {
			var c struct {
				Choices []struct {
					Delta struct {
						ToolCalls []struct {
							Function struct {
								Arguments string `json:"arguments"`
							} `json:"function"`
						} `json:"tool_calls"`
					} `json:"delta"`
				} `json:"choices"`
			}
			data, found := strings.CutPrefix(strings.TrimSpace(line), "data: ")
			if !found || data == "[DONE]" {
				continue
			}
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			for _, choice := range c.Choices {
				for _, call := range choice.Delta.ToolCalls {
					got.WriteString(call.Function.Arguments)
				}
			}
		}
		if got.String() != arguments {
			t.Errorf("%q arrives as %q", arguments, got.String())
		}
	}
}
