// Package ratelimit says whether a request may be made now: so many within a
// time for a tenant, for a key or a browser session, and for an operation of a
// tenant; and, for operations that anybody may call, for a client address.
//
// A bucket holds the allowance of one whole period, which may be used at once,
// and fills evenly. It is kept as the time at which it will be full again (the
// generic cell rate algorithm), so one that is full is no bucket at all:
// memory holds those only that were used within their last period. Nodes tell
// each other what they admitted (see [Limiter.Share]); nothing is stored.
package ratelimit

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"agentd/internal/base/route"
)

// kind is what a bucket counts for.
type kind uint8

const (
	ofTenant   kind = iota + 1
	ofKey           // a key or a browser session
	ofEndpoint      // an operation of a tenant
	ofOwn           // an operation's own limit, for a credential
	ofAddress       // an operation's own limit, for a client address
	ofGuesses       // failed credentials of a client address
	afterKinds
)

// names are what X-RateLimit-Bucket calls them (decisions.md D13).
var names = [afterKinds]string{
	ofTenant: "tenant", ofKey: "api_key", ofEndpoint: "endpoint", ofOwn: "endpoint", ofAddress: "endpoint", ofGuesses: "endpoint",
}

// Buckets are the names that a verdict can have.
var Buckets = []string{"tenant", "api_key", "endpoint"}

// key names a bucket, on every node alike.
type key struct {
	kind      kind
	window    uint8  // which of the operation's own limits
	id        string // of a tenant or a credential, or an address
	operation string // "" where all of them count
}

// Rule is a limit, ready to be counted. Its times are in nanoseconds.
type Rule struct {
	n     int
	step  int64 // what one request takes
	burst int64 // what a full bucket holds
	text  string
}

// NewRule prepares a limit. It panics on one that admits nothing, which is a
// mistake of the program.
func NewRule(l route.Limit) Rule {
	if l.N < 1 || l.Per < time.Duration(l.N) {
		panic(fmt.Sprintf("ratelimit: %d within %v is no limit", l.N, l.Per))
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

// guessRule is how often the credentials of one client address may fail. It is
// beyond what a person or a program with a stale key does, and far below what
// would keep the database busy.
var guessRule = NewRule(route.Limit{N: 600, Per: time.Minute})

// Request is what a request counts for.
type Request struct {
	Tenant     string // "" for an anonymous one, which only Own limits
	Credential string // the id of a key or of a browser session
	Address    string // see [Network]
	Operation  string
	Own        []Rule // the operation's own; for the credential, or for the address where there is none
}

// Verdict is what became of a request: where its tightest bucket stands, and,
// where it was refused, which bucket had nothing left (of several the one that
// takes longest).
type Verdict struct {
	Bucket    string        // "": admitted
	Retry     time.Duration // until it would be admitted, if nobody else came
	Limit     string        // in a period, as a number; "": no bucket counts
	Remaining int
	Reset     time.Duration // until the bucket is full
}

// Limiter counts. Its methods are safe for concurrent use.
type Limiter struct {
	on                    bool
	tenant, key, endpoint *Rule
	base                  time.Time // what times are counted from, by the monotonic clock
	callers, addresses    *table    // apart, so that strangers cannot push out what tenants used
	share                 share
}

// New makes a limiter with the limits of the operator, of which there may be
// none. Limits of operations hold all the same.
func New(limits Limits) *Limiter {
	l := &Limiter{
		tenant: limits.Tenant.rule(), key: limits.Key.rule(), endpoint: limits.Endpoint.rule(),
		base: time.Now(), callers: newTable(maxBuckets), addresses: newTable(maxBuckets),
	}
	l.on = l.tenant != nil || l.key != nil || l.endpoint != nil
	l.share.init()
	return l
}

// On says whether the operator limits anything.
func (l *Limiter) On() bool { return l.on }

// charge is one bucket that a request takes from.
type charge struct {
	key  key
	rule *Rule
}

// Reserve counts a request, which came now, in every bucket that it belongs to,
// or in none if one of them has nothing left.
func (l *Limiter) Reserve(now time.Time, r Request) Verdict {
	var room [8]charge
	charges := room[:0]
	of, id := ofOwn, r.Credential
	if r.Tenant == "" {
		of, id = ofAddress, r.Address
	}
	for i := range r.Own {
		charges = append(charges, charge{key{of, uint8(i), id, r.Operation}, &r.Own[i]})
	}
	if r.Tenant != "" {
		if l.endpoint != nil {
			charges = append(charges, charge{key{ofEndpoint, 0, r.Tenant, r.Operation}, l.endpoint})
		}
		if l.key != nil {
			charges = append(charges, charge{key{ofKey, 0, r.Credential, ""}, l.key})
		}
		if l.tenant != nil {
			charges = append(charges, charge{key{ofTenant, 0, r.Tenant, ""}, l.tenant})
		}
	}
	return l.reserve(now, charges)
}

func (l *Limiter) reserve(at time.Time, charges []charge) (v Verdict) {
	now := int64(at.Sub(l.base))
	taken := 0
	for i := range charges {
		c := &charges[i]
		// What comes after a refusal is only looked at, so that a caller who is
		// refused does not take from others even for a moment.
		got := l.table(c.key.kind).reserve(l, c, now, v.Bucket != "")
		switch {
		case got.wait > 0:
			if v.Bucket == "" || time.Duration(got.wait) > v.Retry {
				v = Verdict{names[c.key.kind], time.Duration(got.wait), c.rule.text, 0, time.Duration(got.full)}
			}
		case v.Bucket == "":
			taken = i + 1
			if v.Limit == "" || got.remaining < v.Remaining {
				v.Limit, v.Remaining, v.Reset = c.rule.text, got.remaining, time.Duration(got.full)
			}
		}
	}
	if v.Bucket != "" {
		for i := range charges[:taken] {
			l.table(charges[i].key.kind).refund(&charges[i])
		}
	}
	return v
}

// CheckGuess says whether the credentials of an address failed so often that none
// of its further ones is looked at.
func (l *Limiter) CheckGuess(at time.Time, address string) Verdict {
	if !l.on {
		return Verdict{}
	}
	c := charge{key{kind: ofGuesses, id: address}, &guessRule}
	if got := l.addresses.reserve(l, &c, int64(at.Sub(l.base)), true); got.wait > 0 {
		return Verdict{Bucket: names[ofGuesses], Retry: time.Duration(got.wait), Limit: guessRule.text, Reset: time.Duration(got.full)}
	}
	return Verdict{}
}

// RecordFailure counts a credential that did not authenticate.
func (l *Limiter) RecordFailure(at time.Time, address string) {
	if l.on {
		l.reserve(at, []charge{{key{kind: ofGuesses, id: address}, &guessRule}})
	}
}

func (l *Limiter) table(k kind) *table {
	if k >= ofAddress {
		return l.addresses
	}
	return l.callers
}

// longest is how far into the future a bucket may be owed. Nodes that did not
// hear of each other in time admit a whole burst each at most, and no more than
// that is ever paid back, whatever a bus that was away delivers at once.
func (r *Rule) longest(others *atomic.Int32) int64 {
	return int64(others.Load()+1) * (r.burst + int64(time.Second))
}
