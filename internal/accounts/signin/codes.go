package signin

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
)

const (
	codeLife = 10 * time.Minute
	// maxWrong is how many wrong six-digit codes the browser that asked for a code may
	// enter, and how many all others together: what strangers enter does not use
	// up the attempts of the person.
	maxWrong = 5
	// maxTried bounds the wrong six-digit codes of a day, over all codes of an
	// email. Beyond it only the long code of an email counts, which cannot be
	// guessed: a stranger who keeps requesting and guessing codes has one chance in ten
	// thousand a day, and keeps nobody out.
	maxTried  = 100
	triedTime = 24 * time.Hour
	// coolDown is the wait for the next code. From the second code on it
	// doubles, up to the life of a code. So requests in another person's name
	// send few emails, and while no new code can be requested the last one is
	// still valid.
	coolDown = time.Minute
	// forgetCodes is after which time without a code the cool-down begins at a minute
	// again.
	forgetCodes = time.Hour

	// SignInPath is the path of the page for signing in.
	SignInPath = "/signin"
	// FactorPath is the path of the page for second factors.
	FactorPath = SignInPath + "/mfa"

	// attemptCookie binds a code to the browser that asked for it.
	attemptCookie = "svc_signin"
)

// WorkKind is the kind of the work items that send requested codes.
const WorkKind = "signin"

// codes signs people in with codes that are sent by email.
type codes struct {
	writer   txn.Writer
	store    Store
	outbox   mail.Outbox
	queue    work.Queue
	box      *secret.Box
	clock    clock.Clock
	log      *slog.Logger
	public   func() string
	signupOn func() bool
	logins   *logins
	key      []byte // of the codes' hashes
}

// codeRequest is a code that was requested.
type codeRequest struct {
	Email string    `json:"email"`
	Code  string    `json:"code"`
	Long  string    `json:"long,omitzero"` // absent in requests of an earlier version
	Until time.Time `json:"until"`
}

type sealedWork struct {
	Sealed []byte `json:"sealed"`
}

type requestCodeIn struct {
	Body struct {
		Email         string `json:"email" required:"true" format:"email" maxLength:"200" doc:"Address with which you sign in."`
		AcceptTerms   bool   `json:"accept_terms,omitzero" doc:"Required to sign up, here or with the code."`
		AcceptPrivacy bool   `json:"accept_privacy,omitzero" doc:"As accept_terms."`
	}
}

// Requested answers POST /auth/request-code, with the same text for every address.
type Requested struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
	Attempt string `json:"attempt" doc:"Binds the code to this client: send it back as attempt with the code. Browsers need not, they have it as a cookie."`
}

// requestCode accepts a request for a code. It does not check whether the
// address is known, so that neither the answer nor its timing reveals that:
// [Service.Handle] checks it afterwards.
func (s codes) requestCode(ctx context.Context, _ authz.Caller, in *requestCodeIn) (*route.Reply, error) {
	if !s.outbox.Configured() {
		return nil, noMail()
	}
	email, err := emailIn(in.Body.Email)
	if err != nil {
		return nil, err
	}
	attempt := newToken()
	r := codeRequest{Email: email, Code: newCode(), Long: newLongCode(), Until: s.clock.Now().Add(codeLife)}
	c := Code{
		Email: email, Browser: hashToken(attempt), Short: s.hash(email, r.Code), Long: s.hash(email, r.Long), ExpiresAt: r.Until,
		Terms: in.Body.AcceptTerms && in.Body.AcceptPrivacy,
	}
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.countRequest(tx, email); err != nil {
			return err
		}
		if err := s.store.CreateCodeTx(tx, c); err != nil {
			return err
		}
		return s.enqueue(tx, r)
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(Requested{OK: true, Message: "If this address can sign in, a code is on its way to it.", Attempt: attempt})
	return &route.Reply{JSON: text, Cookie: &route.Cookie{Name: attemptCookie, Value: attempt, Lasts: codeLife}}, err
}

func noMail() error {
	return fault.New(fault.Unsupported, "",
		"This deployment does not send email; its operator can set AGENTD_SMTP_URL and AGENTD_MAIL_FROM.")
}

// newCode returns six random digits.
func newCode() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic(err) // the system's random source does not fail
	}
	return fmt.Sprintf("%06d", n)
}

// newLongCode returns a random code such as ABCDEFGHIJKLMNOP, which is shown in
// groups of four.
func newLongCode() string { return rand.Text()[:longCodeSize] }

