// Package mail sends emails to people: sign-in codes, invites, notices. An email
// is queued in the transaction of the change that it is about, and sent
// afterwards, so that none is sent for a change that did not happen, and none is
// lost in a crash.
package mail

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/txn"
)

// Message is an email to one person, in plain text.
type Message struct {
	To      string    // an email address
	Subject string    // one line
	Text    string    // may hold secrets: it is sealed at rest
	Until   time.Time // the email is not sent later than this; zero: it never expires
	// Unsubscribe is a URL to which a POST stops such emails; "": there is none.
	Unsubscribe string `json:",omitzero"`
}

// Outbox accepts emails.
type Outbox interface {
	// Configured reports whether the operator configured a mail server. If not,
	// Send drops messages.
	Configured() bool
	// Send queues an email of a tenant ("": of the platform) in the transaction
	// of the change that it is about. Sending is retried for some hours.
	Send(tx txn.Tx, tenant string, m Message) error
}

// Letter is a queued message. Its ID is the same at every attempt, so that a
// recipient can recognize a duplicate.
type Letter struct {
	Message

	ID string
}

// ErrRefused marks a permanent error of a Sender: the mail server rejected the
// email, and a retry does not help.
var ErrRefused = errors.New("mail: refused")

// Sender passes emails to a mail server, one at a time and whole. A nil error
// means that the server has accepted the email. After an error it may have
// accepted it too: a retry may send it twice.
type Sender interface {
	Send(ctx context.Context, l Letter) error
}
