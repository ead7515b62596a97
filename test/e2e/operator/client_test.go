package operator

import (
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// Clients of every company see what is on and what requests may be, at this moment.
func TestClientConfig(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	_, other := n.CreateTenant(object{"name": "Other"})
	get := func() object { return other.Expect(200, "GET", "/api/v1/client-config", nil) }
	before := get()
	features, limits := before["features"].(object), before["limits"].(object)
	if features["commerce"] != true || features["run_command"] != false || limits["max_upload_bytes"] != 50.0*(1<<20) ||
		limits["max_body_bytes"] != 10.0*(1<<20) || before["bridge"].(object)["heartbeat_seconds"] != 30.0 {
		t.Errorf("%v", before)
	}
	if one, ok := before["providers"].(object)["default"].(object); !ok || one["has_key"] != true || one["name"] == "" {
		t.Errorf("the providers are %v", before["providers"])
	}
	put(n, "feature-flags", object{"flags": []object{{"name": "commerce", "enabled": false}}})
	put(n, "run-command", object{"enabled": true})
	put(n, "security-policies", object{"file_upload_max_size_bytes": 1000})
	put(n, "server", object{"max_body_bytes": 100000})
	put(n, "sse", object{"heartbeat_seconds": 7})
	put(n, "idempotency", object{"window_hours": 3})
	after := get()
	features, limits = after["features"].(object), after["limits"].(object)
	if features["commerce"] != false || features["run_command"] != true || limits["max_upload_bytes"] != 1000.0 ||
		limits["max_body_bytes"] != 100000.0 || limits["stream_heartbeat_seconds"] != 7.0 || limits["idempotency_window_hours"] != 3.0 {
		t.Errorf("%v", after)
	}
	n.SendHeaders("GET", "/api/v1/client-config", "").IsProblem(t, 401, "AUTH_ERROR")
}
