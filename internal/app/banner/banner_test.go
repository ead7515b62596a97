package banner

import (
	"strings"
	"testing"

	"agentd/internal/base/secret"
	"agentd/internal/goldentest"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	const key = "svc_abcdefgh_0123456789abcdefghijklmnopqrstuv"
	for name, info := range map[string]Info{
		"first": {
			Version: "0.2.0", Program: "bin/agentd", Listening: "127.0.0.1:8080", Database: "SQLite in ./agentd-data",
			FirstStart: true, OwnerKey: secret.New(key), Link: secret.New("/signin/link?token=0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"),
		},
		"first-elsewhere": {
			Version: "0.2.0", Program: "/usr/bin/agentd", Listening: "[::]:9000", Database: "SQLite in /data",
			Model: "default/llama", Endpoint: "http://10.0.0.1:11434/v1", FirstStart: true, OwnerKey: secret.New(key),
		},
		"first-with-given-key": {
			Version: "0.2.0", Program: "bin/agentd", Listening: "127.0.0.1:8080", Database: "SQLite in ./agentd-data", FirstStart: true,
		},
		"model-not-chosen": {
			Version: "0.2.0", Program: "bin/agentd", Listening: "127.0.0.1:8080", Database: "SQLite in ./agentd-data", Endpoint: "http://127.0.0.1:11434/v1",
		},
		"again": {
			Version: "0.2.0", Program: "bin/agentd", Listening: "0.0.0.0:8080", PublicURL: "https://agents.example.com/", Database: "PostgreSQL at db:5432",
			Model: "far/large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			if err := Write(&got, info); err != nil {
				t.Fatal(err)
			}
			goldentest.Check(t, "testdata/"+name+".txt", []byte(got.String()))
			if n := strings.Count(got.String(), key); n > 1 || n == 1 && info.OwnerKey.Empty() {
				t.Errorf("the key is shown %d times", n)
			}
		})
	}
}
