package compat

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

const adminPath = "/api/v1/admin"

// atLoopback lets agentd call addresses of this machine that callers chose.
func atLoopback(c *config.Config) { c.Security.EgressAllow = "127.0.0.0/8" }

// A provider that the operator adds serves every company at once, with the operator's key,
// until it is disabled; nobody else may add one, and its key is never shown
// (rule D18-admin-providers).
func TestProvidersOfTheOperator(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		sim := modeltest.New(t, modeltest.RequireKey("sk-operators-own-key-1234"))
		_, acme := n.CreateTenant(object{"name": "Acme"})
		made := n.Expect(201, "POST", adminPath+"/providers", object{
			"id": "ours", "name": "Our models", "default_endpoint": sim.URL, "api_key": "sk-operators-own-key-1234", "canonical": "openai_compat",
			"requires_api_key": true, "default_capabilities": object{"thinking": false},
		})
		if made["key_hint"] != "…1234" || made["custom"] != true || made["enabled"] != true || made["configured"] != true || strings.Contains(fmt.Sprint(made), "operators-own") {
			t.Errorf("%v", made)
		}
		call := func(name string) apptest.Reply { return acme.Do("POST", proxyPath, passing(name, false)) }
		if r := call("ours/big"); r.StatusCode != 200 {
			t.Fatalf("%s", r.Body)
		}
		if got := fmt.Sprint(acme.Expect(200, "GET", "/api/v1/providers", nil)); !strings.Contains(got, "Our models") || strings.Contains(got, sim.URL) {
			t.Errorf("what a company sees: %s", got)
		}
		acme.Do("GET", adminPath+"/providers", nil).IsProblem(t, 403, "FORBIDDEN")
		acme.Do("POST", adminPath+"/providers", object{"id": "mine", "name": "x", "default_endpoint": sim.URL}).IsProblem(t, 403, "FORBIDDEN")

		change := func(fields object) object { return n.Expect(200, "PATCH", adminPath+"/providers/ours", fields) }
		change(object{"model_allowlist": []string{"small"}})
		if big, small := call("ours/big"), call("ours/small"); big.StatusCode != 400 || small.StatusCode != 200 {
			t.Errorf("with a list of models: %s, %s", big.Body, small.Body)
		}
		change(object{"model_allowlist": []string{}, "api_key": ""})
		if r := call("ours/big"); r.StatusCode == 200 || sim.Calls() != 2 {
			t.Errorf("without a key %d calls were made: %s", sim.Calls(), r.Body)
		}
		change(object{"requires_api_key": false, "name": "Renamed", "canonical": "openai_chat"})
		if call("ours/big"); sim.Calls() != 3 { // made without a key, and refused
			t.Errorf("a call that needs no key: %d", sim.Calls())
		}
		n.Expect(200, "PUT", adminPath+"/llm-defaults/ours", object{"api_key": "sk-operators-own-key-1234"})
		if r := call("ours/big"); r.StatusCode != 200 {
			t.Errorf("with a key of the defaults: %s", r.Body)
		}
		if change(object{"enabled": false})["enabled"] != false || call("ours/big").StatusCode == 200 {
			t.Error("a disabled provider is called")
		}
		for id, status := range map[string]int{"default": 404, "openai": 404, "none": 404} {
			n.Expect(status, "PATCH", adminPath+"/providers/"+id, object{"enabled": true})
		}
		for _, wrong := range []object{
			{"id": "ours", "name": "x", "default_endpoint": sim.URL}, {"id": "openai", "name": "x", "default_endpoint": sim.URL},
			{"id": "default", "name": "x", "default_endpoint": sim.URL}, {"id": "No", "name": "x", "default_endpoint": sim.URL},
		} {
			n.Expect(400, "POST", adminPath+"/providers", wrong)
		}
		for _, wrong := range []object{
			{"id": "a", "name": "x", "default_endpoint": "http://10.0.0.1/v1"}, {"id": "a", "name": "x", "default_endpoint": "file:///etc/passwd"},
			{"id": "a", "name": "x", "default_endpoint": sim.URL, "api_key": "short"}, {"id": "a", "name": "", "default_endpoint": sim.URL},
			{"id": "a", "name": "x", "default_endpoint": sim.URL, "canonical": "telex"},
		} {
			n.Expect(422, "POST", adminPath+"/providers", wrong)
		}
		n.Expect(200, "DELETE", adminPath+"/providers/ours", nil)
		n.Expect(404, "GET", adminPath+"/providers/ours", nil)
		logged := fmt.Sprint(n.Expect(200, "GET", "/api/v1/admin/audit?action=setting.updated&limit=500", nil))
		if !strings.Contains(logged, "model_allowlist") || strings.Contains(logged, "operators-own") {
			t.Errorf("the audit log: %s", logged)
		}
	}, atLoopback)
}

