package signin_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/signin"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/work"
)

const (
	request = "/api/v1/auth/request-code"
	verify  = "/api/v1/auth/verify-code"
)

func entering(email, code string) object { return object{"body": object{"email": email, "code": code}} }

func TestCode(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ann := b.member("Acme", "ann@example.com")
		code := b.code("ann@example.com")
		spaced := " " + code[:3] + " " + code[3:] + "\t"
		got := b.must(anybody, "POST", verify, object{"body": object{"email": " Ann@Example.com ", "code": spaced,
			"device_label": "Ann's laptop"}})
		who := b.caller(got)
		if who.TenantID != ann.TenantID || who.UserID != ann.UserID || who.HalfOpen || who.SessionID == "" || who.KeyID != "" ||
			who.Method != "cookie" {
			b.t.Errorf("signed in as %+v", who)
		}
		want := object{
			"ok":           true,
			"email":        "ann@example.com",
			"user":         object{"user_id": ann.UserID, "email": "ann@example.com", "name": "ann", "role": "owner"},
			"tenant":       object{"tenant_id": ann.TenantID, "name": "Acme", "slug": "acme", "plan": "self_hosted"},
			"session":      object{"session_id": who.SessionID, "expires_at": b.clock.Now().Add(90 * 24 * time.Hour).Format(time.RFC3339)},
			"mfa_required": false,
		}
		b.keyOf(got, who)
		delete(got.json, "api_key")
		if diff := cmp.Diff(want, got.json); diff != "" {
			b.t.Error(diff)
		}
		if b.log.has("auth.signed_in "+ann.UserID+` {"method":"otp","mfa_required":false}`) != 1 {
			b.t.Errorf("audited %v", b.log.entries)
		}
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering("ann@example.com", code)) // used
	})
}

// keyOf fails unless the answer has a key that acts as the session of the caller.
func (b *bench) keyOf(got answer, who authz.Caller) {
	b.t.Helper()
	key, _ := got.json["api_key"].(string)
	by, err := b.people.Authenticate(b.t.Context(), key)
	if err != nil {
		b.t.Errorf("the key %q: %v", key, err)
	}
	who.Method = "session_key"
	if diff := cmp.Diff(who, by); diff != "" {
		b.t.Error(diff)
	}
}

// TestCookieOnly signs in from a page, which gets no key.
func TestCookieOnly(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		got := b.must(anybody, "POST", verify, object{"body": object{
			"email": "ann@example.com", "code": b.code("ann@example.com"), "cookie_only": true,
		}})
		if _, there := got.json["api_key"]; there || got.cookie == nil {
			b.t.Errorf("%v, %v", got.json, got.cookie)
		}
		var keys int
		if err := b.db.QueryRow(b.t.Context(), `SELECT COUNT(*) FROM browser_sessions WHERE key_prefix <> ''`).Scan(&keys); err != nil || keys != 0 {
			b.t.Errorf("%d keys are stored, %v", keys, err)
		}
		got = b.flow("corp", object{"cookie_only": true})
		if _, there := got.json["api_key"]; there || got.json["ok"] != true {
			b.t.Errorf("%v", got.json)
		}
	}, provider)
}

func TestCodesThatDoNotCount(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		wrong := func(email, code string) {
			b.t.Helper()
			b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering(email, code))
		}
		wrong("ann@example.com", "123456") // none was asked for
		code := b.code("ann@example.com")
		wrong("bob@example.com", code) // another's
		wrong("ann@example.com", "")
		wrong("ann@example.com", code+"0")
		b.clock.Advance(10 * time.Minute)
		wrong("ann@example.com", code) // too old

		first := b.code("ann@example.com")
		b.clock.Advance(time.Minute)
		second := b.code("ann@example.com") // which somebody else may have requested: the first still counts
		b.must(anybody, "POST", verify, entering("ann@example.com", first))
		b.must(anybody, "POST", verify, entering("ann@example.com", second))
		wrong("ann@example.com", second)
	})
}

// asked requests a code as one client and returns what binds it, and both codes of the
// letter.
func (b *bench) asked(email string) (attempt, short, long string) {
	b.t.Helper()
	got := b.must(anybody, "POST", request, object{"body": object{"email": email}})
	attempt = got.json["attempt"].(string)
	if got.cookie == nil || got.cookie.Name != "svc_signin" || got.cookie.Value != attempt || got.cookie.Lasts != 10*time.Minute {
		b.t.Errorf("the cookie %+v", got.cookie)
	}
	b.work()
	l := b.letter(email)
	for line := range strings.Lines(l.Text) {
		if line = strings.TrimSpace(line); strings.Count(line, "-") == 3 && len(line) == 19 {
			long = line
		}
	}
	if long == "" {
		b.t.Fatalf("no long code in %s", l.Text)
	}
	return attempt, codeOf(b.t, l), long
}

