// Package opconfig is what the operator sets about the service while it runs, beside its
// models: limits, features, policies and addresses. Each section is a typed group of
// settings with its bounds; its value is read from memory by what obeys it.
package opconfig

import (
	"net/url"
	"strings"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/ratelimit"
	"agentd/internal/operation/setting"
)

// Deps holds what the sections depend on. Initial values are those of the program's
// configuration.
type Deps struct {
	Settings *setting.Service
	Plans    *quota.Plans
	Features []Feature

	RateLimits       ratelimit.Limits
	Origins          []string // of pages that may call the API
	StreamsPerTenant int64
	Signup           bool
	Waits            []time.Duration // between the attempts of a webhook delivery
	LogLevel         string
	Machinery        Machinery
	BridgeHeartbeat  time.Duration // of machines
	// Providers returns the operator's providers of models, by id.
	Providers func() map[string]ClientProvider
	// SetLogLevel is called with each level that is set.
	SetLogLevel func(level string)
}

// Config is the sections. It is safe for concurrent use.
type Config struct {
	Deps

	plans    *setting.Section[Plans]
	features *setting.Section[Features]
	rates    *setting.Section[RateLimits]
	runtime  *setting.Section[Runtime]
	urls     *setting.Section[URLs]
	security *setting.Section[Security]
	webhooks *setting.Section[Webhooks]
	auth     *setting.Section[Auth]
	idem     *setting.Section[Idempotency]
	sse      *setting.Section[SSE]
	tools    *setting.Section[Tools]
	logging  *setting.Section[Logging]
	commands *setting.Section[RunCommand]
	machinery
	contents
	durability

	limiter *ratelimit.Limiter
	known   func(operation string) bool
}

// New adds the sections to the settings.
func New(d Deps) *Config {
	c := &Config{Deps: d}
	if d.Settings == nil { // for the document of operations
		return c
	}
	c.plans = setting.Add(d.Settings, &setting.Section[Plans]{
		Name: "plans", Initial: plansOf(d.Plans), Check: c.checkPlans, Changed: func(p *Plans) { d.Plans.Set(p.list(d.Plans.All())) },
	})
	c.features = setting.Add(d.Settings, &setting.Section[Features]{Name: "feature-flags", Check: c.checkFeatures})
	c.rates = setting.Add(d.Settings, &setting.Section[RateLimits]{
		Name: "rate-limits", Initial: ratesOf(d.RateLimits), Check: c.checkRates, Changed: c.useRates,
	})
	c.runtime = setting.Add(d.Settings, &setting.Section[Runtime]{Name: "runtime"})
	c.urls = setting.Add(d.Settings, &setting.Section[URLs]{Name: "platform-urls", Check: checkURLs})
	c.security = setting.Add(d.Settings, &setting.Section[Security]{
		Name:    "security-policies",
		Initial: Security{Origins: orEmpty(d.Origins), Denied: []string{}, UploadTypes: []string{}}, Check: checkSecurity,
	})
	c.webhooks = setting.Add(d.Settings, &setting.Section[Webhooks]{
		Name: "webhooks-policy", Initial: Webhooks{MaxRetries: int64(len(d.Waits))},
	})
	c.auth = setting.Add(d.Settings, &setting.Section[Auth]{Name: "auth", Initial: Auth{Signup: d.Signup}})
	c.idem = setting.Add(d.Settings, &setting.Section[Idempotency]{Name: "idempotency", Initial: Idempotency{WindowHours: 24}})
	c.sse = setting.Add(d.Settings, &setting.Section[SSE]{Name: "sse", Initial: SSE{Streams: d.StreamsPerTenant, Heartbeat: 15}})
	c.tools = setting.Add(d.Settings, &setting.Section[Tools]{Name: "tool-security", Initial: Tools{Disabled: []string{}}})
	c.logging = setting.Add(d.Settings, &setting.Section[Logging]{
		Name: "logging", Initial: Logging{Level: d.LogLevel}, Changed: func(l *Logging) { d.SetLogLevel(l.Level) },
	})
	c.commands = setting.Add(d.Settings, &setting.Section[RunCommand]{Name: "run-command", Initial: newRunCommand(), Check: checkRunCommand})
	c.addMachinery(d.Settings, d.Machinery)
	c.contents.addTo(d.Settings)
	c.durability.addTo(d.Settings)
	return c
}