// longCodeSize is the number of letters and digits of a long code: 80 bits.
const longCodeSize = 16

// hash binds a code to its address. There are only a million codes, so the hash
// is keyed: the database alone reveals none.
func (s codes) hash(email, code string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(email + "\x00" + code))
	return mac.Sum(nil)
}

// countRequest counts a requested code. Errors: 429 during the cool-down.
func (s codes) countRequest(tx txn.Tx, email string) error {
	now := s.clock.Now()
	a, err := s.store.LockAddressTx(tx, email)
	known := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if known && now.Before(a.AgainAt) {
		return tooSoon(a.AgainAt.Sub(now))
	}
	if !now.Before(a.AskedAt.Add(forgetCodes)) {
		a.Asked = 0
	}
	a.Email, a.AskedAt = email, now
	a.Asked++
	a.AgainAt = now.Add(min(coolDown<<min(max(a.Asked-2, 0), 4), codeLife))
	a.ForgetAt = latest(a.ForgetAt, now.Add(forgetCodes))
	if known {
		return s.store.UpdateAddressTx(tx, a)
	}
	if err = s.store.CreateAddressTx(tx, a); errors.Is(err, ErrTaken) {
		return tooSoon(coolDown) // a concurrent request was faster
	}
	return err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func tooSoon(wait time.Duration) error {
	e := fault.New(fault.Limited, "", "A code was sent to this address recently; use it, or wait before you request another.")
	e.RetryAfter = wait
	return e
}

func (s codes) enqueue(tx txn.Tx, r codeRequest) error {
	plain, err := json.Marshal(r)
	if err != nil {
		return err
	}
	key := ident.New()
	payload, err := json.Marshal(sealedWork{s.box.Seal(plain, WorkKind+"/"+key)})
	if err != nil {
		return err
	}
	return s.queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: key, Payload: payload})
}

// handle is the work.Handler of requests for codes: it sends an email to
// addresses that can sign in or sign up, and nothing to others.
func (s codes) handle(ctx context.Context, held work.Lease) error {
	r, err := s.decode(held)
	if err != nil {
		s.log.Error("dropped a request for a sign-in code: it cannot be decrypted", "error", err)
		return s.writer.Write(ctx, func(tx txn.Tx) error { return s.queue.FinishTx(tx, held) })
	}
	return s.writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.store.DeleteExpiredTx(tx, s.clock.Now(), 50); err != nil {
			return err
		}
		members, err := s.store.ListMembershipsTx(tx, r.Email)
		if err != nil {
			return err
		}
		if len(members) > 0 || s.signupOn() {
			err = s.outbox.Send(tx, "", mail.Message{
				To: r.Email, Until: r.Until, Subject: "Your sign-in code",
				Text: s.text(r),
			})
			if err != nil {
				return err
			}
		}
		return s.queue.FinishTx(tx, held)
	})
}

func (s codes) text(r codeRequest) string {
	text := "Your sign-in code for " + s.public() + " is\n\n    " + r.Code[:3] + " " + r.Code[3:] + "\n\n"
	if len(r.Long) == longCodeSize {
		text += "If it is not accepted, or you requested it with another browser, enter this one instead:\n\n    " +
			r.Long[:4] + "-" + r.Long[4:8] + "-" + r.Long[8:12] + "-" + r.Long[12:] + "\n\n"
	}
	return text + "Enter it where you requested it; the page to sign in is " + s.public() + SignInPath + ".\n\n" +
		"One of them can be used, once, within ten minutes. Do not share them with anyone who asks for them.\n" +
		"If you did not request them, you can ignore this email.\n"
}

func (s codes) decode(held work.Lease) (codeRequest, error) {
	var r codeRequest
	var sealed sealedWork
	if err := json.Unmarshal(held.Payload, &sealed); err != nil {
		return r, err
	}
	plain, err := s.box.Open(sealed.Sealed, WorkKind+"/"+held.Key)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(plain, &r); err != nil {
		return r, err
	}
	if len(r.Code) != 6 {
		return r, errors.New("the code does not have six digits")
	}
	return r, nil
}

