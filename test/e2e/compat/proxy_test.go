package compat

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"agentd/internal/app"
	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

const proxyPath = "/api/v1/llm/chat/completions"

// proxyClient is OpenAI's own client for the model proxy of a node.
func proxyClient(n *apptest.Server, opts ...option.RequestOption) *openai.Client {
	return openAIClient(n, append([]option.RequestOption{option.WithBaseURL(n.URL + "/api/v1/llm/")}, opts...)...)
}

// besides adds a provider to the default one.
func besides(t *testing.T, name, url string) func(*config.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "providers.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"providers":[{"name":%q,"base_url":%q}]}`, name, url), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *config.Config) { c.Models.Providers = file }
}

// passing is a body for the proxy.
func passing(model string, stream bool) object {
	return object{"model": model, "messages": []object{{"role": "user", "content": "hello"}}, "stream": stream}
}

// proxyUsage is how many calls of the proxy are counted, of a model.
func proxyUsage(n *apptest.Server, model string) (calls, tokens float64) {
	got := n.Expect(200, "GET", "/api/v1/usage?breakdown=model,source", nil)
	for _, part := range got["by_model"].([]any) {
		if part := part.(object); part["model"] == model {
			calls, tokens = part["llm_calls_count"].(float64), part["total_tokens"].(float64)
		}
	}
	return calls, tokens
}

func TestProxyBySDK(t *testing.T) {
	t.Parallel()
	wind := model.ToolCall{ID: "call_9", Name: "weather", Arguments: `{"city":"Bern"}`}
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		switch r.Chat().Last(model.User) {
		case "tools":
			return modeltest.Answer{ToolCalls: []model.ToolCall{wind}}
		case "absent":
			return modeltest.Answer{Status: 404, Error: "model not found"}
		case "wrong":
			return modeltest.Answer{Status: 400, Error: "temperature is too high"}
		}
		return modeltest.Answer{Text: "It is 42.", Thinking: "Hm.", Usage: &model.Usage{InputTokens: 12, OutputTokens: 9, ThinkingTokens: 4}}
	}))
	n := apptest.Start(t, sim)
	params := asking("default/sim-model", openai.UserMessage("What is 6*7?"))
	params.Seed = openai.Int(3)
	var resp *http.Response
	got, err := proxyClient(n).Chat.Completions.New(t.Context(), params, option.WithResponseInto(&resp))
	if err != nil {
		t.Fatal(err)
	}
	if got.Choices[0].Message.Content != "It is 42." || got.Choices[0].FinishReason != "stop" || got.Usage.TotalTokens != 21 || got.ID != "chatcmpl-sim" {
		t.Errorf("the answer is %s", got.RawJSON())
	}
	if name := resp.Header.Get("X-Model"); name != "default/sim-model" || resp.Header.Get("X-Run-Id") != "" {
		t.Errorf("the headers are %v", resp.Header)
	}
	if asked := string(sim.Requests()[0].Body); !strings.Contains(asked, `"model":"sim-model"`) || !strings.Contains(asked, `"seed":3`) {
		t.Errorf("the endpoint was asked %s", asked)
	}

	for _, wants := range []bool{false, true} {
		if wants {
			params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		}
		acc, chunks := streamed(t, proxyClient(n), params)
		last := chunks[len(chunks)-1]
		if acc.Choices[0].Message.Content != "It is 42." || acc.Choices[0].FinishReason != "stop" || (len(last.Choices) == 0) != wants || (acc.Usage.TotalTokens == 21) != wants {
			t.Errorf("usage wanted: %t; the answer is %+v, the last chunk %s", wants, acc.Choices, last.RawJSON())
		}
	}

	params = asking("sim-model", openai.UserMessage("tools"))
	params.Tools = []openai.ChatCompletionToolUnionParam{weather}
	acc, _ := streamed(t, proxyClient(n), params)
	whole, err := proxyClient(n).Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	for _, choice := range []openai.ChatCompletionChoice{acc.Choices[0], whole.Choices[0]} {
		call := choice.Message.ToolCalls[0]
		if got := (model.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments}); got != wind || choice.FinishReason != "tool_calls" {
			t.Errorf("the call is %+v, the end %s", got, choice.FinishReason)
		}
	}

	echoed, _ := streamed(t, proxyClient(n), asking("builtin/echo", openai.UserMessage("hello")))
	if !strings.Contains(echoed.Choices[0].Message.Content, "hello") {
		t.Errorf("the echo is %+v", echoed.Choices)
	}
	listed, err := proxyClient(n).Models.List(t.Context())
	if err != nil || len(listed.Data) != 1 || listed.Data[0].ID != "default/sim-model" || listed.Data[0].OwnedBy != "default" {
		t.Errorf("the models are %+v, %v", listed, err)
	}
	checkProxyRefusals(n, t)
	apptest.Eventually(t, func() bool {
		calls, tokens := proxyUsage(n, "default/sim-model")
		return calls == 5 && tokens >= 3*21
	})
}