// The operator's key of a public provider, and the default models, act at once
// (rule D18-llm-defaults).
func TestDefaultsOfTheOperator(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t)
	n := apptest.Start(t, sim)
	find := func(name string) object {
		for _, p := range n.Expect(200, "GET", adminPath+"/llm-defaults", nil)["providers"].([]any) {
			if p := p.(object); p["provider_id"] == name {
				return p
			}
		}
		t.Fatalf("%s is not listed", name)
		return nil
	}
	if p := find("anthropic"); p["configured"] != false || p["key_hint"] != nil {
		t.Errorf("%v", p)
	}
	n.Expect(404, "PUT", adminPath+"/llm-defaults/nobody", object{"api_key": "sk-ant-0123456789-abcd"})
	n.Expect(422, "PUT", adminPath+"/llm-defaults/anthropic", object{"api_key": "short"})
	if got := n.Expect(200, "PUT", adminPath+"/llm-defaults/anthropic", object{"api_key": "sk-ant-0123456789-abcd"}); got["updated"] != true {
		t.Errorf("%v", got)
	}
	if p := find("anthropic"); p["configured"] != true || p["key_hint"] != "…abcd" || p["source"] != "setting" {
		t.Errorf("%v", p)
	}
	for _, p := range n.Expect(200, "GET", "/api/v1/providers", nil)["providers"].([]any) {
		if p := p.(object); p["id"] == "anthropic" && (p["configured"] != true || p["configured_level"] != "platform") {
			t.Errorf("%v", p)
		}
	}
	before := n.Expect(200, "GET", "/api/v1/providers/platform-defaults", nil)
	got := n.Expect(200, "PUT", adminPath+"/llm-defaults/model-config", object{"default_provider": "default", "default_model": "other", "fallback_model": "anthropic/claude-x"})
	if got["default_model"] != "default/other" || got["fallback_provider"] != "anthropic" || got["fallback_model"] != "anthropic/claude-x" {
		t.Errorf("%v", got)
	}
	if now := n.Expect(200, "GET", "/api/v1/providers/platform-defaults", nil); now["default_model"] != "default/other" || now["fallback_model"] != "anthropic/claude-x" {
		t.Errorf("%v", now)
	}
	n.WaitRun(n.StartRun(n.CreateAgent(nil), "hello", nil))
	if all := sim.Requests(); all[len(all)-1].Chat().Model != "other" {
		t.Errorf("a new agent's model: %s", all[len(all)-1].Chat().Model)
	}
	n.Expect(422, "PUT", adminPath+"/llm-defaults/model-config", object{"default_model": "nobody/x"})
	n.Expect(422, "PUT", adminPath+"/llm-defaults/model-config", object{"fallback_provider": "anthropic"})
	n.Expect(200, "PUT", adminPath+"/llm-defaults/model-config", object{"default_model": "", "fallback_model": ""})
	if now := n.Expect(200, "GET", "/api/v1/providers/platform-defaults", nil); now["default_model"] != before["default_model"] || now["fallback_model"] != nil {
		t.Errorf("%v, before %v", now, before)
	}
	n.Expect(200, "DELETE", adminPath+"/llm-defaults/anthropic", nil)
	n.Expect(404, "DELETE", adminPath+"/llm-defaults/anthropic", nil)
	if p := find("anthropic"); p["configured"] != false {
		t.Errorf("%v", p)
	}
}

