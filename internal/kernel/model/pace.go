package model

import (
	"fmt"
	"sync"
	"time"

	"agentd/internal/base/secret"
)

// maxLearntPause bounds a pause that an endpoint asks for: after it one call is
// made, and the endpoint may ask again.
const maxLearntPause = time.Minute

// paceKey identifies what an endpoint's own limits are for.
type paceKey struct {
	url, model string
	key        secret.String
}

// pace is what an endpoint said about its limits for one model and key: until
// when it accepts nothing, and how much it accepts until it counts again.
type pace struct {
	mu       sync.Mutex
	started  int64 // calls
	tokens   int64 // of these, as estimated
	closed   time.Time
	newest   int64 // the call whose answer was the last to say something
	requests allowed
	spent    allowed // tokens
}

// allowed is up to which count calls may start until a time.
type allowed struct {
	upTo  int64
	until time.Time
}

func (a allowed) wait(count int64, now time.Time) time.Duration {
	if count <= a.upTo {
		return 0
	}
	return max(0, a.until.Sub(now))
}

// begin counts a call that starts now, and returns its number, and the count of
// tokens with it. If the endpoint does not accept it yet, wait is positive and
// nothing is counted.
func (p *pace) begin(now time.Time, tokens int) (call, count int64, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = max(p.closed.Sub(now), p.requests.wait(p.started+1, now), p.spent.wait(p.tokens+int64(tokens), now))
	if wait > 0 {
		return 0, 0, wait
	}
	p.started++
	p.tokens += int64(tokens)
	return p.started, p.tokens, 0
}

// learn notes what the answer to a call said. Calls that started after it may not
// be counted in it.
func (p *pace) learn(now time.Time, call, tokens int64, r Rate, share Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if call < p.newest {
		return
	}
	p.newest = call
	note := func(to *allowed, count int64, a Allowance) {
		if a.Reset > 0 {
			*to = allowed{count + int64(share.part(a.Left)), now.Add(min(a.Reset, maxLearntPause))}
		}
	}
	note(&p.requests, call, r.Requests)
	note(&p.spent, tokens, r.Tokens)
}

// close notes that the endpoint accepts nothing for a while.
func (p *pace) close(now time.Time, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := now.Add(min(wait, maxLearntPause)); until.After(p.closed) {
		p.closed = until
	}
}

func pausing(t *Target, wait time.Duration) *OverLimit {
	return &OverLimit{After: wait, reason: fmt.Sprintf(
		"The provider %s accepts no further calls of %s for %.0f seconds.", t.Provider, t.Model, max(1, wait.Seconds()))}
}
