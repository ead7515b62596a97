package runs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/wiretest"
	"agentd/internal/wire/wiretest/anthropictest"
	"agentd/internal/wire/wiretest/bedrocktest"
	"agentd/internal/wire/wiretest/geminitest"
	"agentd/internal/wire/wiretest/responsestest"
)

// wireUnderTest is an endpoint of one wire that thinks and calls three tools, falls silent
// in the middle of its second answer, and fails from then on.
type wireUnderTest struct {
	name     string
	protocol wiretest.Protocol
	features wiretest.Features
	provider object // members beside name, base_url, wire and models
	thought  string // the line that goes back; "": none does
	endpoint *wiretest.Endpoint
	run      string
}

func wiresUnderTest() []*wireUnderTest {
	azure := wiretest.Chat{
		Path: "/openai/deployments/m/chat/completions?api-version=2024-10-21", Header: "Api-Key", Key: "azure-secret", To: func(url string) model.Target {
			return model.Target{Model: "m", BaseURL: url, APIKey: secret.New("azure-secret"), Wire: model.WireAzure}
		},
	}
	bedrock := object{"region": "eu-central-1", "aws": object{
		"access_key_id": "AKIDEXAMPLE", "secret_access_key": "aws-secret", "session_token": "session-secret",
	}}
	return []*wireUnderTest{
		{name: "openai_chat", protocol: wiretest.Chat{}, provider: object{"api_key": "sk-secret"}, thought: "thinking: I need three."},
		{name: "openai_responses", protocol: responsestest.Responses{}, provider: object{"api_key": "sk-secret"}, thought: "thinking: c2lnbmVk"},
		{name: "anthropic", protocol: anthropictest.Messages{}, provider: object{"api_key": "sk-ant-secret"}, thought: "thinking: c2lnbmVk"},
		{name: "gemini", protocol: geminitest.Generate{}, provider: object{"api_key": "goog-secret"}, thought: "thinking: c2lnbmVk"},
		{name: "azure_openai", protocol: azure, provider: object{"api_key": "azure-secret"}, thought: "thinking: I need three."},
		{name: "bedrock", protocol: bedrocktest.Converse{}, provider: bedrock, thought: "thinking: c2lnbmVk", features: wiretest.Features{
			Binary: true, StreamType: "application/vnd.amazon.eventstream",
		}},
	}
}

// start starts the endpoint, and returns its provider as the operator's file has it.
func (w *wireUnderTest) start(t *testing.T) object {
	call := func(id, name, arguments string) wiretest.Block {
		return wiretest.Block{Call: &model.ToolCall{ID: id, Name: name, Arguments: arguments}}
	}
	return w.at(t,
		wiretest.Reply{Answer: wiretest.Answer{Usage: wiretest.Usage{Input: 100, Output: 50}, Blocks: []wiretest.Block{
			{Thinking: "I need three.", Signature: "c2lnbmVk"}, call("call_1", "calculator", `{"expression":"6*7"}`),
			call("call_2", "calculator", `{"expression":"1+1"}`), call("call_3", "current_time", `{}`),
		}}},
		wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "It is forty-two and two, at some time."}}}, HangAfter: 3},
		wiretest.Reply{Status: 503, Message: "Overloaded"},
	)
}

// at starts an endpoint with these replies, and returns its provider as the operator's file
// has it.
func (w *wireUnderTest) at(t *testing.T, replies ...wiretest.Reply) object {
	if w.features.StreamType == "" {
		w.features.StreamType = "text/event-stream"
	}
	w.endpoint = wiretest.NewEndpoint(t, w.protocol, w.features, replies...)
	provider := object{
		"name": w.name, "base_url": w.endpoint.URL, "wire": w.name, "models": []object{{"id": w.protocol.Target("").Model, "context_window": 200_000}},
	}
	maps.Copy(provider, w.provider)
	return provider
}

// providersFile writes the operator's file of providers.
func providersFile(t *testing.T, providers ...object) string {
	t.Helper()
	file, err := json.Marshal(object{"providers": providers})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "providers.json")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startWires starts a server with these providers.
func startWires(t *testing.T, providers ...object) *apptest.Server {
	t.Helper()
	return apptest.Start(t, nil, func(c *config.Config) { c.Models.Providers = providersFile(t, providers...) })
}

