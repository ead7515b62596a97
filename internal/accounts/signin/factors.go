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

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

const (
	recoveryCodes = 10
	recoveryBytes = 10 // 80 bits: sixteen letters and digits
	// freshTime is how long a verified second factor allows sensitive
	// operations.
	freshTime = 15 * time.Minute
	// After maxWrongFactors wrong codes in a row a person must wait, twice as
	// long after each further one, up to maxPause.
	maxWrongFactors = 5
	firstPause      = time.Minute
	maxPause        = time.Hour
	forgetWrong     = 24 * time.Hour
)

// factors enrols, verifies and disables second factors.
type factors struct {
	writer      txn.Writer
	store       Store
	members     Members
	sessions    Sessions
	box         *secret.Box
	clock       clock.Clock
	audit       audit.Recorder // nil: not recorded
	recoveryKey []byte
}

func (s *factors) enrolled(tx txn.Tx, tenantID, userID string) (bool, error) {
	m, err := s.store.GetMembershipTx(tx, tenantID, userID)
	if err != nil {
		return false, memberNotFound(err)
	}
	person, _ := personOf(m.Member)
	f, err := s.store.LockFactorTx(tx, person)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return !f.ConfirmedAt.IsZero(), err
}

// memberNotFound turns the ports' ErrNotFound into the 404 of a member.
func memberNotFound(err error) error {
	if errors.Is(err, ErrNotFound) || errors.Is(err, identity.ErrNotFound) {
		return fault.NewNotFound("member")
	}
	return err
}

// fresh implements [Service.Fresh].
func (s *factors) fresh(ctx context.Context, who authz.Caller) error {
	if who.SessionID == "" || !who.VerifiedAt.IsZero() && s.clock.Now().Sub(who.VerifiedAt) < freshTime {
		return nil
	}
	f, err := s.factorOf(ctx, who)
	if errors.Is(err, ErrNotFound) || err == nil && f.ConfirmedAt.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	e := fault.New(fault.Unauthenticated, "mfa_required",
		"This operation needs your second factor again: send its code to POST /api/v1/auth/mfa/verify, then repeat the request.")
	e.Extra = map[string]any{"mfa_required": true, "reason": "stale"}
	return e
}

func (s *factors) factorOf(ctx context.Context, who authz.Caller) (Factor, error) {
	m, err := s.members.GetMember(ctx, who.TenantID, who.UserID)
	if err != nil {
		return Factor{}, memberNotFound(err)
	}
	person, _ := personOf(m)
	return s.store.GetFactor(ctx, person)
}

type nothing struct{}

// MFAStatus answers GET /auth/mfa/status.
type MFAStatus struct {
	Enrolled          bool `json:"enrolled" required:"true"`
	RecoveryRemaining int  `json:"recovery_remaining" required:"true"`
}

func (s *factors) status(ctx context.Context, who authz.Caller, _ *nothing) (MFAStatus, error) {
	f, err := s.factorOf(ctx, who)
	if errors.Is(err, ErrNotFound) || err == nil && f.ConfirmedAt.IsZero() {
		return MFAStatus{}, nil
	}
	return MFAStatus{Enrolled: true, RecoveryRemaining: len(f.Recovery)}, err
}

type enrolIn struct {
	Body struct {
		Label     string    `json:"label,omitzero" maxLength:"100" doc:"Name of the account in the authenticator app. Default: the member's email or name."`
		Issuer    string    `json:"issuer,omitzero" maxLength:"100" doc:"Name of the service in the authenticator app. Default: agentd."`
		Algorithm Algorithm `json:"algorithm,omitzero" enum:"SHA-1,SHA-256,SHA-512" default:"SHA-1" doc:"Most apps support only SHA-1."`
	}
}

// Enrolment answers POST /auth/mfa/enrol. No other response shows it.
type Enrolment struct {
	route.Repetition
	OTPAuthURL    string   `json:"otpauth_url,omitzero" doc:"Content of the QR code that authenticator apps scan."`
	Secret        string   `json:"secret,omitzero" doc:"The same secret, to type in."`
	RecoveryCodes []string `json:"recovery_codes,omitzero" doc:"Each replaces a code of the app once."`
}

// WithoutSecret implements route.ShownOnce.
func (Enrolment) WithoutSecret() any { return Enrolment{Repetition: route.Repeated} }

