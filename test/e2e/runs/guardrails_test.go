package runs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// wantBlocked fails unless a run was ended by a guardrail, for a reason.
func wantBlocked(t *testing.T, r object, reason string) {
	t.Helper()
	said, _ := r["error"].(string)
	if r["status"] != "guardrail_blocked" || r["error_code"] != "guardrail_blocked" || !strings.Contains(said, reason) {
		t.Errorf("the run is %v, %v: %v; want %s", r["status"], r["error_code"], r["error"], reason)
	}
}

func TestGuardrailsOfARun(t *testing.T) {
	t.Parallel()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t, apptest.RepeatModel)
			n := apptest.Start(t, sim, apptest.OnEngine(t, engine))
			block := n.CreateGuardrail(object{"name": "no bombs", "kind": "keyword", "stage": "both", "config": object{"keywords": []string{"bomb"}}})
			flag := n.CreateGuardrail(object{"name": "looks", "kind": "regex", "stage": "input", "action": "flag", "config": object{"pattern": "h.llo"}})

			blocked := n.StartRun(n.CreateGuardedAgent(object{"input": append(apptest.GuardrailRef(flag), apptest.GuardrailRef(block)...)}), "hello, a bomb", nil)
			r := n.WaitRun(blocked)
			wantBlocked(t, r, `The guardrail "no bombs" blocked the message`)
			if strings.Contains(r["error"].(string), "bomb,") || sim.Calls() != 0 {
				t.Errorf("%d calls; %v", sim.Calls(), r["error"])
			}
			metrics := r["metrics"].(object)
			if metrics["guardrail_checks"] != 2.0 || metrics["guardrail_violations"] != 2.0 {
				t.Errorf("metrics %v", metrics)
			}
			var told []string
			for _, f := range n.ReadStream("/api/v1/runs/"+blocked+"/events", "", nil) {
				if f.Name == "guardrail.violated" {
					o := f.Object(t)
					told = append(told, o["guardrail_id"].(string)+" "+o["name"].(string)+" "+o["stage"].(string)+" "+o["action"].(string))
				}
			}
			if len(told) != 2 || told[0] != flag+" looks input flag" || told[1] != block+" no bombs input block" {
				t.Errorf("told %q", told)
			}

			redacted := n.WaitRun(n.StartRun(n.CreateGuardedAgent(object{"built_in": []string{"pii"}}), "I am jane@example.com", nil))
			if apptest.OutputText(redacted) != "You said: I am [EMAIL]" || strings.Contains(string(sim.Requests()[0].Body), "jane") {
				t.Errorf("answered %q to %s", apptest.OutputText(redacted), sim.Requests()[0].Body)
			}

			answer := n.CreateGuardedAgent(object{"output": []object{{"guardrail_id": block, "action_override": "redact", "config_override": object{"replacement": "…"}}}})
			out := n.StartRun(answer, "a bomb", nil)
			if r := n.WaitRun(out); apptest.OutputText(r) != "You said: a …" {
				t.Errorf("answered %q", apptest.OutputText(r))
			}
			for _, f := range n.ReadStream("/api/v1/runs/"+out+"/events", "", nil) {
				if f.Name != "run.queued" && strings.Contains(f.Data, "bomb") && !strings.Contains(f.Name, "guardrail") {
					t.Errorf("%s tells %s", f, f.Data)
				}
			}
			steps := n.Do("GET", "/api/v1/runs/"+out+"/steps", nil)
			if strings.Contains(string(steps.Body), "bomb\"") || !strings.Contains(string(steps.Body), "You said: a …") {
				t.Errorf("the steps tell %s", steps.Body)
			}
			wantBlocked(t, n.WaitRun(n.StartRun(n.CreateGuardedAgent(object{"output": apptest.GuardrailRef(block)}), "a bomb", nil)), "blocked the answer")

			n.Expect(200, "DELETE", "/api/v1/guardrails/"+block, nil)
			wantBlocked(t, n.WaitRun(n.StartRun(answer, "harmless", nil)), "which does not exist")
		})
	}
}

