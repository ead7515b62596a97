package modelcall

import (
	"net/http"
	"testing"
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
