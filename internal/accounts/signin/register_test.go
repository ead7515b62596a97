package signin_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/signin"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

const registerPath = "/api/v1/register"

func registering(email string) object {
	return object{"body": object{"email": email, "name": "Ann's company", "accept_terms": true, "accept_privacy": true}}
}

// token reads the link of a letter.
func (b *bench) token(email string) string {
	b.t.Helper()
	text := b.letter(email).Text
	_, rest, found := strings.Cut(text, public+signin.ConfirmPath+"?token=")
	if !found {
		b.t.Fatalf("no link in %s", text)
	}
	return strings.Fields(rest)[0]
}

func TestRegister(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		registered := b.must(anybody, "POST", registerPath, registering(" Ann@example.com"))
		if registered.status != 201 || registered.cookie.Name != "svc_register" || registered.cookie.Lasts != 24*time.Hour ||
			b.count("tenants") != 0 {
			b.t.Errorf("%+v, %d tenants", registered, b.count("tenants"))
		}
		token := b.token("ann@example.com")
		// Her mail program, or another person, opens the link.
		for range 2 {
			elsewhere := b.must(anybody, "GET", signin.VerifyPath, object{"token": token})
			if elsewhere.cookie != nil || elsewhere.json["session"] != nil || elsewhere.json["ok"] != true {
				b.t.Errorf("%+v", elsewhere)
			}
		}
		if b.count("browser_sessions") != 0 || b.count("tenants") != 1 {
			b.t.Errorf("%d sessions, %d tenants", b.count("browser_sessions"), b.count("tenants"))
		}
		here := object{"token": token, "svc_register": registered.cookie.Value}
		got := b.must(anybody, "GET", signin.VerifyPath, here)
		who := b.caller(got)
		if who.Role != authz.Owner || got.json["tenant_id"] != who.TenantID || got.json["tenant"].(object)["name"] != "Ann's company" ||
			got.json["session"].(object)["session_id"] != who.SessionID {
			b.t.Errorf("%+v, %v", who, got.json)
		}
		b.keyOf(got, who)
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "GET", signin.VerifyPath, here)
		if _, again := b.signIn("ann@example.com"); again.TenantID != who.TenantID {
			b.t.Errorf("later in %s", again.TenantID)
		}
	}, signup)
}

func TestLinksThatDoNotCount(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		for _, token := range []string{"", "guessed", strings.Repeat("A", 43)} {
			b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "GET", signin.VerifyPath, object{"token": token})
		}
		registered := b.must(anybody, "POST", registerPath, registering("ann@example.com"))
		token := b.token("ann@example.com")
		b.clock.Advance(24 * time.Hour)
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "GET", signin.VerifyPath,
			object{"token": token, "svc_register": registered.cookie.Value})

		registered = b.must(anybody, "POST", registerPath, registering("ann@example.com"))
		token = b.token("ann@example.com")
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				_, _ = b.call(anybody, "GET", signin.VerifyPath, object{"token": token, "svc_register": registered.cookie.Value})
			})
		}
		wg.Wait()
		if b.count("tenants") != 1 || b.count("browser_sessions") != 1 {
			b.t.Errorf("%d tenants, %d sessions", b.count("tenants"), b.count("browser_sessions"))
		}
		for range 2 { // two registrations, one company
			b.must(anybody, "POST", registerPath, registering("bob@example.com"))
		}
		b.post.mu.Lock()
		letters := b.post.letters
		b.post.letters = nil
		b.post.mu.Unlock()
		for _, l := range letters {
			b.post.letters = append(b.post.letters, l)
			b.must(anybody, "GET", signin.VerifyPath, object{"token": b.token("bob@example.com")})
		}
		if b.count("tenants") != 2 {
			b.t.Errorf("%d tenants", b.count("tenants"))
		}
	}, signup)
}

// The answer does not tell who has an account; the letter does.
func TestRegisteringAgain(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		known := b.must(anybody, "POST", registerPath, registering("ann@example.com"))
		text := b.letter("ann@example.com").Text
		if strings.Contains(text, "token=") || !strings.Contains(text, "already has an account") {
			b.t.Error(text)
		}
		unknown := b.must(anybody, "POST", registerPath, registering("bob@example.com"))
		if diff := cmp.Diff(known.json, unknown.json); diff != "" || len(known.cookie.Value) != len(unknown.cookie.Value) {
			b.t.Error(diff)
		}
		if l := b.letter("bob@example.com"); !l.Until.Equal(b.clock.Now().Add(24 * time.Hour)) {
			b.t.Errorf("the letter is good until %v", l.Until)
		}
	}, signup)
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		f := b.refused(fault.Unsupported, "FEATURE_DISABLED", anybody, "POST", registerPath, registering("ann@example.com"))
		if !strings.Contains(f.Detail, "AGENTD_SIGNUP") {
			b.t.Error(f.Detail)
		}
	})
	each(t, func(b *bench) {
		for _, left := range []string{"accept_terms", "accept_privacy"} {
			in := registering("ann@example.com")
			in["body"].(object)[left] = false
			b.refused(fault.Invalid, "TERMS_NOT_ACCEPTED", anybody, "POST", registerPath, in)
		}
		in := registering("ann@example.com")
		in["body"].(object)["name"] = "a\x00b"
		if f := b.refused(fault.Invalid, "VALIDATION_ERROR", anybody, "POST", registerPath, in); len(f.Fields) != 1 ||
			f.Fields[0].Field != "name" {
			b.t.Errorf("%v", f.Fields)
		}
		b.refused(fault.Invalid, "VALIDATION_ERROR", anybody, "POST", registerPath, registering("ann"))
		b.noLetter()
		b.post.none = true
		f := b.refused(fault.Unsupported, "FEATURE_DISABLED", anybody, "POST", registerPath, registering("ann@example.com"))
		if !strings.Contains(f.Detail, "AGENTD_SMTP_URL") {
			b.t.Error(f.Detail)
		}
	}, signup)
}
