package cli

import (
	"log/slog"
	"net/url"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/store/sqldb"
)

func TestSignInLink(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, s shell, cfg sqldb.Config) {
		s.env["AGENTD_SECRET_KEY"] = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
		s.run("migrate").want(t, exitOK)
		s.run("admin", "sign-in-link").want(t, exitFailure, "Error: there is no tenant yet")
		db, err := sqldb.Open(t.Context(), cfg) // the server
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		server := identity.New(identity.Config{DB: db, Store: identitysql.New(db), Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)})
		first, _, err := server.Tenants.Bootstrap(t.Context(), secret.String{})
		if err != nil {
			t.Fatal(err)
		}
		acme := s.run("admin", "tenant", "create", "--name", "Acme", "--owner", "ann@example.com", "--json").grant(t)

		link := func(args ...string) (user string) {
			t.Helper()
			r := s.run(append([]string{"admin", "sign-in-link", "--json"}, args...)...)
			r.want(t, exitOK)
			var got struct {
				URL    string `json:"url"`
				UserID string `json:"user_id"`
				Token  string `json:"token"`
			}
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
				t.Fatal(err)
			}
			if u, err := url.Parse(got.URL); err != nil || u.Path != "/signin/link" || u.Query().Get("token") != got.Token || len(got.Token) != 43 {
				t.Errorf("link %s", got.URL)
			}
			return got.UserID
		}
		for _, c := range []struct {
			args []string
			want string
		}{
			{nil, first.UserID},
			{[]string{"--tenant", acme.TenantID}, acme.UserID},
			{[]string{"--tenant", acme.TenantID, "--member", "Ann@example.com"}, acme.UserID},
			{[]string{"--tenant", acme.TenantID, "--member", acme.UserID}, acme.UserID},
		} {
			if got := link(c.args...); got != c.want {
				t.Errorf("%v is a link for %s, want %s", c.args, got, c.want)
			}
		}
		s.run("admin", "sign-in-link", "--url", "https://agents.example.com/").
			want(t, exitOK, "https://agents.example.com/signin/link?token=", "within 15 minutes")
		s.run("admin", "sign-in-link", "--member", acme.UserID).want(t, exitFailure, "Error: the tenant has no member")
		s.run("admin", "sign-in-link", "--tenant", "nope").want(t, exitFailure, "Error: there is no such tenant")
		s.run("admin", "sign-in-link", "--url", "localhost").want(t, exitFailure, "is no address of a server")
	})
}
