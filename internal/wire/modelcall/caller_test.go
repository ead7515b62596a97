package modelcall

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"agentd/internal/kernel/model"
)

func TestDialectsAreForgotten(t *testing.T) {
	t.Parallel()
	var d Dialects[string]
	now := time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
	target, style := model.Target{BaseURL: "u", Model: "m"}, "other"
	d.learn(&target, style, now)
	if d.of(&target, now.Add(23*time.Hour)) != style || d.of(&target, now.Add(24*time.Hour)) != "" || d.of(&model.Target{BaseURL: "u"}, now) != "" {
		t.Error("wrong for the time or the model")
	}
	for i := range 2 * maxKnown {
		d.learn(&model.Target{BaseURL: strconv.Itoa(i)}, style, now)
	}
	if len(d.known) > maxKnown {
		t.Errorf("%d are known", len(d.known))
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "nonsense": 0, "-5": 0, "NaN": 0, "7": 7 * time.Second, "1.5": 1500 * time.Millisecond, "1e300": 100 * 365 * 24 * time.Hour, "Inf": 0, "31536000": 365 * 24 * time.Hour,
		"Thu, 10 Sep 2026 12:00:30 GMT": 30 * time.Second, "Thu, 10 Sep 2026 11:00:00 GMT": 0,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", value, got, want)
		}
	}
	if got := RetryAfter(http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"9"}}, now); got != 250*time.Millisecond {
		t.Errorf("retry-after-ms: %v", got)
	}
}

func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	caller := New(Config{Backoff: 100 * time.Millisecond, MaxBackoff: 400 * time.Millisecond})
	for attempt, bound := range map[int]time.Duration{1: 100, 2: 200, 3: 400, 4: 400, 100: 400} {
		longest := time.Duration(0)
		for range 200 {
			d, ok := caller.backoff(t.Context(), attempt, 0)
			if !ok || d < 0 || d >= bound*time.Millisecond {
				t.Fatalf("attempt %d: %v, %v", attempt, d, ok)
			}
			longest = max(longest, d)
		}
		if longest < bound*time.Millisecond/2 {
			t.Errorf("attempt %d: the longest of 200 waits is %v: no full jitter", attempt, longest)
		}
	}
	if d, ok := caller.backoff(t.Context(), 1, 2*time.Second); !ok || d < 2*time.Second || d > 3*time.Second {
		t.Errorf("asked for 2s: %v, %v", d, ok)
	}
}
