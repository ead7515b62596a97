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
		{"leaf_sees_leaf", "internal/page", "agentd/internal/fault", false},
		{"leaf_never_port", "internal/page", "agentd/internal/event", true},
		{"leaf_never_foreign", "internal/page", "github.com/google/uuid", true},
		{"leaf_with_its_module", "internal/ident", "github.com/google/uuid", false},
		{"module_prefix_is_whole", "internal/ident", "github.com/google/uuidx", true},
		{"slice_sees_port", "internal/run", "agentd/internal/event", false},
		{"slice_never_slice", "internal/run", "agentd/internal/identity", true},
		{"slice_never_http", "internal/run", "net/http", true},
		{"slice_never_sql", "internal/run", "database/sql", true},
		{"slice_never_nats", "internal/run", "github.com/nats-io/nats.go", true},
		{"slice_never_adapter", "internal/run", "agentd/internal/sqlstore", true},
		{"slice_never_edge", "internal/run", "agentd/internal/httpapi", true},
		{"engine_never_edge", "internal/engine", "agentd/internal/compat/openai", true},
		{"adapter_never_adapter", "internal/natsbus", "agentd/internal/sqldb", true},
		{"store_on_its_database", "internal/sqlstore", "agentd/internal/sqldb", false},
		{"edge_never_adapter", "internal/httpapi", "agentd/internal/sqlstore", true},
		{"edge_never_engine", "internal/compat/openai", "agentd/internal/engine", true},
		{"app_sees_adapter", "internal/app", "agentd/internal/sqlstore", false},
		{"app_never_support", "internal/app", "agentd/internal/event/eventtest", true},
		{"slice_never_app", "internal/run", "agentd/internal/app", true},
		{"support_never_app", "internal/work/worktest", "agentd/internal/app", true},
		{"program_sees_app", "cmd/agentd", "agentd/internal/app", false},
		{"bench_never_house", "bench/load", "agentd/internal/run", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, ok := rowOf(tt.from)
			if !ok {
				t.Fatalf("%s has no row", tt.from)
			}
			if why := refuse(r, tt.imported); (why != "") != tt.refused {
				t.Errorf("%s importing %s: refused %q, want refused %t", tt.from, tt.imported, why, tt.refused)
			}
		})
	}
}