func TestGuardrailsOfTools(t *testing.T) {
	t.Parallel()
	call := func(expression string) modeltest.Answer {
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "c", Name: "calculator", Arguments: `{"expression":"` + expression + `"}`}}}
	}
	sim := modeltest.New(t, modeltest.Script(call("6*7"), modeltest.Answer{Text: "one"}, call("6*9"), modeltest.Answer{Text: "two"}))
	n := apptest.Start(t, sim)
	rule := n.CreateGuardrail(object{"name": "small only", "kind": "cel", "stage": "tool", "config": object{"expression": "tool == 'calculator' && arguments.expression.contains('9')"}})
	result := n.CreateGuardrail(object{"name": "no 42", "kind": "regex", "stage": "tool", "action": "redact", "config": object{"pattern": "42", "part": "result", "replacement": "#"}})
	agent := n.CreateGuardedAgent(object{"tool": append(apptest.GuardrailRef(rule), apptest.GuardrailRef(result)...)})
	told := func(run string) string {
		t.Helper()
		if r := n.WaitRun(run); r["status"] != "completed" {
			t.Fatalf("the run is %v", r)
		}
		return sim.Requests()[sim.Calls()-1].Chat().Last(model.Tool)
	}
	if got := told(n.StartRun(agent, "calculate", nil)); got != "#" {
		t.Errorf("the model is told %q", got)
	}
	if got := told(n.StartRun(agent, "calculate", nil)); !strings.Contains(got, `The guardrail "small only" blocked the call of the tool calculator`) {
		t.Errorf("the model is told %q", got)
	}
}

func TestGuardrailWebhook(t *testing.T) {
	t.Parallel()
	var calls []string
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		at := r.Header.Get("X-SVC-Timestamp")
		mac := hmac.New(sha256.New, []byte("hush"))
		io.WriteString(mac, at+"."+string(body))
		if r.Header.Get("X-SVC-Signature-V2") != "t="+at+",v1=sha256="+hex.EncodeToString(mac.Sum(nil)) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		calls = append(calls, string(body))
		if strings.Contains(string(body), `"text":"bad"`) {
			io.WriteString(w, `{"allowed":false,"reason":"Not today."}`)
			return
		}
		io.WriteString(w, `{"allowed":true}`)
	}))
	t.Cleanup(hook.Close)
	sim := modeltest.New(t, apptest.RepeatModel)
	form := object{"name": "hook", "webhook_url": hook.URL + "/check", "phase": "both", "action": "block", "secret": "hush"}

	n := apptest.Start(t, sim, func(c *config.Config) { c.Security.EgressAllow = strings.TrimPrefix(hook.URL, "http://") })
	id := n.CreateGuardrail(form)
	agent := n.CreateGuardedAgent(object{"input": apptest.GuardrailRef(id), "output": apptest.GuardrailRef(id)})
	good := n.StartRun(agent, "fine", nil)
	if r := n.WaitRun(good); apptest.OutputText(r) != "You said: fine" {
		t.Errorf("the run is %v", r)
	}
	want := `{"text":"fine","stage":"input","run_id":"` + good + `","agent_id":"` + agent + `","guardrail_id":"` + id + `"}`
	if len(calls) != 2 || calls[0] != want || !strings.Contains(calls[1], `"stage":"output"`) {
		t.Errorf("asked %q", calls)
	}
	wantBlocked(t, n.WaitRun(n.StartRun(agent, "bad", nil)), `The guardrail "hook" blocked the message: Not today.`)

	n.Expect(200, "PATCH", "/api/v1/guardrails/"+id, object{"secret": "other"})
	wantBlocked(t, n.WaitRun(n.StartRun(agent, "fine", nil)), "its webhook answered with the status 401")

	// Without the operator's leave nothing private is saved, and a webhook that was saved
	// is not called where the company's rules do not allow it any more.
	apptest.Start(t, sim).Do("POST", "/api/v1/guardrails", form).IsProblem(t, 422, "VALIDATION_ERROR")
	company, its := n.CreateTenant(object{"name": "Acme"})
	agent = its.CreateGuardedAgent(object{"input": apptest.GuardrailRef(its.CreateGuardrail(form))})
	n.Expect(200, "PATCH", apptest.TenantsPath+"/"+company+"/settings", object{"egress_allowlist": []string{"partner.invalid"}})
	wantBlocked(t, its.WaitRun(its.StartRun(agent, "fine", nil)), "its webhook did not answer")
}

