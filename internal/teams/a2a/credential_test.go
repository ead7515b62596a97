package a2a

import (
	"testing"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A credential is sent as its scheme says, and to its own origin; of several, that one
// counts whose address is nearest to the peer's.
func TestCredentials(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	stored := NewCredentials(deps)
	client := resourcetest.NewClient(stored.Routes())
	who := client.Who
	do := func(method, id, body string) (map[string]any, error) {
		path := "/api/v1/a2a/credentials"
		if id != "" {
			path += "/{a2aCredentialId}"
		}
		reply, err := client.Do(t.Context(), method, path, resourcetest.Args{"": body, "a2aCredentialId": id})
		if err != nil || method == "DELETE" {
			return nil, err
		}
		return resourcetest.Object(t, reply), nil
	}
	ids := map[string]string{}
	for _, body := range []string{
		`{"name":"all","url":"https://peer.example.com","token":"t1"}`,
		`{"name":"below","url":"https://PEER.example.com/agents/","scheme":"api_key","token":"t2"}`,
		`{"name":"deep","url":"https://peer.example.com/agents/ann","scheme":"api_key","header":"X-Own","token":"t3"}`,
		`{"name":"named","url":"https://peer.example.com:8443/","scheme":"basic","token":"ada:pw"}`,
	} {
		made, err := do("POST", "", body)
		if err != nil || made["token"] != "[redacted]" {
			t.Fatalf("%v: %v", made, err)
		}
		ids[made["name"].(string)] = made["credential_id"].(string)
	}
	for at, want := range map[string]string{
		"https://peer.example.com":                 "Authorization: Bearer t1",
		"https://peer.example.com/x":               "Authorization: Bearer t1",
		"https://peer.example.com/agentsmith":      "Authorization: Bearer t1",
		"https://peer.example.com:443/agents/bob":  "X-API-Key: t2",
		"https://peer.example.com/agents/ann?id=1": "X-Own: t3",
		"https://peer.example.com:8443/agents/ann": "Authorization: Basic YWRhOnB3",
		"http://peer.example.com":                  "",
		"https://peer.example.com.evil.com":        "",
		"https://evil.com/https://peer.example":    "",
		"::":                                       "",
	} {
		a, err := stored.For(t.Context(), who.TenantID, at)
		got := ""
		if a != nil {
			got = a.Header + ": " + a.Value.Reveal()
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", at, got, err, want)
		}
		if a, err := stored.For(t.Context(), ident.New(), at); a != nil || err != nil {
			t.Errorf("another company has %v for %s, %v", a, at, err)
		}
	}

	if _, err := do("PATCH", ids["all"], `{"scheme":"basic"}`); fault.From(err).Code != "secret_would_move" {
		t.Errorf("%v", err)
	}
	if c, err := do("PATCH", ids["all"], `{"scheme":"basic","token":"a:b","url":"https://evil.com","name":"new"}`); err != nil ||
		c["url"] != "https://peer.example.com" || c["name"] != "new" {
		t.Errorf("%v, %v", c, err)
	}
	check := func(id, scheme, at, want string) {
		t.Helper()
		if err := db.Write(t.Context(), func(tx txn.Tx) error {
			wrong, err := stored.CheckTx(tx, who.TenantID, id, scheme, at)
			if wrong != want {
				t.Errorf("%q, want %q", wrong, want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	check(ids["all"], Basic, "https://peer.example.com/any", "")
	check(ids["all"], Bearer, "https://peer.example.com", "the credential is sent as basic")
	check(ids["all"], Basic, "https://evil.com", "the credential is for https://peer.example.com:443, and is sent to no other address")
	if _, err := stored.Get(t.Context(), ident.New(), ids["all"]); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	if _, err := do("DELETE", ids["deep"], ""); err != nil {
		t.Error(err)
	}
	if a, err := stored.For(t.Context(), who.TenantID, "https://peer.example.com/agents/ann"); err != nil || a.Value.Reveal() != "t2" {
		t.Errorf("%v, %v", a, err)
	}
}
