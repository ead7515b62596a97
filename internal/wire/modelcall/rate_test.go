package modelcall

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/kernel/model"
)

// TestRateHeaders reads the limits that endpoints state, and no nonsense.
func TestRateHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remaining, reset string
		want             model.Allowance
	}{
		"duration":   {"7", "6m0s", model.Allowance{Left: 7, Reset: 6 * time.Minute}},
		"short":      {"0", "20ms", model.Allowance{Reset: 20 * time.Millisecond}},
		"seconds":    {"0", "59.5", model.Allowance{Reset: 59500 * time.Millisecond}},
		"unknown":    {"-1", "1s", model.Allowance{}},
		"date":       {"3", "1789000000", model.Allowance{}},
		"nonsense":   {"many", "soon", model.Allowance{}},
		"no-reset":   {"3", "", model.Allowance{}},
		"negative":   {"3", "-5s", model.Allowance{}},
		"not-number": {"3", "NaN", model.Allowance{}},
	} {
		h := http.Header{}
		h.Set("x-ratelimit-remaining-tokens", c.remaining)
		h.Set("x-ratelimit-reset-tokens", c.reset)
		var got model.Rate
		ObserveRate(func(r model.Rate) { got = r }, h)
		if want := (model.Rate{Tokens: c.want}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// Anthropic's headers name the moment of the reset.
func TestRateHeadersOfAnthropic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := http.Header{}
		h.Set("anthropic-ratelimit-requests-remaining", "0")
		h.Set("anthropic-ratelimit-requests-reset", time.Now().Add(7*time.Second).Format(time.RFC3339))
		h.Set("anthropic-ratelimit-tokens-remaining", "50000")
		h.Set("anthropic-ratelimit-tokens-reset", time.Now().Add(-time.Second).Format(time.RFC3339))
		var got model.Rate
		ObserveRate(func(r model.Rate) { got = r }, h)
		if want := (model.Rate{Requests: model.Allowance{Reset: 7 * time.Second}}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A wait stands in the header, or in the error as Gemini's does; the header counts first.
func TestRetryInfo(t *testing.T) {
	t.Parallel()
	const body = `{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.Help"},
		{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]}}`
	for name, tt := range map[string]struct {
		header, body string
		want         time.Duration
	}{
		"in the error":  {"", body, 34074824224 * time.Nanosecond},
		"in a list":     {"", "[" + body + "]", 34074824224 * time.Nanosecond},
		"in the header": {"3", body, 3 * time.Second},
		"negative":      {"", strings.Replace(body, "34.07", "-34.07", 1), 0},
		"no time":       {"", strings.Replace(body, "34.07", "later 34.07", 1), 0},
		"far away":      {"", strings.Replace(body, "34.074824224s", "2000000h", 1), 2_000_000 * time.Hour},
		"no list":       {"", `{"error":{"code":429,"details":"none"}}`, 0},
	} {
		resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}}
		if tt.header != "" {
			resp.Header.Set("Retry-After", tt.header)
		}
		if got := StatusError(resp, strings.NewReader(tt.body), &model.Request{}); got.RetryAfter != tt.want || got.Code != CodeLimited {
			t.Errorf("%s: %v, %s", name, got.RetryAfter, got.Code)
		}
	}
}
