package cli

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBackup(t *testing.T) {
	t.Parallel()
	encoded := func(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }
	cfg := sqldbtest.Migrated(t, sqldbtest.SQLite)
	server := shell{env: map[string]string{"AGENTD_DATA_DIR": cfg.Dir}}
	elsewhere := func(env ...string) shell {
		e := map[string]string{"AGENTD_DATA_DIR": filepath.Join(t.TempDir(), "new")}
		for i := 0; i < len(env); i += 2 {
			e[env[i]] = env[i+1]
		}
		return shell{env: e}
	}
	to := func() string { return filepath.Join(t.TempDir(), "agentd.backup") }

	server.run("backup", to()).want(t, exitFailure, "there is no key to seal the backup with")
	server.env["AGENTD_SECRET_KEY"] = encoded(1)
	plain := to()
	server.run("backup", plain).want(t, exitOK, "sealed with the secret key ", "Keep the secret key elsewhere")
	server.run("backup", plain).want(t, exitFailure, "exists already; choose another name")
	server.run("verify", plain).want(t, exitOK, "The backup is whole: ", "2026-09-10T12:00:00Z")
	elsewhere("AGENTD_SECRET_KEY", encoded(2)).run("restore", plain).want(t, exitFailure, "sealed with the secret key ", "no key that was given opens it")
	elsewhere().run("restore", plain).want(t, exitFailure, "no key that was given opens it")
	elsewhere("AGENTD_SECRET_KEY", encoded(1)).run("restore", plain, "--json").want(t, exitOK, `"agentd": "1.2.3"`)
	server.run("restore", plain).want(t, exitFailure, "is not empty: it has agentd.db")
	server.run("verify", filepath.Join(cfg.Dir, "nothing")).want(t, exitUsage, "no such file")

	// With a key of its own, and a passphrase, which brings both keys.
	server.run("backup", to(), "--passphrase-file", file(t, "short\n")).want(t, exitFailure, "has 5 characters and must have 12")
	server.run("backup", to(), "--key-file", file(t, "***")).want(t, exitFailure, "is not base64")
	server.env["AGENTD_BACKUP_KEY"] = encoded(3)
	passphrase, carrying := file(t, "correct horse battery\n"), to()
	server.run("backup", carrying, "--passphrase-file", passphrase).want(t, exitOK, "sealed with the backup key ")
	elsewhere("AGENTD_SECRET_KEY", encoded(1)).run("verify", carrying).want(t, exitFailure, "sealed with the backup key ")
	elsewhere().run("verify", carrying, "--key-file", file(t, encoded(3))).want(t, exitOK)
	fresh := elsewhere()
	fresh.run("restore", carrying, "--passphrase-file", passphrase).want(t, exitOK, "Restored ")
	if key, err := os.ReadFile(filepath.Join(fresh.env["AGENTD_DATA_DIR"], "secret.key")); err != nil || string(key) != encoded(1)+"\n" {
		t.Errorf("the secret key is %q, %v", key, err)
	}
}

func TestSqliteToPostgres(t *testing.T) {
	t.Parallel()
	source, target := sqldbtest.Migrated(t, sqldbtest.SQLite), sqldbtest.Config(t, sqldbtest.Postgres)
	s := shell{env: map[string]string{"AGENTD_DATA_DIR": source.Dir}}
	s.run("migrate", "sqlite-to-postgres").want(t, exitUsage, "set AGENTD_DATABASE_URL")
	s.env["AGENTD_DATABASE_URL"] = target.URL
	on := shell{env: map[string]string{"AGENTD_DATA_DIR": source.Dir}}
	on.run("admin", "tenant", "create", "--name", "Acme", "--owner", "ann@example.com").want(t, exitOK)
	unlock, err := sqldb.LockDir(source.Dir) // as a server does
	if err != nil {
		t.Fatal(err)
	}
	s.run("migrate", "sqlite-to-postgres").want(t, exitFailure, "another agentd serves from this data directory")
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	s.run("migrate", "sqlite-to-postgres").want(t, exitOK, "and compared each")
	s.run("admin", "tenant", "list").want(t, exitOK, "Acme")
	s.run("migrate", "sqlite-to-postgres").want(t, exitFailure, "the database is not empty")
}