// checkProxyRefusals checks what the SDK makes of refusals.
func checkProxyRefusals(n *apptest.Server, t *testing.T) {
	t.Helper()
	hello := openai.UserMessage("hello")
	agent := option.WithHeader("X-Agent-Id", "01990000-0000-7000-8000-00000000000a")
	for _, tt := range []struct {
		name   string
		node   *apptest.Server
		params openai.ChatCompletionNewParams
		opts   []option.RequestOption
		status int
		kind   string
		code   string
	}{
		{"unknown-model", n, asking("default/", hello), nil, 400, "invalid_request_error", "model_not_found"},
		{"a-model-that-the-endpoint-does-not-have", n, asking("sim-model", openai.UserMessage("absent")), nil, 400, "invalid_request_error", "model_not_found"},
		{"refused-by-the-endpoint", n, asking("sim-model", openai.UserMessage("wrong")), nil, 400, "invalid_request_error", "model_error"},
		{"wrong-key", n.WithKey("svc_wrong"), asking("sim-model", hello), nil, 401, "authentication_error", "AUTH_ERROR"},
		{"one-scope", n.WithScopes("runs:create"), asking("sim-model", hello), nil, 403, "permission_error", "MISSING_SCOPE"},
		{"the-other-scope", n.WithScopes("agents:read"), asking("sim-model", hello), nil, 403, "permission_error", "MISSING_SCOPE"},
		{"unknown-agent", n, asking("sim-model", hello), []option.RequestOption{agent}, 404, "invalid_request_error", "NOT_FOUND"},
		{"no-messages", n, asking("sim-model"), nil, 422, "invalid_request_error", "VALIDATION_ERROR"},
	} {
		both(t, func(t *testing.T, stream bool) {
			var err error
			if stream {
				err = proxyClient(tt.node, tt.opts...).Chat.Completions.NewStreaming(t.Context(), tt.params).Err()
			} else {
				_, err = proxyClient(tt.node, tt.opts...).Chat.Completions.New(t.Context(), tt.params)
			}
			if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != tt.status || e.Type != tt.kind || e.Code != tt.code || e.Message == "" {
				t.Errorf("%s: the error is %v", tt.name, err)
			}
		})
	}
}

// What the endpoint does must not show: the caller gets an answer, a stream that
// ends as streams do, or an error.
func TestProxyOfOddEndpoints(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	plain, streams := modeltest.Oddities(false), modeltest.Oddities(true)
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		var i int
		if _, err := fmt.Sscanf(r.Chat().Model, "odd-%d", &i); err != nil {
			return modeltest.Answer{Status: 404, Error: err.Error()}
		}
		if r.Stream {
			return streams[i].Answer
		}
		return plain[i].Answer
	})))
	for stream, all := range map[bool][]modeltest.Oddity{false: plain, true: streams} {
		for i, o := range all {
			t.Run(fmt.Sprintf("%t/%s", stream, strings.ReplaceAll(o.Name, " ", "_")), func(t *testing.T) {
				t.Parallel()
				n := n.WithT(t)
				r := n.Do("POST", proxyPath, passing(fmt.Sprintf("odd-%d", i), stream)) // each has a circuit of its own
				switch {
				case r.StatusCode != 200:
					apptest.CheckProblem(t, r)
					refused, _ := r.JSON["error"].(object)
					if !o.Fails || refused["message"] != r.JSON["detail"] || refused["code"] != r.JSON["code"] {
						t.Errorf("%d %s", r.StatusCode, r.Body)
					}
				case stream:
					isStreamOf(t, o, r.Body)
				default:
					choice := r.JSON["choices"].([]any)[0].(object)["message"].(object)
					if text, ok := choice["content"].(string); o.Fails || ok && text != o.Text {
						t.Errorf("%s", r.Body)
					}
					calls, _ := choice["tool_calls"].([]any)
					for _, call := range calls {
						if id, _ := call.(object)["id"].(string); id == "" {
							t.Errorf("a call without an id: %s", r.Body)
						}
					}
					if len(calls) != len(o.Calls) {
						t.Errorf("%s", r.Body)
					}
				}
			})
		}
	}
}