// What strangers enter does not use up the attempts of the browser that asked,
// whether they send nothing, something made up, or what they got for requests of
// their own; and nobody gets more than five attempts.
func TestStrangersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	with := func(email, code, attempt string) object {
		return object{"body": object{"email": email, "code": code, "attempt": attempt}}
	}
	const ann = "ann@example.com"
	each(t, func(b *bench) {
		b.member("Acme", ann)
		eves, _, _ := b.asked(ann)
		b.clock.Advance(time.Minute)
		attempt, code, _ := b.asked(ann)
		for _, strange := range []string{"", "made up", eves} {
			for range 12 {
				b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, with(ann, other(code), strange))
			}
			b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, with(ann, code, strange))
		}
		for range 4 {
			b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, with(ann, other(code), attempt))
		}
		b.must(anybody, "POST", verify, object{"body": object{"email": ann, "code": code}, "svc_signin": attempt})

		b.clock.Advance(time.Hour) // whoever asked has five attempts
		attempt, code, long := b.asked(ann)
		for range 5 {
			b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, with(ann, other(code), attempt))
		}
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, with(ann, code, attempt))
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, with(ann, "ABCD-EFGH-IJKL-MNOP", ""))
		b.must(anybody, "POST", verify, with(ann, strings.ToLower(long), "")) // which nobody guesses, from anywhere
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, with(ann, long, ""))
	})
}

// Whoever asks and guesses all day has a bounded number of guesses; a code that
// a stranger asked for still lets the person in.
func TestGuessesOfADayAreBounded(t *testing.T) {
	t.Parallel()
	const ann = "ann@example.com"
	each(t, func(b *bench) {
		b.member("Acme", ann)
		guesses := func() (n int) {
			if err := b.db.QueryRow(b.t.Context(), `SELECT tried FROM signin_addresses`).Scan(&n); err != nil {
				b.t.Fatal(err)
			}
			return n
		}
		for range 40 {
			_, code, _ := b.asked(ann)
			for range 6 {
				b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering(ann, other(code)))
			}
			b.clock.Advance(11 * time.Minute)
		}
		if n := guesses(); n != 100 {
			b.t.Errorf("%d guesses in a day, want 100", n)
		}
		_, code, long := b.asked(ann)
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering(ann, code))
		b.must(anybody, "POST", verify, entering(ann, long))
		b.clock.Advance(24 * time.Hour)
		_, code, _ = b.asked(ann)
		b.must(anybody, "POST", verify, entering(ann, code))
	})
}

func TestWrongTriesSpendACode(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		code := b.code("ann@example.com")
		for range 4 {
			b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering("ann@example.com", other(code)))
		}
		b.must(anybody, "POST", verify, entering("ann@example.com", code)) // the fifth try is good
		b.clock.Advance(time.Hour)
		code = b.code("ann@example.com")
		for range 5 {
			b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering("ann@example.com", other(code)))
		}
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering("ann@example.com", code))
	})
}

func TestOneOfManySignsIn(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		code := b.code("ann@example.com")
		var in atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := b.call(anybody, "POST", verify, entering("ann@example.com", code)); err == nil {
					in.Add(1)
				} else if fault.From(err).Code != "VERIFICATION_FAILED" {
					b.t.Error(err)
				}
			})
		}
		wg.Wait()
		if in.Load() != 1 || b.count("browser_sessions") != 1 {
			b.t.Errorf("%d came in, %d sessions", in.Load(), b.count("browser_sessions"))
		}
		// Wrong tries at once are all counted.
		b.clock.Advance(time.Hour)
		code = b.code("ann@example.com")
		for range 5 {
			wg.Go(func() { _, _ = b.call(anybody, "POST", verify, entering("ann@example.com", other(code))) })
		}
		wg.Wait()
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering("ann@example.com", code))
	})
}

