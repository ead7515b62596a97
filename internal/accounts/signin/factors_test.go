package signin_test

import (
	"bytes"
	"encoding/base32"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/signin"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

const mfa = "/api/v1/auth/mfa/"

func showing(code string) object { return object{"body": object{"code": code}} }

// app is an authenticator app.
type app struct {
	b      *bench
	alg    signin.Algorithm
	secret []byte
}

func (a app) code() string { return signin.CodeAt(a.alg, a.secret, a.b.clock.Now()) }

// wrong is a code that is not right, nor was or will be soon.
func (a app) wrong() string {
	for _, code := range []string{"000000", "111111", "222222", "333333"} {
		ok := true
		for d := -time.Minute; d <= time.Minute; d += 30 * time.Second {
			ok = ok && signin.CodeAt(a.alg, a.secret, a.b.clock.Now().Add(d)) != code
		}
		if ok {
			return code
		}
	}
	panic("no code is wrong")
}

// enrol enrols and confirms.
func (b *bench) enrol(who authz.Caller) (app, []string) {
	b.t.Helper()
	got := b.must(who, "POST", mfa+"enrol", nil).json
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(got["secret"].(string))
	if err != nil {
		b.t.Fatal(err)
	}
	var codes []string
	for _, c := range got["recovery_codes"].([]any) {
		codes = append(codes, c.(string))
	}
	a := app{b, signin.SHA1, secret}
	b.must(who, "POST", mfa+"verify", showing(a.code()))
	b.clock.Advance(time.Minute)
	return a, codes
}

func TestEnrolment(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		who := b.member("Acme", "ann@example.com")
		status := func(enrolled bool, left float64) {
			b.t.Helper()
			if diff := cmp.Diff(object{"enrolled": enrolled, "recovery_remaining": left}, b.must(who, "GET", mfa+"status", nil).json); diff != "" {
				b.t.Error(diff)
			}
		}
		status(false, 0)
		b.refused(fault.NotFound, "NOT_FOUND", who, "POST", mfa+"verify", showing("123456"))
		b.must(who, "POST", mfa+"enrol", nil) // begun and forgotten
		status(false, 0)
		b.refused(fault.NotFound, "NOT_FOUND", who, "POST", mfa+"recovery", showing("ABCD"))
		b.refused(fault.NotFound, "NOT_FOUND", who, "POST", mfa+"disable", showing("123456"))
		got := b.must(who, "POST", mfa+"enrol", object{"body": object{"label": "ann: laptop", "issuer": "Acme Inc", "algorithm": "SHA-256"}})
		if got.status != 201 {
			b.t.Errorf("status %d", got.status)
		}
		at, err := url.Parse(got.json["otpauth_url"].(string))
		if err != nil || at.Scheme != "otpauth" || at.Host != "totp" || at.Path != "/Acme Inc:ann  laptop" || strings.Contains(at.RawQuery, "+") {
			b.t.Errorf("%v, %v", at, err)
		}
		secret := got.json["secret"].(string)
		for name, want := range map[string]string{"secret": secret, "issuer": "Acme Inc", "algorithm": "SHA256", "digits": "6", "period": "30"} {
			if at.Query().Get(name) != want {
				b.t.Errorf("%s is %q", name, at.Query().Get(name))
			}
		}
		raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
		if err != nil || len(raw) != 32 {
			b.t.Fatal(err, len(raw))
		}
		a := app{b, signin.SHA256, raw}
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(a.wrong()))
		status(false, 0)
		if diff := cmp.Diff(object{"verified": true, "recovery_remaining": 10.0},
			b.must(who, "POST", mfa+"verify", showing(a.code())).json); diff != "" {
			b.t.Error(diff)
		}
		status(true, 10)
		b.refused(fault.Conflict, "ALREADY_EXISTS", who, "POST", mfa+"enrol", nil)
		if b.log.has("auth.mfa_enrolled "+who.UserID) != 1 {
			b.t.Errorf("audited %v", b.log.entries)
		}
		var sealed, recovery []byte
		if err := b.db.QueryRow(b.t.Context(), `SELECT sealed, recovery FROM signin_factors`).Scan(&sealed, &recovery); err != nil {
			b.t.Fatal(err)
		}
		for _, c := range got.json["recovery_codes"].([]any) {
			if strings.Contains(string(recovery), c.(string)) {
				b.t.Error("recovery codes are kept as they are")
			}
		}
		if bytes.Contains(sealed, raw) {
			b.t.Error("the secret is kept as it is")
		}
	})
}

