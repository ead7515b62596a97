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

// limits enforces rate limits.
type limits struct {
	*ratelimit.Limiter

	refused map[string]prometheus.Counter // by bucket
	failed  prometheus.Counter

	// accepted remembers credentials that authenticated recently, one per slot of
	// their hash. An address with too many failures may still use those, so that a
	// guesser does not lock out others behind the same address.
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
		seed: maphash.MakeSeed(), accepted: make([]atomic.Uint64, acceptedCredentials),
	}
	for _, bucket := range ratelimit.Buckets {
		l.refused[bucket] = m.refused.WithLabelValues(bucket)
	}
	return l
}

// checkGuess refuses a credential that did not authenticate recently, before it is
// looked up, from an address whose credentials failed too often.
func (l *limits) checkGuess(x *exchange, credential string) error {
	if !l.On() {
		return nil
	}
	v := l.CheckGuess(x.start, ratelimit.Network(x.who.Address))
	if v.Bucket == "" {
		return nil
	}
	if hash := maphash.String(l.seed, credential); l.accepted[hash%acceptedCredentials].Load() == hash {
		return nil
	}
	l.failed.Inc()
	return tooMany(x, v, "Too many requests from your network address had invalid credentials.")
}

// countFailure counts a credential that did not authenticate.
func (l *limits) countFailure(x *exchange) {
	l.RecordFailure(x.start, ratelimit.Network(x.who.Address))
}

// take counts a request, authenticated or anonymous, and refuses it beyond a limit.
func (l *limits) take(x *exchange, o *operation, credential string) error {
	request := ratelimit.Request{Operation: o.name, ID: o.row.ID, Own: o.limits}
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
		l.remember(credential)
	}
	v := l.Reserve(x.start, request)
	if l.On() && v.Limit != "" {
		l.setHeaders(x, v)
	}
	if v.Bucket == "" {
		return nil
	}
	l.refused[v.Bucket].Inc()
	return tooMany(x, v, refusals[v.Bucket])
}

func (l *limits) remember(credential string) {
	if !l.On() {
		return
	}
	hash := maphash.String(l.seed, credential)
	if slot := &l.accepted[hash%acceptedCredentials]; slot.Load() != hash {
		slot.Store(hash)
	}
}

// setHeaders sets the rate limit headers from the tightest bucket.
func (l *limits) setHeaders(x *exchange, v ratelimit.Verdict) {
	reset := x.start.Add(v.Reset + time.Second - 1).Unix()
	values := &[3]string{v.Limit, strconv.Itoa(v.Remaining), strconv.FormatInt(reset, 10)}
	h := x.Header()
	h["X-Ratelimit-Limit"] = values[0:1:1]
	h["X-Ratelimit-Remaining"] = values[1:2:2]
	h["X-Ratelimit-Reset"] = values[2:3:3]
}

var refusals = map[string]string{
	"tenant":   "Your company has reached its rate limit.",
	"api_key":  "This credential has reached its rate limit.",
	"endpoint": "The rate limit of this operation is reached.",
}

func tooMany(x *exchange, v ratelimit.Verdict, what string) error {
	x.Header().Set("X-RateLimit-Bucket", v.Bucket)
	e := fault.New(fault.Limited, "", "%s Retry after the seconds in Retry-After.", what)
	e.RetryAfter = v.Retry
	return e
}
