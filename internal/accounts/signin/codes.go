package signin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/mail"
	"agentd/internal/kernel/work"
)

const (
	codeLife = 10 * time.Minute
	mostBad  = 5 // wrong tries at one code
	// coolDown is how long to wait for the next code. From the second on it
	// doubles, up to a code's life: whoever asks in somebody else's name sends
	// few letters, and there is a code to be used whenever there is none to be had.
	coolDown = time.Minute
	// forgetCodes is how long an address is remembered after its last code.
	forgetCodes = time.Hour
)

// WorkKind is the kind of the work of answering requests for codes.
const WorkKind = "signin"

// wanted is a code that somebody asked for.
type wanted struct {
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
		AcceptTerms   bool   `json:"accept_terms,omitzero" doc:"Needed for the first sign-up, here or with the code."`
		AcceptPrivacy bool   `json:"accept_privacy,omitzero" doc:"The same."`
	}
}

// Requested answers POST /auth/request-code: always alike.
type Requested struct {
	OK      bool   `json:"ok"`
	Message string `json:"message"`
}

// requestCode takes a request for a code. Whether the address is known is not
// even looked at here, so that neither the answer nor the time it takes can
// tell: [Service.Handle] does that afterwards.
func (s *Service) requestCode(ctx context.Context, _ authz.Caller, in *requestCodeIn) (Requested, error) {
	if !s.Outbox.Configured() {
		return Requested{}, noMail()
	}
	email, err := emailIn(in.Body.Email)
	if err != nil {
		return Requested{}, err
	}
	w := wanted{Email: email, Code: newCode(), Until: s.Clock.Now().Add(codeLife)}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.keepCode(tx, w, in.Body.AcceptTerms && in.Body.AcceptPrivacy); err != nil {
			return err
		}
		return s.enqueue(tx, w)
	})
	return Requested{OK: err == nil, Message: "If this address can sign in, a code is on its way to it."}, err
}

func noMail() error {
	return fault.New(fault.Unsupported, "", "This deployment sends no mail; its operator can set AGENTD_SMTP_URL and AGENTD_MAIL_FROM.")
}

// newCode draws six digits.
func newCode() string {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		panic(err) // the system's random source does not fail
	}
	return fmt.Sprintf("%06d", n)
}

// hashCode binds a code to its address. There are only a million codes, so the
// hash is keyed: the database alone gives none away.
func (s *Service) hashCode(email, code string) []byte {
	mac := hmac.New(sha256.New, s.codeKey)
	mac.Write([]byte(email + "\x00" + code))
	return mac.Sum(nil)
}

func (s *Service) keepCode(tx txn.Tx, w wanted, terms bool) error {
	now := s.Clock.Now()
	c, err := s.Store.LockCodeTx(tx, w.Email)
	known := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if known && now.Before(c.AgainAt) {
		return tooSoon(c.AgainAt.Sub(now))
	}
	if !now.Before(c.ForgetAt) {
		c = Code{} // or nothing was known
	}
	c.Asked++
	c = Code{
		Email: w.Email, Hash: s.hashCode(w.Email, w.Code), Terms: terms, Asked: c.Asked,
		AgainAt: now.Add(min(coolDown<<min(max(c.Asked-2, 0), 4), codeLife)), ExpiresAt: w.Until, ForgetAt: now.Add(forgetCodes),
	}
	if known {
		return s.Store.UpdateCodeTx(tx, c)
	}
	if err = s.Store.CreateCodeTx(tx, c); errors.Is(err, ErrTaken) {
		return tooSoon(coolDown) // another request was faster by a moment
	}
	return err
}

func tooSoon(wait time.Duration) error {
	e := fault.New(fault.Limited, "", "A code was sent to this address a moment ago; use that, or wait before asking for another.")
	e.RetryAfter = wait
	return e
}

func (s *Service) enqueue(tx txn.Tx, w wanted) error {
	plain, err := json.Marshal(w)
	if err != nil {
		return err
	}
	key := ident.New()
	payload, err := json.Marshal(sealedWork{s.Box.Seal(plain, WorkKind+"/"+key)})
	if err != nil {
		return err
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: key, Payload: payload})
}

