package signin_test

import (
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/signin"
	"agentd/internal/base/fault"
)

// A one-time link signs its member in once, within fifteen minutes, and asks for the
// second factor as every other way does.
func TestOneTimeLinks(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		owner, err := b.people.Tenants.Create(b.t.Context(), "Acme", "")
		if err != nil {
			b.t.Fatal(err)
		}
		link := func() string {
			token, err := b.NewLink(b.t.Context(), owner.TenantID, owner.UserID)
			if err != nil {
				b.t.Fatal(err)
			}
			return token
		}
		token := link()
		cookie, needsFactor, err := b.OpenLink(b.t.Context(), anybody, token, "Firefox on Linux")
		if err != nil || needsFactor || cookie.Name != identity.SessionCookieName {
			b.t.Fatal(cookie, needsFactor, err)
		}
		who, _, err := b.people.AuthenticateSession(b.t.Context(), cookie.Value)
		if err != nil || who.TenantID != owner.TenantID || who.UserID != owner.UserID || b.log.has("auth.signed_in") != 1 {
			b.t.Fatal(who, err)
		}
		late := link()
		b.clock.Advance(signin.LinkLife + time.Second)
		for _, spent := range []string{token, late, "", "guessed"} {
			if _, _, err := b.OpenLink(b.t.Context(), anybody, spent, ""); !fault.Is(err, fault.Malformed) {
				b.t.Errorf("%q: %v", spent, err)
			}
		}
		if b.count("browser_sessions") != 1 {
			b.t.Errorf("%d sessions", b.count("browser_sessions"))
		}
	})
}