// Nothing that a request for a code answers or leaves reports whether the address
// is known.
func TestStrangersAreToldNothing(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		var answers []object
		for _, email := range []string{"ann@example.com", "eve@example.com"} {
			got := b.must(anybody, "POST", request, object{"body": object{"email": email}}).json
			delete(got, "attempt") // differs with every request
			answers = append(answers, got)
			f := b.refused(fault.Limited, "rate_limit_exceeded", anybody, "POST", request, object{"body": object{"email": email}})
			if f.RetryAfter != time.Minute {
				b.t.Errorf("%s: again after %s", email, f.RetryAfter)
			}
		}
		if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
			b.t.Error(diff)
		}
		if n := b.count("signin_addresses"); n != 2 {
			b.t.Errorf("%d codes are kept", n)
		}
		b.work()
		b.letter("ann@example.com")
		b.refused(fault.Malformed, "VERIFICATION_FAILED", anybody, "POST", verify, entering("eve@example.com", "123456"))
	})
}

func TestCoolDown(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		var waits []time.Duration
		for range 8 {
			b.must(anybody, "POST", request, object{"body": object{"email": "ann@example.com"}})
			f := b.refused(fault.Limited, "rate_limit_exceeded", anybody, "POST", request, object{"body": object{"email": "ann@example.com"}})
			waits = append(waits, f.RetryAfter)
			b.clock.Advance(f.RetryAfter)
		}
		want := []time.Duration{1, 1, 2, 4, 8, 10, 10, 10}
		for i := range want {
			want[i] *= time.Minute
		}
		if diff := cmp.Diff(want, waits); diff != "" {
			b.t.Error(diff)
		}
		b.clock.Advance(time.Hour) // forgotten
		b.must(anybody, "POST", request, object{"body": object{"email": "ann@example.com"}})
		f := b.refused(fault.Limited, "rate_limit_exceeded", anybody, "POST", request, object{"body": object{"email": "ann@example.com"}})
		if f.RetryAfter != time.Minute {
			b.t.Errorf("after an hour: %s", f.RetryAfter)
		}
		var wg sync.WaitGroup
		var taken atomic.Int64
		for range 6 { // at once, for an address that is new
			wg.Go(func() {
				if _, err := b.call(anybody, "POST", request, object{"body": object{"email": "new@example.com"}}); err == nil {
					taken.Add(1)
				} else if !fault.Is(err, fault.Limited) {
					b.t.Error(err)
				}
			})
		}
		wg.Wait()
		if taken.Load() != 1 {
			b.t.Errorf("%d codes at once", taken.Load())
		}
	})
}

func TestNoMail(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		b.post.none = true
		for _, email := range []string{"ann@example.com", "eve@example.com"} {
			f := b.refused(fault.Unsupported, "FEATURE_DISABLED", anybody, "POST", request, object{"body": object{"email": email}})
			if !strings.Contains(f.Detail, "AGENTD_SMTP_URL") {
				b.t.Error(f.Detail)
			}
		}
	})
}

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		for _, email := range []string{"", "ann", "Ann <ann@example.com>", "a@example.com, b@example.com",
			"ann@example.com\r\nBcc: eve@example.com", strings.Repeat("a", 200) + "@example.com"} {
			for _, path := range []string{request, verify} {
				f := b.refused(fault.Invalid, "VALIDATION_ERROR", anybody, "POST", path, object{"body": object{"email": email, "code": "123456"}})
				if len(f.Fields) != 1 || f.Fields[0].Field != "email" {
					b.t.Errorf("%q: %v", email, f.Fields)
				}
			}
		}
	})
}

func TestSealedRequests(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.member("Acme", "ann@example.com")
		b.must(anybody, "POST", request, object{"body": object{"email": "ann@example.com"}})
		held, err := b.queue.Claim(b.t.Context(), signin.WorkKind, "n1", 1, time.Minute)
		if err != nil || len(held) != 1 || strings.Contains(string(held[0].Payload), "ann@") {
			b.t.Fatalf("%v, %v", held, err)
		}
		bad := held[0]
		bad.Payload = []byte(`{"sealed":"AAAA"}`)
		if err := b.Handle(b.t.Context(), bad); err != nil {
			b.t.Error(err)
		}
		b.noLetter()
		if err := b.Handle(b.t.Context(), held[0]); err == nil || !strings.Contains(err.Error(), work.ErrLost.Error()) {
			b.t.Errorf("what was dropped is done: %v", err)
		}
		b.noLetter()
	})
}

