package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// What a person comes back with from elsewhere is 32 random bytes. Only their
// hash is kept, with what the person left for then sealed beside it.

const (
	oauthTicket    = "oauth"    // state of a flow with a provider
	appTicket      = "app"      // code that an app trades for a session
	registerTicket = "register" // link in a letter
)

// newTicket gives 43 characters that fit into addresses and cookies.
func newTicket() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func hashTicket(ticket string) []byte {
	sum := sha256.Sum256([]byte(ticket))
	return sum[:]
}

func ticketContext(kind string, hash []byte) string {
	return "signin/" + kind + "/" + base64.RawURLEncoding.EncodeToString(hash)
}

// leave keeps something for whoever comes with the ticket.
func (s *Service) leave(tx txn.Tx, kind, ticket string, what any, life time.Duration) error {
	plain, err := json.Marshal(what)
	if err != nil {
		return err
	}
	hash := hashTicket(ticket)
	return s.Store.CreateTicketTx(tx, kind, hash, s.Box.Seal(plain, ticketContext(kind, hash)), s.Clock.Now().Add(life))
}

// take gives what was left for a ticket, once. Errors: 400 for one that is not
// known, spent or too old.
func (s *Service) take(tx txn.Tx, kind, ticket string, what any) error {
	return s.opening(kind, ticket, what, func(hash []byte) ([]byte, error) {
		return s.Store.ConsumeTicketTx(tx, kind, hash, s.Clock.Now())
	})
}

// peek is take for a ticket that stays.
func (s *Service) peek(tx txn.Tx, kind, ticket string, what any) error {
	return s.opening(kind, ticket, what, func(hash []byte) ([]byte, error) {
		return s.Store.GetTicketTx(tx, kind, hash, s.Clock.Now())
	})
}

func (s *Service) opening(kind, ticket string, what any, read func(hash []byte) ([]byte, error)) error {
	hash := hashTicket(ticket)
	sealed, err := read(hash)
	if errors.Is(err, ErrNotFound) {
		return badTicket(kind)
	}
	if err != nil {
		return err
	}
	plain, err := s.Box.Open(sealed, ticketContext(kind, hash))
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, what)
}

func badTicket(kind string) error {
	switch kind {
	case registerTicket:
		return fault.New(fault.Malformed, "VERIFICATION_FAILED", "This link is not known, or older than 24 hours; register again.")
	case appTicket:
		return fault.New(fault.Malformed, Failed, "This code is not known, was traded already, or is too old; begin the sign-in anew.")
	}
	return fault.New(fault.Malformed, Failed, "This sign-in is not known, was finished already, or is too old; begin it anew.")
}