func TestEachCodeCountsOnce(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		who := b.member("Acme", "ann@example.com")
		a, _ := b.enrol(who)
		code := a.code()
		b.must(who, "POST", mfa+"verify", showing(code))
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(code))
		b.clock.Advance(30 * time.Second)
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(code))
		b.must(who, "POST", mfa+"verify", showing(a.code()))

		b.clock.Advance(5 * time.Minute)
		code = a.code()
		b.clock.Advance(30 * time.Second)
		b.must(who, "POST", mfa+"verify", showing(code)) // half a minute late
		b.clock.Advance(5 * time.Minute)
		code = a.code()
		b.clock.Advance(time.Minute)
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(code)) // too late
		b.clock.Advance(5 * time.Minute)
		b.clock.Advance(30 * time.Second)
		code = a.code()
		b.clock.Advance(-30 * time.Second)
		b.must(who, "POST", mfa+"verify", showing(code)) // half a minute early
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(a.code()))

		b.clock.Advance(5 * time.Minute)
		var good atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := b.call(who, "POST", mfa+"verify", showing(a.code())); err == nil {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		if good.Load() != 1 {
			b.t.Errorf("one code counted %d times", good.Load())
		}
	})
}

func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		who := b.member("Acme", "ann@example.com")
		_, codes := b.enrol(who)
		if len(codes) != 10 || len(codes[0]) != 19 {
			b.t.Errorf("codes %v", codes)
		}
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"recovery", showing("ABCD-EFGH-IJKL-MNOP"))
		if b.log.has("auth.mfa_verified "+who.UserID) != 1 || b.log.has("auth.mfa_failed "+who.UserID) != 1 {
			b.t.Errorf("audited %v", b.log.entries)
		}
		spaced := " " + strings.ToLower(strings.ReplaceAll(codes[0], "-", " "))
		if diff := cmp.Diff(object{"verified": true, "recovery_remaining": 9.0},
			b.must(who, "POST", mfa+"recovery", showing(spaced)).json); diff != "" {
			b.t.Error(diff)
		}
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"recovery", showing(codes[0]))
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"recovery", showing("AAAA-AAAA-AAAA-AAAA"))
		var good atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := b.call(who, "POST", mfa+"recovery", showing(codes[1])); err == nil {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		if left := b.must(who, "GET", mfa+"status", nil).json["recovery_remaining"]; good.Load() != 1 || left != 8.0 {
			b.t.Errorf("one code counted %d times, %v are left", good.Load(), left)
		}
	})
}

func TestWrongCodesAreCounted(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		who := b.member("Acme", "ann@example.com")
		a, codes := b.enrol(who)
		for i := range 5 {
			path, body := "verify", showing(a.wrong())
			if i == 2 {
				path, body = "recovery", showing("AAAA-AAAA-AAAA-AAAA")
			}
			b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+path, body)
		}
		var waits []time.Duration
		for range 8 {
			f := b.refused(fault.Limited, "rate_limit_exceeded", who, "POST", mfa+"verify", showing(a.code()))
			b.refused(fault.Limited, "rate_limit_exceeded", who, "POST", mfa+"recovery", showing(codes[0]))
			waits = append(waits, f.RetryAfter)
			b.clock.Advance(f.RetryAfter)
			b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(a.wrong()))
		}
		want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}
		for i := range want {
			want[i] *= time.Minute
		}
		if diff := cmp.Diff(want, waits); diff != "" {
			b.t.Error(diff)
		}
		b.clock.Advance(time.Hour)
		b.must(who, "POST", mfa+"verify", showing(a.code())) // and the count restarts
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(a.wrong()))
		b.clock.Advance(time.Minute)
		b.must(who, "POST", mfa+"verify", showing(a.code()))

		for range 4 {
			b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(a.wrong()))
		}
		b.clock.Advance(24 * time.Hour) // forgotten
		b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(a.wrong()))
		b.must(who, "POST", mfa+"verify", showing(a.code()))
	})
}

