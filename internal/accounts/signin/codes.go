package signin

import (
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
	maxWrong = 5 // wrong attempts at one code
	// coolDown is the wait for the next code. From the second code on it
	// doubles, up to the life of a code. So requests in another person's name
	// send few emails, and while no new code can be requested the last one is
	// still valid.
	coolDown = time.Minute
	// forgetCodes is how long an address is remembered after its last code.
	forgetCodes = time.Hour
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
	signupOn bool
	logins   *logins
	key      []byte // of the codes' hashes
}

// codeRequest is a code that was requested.
type codeRequest struct {
	Email string    `json:"email"`
	Code  string    `json:"code"`
	Until time.Time `json:"until"`
}

type sealedWork struct {
	Sealed []byte `json:"sealed"`
}

type requestCodeIn struct {
	Body struct {
		Email         string `json:"email" required:"true" format:"email" maxLength:"200"`
		AcceptTerms   bool   `json:"accept_terms,omitzero" doc:"Required to sign up, here or with the code."`
		AcceptPrivacy bool   `json:"accept_privacy,omitzero" doc:"As accept_terms."`
	}
}

// Requested answers POST /auth/request-code, always with the same text.
type Requested struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// requestCode accepts a request for a code. It does not check whether the
// address is known, so that neither the answer nor its timing reveals that:
// [Service.Handle] checks it afterwards.
func (s codes) requestCode(ctx context.Context, _ authz.Caller, in *requestCodeIn) (Requested, error) {
	if !s.outbox.Configured() {
		return Requested{}, noMail()
	}
	email, err := emailIn(in.Body.Email)
	if err != nil {
		return Requested{}, err
	}
	r := codeRequest{Email: email, Code: newCode(), Until: s.clock.Now().Add(codeLife)}
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.keep(tx, r, in.Body.AcceptTerms && in.Body.AcceptPrivacy); err != nil {
			return err
		}
		return s.enqueue(tx, r)
	})
	return Requested{OK: err == nil, Message: "If this address can sign in, a code is on its way to it."}, err
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

// hash binds a code to its address. There are only a million codes, so the hash
// is keyed: the database alone reveals none.
func (s codes) hash(email, code string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(email + "\x00" + code))
	return mac.Sum(nil)
}

// keep stores a requested code in place of the one before. Errors: 429 during
// the cool-down.
func (s codes) keep(tx txn.Tx, r codeRequest, terms bool) error {
	now := s.clock.Now()
	c, err := s.store.LockCodeTx(tx, r.Email)
	known := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if known && now.Before(c.AgainAt) {
		return tooSoon(c.AgainAt.Sub(now))
	}
	if !now.Before(c.ForgetAt) {
		c = Code{} // also if there was none
	}
	c.Asked++
	c = Code{
		Email: r.Email, Hash: s.hash(r.Email, r.Code), Terms: terms, Asked: c.Asked,
		AgainAt: now.Add(min(coolDown<<min(max(c.Asked-2, 0), 4), codeLife)), ExpiresAt: r.Until, ForgetAt: now.Add(forgetCodes),
	}
	if known {
		return s.store.UpdateCodeTx(tx, c)
	}
	if err = s.store.CreateCodeTx(tx, c); errors.Is(err, ErrTaken) {
		return tooSoon(coolDown) // a concurrent request was faster
	}
	return err
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
		if len(members) > 0 || s.signupOn {
			err = s.outbox.Send(tx, "", mail.Message{
				To: r.Email, Until: r.Until, Subject: "Your sign-in code",
				Text: "Your sign-in code for " + s.public() + " is\n\n    " + r.Code[:3] + " " + r.Code[3:] + "\n\n" +
					"It can be used once, within ten minutes. Do not share it with anyone who asks for it.\n" +
					"If you did not request it, you can ignore this email.\n",
			})
			if err != nil {
				return err
			}
		}
		return s.queue.FinishTx(tx, held)
	})
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
	Body struct {
		Email         string `json:"email" required:"true" format:"email" maxLength:"200"`
		Code          string `json:"code" required:"true" minLength:"4" maxLength:"40" doc:"The six digits; spaces are ignored."`
		DeviceLabel   string `json:"device_label,omitzero" maxLength:"80" doc:"A name for the list of signed-in devices."`
		AcceptTerms   bool   `json:"accept_terms,omitzero" doc:"Required to sign up, here or when the code is requested."`
		AcceptPrivacy bool   `json:"accept_privacy,omitzero" doc:"As accept_terms."`
	}
}

// verifyCode exchanges a code for a session.
func (s codes) verifyCode(ctx context.Context, who authz.Caller, in *verifyCodeIn) (*route.Reply, error) {
	email, err := emailIn(in.Body.Email)
	if err != nil {
		return nil, err
	}
	code := strings.Map(dropSpace, in.Body.Code)
	var result login
	var rejected error
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		rejected = nil
		terms, ok, err := s.spend(tx, email, code, in.Body.AcceptTerms && in.Body.AcceptPrivacy)
		if err != nil {
			return err
		}
		if !ok {
			rejected = wrongCode() // commit the count of attempts
			return nil
		}
		result, err = s.logins.signIn(tx, authenticated{who: who, email: email, method: OTP, label: in.Body.DeviceLabel, terms: terms})
		return err
	})
	if err == nil {
		err = rejected
	}
	if err != nil {
		return nil, err
	}
	return result.reply()
}

func dropSpace(r rune) rune {
	if unicode.IsSpace(r) {
		return -1
	}
	return r
}

// wrongCode is the one error for codes that are wrong, used or expired, and for
// addresses that never got one.
func wrongCode() error {
	return fault.New(fault.Malformed, "VERIFICATION_FAILED",
		"This code is wrong, already used, expired, or was tried too often; request another.")
}

// spend uses up the code of an email if it is the given one. It returns whether
// the terms were accepted, now or when the code was requested.
func (s codes) spend(tx txn.Tx, email, code string, terms bool) (accepted, ok bool, err error) {
	hash := s.hash(email, code) // always computed, so that every answer takes the same time
	c, err := s.store.LockCodeTx(tx, email)
	if errors.Is(err, ErrNotFound) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if len(c.Hash) == 0 || !s.clock.Now().Before(c.ExpiresAt) {
		return false, false, nil
	}
	if subtle.ConstantTimeCompare(hash, c.Hash) == 1 {
		return terms || c.Terms, true, s.store.DeleteCodeTx(tx, email)
	}
	if c.Wrong++; c.Wrong >= maxWrong {
		c.Hash = nil
	}
	return false, false, s.store.UpdateCodeTx(tx, c)
}