// Handle is the work.Handler of requests for codes: it sends a letter to those
// who can sign in or sign up, and nothing to others.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	w, err := s.opened(held)
	if err != nil {
		s.Log.Error("a request for a sign-in code was dropped: it cannot be opened", "error", err)
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, held) })
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Store.DeleteExpiredTx(tx, s.Clock.Now(), 50); err != nil {
			return err
		}
		members, err := s.Store.ListMembershipsTx(tx, w.Email)
		if err != nil {
			return err
		}
		if len(members) > 0 || s.Signup {
			err = s.Outbox.Send(tx, "", mail.Message{
				To: w.Email, Until: w.Until, Subject: "Your sign-in code",
				Text: "Your sign-in code for " + s.Public() + " is\n\n    " + w.Code[:3] + " " + w.Code[3:] + "\n\n" +
					"It can be used once, within ten minutes. Nobody else needs it: give it to nobody who asks for it.\n" +
					"If you did not want to sign in, there is nothing to do.\n",
			})
			if err != nil {
				return err
			}
		}
		return s.Queue.FinishTx(tx, held)
	})
}

func (s *Service) opened(held work.Lease) (wanted, error) {
	var w wanted
	var k sealedWork
	if err := json.Unmarshal(held.Payload, &k); err != nil {
		return w, err
	}
	plain, err := s.Box.Open(k.Sealed, WorkKind+"/"+held.Key)
	if err != nil {
		return w, err
	}
	if err := json.Unmarshal(plain, &w); err != nil {
		return w, err
	}
	if len(w.Code) != 6 {
		return w, errors.New("the code has no six digits")
	}
	return w, nil
}

type verifyCodeIn struct {
	Body struct {
		Email         string `json:"email" required:"true" format:"email" maxLength:"200"`
		Code          string `json:"code" required:"true" minLength:"4" maxLength:"40" doc:"The six digits; spaces do not matter."`
		DeviceLabel   string `json:"device_label,omitzero" maxLength:"80" doc:"A name for the list of signed-in devices."`
		AcceptTerms   bool   `json:"accept_terms,omitzero" doc:"Needed for the first sign-up, here or when the code is asked for."`
		AcceptPrivacy bool   `json:"accept_privacy,omitzero" doc:"The same."`
	}
}

// verifyCode trades a code for a session.
func (s *Service) verifyCode(ctx context.Context, who authz.Caller, in *verifyCodeIn) (*route.Reply, error) {
	email, err := emailIn(in.Body.Email)
	if err != nil {
		return nil, err
	}
	code := strings.Map(dropSpace, in.Body.Code)
	var got entered
	var refused error
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		refused = nil
		terms, good, err := s.spend(tx, email, code, in.Body.AcceptTerms && in.Body.AcceptPrivacy)
		if err != nil {
			return err
		}
		if !good {
			refused = wrongCode() // and the try is kept
			return nil
		}
		got, err = s.enter(tx, arrival{who: who, email: email, method: OTP, label: in.Body.DeviceLabel, terms: terms})
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return got.reply()
}

func dropSpace(r rune) rune {
	if unicode.IsSpace(r) {
		return -1
	}
	return r
}

// wrongCode is the one refusal of codes that are wrong, spent, old or of
// addresses that never got one.
func wrongCode() error {
	return fault.New(fault.Malformed, "VERIFICATION_FAILED", "This code is wrong, used already, too old, or was tried too often; ask for another.")
}

// spend uses up the code of an email, if this is it, and says whether terms
// were accepted now or when it was asked for.
func (s *Service) spend(tx txn.Tx, email, code string, terms bool) (accepted, good bool, err error) {
	hash := s.hashCode(email, code) // in any case: it takes the same time
	c, err := s.Store.LockCodeTx(tx, email)
	if errors.Is(err, ErrNotFound) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if len(c.Hash) == 0 || !s.Clock.Now().Before(c.ExpiresAt) {
		return false, false, nil
	}
	if subtle.ConstantTimeCompare(hash, c.Hash) == 1 {
		return terms || c.Terms, true, s.Store.DeleteCodeTx(tx, email)
	}
	if c.Wrong++; c.Wrong >= mostBad {
		c.Hash = nil
	}
	return false, false, s.Store.UpdateCodeTx(tx, c)
}
