// Package mail sends letters to people: sign-in codes, invites, notices. A
// letter is taken in the transaction that makes it true and sent afterwards, so
// that none is sent for what did not happen, and none is lost in a crash.
package mail

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/txn"
)

// Message is a letter to one person, in plain text.
type Message struct {
	To      string    // an email address
	Subject string    // one line
	Text    string    // may hold secrets: it is sealed at rest
	Until   time.Time // after it the letter is of no use and not sent; zero: there is no such moment
}

// Outbox takes letters.
type Outbox interface {
	// Configured says whether letters can be sent: whether the operator named a
	// server for them. Where not, Send drops them.
	Configured() bool
	// Send takes a letter of a tenant ("": of the platform) in the transaction
	// that makes it true. It is tried again for some hours.
	Send(tx txn.Tx, tenant string, m Message) error
}

// Letter is a message on its way. Its ID is the same at every attempt, so that
// whoever gets it twice can tell.
type Letter struct {
	Message

	ID string
}

// ErrRefused marks an error of a Sender that trying again cannot mend: the mail
// server does not want this letter.
var ErrRefused = errors.New("mail: refused")

// Sender hands letters to a mail server, one at a time and whole. Nil means that
// the server has taken the letter over. An error may come although it has: who
// sends again may send twice.
type Sender interface {
	Send(ctx context.Context, l Letter) error
}
