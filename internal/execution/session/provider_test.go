package session_test

import (
	"testing"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestProvidersOfOverridesAreRemembered: the model of a session keeps the provider that
// served it when it was named, whatever the operator has later, until it is named again,
// and the session's runs ask for that provider.
func TestProvidersOfOverridesAreRemembered(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		h := newHarness(t, db)
		providers := map[string]string{"tools/m": "tools", "other/m": "other"}
		h.ProviderOf = func(ref string) string { return providers[ref] }
		s := h.reconnected()
		c := resourcetest.NewClient(s.Routes())
		c.Who = h.who
		call := func(method, path string, args resourcetest.Args) map[string]any {
			t.Helper()
			reply, err := c.Do(t.Context(), method, path, args)
			if err != nil {
				t.Fatal(err)
			}
			return resourcetest.Object(t, reply)
		}
		at := call("POST", "/api/v1/sessions", resourcetest.Args{"": `{"agent_id":"` + h.session().AgentID + `","queue_mode":"allow","expires_in_seconds":60,` +
			`"model_override":{"provider":"openai_compat","model_ref":"tools/m","model_provider":"forged"}}`})
		id := at["session_id"].(string)
		expect := func(what string, got map[string]any, want string) {
			t.Helper()
			shown, _ := got["model_override"].(map[string]any)
			if provider, _ := shown["model_provider"].(string); provider != want {
				t.Errorf("%s: %v, want %q", what, shown, want)
			}
			req := &run.Request{SessionID: &id, AgentID: got["agent_id"].(string)}
			if err := s.Join(t.Context(), h.who.TenantID, req); err != nil || req.Options.Model.Remembered != want {
				t.Errorf("%s: a run asks for %+v, %v", what, req.Options.Model, err)
			}
		}
		put := func(model string) map[string]any {
			t.Helper()
			return call("PUT", "/api/v1/sessions/{sessionId}", resourcetest.Args{"sessionId": id, "": `{"model_override":` + model + `}`})
		}
		expect("created", at, "tools")
		providers["tools/m"] = "default"
		expect("the same model", put(`{"provider":"openai_compat","model_ref":"tools/m"}`), "tools")
		expect("another model", put(`{"provider":"openai_compat","model_ref":"other/m"}`), "other")
		expect("an own endpoint", put(`{"provider":"openai_compat","model_ref":"tools/m","endpoint_url":"https://own.example/v1"}`), "")
		expect("a builtin model", put(`{"provider":"custom","model_ref":"builtin/echo"}`), "")
		expect("named again", put(`{"provider":"openai_compat","model_ref":"tools/m"}`), "default")
	})
}
