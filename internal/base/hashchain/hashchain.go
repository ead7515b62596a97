// Package hashchain is the format of the governance ledger: entries that are
// chained by their hashes, so that an entry that is changed, removed or moved
// afterwards is found.
//
// The hash of an entry is SHA-256, in hex, over its canonical JSON (RFC 8785) with
// every member except hash. seq and prev_hash, the hash of the entry before it, are
// among these members; prev_hash is "" in the first entry.
package hashchain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Entry is one entry of a chain.
type Entry struct {
	ID             string
	Seq            int64 // from 1
	At             time.Time
	Kind           string // area and past participle: constitution.amended
	ActorAgentID   string // "": not an agent
	ActorUserID    string // "": not a person
	SubjectAgentID string // "": about no agent
	RuleID         string // "": by no rule
	RunID          string // "": in no run
	Details        jsontext.Value
	PrevHash       string
	Hash           string
}

// Head is the end of a chain: the place and hash of its last entry; zero where
// there is none.
type Head struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// Seal makes the entry the next one after head and returns the new head. Details
// must be canonical JSON.
func (e *Entry) Seal(head Head) Head {
	e.Seq, e.PrevHash = head.Seq+1, head.Hash
	e.Hash = e.Sum(nil)
	return Head{e.Seq, e.Hash}
}

// Sum returns the hash of the entry. It may use buffer for the text.
func (e *Entry) Sum(buffer []byte) string {
	sum := sha256.Sum256(e.appendCanonical(buffer[:0], false))
	return hex.EncodeToString(sum[:])
}

// Follows returns why the entry cannot be the one after head; nil if it can.
func (e *Entry) Follows(head Head, buffer []byte) error {
	switch {
	case e.Seq != head.Seq+1:
		return fmt.Errorf("entry %d is missing: after entry %d comes entry %d", head.Seq+1, head.Seq, e.Seq)
	case e.PrevHash != head.Hash:
		return fmt.Errorf("entry %d does not follow the entry before it: its prev_hash is another", e.Seq)
	case e.Sum(buffer) != e.Hash:
		return fmt.Errorf("entry %d was changed: its hash is not that of its content", e.Seq)
	}
	return nil
}

// AppendJSON appends the entry as canonical JSON, with its hash.
func (e *Entry) AppendJSON(b []byte) []byte { return e.appendCanonical(b, true) }

// appendCanonical appends the entry as canonical JSON, with its hash or without: the
// members are in the order of their names.
func (e *Entry) appendCanonical(b []byte, hash bool) []byte {
	b = appendOptional(append(b, `{"actor_agent_id":`...), e.ActorAgentID)
	b = appendOptional(append(b, `,"actor_user_id":`...), e.ActorUserID)
	b = append(append(b, `,"details":`...), e.Details...)
	if hash {
		b = appendText(append(b, `,"hash":`...), e.Hash)
	}
	b = appendText(append(b, `,"id":`...), e.ID)
	b = appendText(append(b, `,"kind":`...), e.Kind)
	b = appendText(append(b, `,"prev_hash":`...), e.PrevHash)
	b = appendOptional(append(b, `,"rule_id":`...), e.RuleID)
	b = appendOptional(append(b, `,"run_id":`...), e.RunID)
	b = strconv.AppendInt(append(b, `,"seq":`...), e.Seq, 10)
	b = appendOptional(append(b, `,"subject_agent_id":`...), e.SubjectAgentID)
	b = e.At.UTC().AppendFormat(append(b, `,"ts":"`...), time.RFC3339Nano)
	return append(b, `"}`...)
}

func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return append(b, `null`...)
	}
	return appendText(b, s)
}

func appendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // an error is invalid UTF-8, which is replaced as the encoder replaces it
	return b
}
