package signin

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"slices"
	"strings"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

const (
	recoveryCodes = 10
	recoveryBytes = 10 // 80 bits: sixteen letters and digits
	// freshTime is how long a second factor that was shown counts for what is
	// sensitive.
	freshTime = 15 * time.Minute
	// After mostWrong wrong codes in a row a person waits, twice as long after
	// each further one, up to longestPause.
	mostWrong    = 5
	firstPause   = time.Minute
	longestPause = time.Hour
	forgetWrong  = 24 * time.Hour
)

// Enrolled says whether the person who a member is has a second factor. It is
// identity.Factors.
func (s *Service) Enrolled(tx txn.Tx, tenantID, userID string) (bool, error) {
	m, err := s.Store.GetMembershipTx(tx, tenantID, userID)
	if err != nil {
		return false, missing(err)
	}
	person, _ := personOf(m.Member)
	f, err := s.Store.LockFactorTx(tx, person)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return !f.ConfirmedAt.IsZero(), err
}

func missing(err error) error {
	if errors.Is(err, ErrNotFound) || errors.Is(err, identity.ErrNotFound) {
		return fault.NoSuch("member")
	}
	return err
}

// Fresh refuses a browser session of somebody with a second factor who has not
// shown it within the last 15 minutes: for operations that cannot be taken
// back. Keys pass: whoever made one decided what it may do. Errors: 401
// mfa_required, reason stale.
func (s *Service) Fresh(ctx context.Context, who authz.Caller) error {
	if who.SessionID == "" || !who.VerifiedAt.IsZero() && s.Clock.Now().Sub(who.VerifiedAt) < freshTime {
		return nil
	}
	f, err := s.factorOf(ctx, who)
	if errors.Is(err, ErrNotFound) || err == nil && f.ConfirmedAt.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	e := fault.New(fault.Unauthenticated, "mfa_required", "This needs your second factor again: send its code to POST /api/v1/auth/mfa/verify and repeat the request.")
	e.Extra = map[string]any{"mfa_required": true, "reason": "stale"}
	return e
}

func (s *Service) factorOf(ctx context.Context, who authz.Caller) (Factor, error) {
	m, err := s.Members.GetMember(ctx, who.TenantID, who.UserID)
	if err != nil {
		return Factor{}, missing(err)
	}
	person, _ := personOf(m)
	return s.Store.GetFactor(ctx, person)
}

// ownHands refuses a key that was given a part of its person's rights: what it
// could change here would decide how the person themselves get in.
func ownHands(who authz.Caller) error {
	if who.SessionID != "" {
		return nil
	}
	return who.Check("", authz.Wildcard)
}

type nothing struct{}

// MFAStatus answers GET /auth/mfa/status.
type MFAStatus struct {
	Enrolled          bool `json:"enrolled" required:"true"`
	RecoveryRemaining int  `json:"recovery_remaining" required:"true"`
}

func (s *Service) mfaStatus(ctx context.Context, who authz.Caller, _ *nothing) (MFAStatus, error) {
	f, err := s.factorOf(ctx, who)
	if errors.Is(err, ErrNotFound) || err == nil && f.ConfirmedAt.IsZero() {
		return MFAStatus{}, nil
	}
	return MFAStatus{Enrolled: true, RecoveryRemaining: len(f.Recovery)}, err
}

type enrolIn struct {
	Body struct {
		Label     string    `json:"label,omitzero" maxLength:"100" doc:"What the authenticator app calls the account; the member's email or name otherwise."`
		Issuer    string    `json:"issuer,omitzero" maxLength:"100" doc:"What it calls the service; agentd otherwise."`
		Algorithm Algorithm `json:"algorithm,omitzero" enum:"SHA-1,SHA-256,SHA-512" default:"SHA-1" doc:"Most apps know SHA-1 only."`
	}
}

// Enrolment answers POST /auth/mfa/enrol, and is shown this once.
type Enrolment struct {
	OTPAuthURL    string   `json:"otpauth_url" required:"true" doc:"For the picture that authenticator apps read."`
	Secret        string   `json:"secret" required:"true" doc:"The same secret, to be typed."`
	RecoveryCodes []string `json:"recovery_codes" required:"true" doc:"Each opens once what the app would have opened."`
}