func TestDisable(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		who := b.member("Acme", "ann@example.com")
		b.refused(fault.NotFound, "NOT_FOUND", who, "POST", mfa+"disable", showing("123456"))
		a, _ := b.enrol(who)
		for _, in := range []object{nil, showing("")} {
			b.refused(fault.Invalid, "VALIDATION_ERROR", who, "POST", mfa+"disable", in)
		}
		for _, in := range []object{showing(a.wrong()), {"body": object{"recovery_code": "AAAA"}}} {
			b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"disable", in)
		}
		if got := b.must(who, "POST", mfa+"disable", showing(a.code())).json; got["disabled"] != true ||
			b.log.has("auth.mfa_disabled "+who.UserID) != 1 {
			b.t.Errorf("%v, audited %v", got, b.log.entries)
		}
		b.refused(fault.NotFound, "NOT_FOUND", who, "POST", mfa+"verify", showing(a.code()))
		b.clock.Advance(time.Minute)
		_, codes := b.enrol(who) // another one
		b.must(who, "POST", mfa+"disable", object{"body": object{"recovery_code": codes[3]}})
		if b.count("signin_factors") != 0 {
			b.t.Error("something is left")
		}
	})
}

// Somebody with a second factor signs in half way, in every tenant.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		first := b.member("First", "ann@example.com")
		b.member("Second", "ann@example.com")
		a, codes := b.enrol(first)
		for _, show := range []func(who authz.Caller){
			func(who authz.Caller) { b.must(who, "POST", mfa+"verify", showing(a.code())) },
			func(who authz.Caller) { b.must(who, "POST", mfa+"recovery", showing(codes[0])) },
		} {
			b.sql(`UPDATE users SET last_login_at = 0`)
			b.sql(`UPDATE users SET last_login_at = 1 WHERE tenant_id <> ?`, first.TenantID)
			got, who := b.signIn("ann@example.com")
			if !who.HalfOpen || got.json["mfa_required"] != true || who.TenantID == first.TenantID {
				b.t.Errorf("%+v, %v", who, got.json)
			}
			b.refused(fault.Unauthenticated, "VERIFICATION_FAILED", who, "POST", mfa+"verify", showing(a.wrong()))
			if !b.caller(got).HalfOpen {
				b.t.Error("a wrong code opens")
			}
			show(who)
			if who = b.caller(got); who.HalfOpen || !who.VerifiedAt.Equal(b.clock.Now()) {
				b.t.Errorf("%+v", who)
			}
		}
	})
}

func TestFresh(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		key := b.member("Acme", "ann@example.com")
		got, who := b.signIn("ann@example.com")
		fresh := func(want bool) {
			b.t.Helper()
			err := b.Fresh(b.t.Context(), b.caller(got))
			if want {
				if err != nil {
					b.t.Error(err)
				}
				return
			}
			f := fault.From(err)
			if f == nil || f.Kind != fault.Unauthenticated || f.Code != "mfa_required" ||
				!cmp.Equal(f.Extra, object{"mfa_required": true, "reason": "stale"}) {
				b.t.Errorf("%v, %v", f, f.Extra)
			}
		}
		fresh(true) // has none
		a, _ := b.enrol(who)
		fresh(true) // has just shown it
		b.clock.Advance(15 * time.Minute)
		fresh(false)
		if err := b.Fresh(b.t.Context(), key); err != nil {
			b.t.Errorf("a key is refused: %v", err)
		}
		b.must(b.caller(got), "POST", mfa+"verify", showing(a.code()))
		fresh(true)
		b.clock.Advance(15 * time.Minute)
		b.must(b.caller(got), "POST", mfa+"disable", showing(a.code()))
		b.clock.Advance(15 * time.Minute)
		fresh(true)
	})
}

