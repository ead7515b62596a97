package sessions

import (
	"bytes"
	"fmt"
	"image/png"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// A session that is longer than the model's context goes on for as long as one
// likes: what is old is summarized once, is marked, stays readable, and is
// told by its summary after a restart too.
func TestLongSession(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
			if apptest.AsksForSummary(req) {
				return modeltest.Answer{Text: "Facts: the colour is green."}
			}
			return modeltest.Answer{Text: strings.Repeat("reply ", 40)}
		}))
		n := apptest.Start(t, nil, adjust, apptest.WithModels(t, sim, `[{"id":"sim-model","context_window":1500}]`))
		agent := n.CreateAgent(object{"prompts": object{"system": "Be brief."}})
		id := n.CreateSession(agent, nil)
		folds := 0
		turn := func(i int) {
			run := n.SendMessage(id, fmt.Sprintf("turn %d: %s", i, strings.Repeat("word ", 40)))
			if r := n.WaitRun(run); r["status"] != "completed" || r["output"].(object)["truncated"] != nil {
				t.Fatalf("turn %d: %v", i, r)
			}
			for _, s := range n.Expect(200, "GET", "/api/v1/runs/"+run+"/steps", nil)["steps"].([]any) {
				if s.(object)["type"] == "compaction" {
					folds++
					if in, out := s.(object)["input"].(object), s.(object)["output"].(object); in["messages"] == 0.0 || in["through"] == nil || out["summary"] != "Facts: the colour is green." {
						t.Errorf("turn %d folded %v into %v", i, in, out)
					}
				}
			}
		}
		for i := range 24 {
			turn(i)
		}
		summaries := 0
		for i, req := range sim.Requests() {
			size := 0
			for _, m := range req.Chat().Messages {
				size += 4 + model.EstimateTokens(m.Text())
			}
			if size > 1500 {
				t.Errorf("request %d has %d tokens", i, size)
			}
			if apptest.AsksForSummary(req) {
				summaries++
			}
		}
		if folds < 2 || folds != summaries {
			t.Errorf("%d summaries were asked for, %d stored", summaries, folds)
		}
		history := n.Expect(200, "GET", "/api/v1/sessions/"+id, nil)["conversation_history"].([]any)
		users, compacted := 0, 0
		for _, e := range history {
			if e.(object)["role"] != "user" {
				continue
			}
			if want := fmt.Sprintf("turn %d: ", users); !strings.HasPrefix(e.(object)["content"].(string), want) {
				t.Errorf("the history has %q for %q", e.(object)["content"], want)
			}
			users++
			if e.(object)["compacted"] == true {
				compacted++
			}
		}
		if users != 24 || compacted == 0 || compacted > 22 {
			t.Errorf("%d of %d messages are marked as compacted", compacted, users)
		}

		n.Stop()
		n = apptest.Restart(t, n.Config)
		turn(24)
		requests := sim.Requests()
		last := requests[len(requests)-1].Chat().Messages
		if !strings.Contains(last[1].Text(), "<summary>\nFacts: the colour is green.\n</summary>") || last[0].Text() != "Be brief." || !strings.HasPrefix(last[len(last)-1].Text(), "turn 24") {
			t.Errorf("after a restart the model is told %+v", last)
		}
	})
}

// A compaction of the conversation is reported on the run's stream.
func TestCompactionIsTold(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer { return modeltest.Answer{Text: "short"} }))
	n := apptest.Start(t, nil, apptest.WithModels(t, sim, `[{"id":"sim-model","context_window":1000}]`))
	var history []object
	for i := range 20 {
		history = append(history, object{"role": "user", "text": fmt.Sprint(i, strings.Repeat(" word", 60))}, object{"role": "assistant", "text": "yes"})
	}
	id := n.StartRun(n.CreateAgent(nil), "", object{"input": object{"message": "And now?", "history": history}})
	n.WaitRun(id)
	var told []object
	for _, f := range n.ReadStream("/api/v1/runs/"+id+"/events", "", nil) {
		if f.Name == "context.compacted" {
			told = append(told, f.Object(t))
		}
	}
	if len(told) == 0 {
		t.Fatal("nothing is told")
	}
	for _, d := range told {
		if d["stream_type"] != "other" || d["folded"].(float64) < 1 || d["before_tokens"].(float64) <= d["after_tokens"].(float64) || d["run_id"] != id {
			t.Errorf("%v", d)
		}
	}
}

