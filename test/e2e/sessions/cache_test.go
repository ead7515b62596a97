package sessions

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// A session of 20 turns with tools and with memory that differs each time reads four
// fifths of its input from a provider's cache: each call begins with all of the call
// before but its newest message (rule D23-layout).
func TestPromptsAreCached(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]object{
		"whole":    {},
		"sliding":  {"context_strategy": "sliding_window", "context_window_size": 40},
		"truncate": {"context_strategy": "truncate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := &modeltest.PrefixCache{}
			sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
				a := modeltest.Answer{Text: strings.Repeat("reply ", 40), Usage: cache.Usage(r)}
				if messages := r.Chat().Messages; messages[len(messages)-1].Role == string(model.User) {
					a = modeltest.Answer{Usage: a.Usage, ToolCalls: []model.ToolCall{
						{ID: fmt.Sprint("call_", len(messages)), Name: "calculator", Arguments: `{"expression":"1+1"}`},
					}}
				}
				return a
			}))
			n := apptest.Start(t, nil, apptest.WithModels(t, sim, `[{"id":"sim-model","context_window":8000}]`))
			body := object{
				"prompts": object{"system": strings.Repeat("Be brief. ", 200)}, "built_in_tools": []string{"calculator"},
				"memory": object{"enabled": true, "auto_extract": false},
			}
			maps.Copy(body, fields)
			agent := n.CreateAgent(body)
			for i := range 20 {
				n.Expect(201, "POST", "/api/v1/agents/"+agent+"/memory", object{"content": fmt.Sprint("Fact about topic", i, " and money"), "type": "semantic"})
			}
			id := n.CreateSession(agent, nil)
			remembered := map[string]bool{}
			var run string
			for i := range 20 {
				run = n.SendMessage(id, fmt.Sprintf("topic%d: what about the money? %s", i, strings.Repeat("word ", 20)))
				if r := n.WaitRun(run); r["status"] != "completed" {
					t.Fatalf("turn %d: %v", i, r)
				}
			}
			for _, r := range sim.Requests() {
				messages := r.Chat().Messages
				for i, m := range messages {
					if i == 0 != (m.Role == string(model.System)) {
						t.Fatalf("message %d is of the system: %s", i, m.Content)
					}
				}
				if text := r.Chat().Last(model.User); strings.Contains(text, "<memory>") {
					remembered[text] = true
				}
			}
			if len(remembered) < 20 {
				t.Errorf("memory was recalled in %d forms", len(remembered))
			}
			if share := cache.Share(); share < .8 {
				t.Errorf("%.0f %% of the input was cached", 100*share)
			} else {
				t.Logf("%.0f %% of the input was cached", 100*share)
			}
			scraped := string(n.SendHeaders("GET", "/metrics", "").Body)
			tokens := func(direction string) (sum float64) {
				_, after, _ := strings.Cut(scraped, `agentd_model_tokens_total{direction="`+direction+`",model="sim-model",provider="default"} `)
				value, _, _ := strings.Cut(after, "\n")
				sum, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatalf("the tokens of %s: %v", direction, err)
				}
				return sum
			}
			if share := tokens("cached") / tokens("input"); math.Abs(share-cache.Share()) > .001 {
				t.Errorf("the metrics say that %.1f %% were cached, the provider %.1f %%", 100*share, 100*cache.Share())
			}
			m := n.Expect(200, "GET", "/api/v1/runs/"+run, nil)["metrics"].(object)
			if m["cached_tokens"].(float64) <= 0 || m["cached_tokens"].(float64) > m["input_tokens"].(float64) {
				t.Errorf("metrics: %v", m)
			}
		})
	}
}