// enrol gives a person a second factor, which counts from its first code on.
func (s *Service) enrol(ctx context.Context, who authz.Caller, in *enrolIn) (out Enrolment, err error) {
	if err := ownHands(who); err != nil {
		return out, err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		m, err := s.Store.GetMembershipTx(tx, who.TenantID, who.UserID)
		if err != nil {
			return missing(err)
		}
		person, tenant := personOf(m.Member)
		old, err := s.Store.LockFactorTx(tx, person)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if !old.ConfirmedAt.IsZero() {
			return fault.New(fault.Conflict, "ALREADY_EXISTS", "You have a second factor already; disable it before you enrol another.")
		}
		alg := in.Body.Algorithm
		if alg == "" {
			alg = SHA1
		}
		secret := newSecret(alg)
		f := Factor{
			Person: person, TenantID: tenant, Sealed: s.Box.Seal(secret, sealedFactor(person)), Algorithm: alg, CreatedAt: s.Clock.Now(),
			Wrong: old.Wrong, WrongAt: old.WrongAt,
		}
		codes := make([]string, recoveryCodes)
		for i := range codes {
			codes[i] = newRecoveryCode()
			f.Recovery = append(f.Recovery, s.hashRecovery(person, codes[i]))
		}
		if err := s.Store.PutFactorTx(tx, f); err != nil {
			return err
		}
		out = Enrolment{
			OTPAuthURL: otpauthURL(alg, secret, plain(in.Body.Issuer, "agentd"), plain(in.Body.Label, m.Member.Email, m.Member.Name, "member")),
			Secret:     secretText.EncodeToString(secret), RecoveryCodes: codes,
		}
		return txn.Answer(tx, out)
	})
	return out, err
}

// plain gives the first text that is there, without the colons that part issuer
// and account in an otpauth URL.
func plain(texts ...string) string {
	for _, t := range texts {
		if t = strings.TrimSpace(strings.ReplaceAll(t, ":", " ")); t != "" {
			return t
		}
	}
	return ""
}

func sealedFactor(person string) string { return "signin/factor/" + person }

// newRecoveryCode is like ABCD-EFGH-IJKL-MNOP.
func newRecoveryCode() string {
	raw := make([]byte, recoveryBytes)
	rand.Read(raw)
	text := secretText.EncodeToString(raw)
	var parts []string
	for part := range slices.Chunk([]byte(text), 4) {
		parts = append(parts, string(part))
	}
	return strings.Join(parts, "-")
}

func (s *Service) hashRecovery(person, code string) []byte {
	code = strings.ToUpper(strings.ReplaceAll(strings.Map(dropSpace, code), "-", ""))
	mac := hmac.New(sha256.New, s.recoveryKey)
	mac.Write([]byte(person + "\x00" + code))
	return mac.Sum(nil)
}

// shown is a second factor that somebody shows.
type shown struct {
	totp     string
	recovery string
	first    bool // it may be the first code, with which an enrolment begins to count
}

// pause is how long a person has to wait after wrong codes.
func (f Factor) pause(now time.Time) time.Duration {
	if f.Wrong < mostWrong {
		return 0
	}
	return f.WrongAt.Add(min(firstPause<<min(f.Wrong-mostWrong, 10), longestPause)).Sub(now)
}

// show checks what a person shows, notes it in their session and passes on to
// then what is left of the factor, in one transaction. A wrong code is counted.
// Errors: 404 without a factor, 401 for a wrong code, 429 after many.
func (s *Service) show(ctx context.Context, who authz.Caller, what shown, then func(tx txn.Tx, f Factor) error) error {
	if err := ownHands(who); err != nil {
		return err
	}
	var refused error
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		refused = nil
		m, err := s.Store.GetMembershipTx(tx, who.TenantID, who.UserID)
		if err != nil {
			return missing(err)
		}
		person, _ := personOf(m.Member)
		f, err := s.Store.LockFactorTx(tx, person)
		if errors.Is(err, ErrNotFound) || err == nil && f.ConfirmedAt.IsZero() && !what.first {
			return fault.New(fault.NotFound, "", "You have no second factor; enrol one first.")
		}
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		if pause := f.pause(now); pause > 0 {
			e := fault.New(fault.Limited, "", "Too many wrong codes; wait before you try again.")
			e.RetryAfter = pause
			return e
		}
		good, err := s.accept(&f, what, now)
		if err != nil {
			return err
		}
		if !good {
			refused = fault.New(fault.Unauthenticated, "VERIFICATION_FAILED", "This code is wrong, or was used already.")
			if now.Sub(f.WrongAt) >= forgetWrong {
				f.Wrong = 0
			}
			f.Wrong, f.WrongAt = f.Wrong+1, now
			return s.Store.PutFactorTx(tx, f)
		}
		f.Wrong, f.WrongAt = 0, time.Time{}
		return s.accepted(tx, who, f, then)
	})
	if err == nil {
		err = refused
	}
	return err
}

