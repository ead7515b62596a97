package runs

import (
	"maps"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// Agents of another system, which here is the same server, are workers of a team, and are
// called by a2a_send: with a credential that is stored for them and never shown.
func TestTeamsWithExternalWorkers(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		c := r.Chat()
		url, calls := strings.CutPrefix(c.Messages[0].Text(), "calls ")
		switch url, _, _ = strings.Cut(url, "\n"); {
		case calls && c.Last(model.Tool) != "":
			return modeltest.Answer{Text: c.Last(model.Tool)}
		case calls:
			return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "1", Name: "a2a_send", Arguments: `{"url":"` + url + `","message":"hello"}`}}}
		}
		return crew(r)
	}))
	n := apptest.Start(t, sim, func(c *config.Config) { c.Security.EgressAllow = "127.0.0.0/8" })
	boss, a := crewMember(n, "boss"), crewMember(n, "ann")
	outside := n.CreateAgent(object{"name": "zoe", "prompts": object{"system": "zoe"}, "a2a": object{"enabled": true, "public": true}})
	card := n.URL + "/api/v1/a2a/agents/" + outside
	caller := n.CreateAgent(object{"name": "caller", "prompts": object{"system": "calls " + card}, "built_in_tools": []string{"a2a_send"}})
	begin := func(external object) object {
		t.Helper()
		team := createTeam(n, object{"name": "x", "topology": "pipeline", "supervisor_agent_id": boss, "policies": object{"on_worker_failure": "abort_team"},
			"workers": []object{{"agent_id": a}, {"agent_id": "zoe", "external_a2a": external}}})
		return waitTeam(n, team, startTeam(n, team, object{"message": "go"}))
	}
	if r := begin(object{"agent_card_url": card}); r["status"] != "failed" || !strings.Contains(r["error"].(string), "agent zoe was not done") {
		t.Errorf("without a credential: %v", r)
	}
	if r := n.WaitRun(n.StartRun(caller, "go", nil)); strings.Contains(r["output"].(object)["text"].(string), "zoe(hello)") {
		t.Errorf("without a credential: %v", r["output"])
	}

	stored := n.Expect(201, "POST", "/api/v1/a2a/credentials", object{"name": "here", "url": n.URL + "/api/v1/a2a", "token": n.Key})
	credential := stored["credential_id"].(string)
	if stored["token"] != "[redacted]" || stored["scheme"] != "bearer" {
		t.Errorf("%v", stored)
	}
	if r := begin(object{"agent_card_url": card, "auth": object{"type": "bearer", "token_ref": credential}}); r["status"] != "completed" ||
		r["output"] != "zoe(ann(go))" || r["total_runs"] != 2.0 || len(r["runs"].([]any)) != 1 {
		t.Errorf("%v", r)
	}
	yan := n.CreateAgent(object{"name": "yan", "prompts": object{"system": "yan"}, "a2a": object{"enabled": true, "public": true}})
	if r := begin(object{"agent_card_url": n.URL + "/api/v1/a2a/agents/" + yan, "endpoint": n.URL + "/api/v1/a2a?agent_id=" + outside,
		"auth": object{"type": "bearer", "token_ref": credential}}); r["output"] != "zoe(ann(go))" {
		t.Errorf("at another endpoint: %v", r)
	}
	if r := n.WaitRun(n.StartRun(caller, "go", nil)); !strings.Contains(r["output"].(object)["text"].(string), "zoe(hello)") {
		t.Errorf("%v", r["output"])
	}

	path := "/api/v1/a2a/credentials/" + credential
	if p := n.Expect(409, "PATCH", path, object{"scheme": "api_key"}); p["code"] != "secret_would_move" {
		t.Errorf("%v", p)
	}
	if c := n.Expect(200, "PATCH", path, object{"scheme": "api_key", "token": "new", "url": "https://example.com"}); c["url"] != n.URL+"/api/v1/a2a" {
		t.Errorf("%v", c)
	}
	for name, c := range map[string]struct {
		worker object
		status int
	}{
		"sent otherwise":   {object{"agent_id": "z", "external_a2a": object{"agent_card_url": card, "auth": object{"type": "bearer", "token_ref": credential}}}, 422},
		"another address":  {object{"agent_id": "z", "external_a2a": object{"agent_card_url": "https://example.com", "auth": object{"type": "api_key", "token_ref": credential}}}, 422},
		"no credential":    {object{"agent_id": "z", "external_a2a": object{"agent_card_url": card, "auth": object{"type": "bearer"}}}, 422},
		"one for nothing":  {object{"agent_id": "z", "external_a2a": object{"agent_card_url": card, "auth": object{"type": "none", "token_ref": credential}}}, 422},
		"an unknown one":   {object{"agent_id": "z", "external_a2a": object{"agent_card_url": card, "auth": object{"type": "bearer", "token_ref": boss}}}, 404},
		"inside":           {object{"agent_id": "z", "external_a2a": object{"agent_card_url": "http://10.0.0.1"}}, 422},
		"inside, by rpc":   {object{"agent_id": "z", "external_a2a": object{"agent_card_url": card, "endpoint": "http://10.0.0.1"}}, 422},
		"no name":          {object{"agent_id": "z z", "external_a2a": object{"agent_card_url": card}}, 422},
		"no other system":  {object{"agent_id": "z"}, 404},
		"a way that works": {object{"agent_id": "z", "external_a2a": object{"agent_card_url": card, "auth": object{"type": "api_key", "token_ref": credential}}}, 201},
	} {
		if r := n.Do("POST", "/api/v1/teams", object{"name": "x", "supervisor_agent_id": boss, "workers": []object{c.worker}}); r.StatusCode != c.status {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Body)
		}
	}
	_, other := n.CreateTenant(object{"name": "other"})
	other.Expect(404, "POST", "/api/v1/teams", object{"name": "x", "supervisor_agent_id": crewMember(other, "boss"), "workers": []object{
		{"agent_id": "z", "external_a2a": object{"agent_card_url": card, "auth": object{"type": "api_key", "token_ref": credential}}}}})
	n.Expect(422, "POST", "/api/v1/teams", object{"name": "x", "supervisor_agent_id": boss, "supervisor_mode": "tool_driven",
		"workers": []object{{"agent_id": "z", "external_a2a": object{"agent_card_url": card}}}})
	for _, body := range []object{{"url": "ftp://x"}, {"url": "https://a:b@example.com"}, {"token": "a\nb"}, {"name": " "}, {"scheme": "api_key", "header": ""}, {"url": "http://10.0.0.1"}} {
		whole := object{"name": "x", "url": "https://example.com", "token": "t"}
		maps.Copy(whole, body)
		n.Expect(422, "POST", "/api/v1/a2a/credentials", whole)
	}
}
