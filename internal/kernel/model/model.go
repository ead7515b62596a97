// Package model is the port to language models: what is asked, what comes
// back, what it costs, and how it fails. Adapters speak the wire formats.
package model

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
)

// Role of a message.
type Role string

// The roles, as OpenAI-compatible endpoints name them.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Message is one turn. Parts, where set, replace Text (images and the like, in
// the wire's own content-part JSON).
type Message struct {
	Role       Role             `json:"role"`
	Text       string           `json:"text,omitzero"`
	Parts      []jsontext.Value `json:"parts,omitzero"`
	ToolCalls  []ToolCall       `json:"tool_calls,omitzero"`   // of an assistant
	ToolCallID string           `json:"tool_call_id,omitzero"` // of a tool's result
	Name       string           `json:"name,omitzero"`

	// Opaque is what the model's endpoint wants back with the message of an
	// assistant. A client cannot set it.
	Opaque Opaque `json:"-"`
	// From is the step that the message comes from, if any. It is not sent to
	// endpoints.
	From Origin `json:"-"`
	// Summary marks a message of agentd that replaces earlier ones. A client
	// cannot forge it.
	Summary bool `json:"-"`
	// Sources are the untrusted sources that the message has content of: web,
	// mcp:<server>, file, sensor, message:<agent>. A client cannot set them.
	Sources []string `json:"-"`
	// Citations are the passages that a tool's result has. They are not sent to endpoints.
	Citations []Citation `json:"-"`
}

// Origin is a step of a run. StepSeq 0 is the run's own message.
type Origin struct {
	RunID   string `json:"run_id"`
	StepSeq int64  `json:"step_seq"`
}

// ToolCall is a model's request to call a tool. Arguments is what the model
// wrote, which need not be valid JSON.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	// Redacted: Arguments lack data that the tenant does not store, so that the call
	// cannot be made.
	Redacted bool `json:"-"`
	// Opaque is what the endpoint wants back with the call; see Message.Opaque.
	Opaque string `json:"-"`
}

// ToolSpec offers a tool to a model. Parameters is a JSON Schema, which the
// arguments of a strict tool must fit.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  jsontext.Value
	Strict      bool
}

// Target is where a request goes: an endpoint, a model name there, and what is
// known of both.
type Target struct {
	Provider string        // "default", or the agent's own: "custom"
	Model    string        // the name the endpoint knows
	BaseURL  string        // …/v1; empty for builtin models
	APIKey   secret.String // sent to BaseURL only
	Wire     Wire          // the protocol of BaseURL; "": WireChat
	Access   Access        // what some wires need beside APIKey
	Guarded  bool          // a tenant chose the address: through the guarded client
	TenantID string        // of a guarded or limited target: the tenant, whose egress rules and turn hold
	Screened bool          // through the guarded client, by no tenant's rules
	OwnKey   bool          // APIKey is the tenant's: a refusal of it concerns only that tenant
	Price    *Price        // nil: unknown
	Context  int           // context window in tokens; 0: unknown
	Limits   Limits        // of the provider for APIKey
	// MaxOutput is the largest answer in tokens; 0: unknown.
	MaxOutput int

	Capabilities Capabilities // Context apart

	NeedsKey bool // a call without a key is refused before it is made
}

// Request is one model call.
type Request struct {
	Target      Target
	Messages    []Message
	Tools       []ToolSpec
	ToolChoice  jsontext.Value // the wire's own JSON; nil: the endpoint's default
	MaxTokens   int            // 0: the endpoint's default
	Temperature *float64
	TopP        *float64
	Stop        []string
	Extra       map[string]jsontext.Value // further wire fields (response_format, reasoning_effort …)
	// CacheKey names what prompts have in common, for endpoints that choose the machine
	// by it whose cache has the beginning of the prompt; "": nothing.
	CacheKey string
	// Detailed requests the pieces of tool calls too, and the zero Delta. Without
	// it calls come with the response only, and an answer that breaks off in the
	// middle of a call is requested again.
	Detailed bool
	// Budget is how long the endpoint may take for the whole answer, streamed or
	// not, including any silence; 0: the client's own time-outs.
	Budget time.Duration
	// MaxRetryAfter is the longest Retry-After that the client waits for before it
	// tries again itself; 0: the client's own maximum.
	MaxRetryAfter time.Duration
	// Permit, of the provider's limits, is that of a Limiter; nil: the client takes
	// one. Generate releases it.
	Permit *Permit
	// LimitWait is how long a call without a permit waits for one; 0: the client's
	// own maximum.
	LimitWait time.Duration
	// Probe has the call made although its endpoint is left alone after failures, to
	// find out whether it is back: one such call at a time.
	Probe bool
	// OnRate is called with what an answer says about the endpoint's limits; nil:
	// nobody wants to know.
	OnRate func(Rate)
}

