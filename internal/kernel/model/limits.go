package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"
)

// Limits are what a provider allows for one key, for all its models together and
// over all nodes. 0 means that no limit is known.
type Limits struct {
	MaxConcurrency  int `json:"max_concurrency,omitzero"`
	TokensPerMinute int `json:"tokens_per_minute,omitzero"`
}

// The highest limits that can be set.
const (
	MaxMaxConcurrency  = 100_000
	MaxTokensPerMinute = 1_000_000_000
)

// CheckLimit returns what is wrong with a limit, "" if nothing is.
func CheckLimit(n, most int) string {
	if n < 0 || n > most {
		return fmt.Sprintf("must be 0 (no limit) to %d", most)
	}
	return ""
}

// Share is the part of all limits that a node may use: one of Of equal parts, of
// which the first ones get what cannot be divided. The zero value is everything.
type Share struct{ Index, Of int }

// NoShare is no part of any limit.
var NoShare = Share{math.MaxInt, math.MaxInt}

// part returns the share of a limit.
func (s Share) part(limit int) int {
	if s.Of <= 1 {
		return limit
	}
	n := limit / s.Of
	if s.Index < limit%s.Of {
		n++
	}
	return n
}

// AccountKey identifies what has Limits, for logs and storage: an endpoint and a
// key there. It does not show the key.
func (t *Target) AccountKey() string {
	h := sha256.New()
	parts := []string{t.BaseURL, t.APIKey.Reveal()}
	if e := t.Access.Entra; e != nil {
		parts = append(parts, e.TenantID, e.ClientID)
	}
	if a := t.Access.AWS; a != nil {
		parts = append(parts, a.AccessKeyID, a.From, a.RoleARN)
	}
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s ", len(part), part)
	}
	return "limit:" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Rate is what an endpoint says about its own limits in the headers of an answer.
type Rate struct{ Requests, Tokens Allowance }

// Allowance is how many requests or tokens an endpoint accepts until Reset from
// now. A Reset of 0 means that the endpoint does not say.
type Allowance struct {
	Left  int
	Reset time.Duration
}

// OverLimit is the error of a call that a provider's limit does not allow now. It
// was not made.
type OverLimit struct {
	// Account is the AccountKey of the limits that are reached; "": the endpoint
	// itself asked for the pause.
	Account string
	Limits  Limits
	After   time.Duration // when to try again, at the earliest
	reason  string
}

func (e *OverLimit) Error() string { return e.reason }

// asError returns the error for callers of a model.
func (e *OverLimit) asError() *Error {
	return &Error{
		Code: "model_rate_limited", Detail: e.reason, Status: 429, Retryable: true, Passing: true, RetryAfter: max(e.After, time.Second),
	}
}

// windowSeconds is a minute, and one second more because the first is counted as
// a whole.
const windowSeconds = 61

// window counts the tokens of the last minute.
type window struct {
	second  int64 // the newest
	sum     int
	buckets [windowSeconds]int
}

func (w *window) advance(now time.Time) {
	second := now.Unix()
	if second-w.second >= windowSeconds {
		*w = window{second: second}
		return
	}
	for w.second < second {
		w.second++
		b := &w.buckets[w.second%windowSeconds]
		w.sum, *b = w.sum-*b, 0
	}
}

// add counts tokens in a second; those of one that has left the window are
// ignored.
func (w *window) add(second int64, n int) {
	if w.second-second >= windowSeconds || second > w.second {
		return
	}
	b := &w.buckets[second%windowSeconds]
	n = max(n, -*b)
	*b += n
	w.sum += n
}

// wait returns how long it takes until n tokens fit below limit. More than the
// limit fits into an empty window.
func (w *window) wait(now time.Time, n, limit int) time.Duration {
	w.advance(now)
	sum, second := w.sum, w.second-windowSeconds+1
	for ; sum > 0 && sum+n > limit; second++ {
		sum -= w.buckets[(second%windowSeconds+windowSeconds)%windowSeconds]
	}
	if second == w.second-windowSeconds+1 {
		return 0
	}
	return time.Unix(second-1+windowSeconds, 0).Sub(now)
}
