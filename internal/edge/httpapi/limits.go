package httpapi

import (
	"cmp"
	"hash/maphash"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/internal/base/fault"
	"agentd/internal/kernel/ratelimit"
)

// limits refuse what comes too often.
type limits struct {
	*ratelimit.Limiter

	refused map[string]prometheus.Counter // by bucket
	failed  prometheus.Counter

	// accepted remembers credentials that authenticated lately, each in the one
	// place that its hash has. An address with too many failures may go on using
	// those, so that nobody locks out whoever shares it.
	seed     maphash.Seed
	accepted []atomic.Uint64
}

const acceptedCredentials = 16 << 10

func newLimits(limiter *ratelimit.Limiter, m *metrics) *limits {
	if limiter == nil {
		limiter = ratelimit.New(ratelimit.Limits{})
	}
	l := &limits{
		Limiter: limiter, refused: map[string]prometheus.Counter{}, failed: m.refused.WithLabelValues("failed_credentials"),
		seed: maphash.MakeSeed(),
	}
	if limiter.On() {
		l.accepted = make([]atomic.Uint64, acceptedCredentials)
	}
	for _, bucket := range ratelimit.Buckets {
		l.refused[bucket] = m.refused.WithLabelValues(bucket)
	}
	return l
}

// guess refuses a credential that is not known, before anybody looks at it,
// from an address whose credentials failed too often.
func (l *limits) guess(x *exchange, credential string) error {
	if !l.On() {
		return nil
	}
	v := l.Guess(x.start, ratelimit.Network(x.who.Address))
	if v.Bucket == "" {
		return nil
	}
	if hash := maphash.String(l.seed, credential); l.accepted[hash%acceptedCredentials].Load() == hash {
		return nil
	}
	l.failed.Inc()
	return tooMany(x, v, "Too many requests from your network address came with credentials that do not authenticate.")
}

// wrong counts a credential that did not authenticate.
func (l *limits) wrong(x *exchange) { l.Failed(x.start, ratelimit.Network(x.who.Address)) }

// take counts the request of a caller, whom a credential let in or who is
// anonymous, and refuses what is beyond a limit.
func (l *limits) take(x *exchange, o *operation, credential string) error {
	request := ratelimit.Request{Operation: o.name, Own: o.limits}
	if o.row.Public {
		if len(o.limits) == 0 {
			return nil
		}
		request.Address = ratelimit.Network(x.who.Address)
	} else {
		if !l.On() && len(o.limits) == 0 {
			return nil
		}
		request.Tenant = x.who.TenantID
		request.Credential = cmp.Or(x.who.KeyID, x.who.SessionID, x.who.UserID)
		l.accept(credential)
	}
	v := l.Take(x.start, request)
	if l.On() && v.Limit != "" {
		l.show(x, v)
	}
	if v.Bucket == "" {
		return nil
	}
	l.refused[v.Bucket].Inc()
	return tooMany(x, v, refusals[v.Bucket])
}

func (l *limits) accept(credential string) {
	if !l.On() {
		return
	}
	hash := maphash.String(l.seed, credential)
	if place := &l.accepted[hash%acceptedCredentials]; place.Load() != hash {
		place.Store(hash)
	}
}

// show tells where the tightest bucket stands (interface.md section 8).
func (l *limits) show(x *exchange, v ratelimit.Verdict) {
	reset := x.start.Add(v.Reset + time.Second - 1).Unix()
	values := &[3]string{v.Limit, strconv.Itoa(v.Remaining), strconv.FormatInt(reset, 10)}
	h := x.Header()
	h["X-Ratelimit-Limit"] = values[0:1:1]
	h["X-Ratelimit-Remaining"] = values[1:2:2]
	h["X-Ratelimit-Reset"] = values[2:3:3]
}

var refusals = map[string]string{
	"tenant":   "Your company has made all the requests that it may make within this time.",
	"api_key":  "This credential has made all the requests that it may make within this time.",
	"endpoint": "This operation was called as often as it may be within this time.",
}

func tooMany(x *exchange, v ratelimit.Verdict, what string) error {
	x.Header().Set("X-RateLimit-Bucket", v.Bucket)
	e := fault.New(fault.Limited, "", "%s Wait as long as Retry-After says.", what)
	e.RetryAfter = v.Retry
	return e
}