// enrol creates a second factor for a person. It takes effect when its first
// code is verified.
func (s *factors) enrol(ctx context.Context, who authz.Caller, in *enrolIn) (out Enrolment, err error) {
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		m, err := s.store.GetMembershipTx(tx, who.TenantID, who.UserID)
		if err != nil {
			return memberNotFound(err)
		}
		person, tenant := personOf(m.Member)
		old, err := s.store.LockFactorTx(tx, person)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if !old.ConfirmedAt.IsZero() {
			return fault.New(fault.Conflict, "ALREADY_EXISTS", "You already have a second factor; disable it before you enrol another.")
		}
		alg := in.Body.Algorithm
		if alg == "" {
			alg = SHA1
		}
		secret := newFactorSecret(alg)
		f := Factor{
			Person: person, TenantID: tenant, Sealed: s.box.Seal(secret, factorContext(person)), Algorithm: alg, CreatedAt: s.clock.Now(),
			Wrong: old.Wrong, WrongAt: old.WrongAt,
		}
		codes := make([]string, recoveryCodes)
		for i := range codes {
			codes[i] = newRecoveryCode()
			f.Recovery = append(f.Recovery, s.hashRecovery(person, codes[i]))
		}
		if err := s.store.PutFactorTx(tx, f); err != nil {
			return err
		}
		out = Enrolment{
			OTPAuthURL: otpauthURL(alg, secret, firstText(in.Body.Issuer, "agentd"),
				firstText(in.Body.Label, m.Member.Email, m.Member.Name, "member")),
			Secret: secretText.EncodeToString(secret), RecoveryCodes: codes,
		}
		return txn.Answer(tx, out)
	})
	return out, err
}

// firstText returns the first text that is not empty, without colons, which
// separate issuer and account in an otpauth URL.
func firstText(texts ...string) string {
	for _, t := range texts {
		if t = strings.TrimSpace(strings.ReplaceAll(t, ":", " ")); t != "" {
			return t
		}
	}
	return ""
}

func factorContext(person string) string { return "signin/factor/" + person }

// newRecoveryCode returns a random code such as ABCD-EFGH-IJKL-MNOP.
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

func (s *factors) hashRecovery(person, code string) []byte {
	code = strings.ToUpper(strings.ReplaceAll(strings.Map(dropSpace, code), "-", ""))
	mac := hmac.New(sha256.New, s.recoveryKey)
	mac.Write([]byte(person + "\x00" + code))
	return mac.Sum(nil)
}

// factorProof is the code with which a person proves their second factor.
type factorProof struct {
	totp     string
	recovery string
	first    bool // it may be the first code, which confirms an enrolment
}

// pause returns how long a person must wait after wrong codes.
func (f Factor) pause(now time.Time) time.Duration {
	if f.Wrong < maxWrongFactors {
		return 0
	}
	return f.WrongAt.Add(min(firstPause<<min(f.Wrong-maxWrongFactors, 10), maxPause)).Sub(now)
}

// prove checks a person's proof, marks their session as verified and calls then
// with the updated factor, in one transaction. A wrong code is counted. Errors:
// 404 without a factor, 401 for a wrong code, 429 after many.
func (s *factors) prove(ctx context.Context, who authz.Caller, proof factorProof, then func(tx txn.Tx, f Factor) error) error {
	var rejected error
	err := s.writer.Write(ctx, func(tx txn.Tx) error {
		rejected = nil
		m, err := s.store.GetMembershipTx(tx, who.TenantID, who.UserID)
		if err != nil {
			return memberNotFound(err)
		}
		person, _ := personOf(m.Member)
		f, err := s.store.LockFactorTx(tx, person)
		if errors.Is(err, ErrNotFound) || err == nil && f.ConfirmedAt.IsZero() && !proof.first {
			return fault.New(fault.NotFound, "", "You have no second factor; enrol one first.")
		}
		if err != nil {
			return err
		}
		now := s.clock.Now()
		if pause := f.pause(now); pause > 0 {
			e := fault.New(fault.Limited, "", "Too many wrong codes; wait before you try again.")
			e.RetryAfter = pause
			return e
		}
		ok, err := s.accept(&f, proof, now)
		if err != nil {
			return err
		}
		if !ok {
			rejected = fault.New(fault.Unauthenticated, "VERIFICATION_FAILED", "This code is wrong or already used.")
			if now.Sub(f.WrongAt) >= forgetWrong {
				f.Wrong = 0
			}
			f.Wrong, f.WrongAt = f.Wrong+1, now
			if err := s.store.PutFactorTx(tx, f); err != nil {
				return err
			}
			return s.record(tx, who, "auth.mfa_failed", proof) // the pauses bound how many there are
		}
		f.Wrong, f.WrongAt = 0, time.Time{}
		action := "auth.mfa_verified"
		if proof.totp == "" {
			action = "auth.recovery_code_used"
		}
		if err := s.record(tx, who, action, proof); err != nil {
			return err
		}
		return s.accepted(tx, who, f, then)
	})
	if err == nil {
		err = rejected
	}
	return err
}

