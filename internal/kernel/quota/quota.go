// Package quota is what the rest of agentd sees of plans and limits: what a
// plan may limit, how usage is reported, and what a refusal contains. Package
// usage implements it.
package quota

import (
	"context"
	"math"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/resource"
)

// Resource is what a plan limits, under its name in AGENTD_PLANS.
type Resource string

// Resources that refill when their period ends (UTC).
const (
	RunsPerMonth      Resource = "runs_per_month"
	TokensPerMonth    Resource = "tokens_per_month" // of input and output
	TokensPerDay      Resource = "tokens_per_day"
	ToolCallsPerMonth Resource = "tool_calls_per_month"
)

// Requests to the model proxy, which refill too.
const (
	RequestsPerMinute Resource = "model_requests_per_minute"
	RequestsPerHour   Resource = "model_requests_per_hour"
	RequestsPerDay    Resource = "model_requests_per_day"
)

// Things, of which a tenant may have a limited number at a time.
const (
	Agents         Resource = "agents"
	Teams          Resource = "teams"
	KnowledgeBases Resource = "knowledge_bases"
	Workspaces     Resource = "workspaces" // that stand alone
	Webhooks       Resource = "webhooks"
	ActiveSessions Resource = "active_sessions"
	TeamRuns       Resource = "concurrent_team_runs" // that have not ended
)

// Refilling, Requests and Things are all resources, in the order in which they
// are shown.
var (
	Requests  = []Resource{RequestsPerMinute, RequestsPerHour, RequestsPerDay}
	Refilling = []Resource{RunsPerMonth, TokensPerMonth, TokensPerDay, ToolCallsPerMonth}
	Things    = []Resource{Agents, Teams, KnowledgeBases, Workspaces, Webhooks, ActiveSessions, TeamRuns}
)

// Period is the time after which a counter starts from zero.
type Period string

// The periods. Each begins with the calendar's: days and months at midnight UTC.
const (
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
	Month  Period = "month"
)

// Period returns the period of a resource; "" for a thing.
func (r Resource) Period() Period {
	switch r {
	case RunsPerMonth, TokensPerMonth, ToolCallsPerMonth:
		return Month
	case TokensPerDay, RequestsPerDay:
		return Day
	case RequestsPerHour:
		return Hour
	case RequestsPerMinute:
		return Minute
	}
	return ""
}

// Kind returns the name of a resource in a refusal: runs, tokens, tool_calls;
// for a thing, its own name.
func (r Resource) Kind() string {
	switch r {
	case RunsPerMonth:
		return "runs"
	case TokensPerMonth, TokensPerDay:
		return "tokens"
	case ToolCallsPerMonth:
		return "tool_calls"
	case RequestsPerMinute, RequestsPerHour, RequestsPerDay:
		return "model_requests"
	}
	return string(r)
}

// End returns the end of the period that contains at.
func (p Period) End(at time.Time) time.Time {
	switch p {
	case Minute:
		return at.UTC().Truncate(time.Minute).Add(time.Minute)
	case Hour:
		return at.UTC().Truncate(time.Hour).Add(time.Hour)
	}
	y, m, d := at.UTC().Date()
	if p == Month {
		return time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
}

// Sources of model usage outside of the steps of runs, as counters name them.
const (
	SourceLLM        = "llm_proxy"  // chat completions passed on, and audio
	SourceMessages   = "messages"   // the messages route
	SourceEmbeddings = "embeddings" // the embeddings route
	SourceGuardrail  = "guardrail"  // classifying texts
	SourceMemory     = "memory"     // extracting memories
	SourceJudge      = "judge"      // scoring answers in evaluations
)

var (
	// ProxySources are the sources of model calls of companies without a run.
	ProxySources = []string{SourceLLM, SourceMessages, SourceEmbeddings, SourceJudge}
	// OtherSources are all sources other than runs.
	OtherSources = append([]string{SourceGuardrail, SourceMemory}, ProxySources...)
)

// Use is what a transaction adds to the counters.
type Use struct {
	AgentID string
	Model   string // provider/name; "" if no model was called
	Source  string // where the run came from, see run.Record.Source; or one of the sources above
	KeyID   string // of the calling key; "": a person, or no caller

	Runs             int64
	ModelCalls       int64
	InputTokens      int64
	OutputTokens     int64
	ThinkingTokens   int64 // part of OutputTokens
	CachedTokens     int64 // part of InputTokens, as the next
	CacheWriteTokens int64
	ToolCalls        int64
	ToolErrors       int64 // part of ToolCalls
	CostNano         int64 // billionths of a US dollar, as far as prices are known

	// Runs that ended, by how they did. Failures are those that neither completed nor
	// were cancelled.
	Completed, Failures, Cancelled int64
	DurationMS                     int64 // how long the runs that ended were at work
}

// Ended returns how many runs ended.
func (u *Use) Ended() int64 { return u.Completed + u.Failures + u.Cancelled }

// Called returns the usage of a model call.
func Called(target model.Target, u model.Usage) Use {
	use := Use{
		Model: target.Provider + "/" + target.Model, ModelCalls: 1,
		InputTokens: int64(u.InputTokens), OutputTokens: int64(u.OutputTokens), ThinkingTokens: int64(u.ThinkingTokens),
		CachedTokens: int64(u.CachedTokens), CacheWriteTokens: int64(u.CacheWriteTokens),
	}
	if target.Price != nil {
		use.CostNano = int64(math.Round(min(target.Price.Cost(u), 9e9) * 1e9))
	}
	return use
}

// Meter counts what runs use, and checks whether the plan allows more.
//
// The three checks use counters that are at most a second old, plus what this
// process counted since. Errors: a refusal of this package.
type Meter interface {
	// AllowRun checks whether a run may be created.
	AllowRun(ctx context.Context, tenant string) error
	// AllowModelCall checks whether a model may be called.
	AllowModelCall(ctx context.Context, tenant string) error
	// AllowToolCalls checks whether a number of tools may be called.
	AllowToolCalls(ctx context.Context, tenant string, calls int) error
	// Count counts uses, and refuses runs that exceed the plan. It locks the
	// tenant's counters until commit, so it comes last in a transaction: a lock
	// that others hold while they count must not be requested after it.
	Count(tenant string, uses ...Use) txn.Op
}

// Proxy limits and counts the model calls outside of runs: those of the model
// proxy.
type Proxy interface {
	// AllowProxyCall checks whether a tenant may call a model now: whether its plan
	// includes the model, one more call fits the limits of the minute, the hour
	// and the day, and tokens and money are left. It counts the call. The target
	// is nil if the operator chose the model, which every plan includes. Errors:
	// a refusal of this package.
	AllowProxyCall(ctx context.Context, tenant string, target *model.Target) error
	// CountProxyCall counts the usage of a call. It returns at once; the counts are
	// stored shortly after.
	CountProxyCall(tenant string, use Use)
}

// Gate limits the number of things.
type Gate interface {
	// Reserve is called in the transaction that creates a thing, before it is
	// written. It refuses one beyond the limit; concurrent creations wait for
	// the commit.
	Reserve(tx txn.Tx, tenant string, r Resource) error
}

// Creation returns a Before function for a [resource.Kind], which counts its
// resources as things. A nil gate limits nothing.
func Creation[T any](g Gate, r Resource) func(*resource.Edit[T]) error {
	return func(e *resource.Edit[T]) error {
		if g == nil || e.Action != resource.Created {
			return nil
		}
		return g.Reserve(e.Tx, e.Who.TenantID, r)
	}
}
