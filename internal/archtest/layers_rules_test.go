package archtest

import "testing"

// The rules themselves are tried on imports that must never pass, and on some
// that must.
func TestRulesRefuse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, from, imported string
		refused              bool
	}{
		{"leaf_sees_leaf", "internal/base/page", "agentd/internal/base/fault", false},
		{"leaf_never_port", "internal/base/page", "agentd/internal/kernel/event", true},
		{"leaf_never_foreign", "internal/base/page", "github.com/google/uuid", true},
		{"leaf_with_its_module", "internal/base/ident", "github.com/google/uuid", false},
		{"module_prefix_is_whole", "internal/base/ident", "github.com/google/uuidx", true},
		{"slice_sees_port", "internal/execution/run", "agentd/internal/kernel/event", false},
		{"slice_never_slice", "internal/execution/run", "agentd/internal/accounts/identity", true},
		{"slice_sees_lower_family", "internal/execution/run", "agentd/internal/agents/agent", false},
		{"slice_never_higher_family", "internal/agents/agent", "agentd/internal/execution/run", true},
		{"sql_sees_its_slice", "internal/execution/run/runsql", "agentd/internal/execution/run", false},
		{"sql_on_the_database", "internal/execution/run/runsql", "agentd/internal/store/sqldb", false},
		{"sql_sees_sql_of_its_family", "internal/execution/session/sessionsql", "agentd/internal/execution/run/runsql", false},
		{"sql_never_sql_of_others", "internal/accounts/signin/signinsql", "agentd/internal/execution/run/runsql", true},
		{"sql_on_a_port", "internal/accounts/tenantadmin/tenantadminsql", "agentd/internal/store/worksql", false},
		{"sql_never_bus", "internal/execution/run/runsql", "agentd/internal/store/natsbus", true},
		{"port_never_slice", "internal/store/worksql", "agentd/internal/execution/run", true},
		{"port_never_port", "internal/store/worksql", "agentd/internal/store/auditsql", true},
		{"slice_never_its_sql", "internal/execution/run", "agentd/internal/execution/run/runsql", true},
		{"slice_never_http", "internal/execution/run", "net/http", true},
		{"slice_never_sql", "internal/execution/run", "database/sql", true},
		{"slice_never_nats", "internal/execution/run", "github.com/nats-io/nats.go", true},
		{"slice_never_adapter", "internal/execution/run", "agentd/internal/store/sqldb", true},
		{"slice_never_edge", "internal/execution/run", "agentd/internal/edge/httpapi", true},
		{"engine_never_edge", "internal/execution/engine", "agentd/internal/edge/openai", true},
		{"adapter_never_adapter", "internal/store/natsbus", "agentd/internal/store/sqldb", true},
		{"store_on_its_database", "internal/store/worksql", "agentd/internal/store/sqldb", false},
		{"edge_never_adapter", "internal/edge/httpapi", "agentd/internal/store/worksql", true},
		{"edge_never_engine", "internal/edge/openai", "agentd/internal/execution/engine", true},
		{"app_sees_adapter", "internal/app", "agentd/internal/store/worksql", false},
		{"app_never_support", "internal/app", "agentd/internal/kernel/event/eventtest", true},
		{"slice_never_app", "internal/execution/run", "agentd/internal/app", true},
		{"support_never_app", "internal/kernel/work/worktest", "agentd/internal/app", true},
		{"program_sees_app", "cmd/agentd", "agentd/internal/app", false},
		{"bench_never_house", "bench/load", "agentd/internal/execution/run", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, ok := layerOf(tt.from); !ok {
				t.Fatalf("%s is in no layer", tt.from)
			}
			if why := refuse(tt.from, tt.imported); (why != "") != tt.refused {
				t.Errorf("%s importing %s: refused %q, want refused %t", tt.from, tt.imported, why, tt.refused)
			}
		})
	}
}
