package modelcall

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"agentd/internal/kernel/model"
)

// maxReset bounds the time of a reset: a bigger number is a date, or nonsense.
const maxReset = 24 * time.Hour

// ObserveRate calls observe with what the headers of an answer say about the
// endpoint's limits, if they say anything.
func ObserveRate(observe func(model.Rate), h http.Header) {
	r := model.Rate{
		Requests: allowance(h, "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"),
		Tokens:   allowance(h, "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"),
	}
	if r == (model.Rate{}) { // those of Anthropic, of which tokens are the tightest of its limits
		r.Requests = allowance(h, "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset")
		r.Tokens = allowance(h, "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset")
	}
	if r != (model.Rate{}) {
		observe(r)
	}
}

// allowance reads one limit; the zero value if a header is missing or invalid.
func allowance(h http.Header, remaining, reset string) model.Allowance {
	first := h[remaining] // the names are canonical
	if len(first) == 0 {
		return model.Allowance{}
	}
	left, err := strconv.Atoi(first[0])
	if err != nil || left < 0 || left > math.MaxInt32 {
		return model.Allowance{}
	}
	value := h.Get(reset)
	wait, err := time.ParseDuration(value) // as in 6m0s
	if at, dateErr := time.Parse(time.RFC3339, value); dateErr == nil {
		wait, err = time.Until(at), nil
	}
	if err != nil {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return model.Allowance{}
		}
		wait = seconds(n)
	}
	if wait <= 0 || wait > maxReset {
		return model.Allowance{}
	}
	return model.Allowance{Left: left, Reset: wait}
}
