// Package ratelimit limits how many requests are admitted within a period: of a
// tenant, of an API key or browser session, to an operation by a tenant; and of
// a client address to operations that do not need authentication.
//
// A bucket holds the allowance of one whole period, which may be used at once,
// and fills evenly. It is represented by the time at which it will be full again
// (the generic cell rate algorithm, GCRA), so a full bucket takes no memory:
// only those that were used within their last period are kept. Nodes send each
// other what they admitted (see [Limiter.Share]); nothing is stored.
package ratelimit

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"agentd/internal/base/route"
)

// kind is what the requests of a bucket have in common.
type kind uint8

const (
	ofTenant   kind = iota + 1
	ofKey           // an API key or a browser session
	ofEndpoint      // an operation of a tenant
	ofOwn           // an operation's own limit, for a credential
	ofAddress       // an operation's own limit, for a client address
	ofGuesses       // failed authentications from a client address
	afterKinds
)

// bucketNames are the values of the header X-RateLimit-Bucket (rule D13-buckets).
var bucketNames = [afterKinds]string{
	ofTenant: "tenant", ofKey: "api_key", ofEndpoint: "endpoint", ofOwn: "endpoint", ofAddress: "endpoint", ofGuesses: "endpoint",
}

// Buckets are the names that a Verdict can have.
var Buckets = []string{"tenant", "api_key", "endpoint"}

// key identifies a bucket; it is the same on every node.
type key struct {
	kind      kind
	window    uint8  // index of the operation's own limit
	id        string // of a tenant or a credential, or an address
	operation string // "" if the bucket is for all operations
}

// Rule is a prepared limit. Its times are in nanoseconds.
type Rule struct {
	n     int
	step  int64 // refill time of one request
	burst int64 // refill time of a whole bucket
	text  string
}

// NewRule prepares a limit. It panics if the limit admits nothing, which is a
// programming error.
func NewRule(l route.Limit) Rule {
	if l.N < 1 || l.Per < time.Duration(l.N) {
		panic(fmt.Sprintf("ratelimit: %d within %v is not a limit", l.N, l.Per))
	}
	step := (int64(l.Per) + int64(l.N) - 1) / int64(l.N)
	return Rule{n: l.N, step: step, burst: step * int64(l.N), text: strconv.Itoa(l.N)}
}

// Rules prepares limits.
func Rules(limits []route.Limit) []Rule {
	all := make([]Rule, len(limits))
	for i, l := range limits {
		all[i] = NewRule(l)
	}
	return all
}

// guessRule limits failed authentications from one client address. It is more
// than a person or a program with a stale key causes, and far less than would
// load the database.
var guessRule = NewRule(route.Limit{N: 600, Per: time.Minute})

// Request has what determines the buckets of a request.
type Request struct {
	Tenant     string // "" if anonymous: then only Own applies
	Credential string // id of an API key or a browser session
	Address    string // see [Network]
	Operation  string // the same on every node
	ID         string // of the operation, by which the operator names it
	Own        []Rule // the operation's own limits: of the credential or, if anonymous, of the address
}

// Verdict is the decision on a request and the state of its tightest bucket. If
// the request was refused, that is the empty bucket which takes maxBacklog to admit
// the next request.
type Verdict struct {
	Bucket    string        // "" if admitted
	Retry     time.Duration // until it would be admitted, without other requests
	Limit     string        // requests in a period; "" if no bucket applies
	Remaining int
	Reset     time.Duration // until the bucket is full
}

// Limiter admits or refuses requests. It is safe for concurrent use.
type Limiter struct {
	rules              atomic.Pointer[rules]
	base               time.Time // times are counted from here, by the monotonic clock
	callers, addresses *table    // separate, so that anonymous requests cannot evict tenants' buckets
	share              share
}

// New returns a limiter with the operator's limits, any of which may be unset.
// The operations' own limits apply in any case.
func New(limits Limits) *Limiter {
	l := &Limiter{base: time.Now(), callers: newTable(maxBuckets), addresses: newTable(maxBuckets)}
	l.Set(limits)
	l.share.init()
	return l
}

// rules are the operator's limits, prepared.
type rules struct {
	on                    bool
	tenant, key, endpoint *Rule
	operations            map[string]*Rule
}

