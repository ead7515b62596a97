package agent_test

import (
	"testing"

	"agentd/internal/agents/agent"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/memstore"
)

// TestProvidersAreRemembered: an agent keeps the provider that served its model when it
// was named, whatever the operator has later, until the model is named again.
func TestProvidersAreRemembered(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	deps, _ := resourcetest.Deps(s, s)
	providers := map[string]string{"tools/m": "tools", "m": "default", "other/m": "other"}
	o := options
	o.ProviderOf = func(ref string) string { return providers[ref] }
	agents := agent.New(deps, o)
	b := bench{resourcetest.NewClient(agents.Routes()), agents, deps}
	id := b.create(t, `{"name":"a","model":{"provider":"openai_compat","model_ref":"tools/m"},"fallback_model":{"provider":"openai_compat","model_ref":"m"}}`)
	expect := func(what string, model, fallback any) {
		t.Helper()
		got := b.do(t, "GET", "", id, "")
		if got["model_provider"] != model || got["fallback_model_provider"] != fallback {
			t.Errorf("%s: %v and %v, want %v and %v", what, got["model_provider"], got["fallback_model_provider"], model, fallback)
		}
	}
	expect("creation", "tools", "default")
	providers["tools/m"] = "default"
	b.do(t, "PATCH", "", id, `{"name":"b","model_provider":"forged"}`)
	b.do(t, "PUT", "", id, `{"name":"b","model":{"provider":"openai_compat","model_ref":"tools/m"}}`)
	expect("the same model", "tools", "default")
	b.do(t, "PATCH", "", id, `{"model":{"provider":"openai_compat","model_ref":"other/m"},"fallback_model":null}`)
	expect("another model", "other", nil)
	b.do(t, "PATCH", "", id, `{"model":{"provider":"openai_compat","model_ref":"m","endpoint_url":"https://own.example/v1"}}`)
	expect("an own endpoint", nil, nil)
	b.do(t, "PATCH", "", id, `{"model":{"provider":"openai_compat","model_ref":"tools/m"}}`)
	expect("named again", "default", nil)
}