// An agent's thinking and effort_policy reach the model, unless the model
// cannot think or its endpoint does not take it.
func TestThinking(t *testing.T) {
	t.Parallel()
	answers := modeltest.ToolRounds(1, modeltest.Answer{Text: "42."})
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if c := req.Chat(); c.Model == "plain" && strings.Contains(string(req.Body), "reasoning_effort") {
			return modeltest.Answer{Status: 400, Error: "Unrecognized request argument supplied: reasoning_effort"}
		}
		return answers(req)
	}))
	n := apptest.Start(t, nil, apptest.WithModels(t, sim, `[{"id":"sim-model"},{"id":"plain"},{"id":"deep","capabilities":{"thinking_budget":"thinking","reasoning_effort":["low","xhigh"]}}]`))
	asked := func(fields object) (all []string) {
		t.Helper()
		fields["built_in_tools"] = []string{"calculator"}
		before := len(sim.Requests())
		if r := n.WaitRun(n.StartRun(n.CreateAgent(fields), "What is 6 times 7?", nil)); r["status"] != "completed" {
			t.Fatalf("%v", r)
		}
		for _, r := range sim.Requests()[before:] {
			rest := string(r.Body)
			_, effort, _ := strings.Cut(rest, `"reasoning_effort":`)
			effort, _, _ = strings.Cut(effort, ",")
			if strings.Contains(rest, `"thinking":{"budget_tokens":500,"type":"enabled"}`) {
				effort += "budget"
			}
			all = append(all, strings.Trim(effort, `}"`))
		}
		return all
	}
	with := func(ref string, capabilities object) object {
		return object{"provider": "openai_compat", "model_ref": ref, "capabilities": capabilities}
	}
	phases := object{"plan": "high", "act": "low", "evaluate": "max"}
	for name, tt := range map[string]struct {
		fields object
		want   []string
	}{
		"nothing":      {object{}, []string{"", ""}},
		"phases":       {object{"effort_policy": phases}, []string{"high", "low"}},
		"closing":      {object{"effort_policy": phases, "resource_limits": object{"max_steps": 1}}, []string{"high", "high"}},
		"fixed":        {object{"thinking": object{"mode": "fixed", "effort": "low"}, "effort_policy": phases}, []string{"low", "low"}},
		"budget":       {object{"thinking": object{"budget_tokens": 500}, "model": with("deep", object{})}, []string{"budget", "budget"}},
		"max":          {object{"thinking": object{"effort": "max"}, "model": with("deep", object{})}, []string{"xhigh", "xhigh"}},
		"cannot-think": {object{"effort_policy": phases, "model": with("sim-model", object{"thinking": false})}, []string{"", ""}},
	} {
		if diff := cmp.Diff(tt.want, asked(tt.fields)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	refused := object{"effort_policy": phases, "model": with("plain", object{})}
	if diff := cmp.Diff([][]string{{"high", "", ""}, {"", ""}}, [][]string{asked(refused), asked(refused)}); diff != "" {
		t.Errorf("an endpoint that does not take it (-want +got):\n%s", diff)
	}
	wrong := n.Do("POST", "/api/v1/agents", object{"name": "x", "thinking": object{"effort": "huge"}, "effort_policy": object{"act": 3}, "image_generation": object{"model": 1}})
	var fields []string
	for _, e := range wrong.JSON["errors"].([]any) {
		fields = append(fields, e.(object)["field"].(string))
	}
	if diff := cmp.Diff([]string{"effort_policy.act", "image_generation.model", "thinking.effort"}, fields); diff != "" || wrong.StatusCode != 422 {
		t.Errorf("%d, wrong fields (-want +got):\n%s", wrong.StatusCode, diff)
	}
}

// An agent whose image_generation is set makes pictures, which become files of
// the run; if its endpoint cannot make any, the model gets that as the result.
func TestImageGeneration(t *testing.T) {
	t.Parallel()
	paints := func(req modeltest.Request) modeltest.Answer {
		c := req.Chat()
		if said := c.Last(model.Tool); said != "" || len(c.Tools) == 0 {
			return modeltest.Answer{Text: said}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c1", Name: "generate_image", Arguments: `{"prompt":"A red dot","size":"64x64"}`}}}
	}
	sim := modeltest.New(t, modeltest.Respond(paints), modeltest.Pictures(modeltest.Picture{}, modeltest.Picture{Status: 400, Error: "That is not allowed."}))
	n := apptest.Start(t, nil, apptest.WithModels(t, sim, `[{"id":"sim-model"},{"id":"painter","capabilities":{"images":true}}]`))
	paint := func(settings any) (text string, artifacts []any) {
		t.Helper()
		id := n.StartRun(n.CreateAgent(object{"image_generation": settings}), "Draw a red dot.", nil)
		r := n.WaitRun(id)
		if r["status"] != "completed" {
			t.Fatalf("%v", r)
		}
		return r["output"].(object)["text"].(string), n.Expect(200, "GET", "/api/v1/runs/"+id+"/artifacts", nil)["artifacts"].([]any)
	}
	text, made := paint(object{})
	if len(made) != 1 {
		t.Fatalf("%q, %v", text, made)
	}
	a := made[0].(object)
	if a["mime_type"] != "image/png" || !strings.Contains(text, a["name"].(string)) {
		t.Errorf("%q, %v", text, a)
	}
	if _, err := png.Decode(bytes.NewReader(n.Do("GET", a["storage_ref"].(string), nil).Body)); err != nil {
		t.Errorf("what was made is no picture: %v", err)
	}
	if r := sim.ImageRequests()[0]; r.Model != "painter" || r.Prompt != "A red dot" || r.Size != "64x64" {
		t.Errorf("asked for with %s", r.Body)
	}
	if text, made := paint(object{"model": "painter"}); !strings.Contains(text, "That is not allowed.") || len(made) != 0 {
		t.Errorf("%q, %v", text, made)
	}
	if text, made := paint(object{"provider": "nobody"}); !strings.HasPrefix(text, "No picture was created.") || len(made) != 0 {
		t.Errorf("%q, %v", text, made)
	}
	if text, _ := paint(nil); text != "" {
		t.Errorf("without image_generation: %q", text)
	}
}
