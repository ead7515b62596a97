package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/internal/base/config"
	"agentd/internal/store/sqldb"
)

// serving is a shell whose server starts and ends at once.
func serving(env map[string]string) shell {
	return shell{env: env, serve: func(context.Context, config.Config) error { return nil }}
}

func TestServeRefusesUnknownVariables(t *testing.T) {
	t.Parallel()
	s := serving(map[string]string{"AGENTD_DATA_DIR": t.TempDir(), "AGENTD_MODELL": "llama", "AGENTD_PORT": "9000"})
	s.serve = func(context.Context, config.Config) error {
		t.Error("the server is started")
		return nil
	}
	s.run("serve").want(t, exitFailure, "AGENTD_MODELL is no setting of agentd; did you mean AGENTD_MODEL?",
		"AGENTD_PORT is no setting of agentd; did you mean AGENTD_LISTEN?")
	// Commands of clients do not read the settings of servers.
	s.run("version").want(t, exitOK)
}

func TestServeNotesANewDirectoryBesideAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	meant, typed := filepath.Join(dir, "data"), filepath.Join(dir, "dta")
	db, err := sqldb.Open(t.Context(), sqldb.Config{Dir: mkdir(t, meant)})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := serving(map[string]string{"AGENTD_DATA_DIR": typed}).run("serve")
	r.want(t, exitOK, "Note: "+typed+" has no database yet", "There is one in "+meant)
	r = serving(map[string]string{"AGENTD_DATA_DIR": meant}).run("serve")
	r.want(t, exitOK)
	if strings.Contains(r.stderr, "Note") {
		t.Errorf("a directory with a database is noted: %s", r.stderr)
	}
	alone := filepath.Join(t.TempDir(), "first")
	if r := serving(map[string]string{"AGENTD_DATA_DIR": alone}).run("serve"); r.stderr != "" {
		t.Errorf("a first start is noted: %s", r.stderr)
	}
}

func TestServeWarnsOfReaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := mkdir(t, filepath.Join(dir, "data"))
	providers := filepath.Join(dir, "providers.json")
	for path, mode := range map[string]os.FileMode{data: 0o755, providers: 0o644} {
		if path == providers {
			if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	r := serving(map[string]string{"AGENTD_DATA_DIR": data, "AGENTD_PROVIDERS": providers}).run("serve")
	r.want(t, exitOK, "others on this machine can read "+data, "chmod go-rwx ", "everybody on this machine can read "+providers, "chmod o-rwx ")
	for _, path := range []string{data, providers} {
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if r := serving(map[string]string{"AGENTD_DATA_DIR": data, "AGENTD_PROVIDERS": providers}).run("serve"); r.stderr != "" {
		t.Errorf("private files are warned of: %s", r.stderr)
	}
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