// Prices that are set are used in the next call's cost, and a catalogue that is set is
// what companies see; both can be taken back (rule D18-pricing).
func TestPricesOfTheOperator(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "a b c", Usage: &model.Usage{InputTokens: 1000, OutputTokens: 500}}))
	n := apptest.Start(t, sim)
	agent := n.CreateAgent(nil)
	cost := func() float64 {
		run := n.WaitRun(n.StartRun(agent, "hello", nil))
		got, _ := run["metrics"].(object)["total_cost_usd"].(float64)
		return got
	}
	ref := n.Expect(200, "GET", "/api/v1/llm/models", nil)["default_model"].(string)
	n.Expect(200, "PUT", adminPath+"/config/pricing", object{"models": object{ref: object{"input_usd_per_mtok": 100, "output_usd_per_mtok": 1000}}})
	if got := cost(); math.Abs(got-0.6) > 1e-9 {
		t.Errorf("a run costs %v", got)
	}
	if got := n.Expect(200, "GET", adminPath+"/config/pricing", nil)["models"].(object)[ref].(object)["output_usd_per_mtok"]; got != 1000.0 {
		t.Errorf("%v", got)
	}
	if got := fmt.Sprint(n.Expect(200, "GET", adminPath+"/config/model-pricing", nil)); !strings.Contains(got, "source:setting") {
		t.Errorf("%s", got)
	}
	for _, wrong := range []object{
		{ref: object{"input_usd_per_mtok": -1, "output_usd_per_mtok": 1}}, {"default/never": object{"input_usd_per_mtok": 1}}, {"x": object{"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}},
	} {
		n.Expect(422, "PUT", adminPath+"/config/pricing", object{"models": wrong})
	}
	n.Expect(200, "PUT", adminPath+"/config/pricing", object{"models": object{ref: nil}})
	if got := cost(); got == 0.6 {
		t.Errorf("a price that was removed is used: %v", got)
	}

	seed := n.Expect(200, "GET", adminPath+"/config/model-catalog/seed", nil)
	n.Expect(200, "PUT", adminPath+"/config/model-catalog", object{"models": []object{{
		"provider": "default", "id": "curated", "display_name": "Curated", "tier": "small", "context_window": 4000, "max_output_tokens": 300,
		"supports_vision": true, "supports_tool_calls": false, "supports_streaming": true, "supports_json_mode": true, "modality": "chat",
		"capabilities": object{"images": false}, "input_usd_per_mtok": 3, "output_usd_per_mtok": 4,
	}}})
	var found object
	for _, m := range n.Expect(200, "GET", "/api/v1/llm/models", nil)["models"].([]any) {
		if m := m.(object); m["id"] == "default/curated" {
			found = m
		}
	}
	if found == nil || found["display_name"] != "Curated" || found["max_context_tokens"] != 4000.0 || found["max_output_tokens"] != 300.0 ||
		found["supports_vision"] != true || found["supports_tool_calls"] != false || found["pricing"].(object)["output_usd_per_mtok"] != 4.0 {
		t.Errorf("%v", found)
	}
	for _, wrong := range [][]object{
		{{"provider": "nobody", "id": "x"}}, {{"provider": "default", "id": "x"}, {"provider": "default", "id": "x"}}, {{"provider": "default", "id": ""}},
		{{"provider": "default", "id": "x", "modality": "smell"}}, {{"provider": "default", "id": "x", "input_usd_per_mtok": 1}},
	} {
		n.Expect(422, "PUT", adminPath+"/config/model-catalog", object{"models": wrong})
	}
	n.Expect(200, "PUT", adminPath+"/config/model-catalog", object{"models": seed["models"]})
	if got := fmt.Sprint(n.Expect(200, "GET", adminPath+"/config/model-catalog", nil)["models"]); got != fmt.Sprint(seed["models"]) {
		t.Errorf("%s, not %v", got, seed["models"])
	}
}
