// Package mail sends letters to people: sign-in codes, invites, notices. A
// letter is taken in the transaction that makes it true and sent afterwards, so
// that none is sent for what did not happen, and none is lost in a crash.
package mail

import "agentd/internal/txn"

// Message is a letter to one person, in plain text.
type Message struct {
	To      string // an email address
	Subject string // one line
	Text    string // may hold secrets: it is sealed at rest
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
