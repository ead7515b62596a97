package quota

import (
	"fmt"
	"math"
	"strings"
	"time"

	"agentd/internal/base/fault"
)

// Codes of refusals.
const (
	CodeExceeded = "quota_exceeded"    // it refills at quota.resets_at
	CodeReached  = "limit_reached"     // waiting does not help
	CodeModel    = "model_not_allowed" // the plan does not have the model
	CodeBudget   = "BUDGET_EXCEEDED"   // the tenant's own budget of money is spent
)

// longestWait is the longest Retry-After of a refusal: some clients sleep for
// all of it, and a month is too long for that. The member quota has the whole
// time.
const longestWait = time.Hour

// block is the member quota of a refusal.
type block struct {
	Kind       string     `json:"kind"`
	Period     *Period    `json:"period"`
	ResetsAt   *time.Time `json:"resets_at,omitzero"`
	RetryAfter *int64     `json:"retry_after_s,omitzero"`
	Limit      int64      `json:"limit"`
	Used       int64      `json:"used"`
	Remaining  int64      `json:"remaining"`
}

// upgradePath is where a caller finds the available plans.
const upgradePath = "/api/v1/billing/plans"

// Refuse returns the refusal for a resource whose limit is used up. It is a 429
// if the resource refills, or ends by itself, and a 403 if it does not: for a thing,
// and for a resource of which the plan allows none.
func Refuse(r Resource, limit, used int64, now time.Time) *fault.Error {
	b := block{Kind: r.Kind(), Limit: limit, Used: used, Remaining: max(0, limit-used)}
	name := strings.ReplaceAll(b.Kind, "_", " ")
	if p := r.Period(); p != "" {
		b.Period = &p
	}
	if r == TeamRuns && limit > 0 {
		f := fault.New(fault.Limited, CodeReached,
			"The company's plan allows %d runs of teams at a time, and there are as many. Wait until one has ended.", limit)
		f.RetryAfter, f.Extra = time.Second, map[string]any{"quota": b, "upgrade_path": upgradePath}
		return f
	}
	if b.Period == nil || limit <= 0 {
		f := fault.New(fault.Forbidden, CodeReached,
			"The company's plan allows %d %s at a time, and there are as many. Delete some, or change the plan.", limit, name)
		if b.Period != nil {
			f.Detail = fmt.Sprintf("The company's plan allows no %s. Change the plan.", name)
		}
		f.Extra = map[string]any{"quota": b, "upgrade_path": upgradePath}
		return f
	}
	resets := b.Period.End(now)
	seconds := int64(math.Ceil(resets.Sub(now).Seconds()))
	b.ResetsAt, b.RetryAfter = &resets, &seconds
	code := CodeExceeded
	if *b.Period == Minute { // it clears within seconds
		code = ""
	}
	f := fault.New(fault.Limited, code, "The company's plan allows %d %s in a %s, and they are used up. There are more at %s.",
		limit, name, *b.Period, resets.Format(time.RFC3339))
	f.RetryAfter = min(resets.Sub(now), longestWait)
	f.Extra = map[string]any{"quota": b, "upgrade_path": upgradePath}
	return f
}