func TestMembershipThatIsSignedInTo(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		first, second := b.member("First", "ann@example.com"), b.member("Second", "ann@example.com")
		in := func() string {
			b.t.Helper()
			_, who := b.signIn("ann@example.com")
			return who.TenantID
		}
		if got := in(); got != first.TenantID {
			b.t.Errorf("never signed in before: %s, not the oldest", got)
		}
		b.sql(`UPDATE users SET last_login_at = ? WHERE tenant_id = ?`, b.clock.Now().Add(time.Minute).UnixMicro(), second.TenantID)
		if got := in(); got != second.TenantID {
			b.t.Errorf("got %s, not the last one", got)
		}
		b.sql(`UPDATE tenants SET status = 'suspended' WHERE tenant_id = ?`, second.TenantID)
		if got := in(); got != first.TenantID {
			b.t.Errorf("got %s, not the one that is not suspended", got)
		}
		b.sql(`UPDATE users SET status = 'suspended' WHERE tenant_id = ?`, first.TenantID)
		b.clock.Advance(time.Hour)
		b.refused(fault.Forbidden, "MEMBER_SUSPENDED", anybody, "POST", verify, entering("ann@example.com", b.code("ann@example.com")))
		b.sql(`UPDATE users SET status = 'active'`)
		b.sql(`UPDATE tenants SET status = 'suspended'`)
		b.clock.Advance(time.Hour)
		b.refused(fault.Forbidden, "TENANT_SUSPENDED", anybody, "POST", verify, entering("ann@example.com", b.code("ann@example.com")))
	})
}

// Who shows that an address is theirs gets the memberships with it, and whoever
// used them until then is out.
func TestUnverifiedMembership(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ann := b.member("Acme", "ann@example.com")
		b.sql(`UPDATE users SET email_verified = FALSE`)
		_, who := b.signIn("ann@example.com")
		if who.UserID != ann.UserID {
			b.t.Errorf("signed in as %+v", who)
		}
		var status string
		if err := b.db.QueryRow(b.t.Context(), `SELECT status FROM api_keys WHERE key_id = ?`, ann.KeyID).Scan(&status); err != nil ||
			status != "revoked" {
			b.t.Errorf("the key from before is %s, %v", status, err)
		}
	})
}

func TestSignUpWithACode(t *testing.T) {
	t.Parallel()
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		each(t, func(b *bench) {
			b.must(anybody, "POST", request, object{"body": object{"email": "new@example.com", "accept_terms": true, "accept_privacy": true}})
			b.work()
			b.noLetter()
		})
	})
	t.Run("on", func(t *testing.T) {
		t.Parallel()
		each(t, func(b *bench) {
			code := b.code("new@example.com")
			f := b.refused(fault.Invalid, "TERMS_NOT_ACCEPTED", anybody, "POST", verify, entering("new@example.com", code))
			if len(f.Fields) > 0 || b.count("users") != 0 {
				b.t.Errorf("%v, %d users", f.Fields, b.count("users"))
			}
			b.refused(fault.Invalid, "TERMS_NOT_ACCEPTED", anybody, "POST", verify, // half is not enough
				object{"body": object{"email": "new@example.com", "code": code, "accept_terms": true}})
			got := b.must(anybody, "POST", verify, // the same code still
				object{"body": object{"email": "new@example.com", "code": code, "accept_terms": true, "accept_privacy": true}})
			who := b.caller(got)
			tenant := got.json["tenant"].(object)
			if who.Role != authz.Owner || tenant["name"] != "new" || !strings.HasPrefix(tenant["slug"].(string), "new-") || who.Operator {
				b.t.Errorf("signed in as %+v, tenant %v", who, tenant)
			}
			if b.log.has("tenant.created "+who.UserID+` {"name":"new"`) != 1 {
				b.t.Errorf("audited %v", b.log.entries)
			}
			_, again := b.signIn("new@example.com")
			if again.TenantID != who.TenantID || b.count("tenants") != 1 {
				b.t.Errorf("the second time in %s, %d tenants", again.TenantID, b.count("tenants"))
			}
			b.clock.Advance(time.Hour)
			b.must(anybody, "POST", request, object{"body": object{"email": "two@example.com", "accept_terms": true, "accept_privacy": true}})
			b.work()
			b.must(anybody, "POST", verify, entering("two@example.com", codeOf(b.t, b.letter("two@example.com"))))
		}, signup)
	})
}

func TestSweep(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.must(anybody, "POST", request, object{"body": object{"email": "one@example.com"}})
		b.clock.Advance(time.Hour)
		b.must(anybody, "POST", request, object{"body": object{"email": "two@example.com"}})
		b.work()
		if n := b.count("signin_addresses"); n != 1 {
			b.t.Errorf("%d codes are kept", n)
		}
	})
}
