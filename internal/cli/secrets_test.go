package cli

import (
	"bytes"
	"encoding/base64"
	"maps"
	"testing"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/store/secretsql"
	"agentd/internal/store/sqldb"
)

func TestSecretsAreRotated(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s shell, cfg sqldb.Config) {
		key := func(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }
		with := func(keys string) shell {
			env := map[string]string{"AGENTD_SECRET_KEY": keys}
			maps.Copy(env, s.env)
			return shell{env: env}
		}
		db, err := sqldb.Open(t.Context(), cfg) // the server
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		box, err := secret.NewBox(bytes.Repeat([]byte{1}, 32))
		if err != nil {
			t.Fatal(err)
		}
		old, server := string(box.KeyIDs()[0]), secretsql.New(db, box, clock.System{})
		if _, err := server.Kept(t.Context(), "signin/codes"); err != nil {
			t.Fatal(err)
		}
		if err := server.Report(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}

		with(key(2)+","+key(1)).run("admin", "secrets", "rotate").want(t, exitFailure, "the server n1 does not have the key")
		with(key(2)).run("admin", "secrets", "rotate").want(t, exitFailure, "AGENTD_SECRET_KEY lacks the key "+old, "1 in kept_secrets")
		with(key(1)).run("admin", "secrets", "status").want(t, exitOK, "kept_secrets", old)
		if err := server.Stopped(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
		with(key(2)+","+key(1)).run("admin", "secrets", "rotate").
			want(t, exitOK, "Sealed 1 rows again with the key ", "Nothing needs the key "+old+" any more")
		with(key(2)).run("admin", "secrets", "rotate", "--json").want(t, exitOK, `"resealed": 0`, `"left": []`)
		with(key(2)).run("admin", "secrets", "status", "--json").want(t, exitOK, `"table": "kept_secrets"`)

		// A value that is sealed with a key that is lost.
		if err := db.Write(t.Context(), func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(sqldb.Insert("kept_secrets", "name, sealed"), "x", box.Seal([]byte("x"), "kept/x"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		with(key(2)).run("admin", "secrets", "rotate").want(t, exitFailure, "No key opens kept_secrets x", "1 values of kept_secrets still need the key "+old)
		with(key(2)).run("admin", "secrets", "forget", old).want(t, exitOK, "Forgot the key "+old)
		with(key(2)+",x").run("admin", "secrets", "status").want(t, exitFailure, "AGENTD_SECRET_KEY")
	})
}