// accept uses up what is shown, if it is right.
func (s *Service) accept(f *Factor, what shown, now time.Time) (bool, error) {
	if what.totp == "" {
		hash := s.hashRecovery(f.Person, what.recovery)
		at := -1
		for i, one := range f.Recovery {
			if subtle.ConstantTimeCompare(one, hash) == 1 {
				at = i
			}
		}
		if at >= 0 {
			f.Recovery = slices.DeleteFunc(slices.Clone(f.Recovery), func(one []byte) bool { return bytes.Equal(one, hash) })
		}
		return at >= 0, nil
	}
	secret, err := s.Box.Open(f.Sealed, sealedFactor(f.Person))
	if err != nil {
		return false, err
	}
	step, good := match(f.Algorithm, secret, what.totp, now, f.LastStep)
	if good {
		f.LastStep = step
	}
	return good, nil
}

// accepted notes that a person has shown their factor.
func (s *Service) accepted(tx txn.Tx, who authz.Caller, f Factor, then func(tx txn.Tx, f Factor) error) error {
	now := s.Clock.Now()
	if f.ConfirmedAt.IsZero() {
		f.ConfirmedAt = now
		err := s.record(tx, who, audit.Entry{Action: "auth.mfa_enrolled", TargetType: "user", TargetID: who.UserID})
		if err != nil {
			return err
		}
	}
	if err := s.Store.PutFactorTx(tx, f); err != nil {
		return err
	}
	if who.SessionID != "" {
		if err := s.Sessions.Verified(tx, who.SessionID, now); err != nil {
			return err
		}
	}
	return then(tx, f)
}

type mfaVerifyIn struct {
	Body struct {
		Code string `json:"code" required:"true" pattern:"^[0-9]{6}$" doc:"What the authenticator app shows."`
	}
}

// MFAVerified answers POST /auth/mfa/verify and /auth/mfa/recovery.
type MFAVerified struct {
	Verified          bool `json:"verified" required:"true"`
	RecoveryRemaining int  `json:"recovery_remaining" required:"true" doc:"Recovery codes that are left."`
}

func (s *Service) mfaVerify(ctx context.Context, who authz.Caller, in *mfaVerifyIn) (MFAVerified, error) {
	return s.showing(ctx, who, shown{totp: in.Body.Code, first: true})
}

type mfaRecoveryIn struct {
	Body struct {
		Code string `json:"code" required:"true" minLength:"1" maxLength:"100" doc:"One of the recovery codes; case, spaces and hyphens do not matter."`
	}
}

func (s *Service) mfaRecovery(ctx context.Context, who authz.Caller, in *mfaRecoveryIn) (MFAVerified, error) {
	return s.showing(ctx, who, shown{recovery: in.Body.Code})
}

func (s *Service) showing(ctx context.Context, who authz.Caller, what shown) (out MFAVerified, err error) {
	err = s.show(ctx, who, what, func(tx txn.Tx, f Factor) error {
		out = MFAVerified{Verified: true, RecoveryRemaining: len(f.Recovery)}
		return txn.Answer(tx, out)
	})
	if err != nil {
		return MFAVerified{}, err
	}
	return out, nil
}

type mfaDisableIn struct {
	Body *struct {
		Code         string `json:"code,omitzero" maxLength:"100"`
		RecoveryCode string `json:"recovery_code,omitzero" maxLength:"100" doc:"In place of code."`
	}
}

// MFADisabled answers POST /auth/mfa/disable.
type MFADisabled struct {
	Disabled bool `json:"disabled" required:"true"`
}

func (s *Service) mfaDisable(ctx context.Context, who authz.Caller, in *mfaDisableIn) (out MFADisabled, err error) {
	var what shown
	if in.Body != nil {
		what = shown{totp: strings.Map(dropSpace, in.Body.Code), recovery: in.Body.RecoveryCode}
	}
	err = s.show(ctx, who, what, func(tx txn.Tx, f Factor) error {
		if err := s.Store.DeleteFactorTx(tx, f.Person); err != nil {
			return err
		}
		err := s.record(tx, who, audit.Entry{Action: "auth.mfa_disabled", TargetType: "user", TargetID: who.UserID})
		if err != nil {
			return err
		}
		out = MFADisabled{Disabled: true}
		return txn.Answer(tx, out)
	})
	if err != nil {
		return MFADisabled{}, err
	}
	return out, nil
}
