// Package quota is what the rest of agentd sees of plans and limits: what a
// plan may limit, how use is told, and what a refusal says (interface.md
// section 7, Code semantics for plan limits). Package usage implements it.
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

// What refills when its period is over (UTC).
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

// Things, of which there may be so many at a time.
const (
	Agents         Resource = "agents"
	Teams          Resource = "teams"
	KnowledgeBases Resource = "knowledge_bases"
	Workspaces     Resource = "workspaces" // that stand alone
	Webhooks       Resource = "webhooks"
	ActiveSessions Resource = "active_sessions"
)

// Refilling, Requests and Things are all of them, in the order in which they are
// shown.
var (
	Requests  = []Resource{RequestsPerMinute, RequestsPerHour, RequestsPerDay}
	Refilling = []Resource{RunsPerMonth, TokensPerMonth, TokensPerDay, ToolCallsPerMonth}
	Things    = []Resource{Agents, Teams, KnowledgeBases, Workspaces, Webhooks, ActiveSessions}
)

// Period is how long a counter counts.
type Period string

// The periods. Each begins where the clock's does, days and months at midnight
// UTC.
const (
	Minute Period = "minute"
	Hour   Period = "hour"
	Day    Period = "day"
	Month  Period = "month"
)

// Period of a resource; "" of a thing.
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

// Kind is what a refusal calls a resource: runs, tokens, tool_calls; of a
// thing, its name.
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

// End is when the period ends that a moment is in.
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

// Sources of what models do beside the steps of runs, as counters name them.
const (
	SourceLLM        = "llm_proxy"  // chat completions passed on, and audio
	SourceMessages   = "messages"   // the messages route
	SourceEmbeddings = "embeddings" // the embeddings route
	SourceGuardrail  = "guardrail"  // judging texts
	SourceMemory     = "memory"     // finding out what to remember
)

var (
	// ProxySources are those of what companies have models do without a run.
	ProxySources = []string{SourceLLM, SourceMessages, SourceEmbeddings}
	// OtherSources are all that are no runs.
	OtherSources = append([]string{SourceGuardrail, SourceMemory}, ProxySources...)
)

// Use is what a transaction uses up.
type Use struct {
	AgentID string
	Model   string // provider/name; "" of what no model was asked for
	Source  string // where the run came from, see run.Record.Source; or one of the sources above
	KeyID   string // of the key that asked; "": a person, or nobody

	Runs           int64
	ModelCalls     int64
	InputTokens    int64
	OutputTokens   int64
	ThinkingTokens int64 // part of OutputTokens
	ToolCalls      int64
	CostNano       int64 // billionths of a US dollar, as far as prices are known
}

// Called is what a model call used up.
func Called(target model.Target, u model.Usage) Use {
	use := Use{
		Model: target.Provider + "/" + target.Model, ModelCalls: 1,
		InputTokens: int64(u.InputTokens), OutputTokens: int64(u.OutputTokens), ThinkingTokens: int64(u.ThinkingTokens),
	}
	if target.Price != nil {
		use.CostNano = int64(math.Round(min(target.Price.Cost(u), 9e9) * 1e9))
	}
	return use
}

// Meter counts what runs use up, and says whether there is more.
//
// The three questions are answered by what is at most a second old, and by what
// this process counted since. Errors: a refusal of this package.
type Meter interface {
	// MayStart says whether a run may be made.
	MayStart(ctx context.Context, tenant string) error
	// MayAsk says whether a model may be asked.
	MayAsk(ctx context.Context, tenant string) error
	// MayCall says whether so many tools may be called.
	MayCall(ctx context.Context, tenant string, calls int) error
	// Count counts, and refuses runs of which the plan allows no more. It locks
	// the tenant's counters until commit, so it comes last in a transaction:
	// nothing that others hold while they count may be asked for after it.
	Count(tenant string, uses ...Use) txn.Op
}

// Proxy limits and counts the model calls that are no part of a run: those that
// go through the model proxy.
type Proxy interface {
	// MayProxy says whether a tenant may have a model asked now: whether its plan
	// has the model, whether there is room for one more call in the minute, the
	// hour and the day, and whether there are tokens and money left. It counts
	// the call. The target is nil where the operator chose the model, which every
	// plan has. Errors: a refusal of this package.
	MayProxy(ctx context.Context, tenant string, target *model.Target) error
	// Proxied counts what a call used up. It returns at once; what was counted is
	// stored within a moment.
	Proxied(tenant string, use Use)
}

// Gate limits things.
type Gate interface {
	// Take is called in the transaction that makes a thing, before it is there.
	// It refuses one too many; others who make one wait for the commit.
	Take(tx txn.Tx, tenant string, r Resource) error
}

// Creation is a [resource.Kind]'s Before, as far as limits go: it has a kind
// counted as a thing. A nil gate limits nothing.
func Creation[T any](g Gate, r Resource) func(*resource.Edit[T]) error {
	return func(e *resource.Edit[T]) error {
		if g == nil || e.Action != resource.Created {
			return nil
		}
		return g.Take(e.Tx, e.Who.TenantID, r)
	}
}