// A key that carries less than its person decides nothing about how they get in.
func TestKeysOfPart(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		who := b.member("Acme", "ann@example.com")
		who.Scopes = []authz.Scope{"agents:read", "users:write"}
		b.must(who, "GET", mfa+"status", nil)
		b.must(who, "GET", "/api/v1/me/auth-providers", nil)
		for _, r := range b.Routes() {
			// A key opens a session that has no more scopes than itself.
			changes := r.Method != "GET" && !r.Public && r.ID != "openSession"
			if changes != r.Person {
				b.t.Errorf("%s is refused to keys without the scope *: %t, want %t", r.ID, r.Person, changes)
			}
		}
	})
}

// Whose address is not verified may be anybody: a factor of theirs is not that
// of whoever has the address.
func TestFactorsOfMembersWithoutAddress(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		unverified := b.member("First", "")
		pretender := b.member("Second", "ann@example.com")
		b.sql(`UPDATE users SET email_verified = FALSE`)
		ann := b.member("Third", "ann@example.com")
		b.enrol(unverified)
		b.enrol(pretender)
		for _, who := range []authz.Caller{unverified, pretender} {
			if b.must(who, "GET", mfa+"status", nil).json["enrolled"] != true {
				b.t.Errorf("%+v is not enrolled", who)
			}
		}
		if b.must(ann, "GET", mfa+"status", nil).json["enrolled"] != false {
			b.t.Error("a pretender enrolled for Ann")
		}
		var tenants int
		if err := b.db.QueryRow(b.t.Context(), `SELECT COUNT(*) FROM signin_factors WHERE tenant_id IN (?, ?)`, unverified.TenantID,
			pretender.TenantID).Scan(&tenants); err != nil || tenants != 2 {
			b.t.Errorf("%d of them belong to their tenants, %v", tenants, err)
		}
		if got, who := b.signIn("ann@example.com"); who.HalfOpen {
			b.t.Errorf("%v", got.json)
		}
	})
}

func TestForget(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		first, second := b.member("First", "ann@example.com"), b.member("Second", "ann@example.com")
		unverified := b.member("Third", "")
		b.enrol(first)
		b.enrol(unverified)
		b.flow("corp", nil)
		b.clock.Advance(time.Hour)
		b.code("ann@example.com")
		kept := func() [3]int {
			return [3]int{b.count("signin_factors"), b.count("signin_links"), b.count("signin_addresses")}
		}
		forget := func(who authz.Caller) {
			b.t.Helper()
			err := b.db.Write(b.t.Context(), func(tx txn.Tx) error { return b.DeleteMember(tx, who.TenantID, who.UserID) })
			if err != nil {
				b.t.Error(err)
			}
			b.sql(`UPDATE users SET email = '', email_verified = FALSE, status = 'deleted' WHERE user_id = ?`, who.UserID)
		}
		if got := kept(); got != [3]int{2, 1, 1} {
			b.t.Errorf("before: %v", got)
		}
		forget(unverified)
		forget(first)
		if got := kept(); got != [3]int{1, 1, 1} {
			b.t.Errorf("with a membership left: %v", got)
		}
		forget(second)
		if got := kept(); got != [3]int{} {
			b.t.Errorf("without any: %v", got)
		}
		forget(second) // again
	}, provider)
}

var _ identity.Factors = (*signin.Service)(nil)
