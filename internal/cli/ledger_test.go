package cli

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/hashchain"
)

func TestLedgerVerify(t *testing.T) {
	t.Parallel()
	e := hashchain.Entry{ID: "a", At: time.Unix(1700000000, 0), Kind: "constitution.amended", Details: []byte(`{}`)}
	head := e.Seal(hashchain.Head{})
	entry := fmt.Sprintf(`{"id":"a","seq":1,"kind":"constitution.amended","actor_agent_id":null,"actor_user_id":null,"subject_agent_id":null,`+
		`"rule_id":null,"run_id":null,"details":{},"ts":"2023-11-14T22:13:20Z","prev_hash":"","hash":%q}`, e.Hash) + "\n"
	end := fmt.Sprintf(`{"head":{"seq":1,"hash":%q}}`, head.Hash) + "\n"
	noKey := base64.StdEncoding.EncodeToString(make([]byte, ed25519.PublicKeySize))
	for name, c := range map[string]struct {
		text string
		args []string
		code int
		said string
	}{
		"whole":         {entry + end, []string{"--head", head.Hash}, exitOK, "The ledger is whole: 1 entries, head " + head.Hash},
		"another head":  {entry + end, []string{"--head", "x"}, exitFailure, "not the expected x"},
		"not signed":    {entry + end, []string{"--key", noKey}, exitFailure, "not signed by the key " + noKey},
		"no public key": {entry + end, []string{"--key", "svc_x"}, exitUsage, "--key is no public key of a ledger"},
		"changed":       {strings.Replace(entry, `"id":"a"`, `"id":"b"`, 1) + end, nil, exitFailure, "entry 1 was changed"},
		"cut off":       {entry, nil, exitFailure, "it was cut off"},
		"empty":         {"", nil, exitUsage, "cannot be read as a ledger: the file is empty"},
		"not an export": {"hello", nil, exitUsage, "cannot be read as a ledger: line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "ledger.ndjson")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			(shell{}).run(append([]string{"ledger", "verify", file}, c.args...)...).want(t, c.code, c.said)
		})
	}
	(shell{}).run("ledger", "verify", filepath.Join(t.TempDir(), "none")).want(t, exitUsage, "no such file")
}
