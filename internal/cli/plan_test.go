package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/store/sqldb"
)

// A tenant can be put on one of the plans of the file that the server reads.
func TestTenantOnAPlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plans := file("plans.json", `{"plans": [{"id": "free", "name": "Free"}, {"id": "pro", "name": "Pro", "limits": {"agents": 9}}], "default": "free"}`)
	broken := file("broken.json", `{"plans": [{"id": "free"}]}`)
	eachDatabase(t, func(t *testing.T, s shell, cfg sqldb.Config) {
		db, err := sqldb.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		create := func(args ...string) result {
			return s.run(append([]string{"admin", "tenant", "create", "--name", "Acme", "--json"}, args...)...)
		}
		planOf := func(r result) string {
			t.Helper()
			tenant, err := identitysql.New(db).GetTenant(t.Context(), r.grant(t).TenantID)
			if err != nil {
				t.Fatal(err)
			}
			return tenant.Plan
		}
		for _, tt := range []struct {
			args []string
			want string
		}{
			{nil, "self_hosted"},
			{[]string{"--plan=self_hosted"}, "self_hosted"},
			{[]string{"--plans=" + plans}, "free"},
			{[]string{"--plans=" + plans, "--plan=pro"}, "pro"},
		} {
			if got := planOf(create(tt.args...)); got != tt.want {
				t.Errorf("%v: the plan is %s", tt.args, got)
			}
		}
		s.env["AGENTD_PLANS"] = plans
		if got := planOf(create("--plan=pro")); got != "pro" {
			t.Errorf("the plan is %s", got)
		}
		for _, tt := range []struct{ args, want string }{
			{"--plan=self_hosted", "is not one of the plans: free, pro"},
			{"--plans=" + broken, "AGENTD_PLANS: plans[0].name: it is blank"},
			{"--plans=" + broken + ".not", "AGENTD_PLANS: cannot be read"},
		} {
			r := create(tt.args)
			if r.want(t, exitFailure); !strings.Contains(r.stderr, tt.want) {
				t.Errorf("%s: %s", tt.args, r.stderr)
			}
		}
	})
}