// isStreamOf checks a stream of chunks and its end.
func isStreamOf(t *testing.T, o modeltest.Oddity, raw []byte) {
	t.Helper()
	text, last := "", ""
	calls := map[any]string{}
	err := apptest.ReadFrames(strings.NewReader(string(raw)), func(f apptest.Frame) bool {
		if last = f.Data; f.Data == "[DONE]" {
			return true
		}
		choices, _ := f.Object(t)["choices"].([]any)
		for _, choice := range choices {
			said, _ := choice.(object)["delta"].(object)
			piece, _ := said["content"].(string)
			text += piece
			list, _ := said["tool_calls"].([]any)
			for _, call := range list {
				call := call.(object)
				if id, _ := call["id"].(string); id != "" {
					calls[call["index"]] = id
				}
				if calls[call["index"]] == "" || call["index"] == nil {
					t.Errorf("a piece of a call that has not begun: %s", f.Data)
				}
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	var failed struct {
		Error struct {
			Message, Type, Code string
		}
	}
	if last != "[DONE]" {
		if err := json.Unmarshal([]byte(last), &failed, json.MatchCaseInsensitiveNames(true)); err != nil || failed.Error.Message == "" || failed.Error.Type != "api_error" || failed.Error.Code != "model_error" {
			t.Errorf("the last event is %s", last)
		}
	}
	if text != o.Text || len(calls) != len(o.Calls) || o.Fails == (last == "[DONE]") {
		t.Errorf("%q, calls %v: %s", text, calls, raw)
	}
}

func TestProxyOverHTTP(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 1)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or nobody notices that the caller leaves
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"12345678"}}]}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	}))
	t.Cleanup(slow.Close)
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "a b c"}))
	n := apptest.Start(t, sim, besides(t, "slow", slow.URL+"/v1"))
	stranger, err := n.Admin().Tenants.Create(t.Context(), "Stranger", "")
	if err != nil {
		t.Fatal(err)
	}
	agent, theirs := n.CreateAgent(nil), n.WithKey(string(stranger.RawKey)).CreateAgent(nil)

	// The use is an agent's, where it is one's own.
	n.Expect(200, "POST", proxyPath, passing("sim-model", false), "X-Agent-Id", agent)
	for _, id := range []string{theirs, "nobody", "../" + agent} {
		apptest.CheckCode(t, n.Do("POST", proxyPath, passing("sim-model", false), "X-Agent-Id", id), 404, "NOT_FOUND")
	}
	if n := sim.Calls(); n != 1 {
		t.Errorf("refused calls reached the model: %d", n)
	}
	apptest.Eventually(t, func() bool {
		used := n.Expect(200, "GET", "/api/v1/usage?breakdown=source&agent_id="+agent, nil)
		parts := used["by_source"].([]any)
		return len(parts) == 1 && parts[0].(object)["source"] == "llm_proxy" && used["llm_calls_count"] == 1.0 && used["total_tokens"] == 13.0 && used["runs_count"] == 0.0
	})

	// A repeated call is answered with what is kept.
	first := n.Do("POST", proxyPath, passing("sim-model", false), "Idempotency-Key", "once")
	again := n.Do("POST", proxyPath, passing("sim-model", false), "Idempotency-Key", "once")
	if first.StatusCode != 200 || again.StatusCode != 200 || again.Header.Get("X-Idempotency-Replayed") != "true" || string(first.Body) != string(again.Body) || sim.Calls() != 2 {
		t.Errorf("%d calls; %d %s; %d %s", sim.Calls(), first.StatusCode, first.Body, again.StatusCode, again.Body)
	}

	// What is no name of a model gets nowhere near the headers.
	both(t, func(t *testing.T, stream bool) {
		r := n.Do("POST", proxyPath, passing("default/x\r\nX-Evil: 1\r\n\r\n", stream))
		if r.StatusCode != 200 || r.Header.Get("X-Evil") != "" || r.Header.Get("X-Model") != "" {
			t.Errorf("%s %v", r.Status, r.Header)
		}
	})

	big := n.Do("POST", proxyPath, `{"model":"sim-model","messages":[{"role":"user","content":"`+strings.Repeat("x", 10<<20)+`"}]}`)
	apptest.CheckCode(t, big, 413, "PAYLOAD_TOO_LARGE")
	if refused, _ := big.JSON["error"].(object); refused["type"] != "invalid_request_error" {
		t.Errorf("%s", big.Body)
	}

	// Who leaves has the endpoint stop, and pays for what came.
	stream := proxyClient(n).Chat.Completions.NewStreaming(t.Context(), asking("slow/m", openai.UserMessage("hello")))
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	stream.Close()
	<-left
	apptest.Eventually(t, func() bool {
		calls, tokens := proxyUsage(n, "slow/m")
		return calls == 1 && tokens > 2
	})
}

