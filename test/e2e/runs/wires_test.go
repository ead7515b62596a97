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
	if w.features.StreamType == "" {
		w.features.StreamType = "text/event-stream"
	}
	w.endpoint = wiretest.NewEndpoint(t, w.protocol, w.features,
		wiretest.Reply{Answer: wiretest.Answer{Usage: wiretest.Usage{Input: 100, Output: 50}, Blocks: []wiretest.Block{
			{Thinking: "I need three.", Signature: "c2lnbmVk"}, call("call_1", "calculator", `{"expression":"6*7"}`),
			call("call_2", "calculator", `{"expression":"1+1"}`), call("call_3", "current_time", `{}`),
		}}},
		wiretest.Reply{Answer: wiretest.Answer{Blocks: []wiretest.Block{{Text: "It is forty-two and two, at some time."}}}, HangAfter: 3},
		wiretest.Reply{Status: 503, Message: "Overloaded"},
	)
	provider := object{
		"name": w.name, "base_url": w.endpoint.URL, "wire": w.name, "models": []object{{"id": w.protocol.Target("").Model, "context_window": 200_000}},
	}
	maps.Copy(provider, w.provider)
	return provider
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
	file, err := json.Marshal(object{"providers": providers})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "providers.json")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
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