// Connect sets the limiter of requests, what reports whether there is an operation of an
// id, and the features that are served.
func (c *Config) Connect(limiter *ratelimit.Limiter, known func(operation string) bool, features []Feature) {
	c.limiter, c.known, c.Features = limiter, known, features
	c.useRates(c.rates.Get())
}

func orEmpty(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// Runtime is what no run exceeds.
type Runtime struct {
	_ struct{} `json:"-" name:"AdminConfigRuntimeValues"`

	MaxSteps        *int64 `json:"max_steps" minimum:"1" maximum:"100000" nullable:"true" doc:"Steps of a run at most, whatever its own limit is; null: no cap. It holds for runs that are under way too."`
	MaxToolCalls    *int64 `json:"max_tool_calls" minimum:"1" maximum:"1000000" nullable:"true" doc:"Tool calls of a run at most; null: no cap."`
	MaxTokensPerRun *int64 `json:"max_tokens_per_run" minimum:"1" nullable:"true" doc:"Tokens that a run reads and writes at most; null: no cap."`
	MaxDurationMS   *int64 `json:"max_duration_ms" minimum:"1000" nullable:"true" doc:"Milliseconds that a run is at work at most; null: no cap. It holds for a run from its next start on a worker on."`
}

// Caps returns what no run exceeds.
func (c *Config) Caps() run.Limits {
	r := c.runtime.Get()
	return run.Limits{MaxSteps: r.MaxSteps, MaxToolCalls: r.MaxToolCalls, MaxTokensPerRun: r.MaxTokensPerRun, MaxDurationMS: r.MaxDurationMS}
}

// URLs is where this service is reached.
type URLs struct {
	_ struct{} `json:"-" name:"AdminConfigUrls"`

	Public   *string `json:"public_base_url" format:"uri" maxLength:"2048" nullable:"true" doc:"Address in the links that the service hands out, in place of AGENTD_PUBLIC_URL; null: that one."`
	Webhooks *string `json:"webhook_base_url" format:"uri" maxLength:"2048" nullable:"true" doc:"Address in the links of sensors, which other services call; null: public_base_url."`
}

func checkURLs(u *URLs) error {
	var wrong []fault.Field
	for name, value := range map[string]*string{"public_base_url": u.Public, "webhook_base_url": u.Webhooks} {
		text := ptr.Value(value)
		if value == nil {
			continue
		}
		at, err := url.Parse(text)
		if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" ||
			at.RawQuery != "" || at.Fragment != "" || at.User != nil {
			wrong = append(wrong, fault.Field{Field: name, Message: "must be an address such as https://agents.example.com"})
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// PublicURL returns where this service is reached, without a slash at the end; "" where
// that is not set.
func (c *Config) PublicURL() string { return strings.TrimRight(ptr.Value(c.urls.Get().Public), "/") }

// WebhookURL returns where sensors are reached; "" where that is not set.
func (c *Config) WebhookURL() string { return strings.TrimRight(ptr.Value(c.urls.Get().Webhooks), "/") }

// Auth is how people sign in.
type Auth struct {
	_ struct{} `json:"-" name:"AdminConfigAuth"`

	Signup bool `json:"signup_enabled" doc:"Whether strangers may sign up and make a company of their own, as AGENTD_SIGNUP."`
}

// Signup reports whether strangers may sign up.
func (c *Config) Signup() bool { return c.auth.Get().Signup }

// Idempotency is how long repeated writes are recognised.
type Idempotency struct {
	_ struct{} `json:"-" name:"AdminConfigIdempotency"`

	WindowHours int64 `json:"window_hours" minimum:"1" maximum:"168" doc:"Hours for which the answer to a write with an Idempotency-Key is repeated; it holds for writes from now on."`
}

// IdempotencyWindow returns how long repeated writes are recognised.
func (c *Config) IdempotencyWindow() time.Duration {
	return time.Duration(c.idem.Get().WindowHours) * time.Hour
}

// SSE is about event streams.
type SSE struct {
	_ struct{} `json:"-" name:"AdminConfigSse"`

	Streams   int64 `json:"streams_per_tenant" minimum:"0" maximum:"10000000" doc:"Event streams that a company may have open at once on a node, as AGENTD_STREAMS_PER_TENANT; 0: any number."`
	Heartbeat int64 `json:"heartbeat_seconds" minimum:"1" maximum:"300" doc:"Seconds of silence after which a stream that is opened from now on sends a comment."`
}

// StreamsPerTenant returns how many event streams a company may have open on a node.
func (c *Config) StreamsPerTenant() int { return int(c.sse.Get().Streams) }

// Heartbeat returns the silence after which a stream sends a comment.
func (c *Config) Heartbeat() time.Duration { return time.Duration(c.sse.Get().Heartbeat) * time.Second }

// Tools is which tools there are.
type Tools struct {
	_ struct{} `json:"-" name:"AdminConfigToolSecurity"`

	Disabled []string `json:"disabled_tools" maxItems:"1000" doc:"Names of tools that no agent is offered, and whose calls fail: built-in ones, or those of MCP servers by the names that models see. A * at the end stands for anything."`
}

// ToolDisabled reports whether a tool is switched off.
func (c *Config) ToolDisabled(name string) bool {
	for _, pattern := range c.tools.Get().Disabled {
		if start, open := strings.CutSuffix(pattern, "*"); pattern == name || open && strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// Logging is what is logged.
type Logging struct {
	_ struct{} `json:"-" name:"AdminConfigLogging"`

	Level string `json:"level" enum:"debug,info,warn,error" doc:"Least level that is logged, as AGENTD_LOG_LEVEL."`
}

// Webhooks is how deliveries that failed are repeated.
type Webhooks struct {
	_ struct{} `json:"-" name:"AdminConfigWebhooksPolicy"`

	MaxRetries  int64 `json:"delivery_max_retries" minimum:"0" maximum:"30" doc:"Attempts after the first one."`
	BackoffMS   int64 `json:"delivery_backoff_base_ms" minimum:"0" maximum:"86400000" doc:"Milliseconds before the second attempt; each further wait is twice as long. 0: the waits of AGENTD_WEBHOOK_RETRY_WAITS, of which the last is repeated."`
	WindowHours int64 `json:"delivery_max_window_hours" minimum:"0" maximum:"720" doc:"Hours after the first attempt in which the last one is made at the latest; 0: no bound."`
}

// WebhookWaits returns the waits between the attempts of a delivery.
func (c *Config) WebhookWaits() (waits []time.Duration) {
	w := c.webhooks.Get()
	window, spent := time.Duration(w.WindowHours)*time.Hour, time.Duration(0)
	for i := range int(w.MaxRetries) {
		wait := time.Duration(w.BackoffMS) * time.Millisecond << i
		if w.BackoffMS == 0 {
			if len(c.Waits) == 0 {
				return waits
			}
			wait = c.Waits[min(i, len(c.Waits)-1)]
		}
		wait = min(max(wait, 0), maxWait)
		if spent += wait; window > 0 && spent > window {
			return waits
		}
		waits = append(waits, wait)
	}
	return waits
}

// maxWait bounds one wait, which doubles with each attempt.
const maxWait = 7 * 24 * time.Hour
