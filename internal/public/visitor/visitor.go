// Package visitor lets visitors of web pages talk with the agents that companies publish,
// in sessions that need neither an account nor a key.
//
// A visitor's session is a session of the company, in which nothing but its messages is
// the visitor's. The visitor holds a token, of which a hash is stored. What visitors see
// is made of what is named here, and of nothing else: the agent's card, their own
// messages, the agent's answers and questions, and whether it is at work. Prompts, tools,
// reasoning, costs and errors stay inside.
//
// Their runs have the tools that the agent's public_config allows and no memory; see
// run.AgentSpec.ForVisitors.
package visitor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"

	"agentd/internal/base/txn"
)

// Source is metadata.source of the sessions and runs of visitors.
const Source = "public"

// tokenPrefix lets scanners of secrets recognize a token.
const tokenPrefix = "pst_"

func newToken() string { return tokenPrefix + rand.Text() }

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Record is what is stored of a visitor's session beside the session itself.
type Record struct {
	TenantID, SessionID, AgentID string

	Hash      []byte // of the token
	Messages  int64  // that were accepted
	SeenAt    time.Time
	CreatedAt time.Time
	ExpiresAt time.Time // from then on it takes no messages
}

const (
	// activeFor is how long a session counts as one that is held now, after its last
	// message.
	activeFor = 30 * time.Minute
	// keptFor is how long a session can be read, after it was begun.
	keptFor = 24 * time.Hour
	// repeatedWithin is the time in which a second creation with the token of the first
	// returns the first: browsers repeat requests, and people click twice.
	repeatedWithin = 3 * time.Second

	maxContent = 10_000
	maxImage   = 8 << 20
	maxStreams = 5 // of a session, on a node
	shownTalk  = 400
	dayFormat  = "2006-01-02"
)

// Store is the port to the tables of visitors.
type Store interface {
	CreateTx(tx txn.Tx, r *Record) error
	// GetByToken returns the session with a token's hash, of any tenant; nil if there is
	// none.
	GetByToken(ctx context.Context, hash []byte) (*Record, error)
	// CountActiveTx locks the visitors of an agent and returns how many of its sessions
	// were seen after a time.
	CountActiveTx(tx txn.Tx, tenant, agent string, after time.Time) (int64, error)
	// ClaimMessageTx counts a message of a session that has had fewer than most, and
	// returns how many it has had then. 0: it has had as many already.
	ClaimMessageTx(tx txn.Tx, tenant, session string, most int64, at time.Time) (int64, error)
	// ClaimDayTx counts a message to an agent on a day, and reports whether there were
	// fewer than most. A most of 0 is no limit.
	ClaimDayTx(tx txn.Tx, tenant, agent, day string, most int64) (bool, error)
	// DeleteOldTx deletes the sessions of an agent that were begun before a time.
	DeleteOldTx(tx txn.Tx, tenant, agent string, before time.Time) error

	// CreateFileTx stores that a file belongs to a session.
	CreateFileTx(tx txn.Tx, tenant, session, file string, at time.Time) error
	// CountFiles returns how many files belong to a session.
	CountFiles(ctx context.Context, tenant, session string) (int64, error)
	// HasFile reports whether a file belongs to a session.
	HasFile(ctx context.Context, tenant, session, file string) (bool, error)
	// GetFileTenant returns the tenant of a file that belongs to a visitor's session; ""
	// if there is none.
	GetFileTenant(ctx context.Context, file string) (string, error)
}

// oneLine returns a text that fits into a sentence.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