// record records a proof in the audit log, without its code.
func (s *factors) record(tx txn.Tx, who authz.Caller, action string, proof factorProof) error {
	kind := jsontext.Value(`{"kind":"totp"}`)
	if proof.totp == "" {
		kind = jsontext.Value(`{"kind":"recovery"}`)
	}
	return audit.Write(s.audit, tx, who, audit.Entry{Action: action, TargetType: "user", TargetID: who.UserID, Details: kind})
}

// accept uses up the code of a proof, if it is right.
func (s *factors) accept(f *Factor, proof factorProof, now time.Time) (bool, error) {
	if proof.totp == "" {
		hash := s.hashRecovery(f.Person, proof.recovery)
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
	secret, err := s.box.Open(f.Sealed, factorContext(f.Person))
	if err != nil {
		return false, err
	}
	step, ok := match(f.Algorithm, secret, proof.totp, now, f.LastStep)
	if ok {
		f.LastStep = step
	}
	return ok, nil
}

// accepted records that a person has proved their factor.
func (s *factors) accepted(tx txn.Tx, who authz.Caller, f Factor, then func(tx txn.Tx, f Factor) error) error {
	now := s.clock.Now()
	if f.ConfirmedAt.IsZero() {
		f.ConfirmedAt = now
		err := audit.Write(s.audit, tx, who, audit.Entry{Action: "auth.mfa_enrolled", TargetType: "user", TargetID: who.UserID})
		if err != nil {
			return err
		}
	}
	if err := s.store.PutFactorTx(tx, f); err != nil {
		return err
	}
	if who.SessionID != "" {
		if err := s.sessions.MarkVerified(tx, who.SessionID, now); err != nil {
			return err
		}
	}
	return then(tx, f)
}

type mfaVerifyIn struct {
	Body struct {
		Code string `json:"code" required:"true" pattern:"^[0-9]{6}$" doc:"The code that the authenticator app shows."`
	}
}

// MFAVerified answers POST /auth/mfa/verify and /auth/mfa/recovery.
type MFAVerified struct {
	Verified          bool `json:"verified" required:"true"`
	RecoveryRemaining int  `json:"recovery_remaining" required:"true" doc:"Number of unused recovery codes."`
}

func (s *factors) verify(ctx context.Context, who authz.Caller, in *mfaVerifyIn) (MFAVerified, error) {
	return s.verified(ctx, who, factorProof{totp: in.Body.Code, first: true})
}

type mfaRecoveryIn struct {
	Body struct {
		Code string `json:"code" required:"true" minLength:"1" maxLength:"100" doc:"One of the recovery codes; case, spaces and hyphens are ignored."`
	}
}

func (s *factors) recover(ctx context.Context, who authz.Caller, in *mfaRecoveryIn) (MFAVerified, error) {
	return s.verified(ctx, who, factorProof{recovery: in.Body.Code})
}

func (s *factors) verified(ctx context.Context, who authz.Caller, proof factorProof) (out MFAVerified, err error) {
	err = s.prove(ctx, who, proof, func(tx txn.Tx, f Factor) error {
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
		Code         string `json:"code,omitzero" maxLength:"100" doc:"The six digits that the authenticator shows. Required, unless recovery_code is sent."`
		RecoveryCode string `json:"recovery_code,omitzero" maxLength:"100" doc:"Instead of code."`
	}
}

// MFADisabled answers POST /auth/mfa/disable.
type MFADisabled struct {
	Disabled bool `json:"disabled" required:"true"`
}

func (s *factors) disable(ctx context.Context, who authz.Caller, in *mfaDisableIn) (out MFADisabled, err error) {
	if in.Body == nil || in.Body.Code == "" && in.Body.RecoveryCode == "" {
		return out, fault.BadFields(fault.Field{Field: "code", Message: "required: the code that your authenticator shows, or a recovery_code"})
	}
	proof := factorProof{totp: strings.Map(dropSpace, in.Body.Code), recovery: in.Body.RecoveryCode}
	err = s.prove(ctx, who, proof, func(tx txn.Tx, f Factor) error {
		if err := s.store.DeleteFactorTx(tx, f.Person); err != nil {
			return err
		}
		err := audit.Write(s.audit, tx, who, audit.Entry{Action: "auth.mfa_disabled", TargetType: "user", TargetID: who.UserID})
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
