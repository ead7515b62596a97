package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
)

// tokens stores the state of sign-ins that are completed by a browser, an app or
// a link in an email which comes back with a token of 32 random bytes. Only the
// token's hash is stored, together with the sealed state.
type tokens struct {
	store Store
	box   *secret.Box
	clock clock.Clock
}

// Kinds of tokens.
const (
	oauthToken    = "oauth"    // state of a flow with a provider
	appToken      = "app"      // code that an app exchanges for a session
	registerToken = "register" // link in an email
	linkToken     = "link"     // link that the operator hands to a member
)

// newToken returns 43 random characters that can be used in URLs and cookies.
func newToken() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func hashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func tokenContext(kind string, hash []byte) string {
	return "signin/" + kind + "/" + base64.RawURLEncoding.EncodeToString(hash)
}

// put stores a state under a token.
func (t tokens) put(tx txn.Tx, kind, token string, state any, life time.Duration) error {
	plain, err := json.Marshal(state)
	if err != nil {
		return err
	}
	hash := hashToken(token)
	return t.store.CreateTicketTx(tx, kind, hash, t.box.Seal(plain, tokenContext(kind, hash)), t.clock.Now().Add(life))
}

// take reads the state of a token and uses the token up. Errors: 400 for a token
// that is unknown, used or expired.
func (t tokens) take(tx txn.Tx, kind, token string, state any) error {
	return t.open(kind, token, state, func(hash []byte) ([]byte, error) {
		return t.store.ConsumeTicketTx(tx, kind, hash, t.clock.Now())
	})
}

// peek is take for a token that stays valid.
func (t tokens) peek(tx txn.Tx, kind, token string, state any) error {
	return t.open(kind, token, state, func(hash []byte) ([]byte, error) {
		return t.store.GetTicketTx(tx, kind, hash, t.clock.Now())
	})
}

func (t tokens) open(kind, token string, state any, read func(hash []byte) ([]byte, error)) error {
	hash := hashToken(token)
	sealed, err := read(hash)
	if errors.Is(err, ErrNotFound) {
		return invalidToken(kind)
	}
	if err != nil {
		return err
	}
	plain, err := t.box.Open(sealed, tokenContext(kind, hash))
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, state)
}

func invalidToken(kind string) error {
	switch kind {
	case registerToken:
		return fault.New(fault.Malformed, "VERIFICATION_FAILED", "This link is unknown, or older than 24 hours; register again.")
	case linkToken:
		return fault.New(fault.Malformed, "VERIFICATION_FAILED",
			"This link is unknown, already used, or older than 15 minutes; make another one: agentd admin sign-in-link.")
	case appToken:
		return fault.New(fault.Malformed, Failed, "This code is unknown, already used or expired; start the sign-in again.")
	}
	return fault.New(fault.Malformed, Failed, "This sign-in is unknown, already completed or expired; start it again.")
}
