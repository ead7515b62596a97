package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// eachDatabase runs a test with a shell for an empty database of every engine.
func eachDatabase(t *testing.T, test func(t *testing.T, s shell, cfg sqldb.Config)) {
	t.Helper()
	for _, engine := range sqldbtest.Engines {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			cfg := sqldbtest.Config(t, engine)
			env := map[string]string{"AGENTD_DATABASE_URL": cfg.URL, "AGENTD_DATA_DIR": cfg.Dir}
			if cfg.Dir == "" {
				env["AGENTD_DATA_DIR"] = "/nowhere" // nothing is kept on disk
			}
			test(t, shell{env: env}, cfg)
		})
	}
}

type grant struct {
	TenantID string `json:"tenant_id"`
	UserID   string `json:"user_id"`
	KeyID    string `json:"key_id"`
	RawKey   string `json:"raw_key"`
}

func (r result) grant(t *testing.T) (g grant) {
	t.Helper()
	r.want(t, exitOK)
	if err := json.Unmarshal([]byte(r.stdout), &g, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	return g
}

func TestAdminBesideARunningServer(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s shell, cfg sqldb.Config) {
		db, err := sqldb.Open(t.Context(), cfg) // the server
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		server := identity.New(identity.Config{DB: db, Store: identitysql.New(db), Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)})
		if _, _, err := server.Tenants.Bootstrap(t.Context(), secret.String{}); err != nil {
			t.Fatal(err)
		}
		caller := func(g grant) authz.Caller {
			t.Helper()
			who, err := server.Authenticate(t.Context(), g.RawKey)
			if err != nil {
				t.Fatal(err)
			}
			return who
		}

		tenant := s.run("admin", "tenant", "create", "--name", "Acme", "--owner", "ann@example.com", "--json").grant(t)
		if who := caller(tenant); who.TenantID != tenant.TenantID || who.UserID != tenant.UserID || who.KeyID != tenant.KeyID || who.Role != authz.Owner || who.Operator {
			t.Errorf("owner %+v", who)
		}
		key := s.run("admin", "key", "create", "--tenant", tenant.TenantID, "--role", "viewer", "--scopes", "runs:read,agents:read", "--name", "ci", "--json").grant(t)
		if who := caller(key); who.Role != authz.Viewer || len(who.Scopes) != 2 || key.TenantID != "" {
			t.Errorf("viewer %+v of %+v", who, key)
		}
		second := s.run("admin", "key", "create", "--tenant", tenant.TenantID, "--role", "owner", "--scopes", "*", "--name", "ci", "--user", "ann@example.com", "--json").grant(t)
		if second.UserID != tenant.UserID {
			t.Errorf("the second key of the owner is of %s", second.UserID)
		}

		// Who lost the owner's key makes another: the first tenant needs no name.
		again := s.run("admin", "key", "create", "--role", "owner", "--scopes", "*", "--name", "again", "--json").grant(t)
		if who := caller(again); !who.Operator || who.Role != authz.Owner || who.TenantID == tenant.TenantID {
			t.Errorf("the first tenant's new owner is %+v", who)
		}

		r := s.run("admin", "tenant", "create", "--name", "Else")
		r.want(t, exitOK, "Created tenant Else (", "\nOwner   ", "\nKey     svc_", "cannot be shown again")
		if strings.Count(r.stdout+r.stderr, "svc_") != 1 {
			t.Error("the key is shown more than once")
		}
		s.run("admin", "key", "create", "--tenant", tenant.TenantID, "--role", "viewer", "--name", "n", "--user", "ann@example.com").
			want(t, exitFailure, "Error: ann@example.com is a member with the role owner, not viewer")
		s.run("admin", "key", "create", "--tenant", "nope", "--role", "viewer", "--name", "n").want(t, exitFailure, "Error: There is no such tenant.")
		s.run("admin", "key", "create", "--tenant", tenant.TenantID, "--role", "viewer", "--name", "n", "--scopes", "a,b").
			want(t, exitFailure, "\n  scopes[0]: is not a scope\n  scopes[1]: is not a scope\n")
	})
}

func TestAdminKeyBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s shell, _ sqldb.Config) {
		s.run("migrate").want(t, exitOK)
		s.run("admin", "key", "create", "--role", "owner", "--name", "n").want(t, exitFailure, "Error: There is no tenant yet; the first start of the server creates one.")
	})
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s shell, _ sqldb.Config) {
		latest := sqldb.Latest()
		s.run("migrate").want(t, exitOK, "went from version 0 of the schema")
		s.run("migrate").want(t, exitOK, "already")
		s.run("migrate", fmt.Sprint("--down=", latest+1)).want(t, exitFailure, "it can go down to 0 to")
		s.run("migrate", "--down=2").want(t, exitOK, "to 2.\n")
		s.run("admin", "tenant", "create", "--name", "Second").want(t, exitFailure, "agentd migrate") // its server may be running
		if latest > 2 {
			s.run("migrate").want(t, exitOK, "went from version 2 of the schema")
		}
		s.run("migrate", "--down=0").want(t, exitOK, "to 0.\n")
		s.run("migrate", "--status").want(t, exitOK, "has version 0 of the schema")
	})
}

func TestDatabaseThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	s := shell{env: map[string]string{"AGENTD_DATABASE_URL": "postgres://agentd:hush@127.0.0.1:1/agentd?connect_timeout=1"}}
	r := s.run("migrate")
	r.want(t, exitFailure, "Error: ")
	if strings.Contains(r.stdout+r.stderr, "hush") {
		t.Errorf("the password is seen: %s", r.stderr)
	}
}

func TestTenantsBesideARunningServer(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s shell, cfg sqldb.Config) {
		db, err := sqldb.Open(t.Context(), cfg) // the server
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		server := identity.New(identity.Config{DB: db, Store: identitysql.New(db), Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)})
		operator, _, err := server.Tenants.Bootstrap(t.Context(), secret.String{})
		if err != nil {
			t.Fatal(err)
		}
		acme := s.run("admin", "tenant", "create", "--name", "Acme", "--json").grant(t)
		enter := func() error {
			_, err := server.Authenticate(t.Context(), acme.RawKey)
			return err
		}
		within := func(what string, happened func() bool) {
			t.Helper()
			for deadline := time.Now().Add(10 * time.Second); !happened(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal(what)
				}
			}
		}
		if err := enter(); err != nil {
			t.Fatal(err)
		}

		s.run("admin", "tenant", "suspend", "acme", "--reason", "unpaid").want(t, exitOK, "Suspended Acme ("+acme.TenantID+").")
		within("the server lets in a suspended tenant", func() bool { return fault.Is(enter(), fault.Forbidden) })
		s.run("admin", "tenant", "list").want(t, exitOK, "TENANT", "acme", "suspended", "operator", "active")
		s.run("admin", "tenant", "list", "--json").want(t, exitOK, `"suspension_reason": "unpaid"`, `"has_more": false`)
		s.run("admin", "tenant", "reactivate", acme.TenantID).want(t, exitOK, "Reactivated Acme (")
		within("the server keeps out who is let in", func() bool { return enter() == nil })

		s.run("admin", "tenant", "suspend", operator.TenantID).want(t, exitFailure, "Error: The operator's own company cannot be suspended.")
		s.run("admin", "tenant", "suspend", "nobody").want(t, exitFailure, "Error: There is no such company.")
		s.run("admin", "tenant", "purge", "acme").want(t, exitFailure, "confirm: must be the id, the name or the slug")
		s.run("admin", "tenant", "purge", "acme", "--dry-run").want(t, exitOK, "Would purge Acme (", "api_keys", "users")
		if err := enter(); err != nil {
			t.Errorf("a dry run purges: %v", err)
		}
		s.run("admin", "tenant", "purge", "acme", "--confirm", "Acme", "--json").want(t, exitOK, `"purged": true`, `"api_keys": 1`, `"users": 1`)
		within("the server lets in a purged tenant", func() bool { return fault.Is(enter(), fault.Unauthenticated) })
		s.run("admin", "tenant", "purge", "acme", "--confirm", "Acme").want(t, exitFailure, "Error: There is no such company.")

		// The operator's log has all of it, and says that it was the command line.
		rows, err := db.Query(t.Context(), `SELECT action FROM audit_log WHERE tenant_id = ? AND method = 'command_line' AND target_id = ? ORDER BY at, entry_id`,
			operator.TenantID, acme.TenantID)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var actions []string
		for rows.Next() {
			var action string
			if err := rows.Scan(&action); err != nil {
				t.Fatal(err)
			}
			actions = append(actions, action)
		}
		if got := strings.Join(actions, " "); got != "tenant.created tenant.suspended tenant.reactivated tenant.purge_started tenant.purged" {
			t.Error(got)
		}
	})
}

// A data directory that was mistyped is refused, and nothing is made there.
func TestNoDatabaseIsMadeByMistake(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "typo")
	s := shell{env: map[string]string{"AGENTD_DATA_DIR": dir}}
	for _, line := range []string{
		"admin tenant list", "admin tenant create --name n", "admin tenant suspend n", "admin tenant purge n --confirm n",
		"admin key create --role owner --name n", "migrate --status", "migrate --down=0",
	} {
		s.run(strings.Fields(line)...).want(t, exitFailure, "there is no database in "+dir+"; set AGENTD_DATA_DIR (--data-dir)", "agentd migrate --data-dir ")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
}

func TestReadersOfTheDataDirectoryAreWarnedOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := shell{env: map[string]string{"AGENTD_DATA_DIR": dir}}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r := s.run("migrate"); strings.Contains(r.stderr, "Warning") {
		t.Errorf("nobody can read it: %s", r.stderr)
	}
	key := filepath.Join(dir, "secret.key")
	if err := errors.Join(os.WriteFile(key, []byte("k"), 0o600), os.Chmod(key, 0o644), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	s.run("migrate").want(t, exitOK, "others on this machine can read "+dir+" and "+key, "chmod go-rwx "+dir)
}