func TestProxyFallback(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "a b c"}))
	n := apptest.Start(t, sim, besides(t, "dead", "http://127.0.0.1:1/v1"), func(c *config.Config) { c.Models.Fallback = "default/spare" })
	both(t, func(t *testing.T, stream bool) {
		r := n.Do("POST", proxyPath, passing("dead/m", stream))
		if r.StatusCode != 200 || r.Header.Get("X-Model") != "default/spare" || !strings.Contains(string(r.Body), "a") {
			t.Errorf("%s %v %s", r.Status, r.Header, r.Body)
		}
	})
	for _, r := range sim.Requests() {
		if got := r.Chat().Model; got != "spare" {
			t.Errorf("the fallback was asked for %q", got)
		}
	}
	apptest.Eventually(t, func() bool {
		calls, _ := proxyUsage(n, "default/spare")
		return calls == 2 && sim.Calls() == 2
	})

	wrong := config.Config{}
	wrong.Server.Listen, wrong.Storage.DataDir = "127.0.0.1:0", t.TempDir()
	wrong.Models.Fallback = "nobody/m"
	if _, err := app.Start(t.Context(), wrong, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), "AGENTD_FALLBACK_MODEL: ") {
		t.Errorf("a start with a wrong fallback: %v", err)
	}
}

// An unreachable endpoint is not called for a while, and its health shows it.
func TestProxyOfDeadEndpoints(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t), besides(t, "dead", "http://127.0.0.1:1/v1"))
	health := func() map[any]any {
		out := map[any]any{}
		for _, p := range n.Expect(200, "GET", "/api/v1/providers", nil)["providers"].([]any) {
			if id := p.(object)["id"]; id == "dead" || id == "default" {
				out[id] = p.(object)["health"].(object)["status"]
			}
		}
		return out
	}
	if diff := cmp.Diff(map[any]any{"dead": "unknown", "default": "unknown"}, health()); diff != "" {
		t.Errorf("health at first (-want +got):\n%s", diff)
	}
	var asked sync.WaitGroup
	for i := range 5 {
		asked.Go(func() {
			r := n.Do("POST", proxyPath, passing("dead/m", i%2 == 0))
			if r.StatusCode != 503 || r.JSON["code"] != "model_error" || strings.Contains(string(r.Body), "left alone") {
				t.Errorf("%d %s", r.StatusCode, r.Body)
			}
		})
	}
	asked.Wait()
	both(t, func(t *testing.T, stream bool) {
		r := n.Do("POST", proxyPath, passing("dead/m", stream))
		apptest.CheckCode(t, r, 503, "model_error")
		if wait := r.Header.Get("Retry-After"); wait == "" || wait == "0" || !strings.Contains(string(r.Body), "left alone") {
			t.Errorf("the wait is %q: %s", wait, r.Body)
		}
	})
	n.Expect(200, "POST", proxyPath, passing("sim-model", false))
	if diff := cmp.Diff(map[any]any{"dead": "down", "default": "ok"}, health()); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
}