type verifyCodeIn struct {
	Browser string `cookie:"svc_signin"`
	Body    struct {
		Email         string `json:"email" required:"true" format:"email" maxLength:"200" doc:"Address with which you sign in."`
		Code          string `json:"code" required:"true" minLength:"4" maxLength:"40" doc:"The six digits or the long code; spaces and hyphens are ignored."`
		Attempt       string `json:"attempt,omitzero" maxLength:"100" doc:"From the response to the request, for clients without cookies."`
		CookieOnly    bool   `json:"cookie_only,omitzero" doc:"true, from a page: the answer has no api_key."`
		DeviceLabel   string `json:"device_label,omitzero" maxLength:"80" doc:"A name for the list of signed-in devices."`
		AcceptTerms   bool   `json:"accept_terms,omitzero" doc:"Required to sign up, here or when the code is requested."`
		AcceptPrivacy bool   `json:"accept_privacy,omitzero" doc:"As accept_terms."`
	}
}

// verifyCode exchanges a code for a session.
func (s codes) verifyCode(ctx context.Context, who authz.Caller, in *verifyCodeIn) (*route.Reply, error) {
	result, err := s.enter(ctx, who, in)
	if err != nil {
		return nil, err
	}
	return result.reply()
}

// enter signs a person in with the code that they entered.
func (s codes) enter(ctx context.Context, who authz.Caller, in *verifyCodeIn) (result login, err error) {
	email, err := emailIn(in.Body.Email)
	if err != nil {
		return login{}, err
	}
	code := strings.ToUpper(strings.Map(dropSpace, in.Body.Code))
	var rejected error
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		rejected = nil
		terms, ok, err := s.spend(tx, email, code, cmp.Or(in.Body.Attempt, in.Browser), in.Body.AcceptTerms && in.Body.AcceptPrivacy)
		if err != nil {
			return err
		}
		if !ok {
			rejected = wrongCode() // commit the count of attempts
			return nil
		}
		result, err = s.logins.signIn(tx, authenticated{
			who: who, email: email, method: OTP, label: in.Body.DeviceLabel, terms: terms, key: !in.Body.CookieOnly,
		})
		return err
	})
	if err == nil {
		err = rejected
	}
	return result, err
}

func dropSpace(r rune) rune {
	if unicode.IsSpace(r) || r == '-' {
		return -1
	}
	return r
}

// wrongCode is the one error for codes that are wrong, used or expired, and for
// addresses that never got one.
func wrongCode() error {
	return fault.New(fault.Malformed, "VERIFICATION_FAILED",
		"This code is wrong, already used, expired, or was tried too often: enter the long code of the newest email, or request another.")
}

// spend uses up the code of an email that was entered. It returns whether the terms
// were accepted, now or when the code was requested.
func (s codes) spend(tx txn.Tx, email, entered, attempt string, terms bool) (accepted, ok bool, err error) {
	hash, browser := s.hash(email, entered), hashToken(attempt) // always computed, so that every answer takes the same time
	a, err := s.store.LockAddressTx(tx, email)
	if errors.Is(err, ErrNotFound) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	now := s.clock.Now()
	live, err := s.store.ListCodesTx(tx, email, now)
	if err != nil {
		return false, false, err
	}
	if !now.Before(a.TriedSince.Add(triedTime)) {
		a.Tried, a.TriedSince = 0, now
	}
	for i := range live {
		c := &live[i]
		matches, err := s.try(tx, c, &a, entered, hash, browser)
		if err != nil {
			return false, false, err
		}
		if matches {
			a.Asked, a.AgainAt = 0, time.Time{} // the person has shown that the requests were theirs
			return terms || c.Terms, true, errors.Join(s.store.DeleteCodeTx(tx, *c), s.store.UpdateAddressTx(tx, a))
		}
	}
	a.ForgetAt = latest(a.ForgetAt, a.TriedSince.Add(triedTime))
	return false, false, s.store.UpdateAddressTx(tx, a)
}

// try compares what was entered with a code, and counts it if it is wrong.
func (s codes) try(tx txn.Tx, c *Code, a *Address, entered string, hash, browser []byte) (matches bool, err error) {
	if len(c.Long) > 0 && subtle.ConstantTimeCompare(hash, c.Long) == 1 {
		return true, nil
	}
	tries := &c.Elsewhere
	if subtle.ConstantTimeCompare(browser, c.Browser) == 1 {
		tries = &c.Wrong
	}
	if len(entered) == longCodeSize || *tries >= maxWrong || a.Tried >= maxTried {
		return false, nil
	}
	if subtle.ConstantTimeCompare(hash, c.Short) == 1 {
		return true, nil
	}
	*tries++
	a.Tried++
	return false, s.store.UpdateCodeTx(tx, *c)
}
