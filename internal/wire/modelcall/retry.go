package modelcall

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"agentd/internal/kernel/model"
)

// WaitRetry waits before the next attempt. An error ends the attempts: the failure
// itself if another attempt cannot help, or if the endpoint requests a longer wait
// than maxWait (0: the client's maximum); the context's.
func (c *Caller) WaitRetry(ctx context.Context, attempt int, failure *model.Error, maxWait time.Duration) error {
	if !failure.Retryable || attempt >= c.MaxAttempts || failure.RetryAfter > cmp.Or(maxWait, c.MaxRetryAfter) {
		return failure
	}
	wait, ok := c.backoff(ctx, attempt, failure.RetryAfter)
	if !ok {
		return failure
	}
	return sleep(ctx, wait)
}

// backoff returns how long to wait before the next attempt: at least what the endpoint
// requested, otherwise a random time below a bound that doubles with each attempt
// (full jitter, so that callers that failed together do not retry together). It is
// false if the wait would outlive the context.
func (c *Caller) backoff(ctx context.Context, attempt int, requested time.Duration) (time.Duration, bool) {
	bound := min(c.MaxBackoff, c.Backoff<<min(attempt-1, 16))
	d := requested + rand.N(bound)
	if requested > 0 {
		d = requested + rand.N(min(bound, requested/4+1))
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return 0, false
	}
	return d, true
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RetryAfter returns the wait that the endpoint requests: Retry-After in seconds or as
// a date, or the retry-after-ms of some. Zero if absent or invalid.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return seconds(ms / 1000)
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return seconds(s)
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now)) // at most the longest Duration, 292 years
	}
	return 0
}

// seconds returns a number of seconds, at most a hundred years; 0 for a number that
// is no time.
func seconds(s float64) time.Duration {
	const century = 100 * 365 * 24 * 60 * 60
	if !(s > 0) || math.IsInf(s, 1) { // also NaN
		return 0
	}
	return time.Duration(min(s, century) * float64(time.Second))
}