// Delta is a piece of an answer as it arrives. Exactly one field is set. The zero
// value, for sinks of detailed requests, is not a piece: it means that everything
// received so far was passed on, and that the next piece may take long.
type Delta struct {
	Text     string
	Thinking string
	Call     CallDelta
}

// CallDelta is a piece of a tool call: the calls of an answer come one after the
// other, in the order of Response.ToolCalls. The first piece of a call has its ID
// and name, each has a piece of its arguments, which may be empty. The zero value
// is none.
type CallDelta struct {
	ID, Name  string // as in Response.ToolCalls; "" after the first piece
	Index     int    // of the call in the answer
	Arguments string
}

// Finish reasons.
const (
	FinishStop      = "stop"
	FinishLength    = "length"
	FinishToolCalls = "tool_calls"
	FinishFilter    = "content_filter" // a safety filter of the provider
	FinishRefusal   = "refusal"        // the model itself refuses
)

// Response is a whole answer.
type Response struct {
	Text         string
	Thinking     string
	ToolCalls    []ToolCall
	FinishReason string // one of the above
	Usage        Usage
	Opaque       string        // what the endpoint wants back with this message; see [Opaque]
	Dropped      []string      // parameters of the request that the model is known to refuse
	StopSequence string        // which of Request.Stop ended the answer, where the endpoint says so
	Model        string        // as the endpoint named it
	FirstToken   time.Duration // zero where nothing streamed
}

// Usage counts tokens. ThinkingTokens are part of OutputTokens; CachedTokens, which the
// provider had in a cache, and CacheWriteTokens, which it stored in one, are part of
// InputTokens. Estimated means that the endpoint reported no numbers, or none that can
// be true, and four characters count as a token.
type Usage struct {
	InputTokens      int  `json:"input_tokens"`
	OutputTokens     int  `json:"output_tokens"`
	ThinkingTokens   int  `json:"thinking_tokens,omitzero"`
	CachedTokens     int  `json:"cached_tokens,omitzero"`
	CacheWriteTokens int  `json:"cache_write_tokens,omitzero"`
	Estimated        bool `json:"estimated,omitzero"`
}

// Client calls models. With a sink the answer is streamed: sink is called for
// every piece, in order, from the calling goroutine, and must not block. Calls
// that fail before the first piece are retried if that can help; later ones
// never. Errors: *Error, or the context's.
type Client interface {
	Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error)
}

// Codes of calls. Those of a failed call that is not listed here are the port's
// adapters' own.
const (
	CodeContextLength = "CONTEXT_LENGTH_EXCEEDED" // the conversation is too long for the model
	CodeRefused       = "model_refused"           // the model refuses to answer
	CodeFiltered      = "content_filtered"        // the provider's safety filter blocked the prompt or the answer
)

// Error is a failed model call.
type Error struct {
	Code       string // model_error | model_rate_limited | provider_auth_failed | provider_not_configured | CONTEXT_LENGTH_EXCEEDED
	Detail     string // safe to show: no keys, no addresses that the caller did not name
	Status     int    // the endpoint's HTTP status; 0: it did not answer properly
	Retryable  bool   // another call at once may succeed; false once a piece of the answer was delivered
	Passing    bool   // the same call may succeed later: the endpoint is overloaded, or was not reached
	NotMade    bool   // the endpoint was not asked: it is left alone after failures, and RetryAfter is not its own
	RetryAfter time.Duration
	Cause      error // for logs
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

func (e *Error) Unwrap() error { return e.Cause }