// Set replaces the operator's limits. What was counted so far stays counted.
func (l *Limiter) Set(limits Limits) {
	r := &rules{
		tenant: limits.Tenant.rule(), key: limits.Key.rule(), endpoint: limits.Endpoint.rule(), operations: map[string]*Rule{},
	}
	for id, limit := range limits.Operations {
		r.operations[id] = limit.rule()
	}
	r.on = r.tenant != nil || r.key != nil || r.endpoint != nil || len(r.operations) > 0
	l.rules.Store(r)
}

// On reports whether the operator set any limit.
func (l *Limiter) On() bool { return l.rules.Load().on }

// charge is a bucket that a request counts in.
type charge struct {
	key  key
	rule *Rule
}

// Reserve counts a request that arrived at now in all of its buckets, or in none
// if one of them is empty.
func (l *Limiter) Reserve(now time.Time, r Request) Verdict {
	var room [8]charge
	charges := room[:0]
	owner, id := ofOwn, r.Credential
	if r.Tenant == "" {
		owner, id = ofAddress, r.Address
	}
	for i := range r.Own {
		charges = append(charges, charge{key{owner, uint8(i), id, r.Operation}, &r.Own[i]})
	}
	if r.Tenant != "" {
		set := l.rules.Load()
		endpoint := set.endpoint
		if own := set.operations[r.ID]; own != nil {
			endpoint = own
		}
		if endpoint != nil {
			charges = append(charges, charge{key{ofEndpoint, 0, r.Tenant, r.Operation}, endpoint})
		}
		if set.key != nil {
			charges = append(charges, charge{key{ofKey, 0, r.Credential, ""}, set.key})
		}
		if set.tenant != nil {
			charges = append(charges, charge{key{ofTenant, 0, r.Tenant, ""}, set.tenant})
		}
	}
	return l.reserve(now, charges)
}

func (l *Limiter) reserve(at time.Time, charges []charge) (v Verdict) {
	now := int64(at.Sub(l.base))
	reserved := 0
	for i := range charges {
		c := &charges[i]
		// After a refusal the other buckets are only read, so that a refused
		// request takes nothing from others even for a moment.
		got := l.table(c.key.kind).reserve(l, c, now, v.Bucket != "")
		switch {
		case got.wait > 0:
			if v.Bucket == "" || time.Duration(got.wait) > v.Retry {
				v = Verdict{bucketNames[c.key.kind], time.Duration(got.wait), c.rule.text, 0, time.Duration(got.full)}
			}
		case v.Bucket == "":
			reserved = i + 1
			if v.Limit == "" || got.remaining < v.Remaining {
				v.Limit, v.Remaining, v.Reset = c.rule.text, got.remaining, time.Duration(got.full)
			}
		}
	}
	if v.Bucket != "" {
		for i := range charges[:reserved] {
			l.table(charges[i].key.kind).refund(&charges[i])
		}
	}
	return v
}

// CheckGuess returns a refusal if authentication from an address failed so often
// that its further credentials are not checked.
func (l *Limiter) CheckGuess(at time.Time, address string) Verdict {
	if !l.On() {
		return Verdict{}
	}
	c := charge{key{kind: ofGuesses, id: address}, &guessRule}
	if got := l.addresses.reserve(l, &c, int64(at.Sub(l.base)), true); got.wait > 0 {
		return Verdict{Bucket: bucketNames[ofGuesses], Retry: time.Duration(got.wait), Limit: guessRule.text, Reset: time.Duration(got.full)}
	}
	return Verdict{}
}

// RecordFailure counts a failed authentication from an address.
func (l *Limiter) RecordFailure(at time.Time, address string) {
	if l.On() {
		l.reserve(at, []charge{{key{kind: ofGuesses, id: address}, &guessRule}})
	}
}

func (l *Limiter) table(k kind) *table {
	if k >= ofAddress {
		return l.addresses
	}
	return l.callers
}

// maxBacklog returns how far in the future the time at which a bucket is full may
// lie. Nodes whose messages are late admit at most a whole burst each, and no
// more than that is ever paid back, however much a bus that was disconnected
// delivers at once.
func (r *Rule) maxBacklog(others *atomic.Int32) int64 {
	return int64(others.Load()+1) * (r.burst + int64(time.Second))
}