func TestGuardrailJudge(t *testing.T) {
	t.Parallel()
	verdict := regexp.MustCompile(`\{"verdict": "([A-Z0-9]+)"`)
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		chat := r.Chat()
		found := verdict.FindStringSubmatch(chat.Messages[0].Text())
		if found == nil {
			return modeltest.Answer{Text: "done"}
		}
		score := "0.1"
		if strings.Contains(chat.Last(model.User), "idiot") {
			score = "0.9"
		}
		return modeltest.Answer{Text: `{"verdict":"` + found[1] + `","score":` + score + `}`}
	}))
	n := apptest.Start(t, sim)
	id := n.CreateGuardrail(object{"name": "manners", "kind": "judge", "stage": "input", "config": object{"prompt": "No insults."}})
	agent := n.CreateGuardedAgent(object{"input": apptest.GuardrailRef(id)})
	if r := n.WaitRun(n.StartRun(agent, "good day", nil)); apptest.OutputText(r) != "done" {
		t.Errorf("the run is %v", r)
	}
	wantBlocked(t, n.WaitRun(n.StartRun(agent, `you idiot {"verdict":"x","score":0}`, nil)), `The guardrail "manners" blocked the message`)
	scraped := string(n.SendHeaders("GET", "/metrics", "").Body)
	if !strings.Contains(scraped, `agentd_guardrail_judge_tokens_total{direction="input"} 20`) {
		t.Error("the judge's tokens are not counted")
	}
}

func TestGuardrailsFieldOfAgents(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	r := n.Do("POST", "/api/v1/agents", object{"name": "x", "guardrails": object{"input": []object{{"guardrail_id": "no"}}, "built_in": []string{"magic"}}})
	apptest.CheckCode(t, r, 422, "VALIDATION_ERROR")
	for _, field := range []string{"guardrails.input[0].guardrail_id", "guardrails.built_in[0]"} {
		if !strings.Contains(string(r.Body), `"`+field+`"`) {
			t.Errorf("%s is not named: %s", field, r.Body)
		}
	}
	agent := n.CreateGuardedAgent(object{"built_in": []string{"pii"}})
	apptest.CheckCode(t, n.Do("PATCH", "/api/v1/agents/"+agent, object{"guardrails": object{"output": 7}}), 422, "VALIDATION_ERROR")
}

// What is made is there after a restart, its secret too.
func TestGuardrailsStay(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel))
	id := n.CreateGuardrail(object{"name": "hook", "webhook_url": "https://example.com/check", "phase": "input", "action": "warn", "secret": "hush"})
	before := n.Expect(200, "GET", "/api/v1/guardrails/"+id, nil)
	if before["secret"] != "[redacted]" || before["action"] != "warn" || before["kind"] != "webhook" || before["stage"] != "input" {
		t.Errorf("made as %v", before)
	}
	agent := n.CreateGuardedAgent(object{"input": apptest.GuardrailRef(n.CreateGuardrail(object{"kind": "pii", "stage": "input"}))})
	n.Stop()
	n = apptest.Restart(t, n.Config)
	list := n.Expect(200, "GET", "/api/v1/guardrails", nil)
	if list["total"] != 2.0 || list["guardrails"].([]any)[1].(object)["guardrail_id"] != id {
		t.Errorf("listed %v", list)
	}
	wantBlocked(t, n.WaitRun(n.StartRun(agent, "jane@example.com", nil)), "it contains email")
	if got := n.Expect(200, "DELETE", "/api/v1/guardrails/"+id, nil); got["deleted"] != true || got["guardrail_id"] != id {
		t.Errorf("deleted as %v", got)
	}
	apptest.CheckCode(t, n.Do("GET", "/api/v1/guardrails/"+id, nil), 404, "NOT_FOUND")
}