// On every wire a test of a model says what it can do, what it cannot, and what is broken
// (rule D23-models-test).
func TestModelsAreTestedOnEveryWire(t *testing.T) {
	t.Parallel()
	able := wiretest.Answer{Blocks: []wiretest.Block{
		{Thinking: "Hm.", Signature: "c2lnbmVk"}, {Text: `{"capital":"Oslo"}`},
		{Call: &model.ToolCall{ID: "call_1", Name: "weather", Arguments: `{"place":"Oslo"}`}},
	}}
	weak := wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "So."}}}, Refuses: func(a wiretest.Asked) string {
		if strings.Contains(strings.Join(a.Lines, "\n"), "image: ") {
			return "No images."
		}
		return ""
	}}
	const basics, abilities = "reachable:ok key:ok model:ok streaming:ok ", "tools:skipped images:skipped structured_output:skipped thinking:skipped price:missing"
	for name, tt := range map[string]struct {
		reply wiretest.Reply
		price bool
		want  string
	}{
		"able":    {wiretest.Reply{Answer: able}, true, basics + "tools:ok images:ok structured_output:ok thinking:ok price:ok"},
		"weak":    {weak, false, "reachable:ok key:ok model:ok streaming:missing tools:missing images:missing structured_output:missing thinking:missing price:missing"},
		"refused": {wiretest.Reply{Status: 401, Message: "No such key"}, false, "reachable:ok key:failed model:skipped streaming:skipped " + abilities},
		"unknown": {wiretest.Reply{Status: 404, Message: "No such model"}, false, "reachable:ok key:ok model:failed streaming:skipped " + abilities},
	} {
		wires := wiresUnderTest()
		var providers []object
		for _, w := range wires {
			p := w.at(t, tt.reply)
			if tt.price {
				maps.Copy(p["models"].([]object)[0], object{"input_usd_per_mtok": 1, "output_usd_per_mtok": 2})
			}
			providers = append(providers, p)
		}
		n := startWires(t, providers...)
		for _, w := range wires {
			out := n.Expect(200, "POST", "/api/v1/llm/models/test", object{"model": w.name + "/" + w.protocol.Target("").Model})
			var got []string
			for _, c := range out["checks"].([]any) {
				got = append(got, c.(object)["check"].(string)+":"+c.(object)["status"].(string))
			}
			if all := strings.Join(got, " "); all != tt.want || out["usable"] != !strings.Contains(all, "failed") {
				t.Errorf("%s on %s:\n%s, want\n%s\n%v", name, w.name, all, tt.want, out["checks"])
			}
			if wrong := w.endpoint.Wrong(); wrong != nil {
				t.Errorf("%s on %s: the endpoint refused %q", name, w.name, wrong)
			}
		}
	}
}

// On every wire a run that thinks, calls three tools at once, waits for an approval, is
// killed in the middle of an answer, and falls back to another model ends as it should:
// no call is made twice, and what the model thought goes back to it and to no other (rule
// D23-wires-whole).
func TestRunsOnEveryWire(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	if testing.Short() {
		t.Skip("builds and kills the program")
	}
	wires := wiresUnderTest()
	var providers []object
	for _, w := range wires {
		providers = append(providers, w.start(t))
	}
	path := providersFile(t, providers...)
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if all := fmt.Sprintf("%+v", req); strings.Contains(all, "c2lnbmVk") || strings.Contains(all, "I need three.") || !strings.Contains(all, "42") {
			return modeltest.Answer{Text: "It has another model's thoughts, or no results: " + all}
		}
		return modeltest.Answer{Text: "The other model is done."}
	}))
	p := apptest.BuildProcess(t, sim)
	p.Env = append(p.Env, "AGENTD_PROVIDERS="+path)
	p.Start()
	for _, w := range wires {
		agent := p.CreateAgent(object{
			"built_in_tools": []string{"calculator", "current_time"}, "approval_required_tools": []string{"current_time"},
			"model":          object{"provider": "openai_compat", "model_ref": w.name + "/" + w.protocol.Target("").Model, "capabilities": object{"thinking": true}},
			"fallback_model": object{"provider": "openai_compat", "model_ref": "sim-model"}, "model_settings": object{"reasoning_effort": "low"},
		})
		w.run = p.StartRun(agent, "What is 6*7, what is 1+1, and what time is it?", nil)
	}
	for _, w := range wires {
		p.WaitStatus(w.run, "awaiting_approval")
		p.Expect(200, "POST", "/api/v1/runs/"+w.run+"/approve", object{})
	}
	for _, w := range wires {
		for end := time.Now().Add(20 * time.Second); len(w.endpoint.Asked()) < 2 && time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		}
	}
	p.Kill()
	p.Start()
	for _, w := range wires {
		w.check(t, p)
	}
}

func (w *wireUnderTest) check(t *testing.T, p *apptest.Process) {
	t.Helper()
	r := p.WaitRun(w.run)
	if r["status"] != "completed" || !strings.Contains(fmt.Sprint(r["output"]), "The other model is done.") {
		t.Errorf("%s: the run is %v, %v: %v", w.name, r["status"], r["output"], r["error"])
	}
	tools := 0
	for _, s := range p.Expect(200, "GET", "/api/v1/runs/"+w.run+"/steps", nil)["steps"].([]any) {
		if s.(object)["type"] == "tool" {
			tools++
		}
	}
	if tools != 3 {
		t.Errorf("%s: %d tool calls", w.name, tools)
	}
	if wrong := w.endpoint.Wrong(); wrong != nil {
		t.Errorf("%s: the endpoint refused %q", w.name, wrong)
	}
	asked := w.endpoint.Asked()
	if len(asked) < 3 {
		t.Fatalf("%s: %d calls", w.name, len(asked))
	}
	for _, a := range asked[1:] { // before and after the kill
		all := strings.Join(a.Lines, "\n")
		if strings.Count(all, "call: ") != 3 || !strings.Contains(all, "result: 42") || !strings.Contains(all, w.thought) {
			t.Errorf("%s: asked again with\n%s", w.name, all)
		}
	}
}
