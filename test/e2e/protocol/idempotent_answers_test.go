package protocol

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// attached are the writes whose answer comes long after their effect, with the
// text that their answers have.
func attached(agent string) map[string]struct{ path, body, says string } {
	const chat = `{"model":"AGENT","messages":[{"role":"user","content":"Hello"}]`
	const response = `{"model":"AGENT","input":"Hello"`
	all := map[string]struct{ path, body, says string }{
		"chat":       {"/v1/chat/completions", chat + `}`, "tok4"},
		"chatStream": {"/v1/chat/completions", chat + `,"stream":true,"stream_options":{"include_usage":true}}`, "tok4"},
		"response":   {"/v1/responses", response + `}`, "tok4"},
		"stream":     {"/v1/responses", response + `,"stream":true}`, "tok4"},
		"background": {"/v1/responses", response + `,"background":true}`, "queued"},
	}
	for name, a := range all {
		a.body = strings.ReplaceAll(a.body, "AGENT", agent)
		all[name] = a
	}
	return all
}

// A chat completion or response that carries an Idempotency-Key makes one run,
// however often it is sent: at once, after its end, and after a restart. Every
// answer is that run's.
func TestAnswersAreRepeated(t *testing.T) {
	t.Parallel()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(5), TTFT: 50 * time.Millisecond, Delay: 10 * time.Millisecond}))
			n := apptest.Start(t, sim, apptest.OnEngine(t, engine), func(c *config.Config) { c.Models.Model = "sim-model" })
			agent := n.CreateAgent(nil)
			first := map[string]apptest.Reply{}
			for name, a := range attached(agent) {
				key := []string{"Idempotency-Key", name}
				const clients = 8
				answers := make([]apptest.Reply, clients)
				var all sync.WaitGroup
				for i := range clients {
					all.Go(func() { answers[i] = n.Do("POST", a.path, a.body, key...) })
				}
				all.Wait()
				made := 0
				for _, r := range answers {
					if r.StatusCode != 200 || !strings.Contains(string(r.Body), a.says) || r.Header.Get("X-Run-Id") != answers[0].Header.Get("X-Run-Id") {
						t.Errorf("%s: %d %s", name, r.StatusCode, r.Body)
					}
					if r.Header.Get("X-Idempotency-Replayed") == "" {
						made++
						first[name] = r
					}
				}
				if made != 1 {
					t.Errorf("%s: %d requests say that they made the run", name, made)
				}
				n.WaitRun(answers[0].Header.Get("X-Run-Id"))
				checkSameAnswer(n, name, a.path, a.body, first[name])
				if r := n.Do("POST", a.path, a.body+" ", key...); r.StatusCode != 422 || !strings.Contains(string(r.Body), "IDEMPOTENCY_KEY_REUSED") {
					t.Errorf("%s: another body: %d %s", name, r.StatusCode, r.Body)
				}
			}
			if runs := n.Expect(200, "GET", "/api/v1/runs?limit=100", nil)["items"].([]any); len(runs) != len(first) || len(sim.Requests()) != len(first) {
				t.Errorf("%d runs, and the model was asked %d times", len(runs), len(sim.Requests()))
			}
			n.Stop()
			again := apptest.Restart(t, n.Config)
			for name, a := range attached(agent) {
				checkSameAnswer(again, name, a.path, a.body, first[name])
			}
		})
	}
}

// checkSameAnswer repeats a request after its run ended.
func checkSameAnswer(n *apptest.Server, name, path, body string, first apptest.Reply) {
	n.T.Helper()
	got := n.Do("POST", path, body, "Idempotency-Key", name)
	if got.Header.Get("X-Idempotency-Replayed") != "true" || got.Header.Get("X-Run-Id") != first.Header.Get("X-Run-Id") || got.Header.Get("Content-Type") != first.Header.Get("Content-Type") {
		n.T.Errorf("%s, repeated: %d %v", name, got.StatusCode, got.Header)
	}
	if want, have := answerText(n, first), answerText(n, got); have != want {
		n.T.Errorf("%s, repeated, says\n%s\nfirst it said\n%s", name, have, want)
	}
}

// answerText is the text of a stream, whose pieces may be others when it is
// read again, or the whole of an answer.
func answerText(n *apptest.Server, r apptest.Reply) string {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return string(r.Body)
	}
	var b strings.Builder
	err := apptest.ReadFrames(bytes.NewReader(r.Body), func(f apptest.Frame) bool {
		if f.Data == "[DONE]" {
			b.WriteString("done")
			return true
		}
		o := f.Object(n.T)
		if text, ok := o["delta"].(string); ok {
			b.WriteString(text)
		}
		if choices, _ := o["choices"].([]any); len(choices) > 0 {
			delta, _ := choices[0].(object)["delta"].(object)
			text, _ := delta["content"].(string)
			b.WriteString(text)
		}
		if usage, ok := o["usage"].(object); ok {
			fmt.Fprint(&b, usage)
		}
		return true
	})
	if err != nil {
		n.T.Error(err)
	}
	return b.String()
}

// Embeddings are made once. A repetition that comes before they are waits for them.
func TestEmbeddingsAreRepeated(t *testing.T) {
	t.Parallel()
	asked, proceed := make(chan struct{}, 2), make(chan struct{})
	sim := modeltest.New(t, modeltest.Embeddings(func(int, []string) (modeltest.Answer, bool) {
		asked <- struct{}{}
		<-proceed
		return modeltest.Answer{}, false
	}))
	n := apptest.Start(t, sim, apptest.Embedding)
	ask := func() apptest.Reply {
		return n.Do("POST", "/v1/embeddings", `{"input":"red apples"}`, "Idempotency-Key", "apples")
	}
	first := make(chan apptest.Reply, 1)
	go func() { first <- ask() }()
	<-asked
	second := make(chan apptest.Reply, 1)
	go func() { second <- ask() }()
	close(proceed)
	made := <-first
	if again := <-second; made.StatusCode != 200 || again.Header.Get("X-Idempotency-Replayed") != "true" || string(again.Body) != string(made.Body) {
		t.Errorf("%d %s, and again %d %s", made.StatusCode, made.Body, again.StatusCode, again.Body)
	}
	if calls := sim.EmbedCalls(); calls != 1 {
		t.Errorf("the model was asked %d times", calls)
	}
}
