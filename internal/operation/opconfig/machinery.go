package opconfig

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"agentd/internal/agents/guardrail"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/operation/setting"
)

// machinery is the sections about how the service works.
type machinery struct {
	workers    *setting.Section[WorkerPool]
	adapters   *setting.Section[LLMAdapters]
	mcp        *setting.Section[MCP]
	delivery   *setting.Section[WebhookDelivery]
	evaluation *setting.Section[Evaluation]
	buffers    *setting.Section[Backpressure]
	server     *setting.Section[Server]
	markup     *setting.Section[Markup]

	guardrails *setting.Section[Guardrails]

	trusted  atomic.Pointer[trusted]
	platform atomic.Pointer[guardrail.Platform]
}

// Machinery is the initial values of the sections about how the service works.
type Machinery struct {
	Workers    WorkerPool
	Adapters   LLMAdapters
	MCP        MCP
	Delivery   WebhookDelivery
	Evaluation Evaluation
	Buffers    Backpressure
	Server     Server
	// Buffer is called with the buffers that are set, Mark with the markup of models.
	Buffer func(Backpressure)
	Mark   func(percent float64)
}

func (c *Config) addMachinery(s *setting.Service, m Machinery) {
	c.machinery = machinery{
		workers:    setting.Add(s, &setting.Section[WorkerPool]{Name: "worker-pool", Initial: m.Workers}),
		adapters:   setting.Add(s, &setting.Section[LLMAdapters]{Name: "llm-adapters", Initial: m.Adapters, Check: checkAdapters}),
		mcp:        setting.Add(s, &setting.Section[MCP]{Name: "mcp", Initial: m.MCP}),
		delivery:   setting.Add(s, &setting.Section[WebhookDelivery]{Name: "webhooks", Initial: m.Delivery}),
		evaluation: setting.Add(s, &setting.Section[Evaluation]{Name: "evaluation", Initial: m.Evaluation, Check: checkEvaluation}),
		buffers: setting.Add(s, &setting.Section[Backpressure]{
			Name: "backpressure", Initial: m.Buffers, Changed: func(b *Backpressure) { m.Buffer(*b) },
		}),
		guardrails: setting.Add(s, &setting.Section[Guardrails]{
			Name: "guardrails", Initial: Guardrails{Guardrails: []guardrail.PlatformRule{}}, Check: checkGuardrails,
			Changed: func(g *Guardrails) {
				now, _ := guardrail.CompilePlatform(g.Guardrails)
				c.platform.Store(now)
			},
		}),
		server: setting.Add(s, &setting.Section[Server]{Name: "server", Initial: m.Server, Check: checkServer}),
		markup: setting.Add(s, &setting.Section[Markup]{
			Name: "markup", Changed: func(now *Markup) { m.Mark(now.Percent) },
		}),
	}
}

// WorkerPool is how much a node works on at once.
type WorkerPool struct {
	_ struct{} `json:"-" name:"AdminConfigWorkerPool"`

	Runs int64 `json:"max_workers" minimum:"1" maximum:"100000" doc:"Runs that a node drives at once; further ones wait in the queue. Those under way go on when the number is lowered."`
}

// MaxRuns returns how many runs a node drives at once.
func (c *Config) MaxRuns() int { return int(c.workers.Get().Runs) }

// LLMAdapters is when a model's endpoint is left alone.
type LLMAdapters struct {
	_ struct{} `json:"-" name:"AdminConfigLlmAdapters"`

	Failures   int64 `json:"circuit_breaker_failures" minimum:"1" maximum:"1000" doc:"Calls in a row without an answer after which an endpoint is left alone."`
	PauseMS    int64 `json:"circuit_breaker_pause_ms" minimum:"100" maximum:"3600000" doc:"Milliseconds for which it is left alone at first; each further time is twice as long."`
	MaxPauseMS int64 `json:"circuit_breaker_max_pause_ms" minimum:"100" maximum:"3600000" doc:"Milliseconds for which it is left alone at most."`
}

func checkAdapters(a *LLMAdapters) error {
	if a.MaxPauseMS < a.PauseMS {
		return fault.BadFields(fault.Field{Field: "circuit_breaker_max_pause_ms", Message: "must not be less than circuit_breaker_pause_ms"})
	}
	return nil
}

// Breaker returns when an endpoint of models is left alone, and for how long.
func (c *Config) Breaker() (failures int, first, most time.Duration) {
	a := c.adapters.Get()
	return int(a.Failures), time.Duration(a.PauseMS) * time.Millisecond, time.Duration(a.MaxPauseMS) * time.Millisecond
}

// MCP is what connections to MCP servers take.
type MCP struct {
	_ struct{} `json:"-" name:"AdminConfigMcp"`

	IdleSeconds int64 `json:"idle_timeout_seconds" minimum:"1" maximum:"86400" doc:"Seconds after which a connection that nobody uses is closed, with its process."`
	Processes   int64 `json:"max_processes" minimum:"1" maximum:"10000" doc:"MCP servers that a node runs as processes at once."`
	PerTenant   int64 `json:"max_processes_per_tenant" minimum:"1" maximum:"10000" doc:"MCP servers that a node runs as processes for one company at once."`
}

// MCP returns what connections to MCP servers take.
func (c *Config) MCP() *MCP { return c.mcp.Get() }

// WebhookDelivery is how a delivery is made.
type WebhookDelivery struct {
	_ struct{} `json:"-" name:"AdminConfigWebhooks"`

	TimeoutMS int64 `json:"delivery_timeout_ms" minimum:"100" maximum:"60000" doc:"Milliseconds that a receiver may take for a delivery, from the connection to the end of its answer."`
}

// DeliveryTimeout returns how long a receiver of webhooks may take.
func (c *Config) DeliveryTimeout() time.Duration {
	return time.Duration(c.delivery.Get().TimeoutMS) * time.Millisecond
}

// Evaluation is how evaluations are run that do not say otherwise.
type Evaluation struct {
	_ struct{} `json:"-" name:"AdminConfigEvaluation"`

	Concurrency    int64 `json:"default_concurrency" minimum:"1" maximum:"64" doc:"Cases that an evaluation runs at a time if it does not say."`
	MaxConcurrency int64 `json:"max_concurrency" minimum:"1" maximum:"64" doc:"Cases that an evaluation may run at a time."`
	CaseTimeoutMS  int64 `json:"default_case_timeout_ms" minimum:"1" maximum:"86400000" doc:"Milliseconds of running time of each case if the evaluation does not say."`
}

func checkEvaluation(e *Evaluation) error {
	if e.MaxConcurrency < e.Concurrency {
		return fault.BadFields(fault.Field{Field: "max_concurrency", Message: "must not be less than default_concurrency"})
	}
	return nil
}

// Evaluation returns how evaluations are run that do not say otherwise.
func (c *Config) Evaluation() *Evaluation { return c.evaluation.Get() }

// Backpressure is what is kept for readers of event streams that are slower than the events.
type Backpressure struct {
	_ struct{} `json:"-" name:"AdminConfigBackpressure"`

	Events int64 `json:"sse_buffer_events" minimum:"16" maximum:"100000" doc:"Events that wait for a reader before pieces of text are dropped. A third more of the others end the stream, which the reader resumes."`
	Bytes  int64 `json:"sse_buffer_bytes" minimum:"65536" maximum:"67108864" doc:"Bytes of events that wait for a reader before it reads on from the log."`
}

// Server is how requests are taken.
type Server struct {
	_ struct{} `json:"-" name:"AdminConfigServer"`

	Proxies []string `json:"trust_proxy" maxItems:"200" doc:"Addresses and networks of proxies whose X-Forwarded-For says who the client is, as AGENTD_TRUSTED_PROXIES; empty: the client is whoever connects."`
	MaxBody int64    `json:"max_body_bytes" minimum:"1024" maximum:"10485760" doc:"Bytes of a JSON body at most. Uploads of files have limits of their own."`
}

func checkServer(s *Server) error {
	if _, wrong := networks(s.Proxies); wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// networks reads addresses and networks. fields names what is wrong.
func networks(texts []string) (all []netip.Prefix, fields []fault.Field) {
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if address, e := netip.ParseAddr(text); e == nil {
			p, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil || strings.Contains(text, "%") {
			fields = append(fields, fault.Field{
				Field: fmt.Sprintf("trust_proxy[%d]", i), Message: "must be an address or a network, as 10.0.0.0/8",
			})
			continue
		}
		all = append(all, p.Masked())
	}
	return all, fields
}

// Proxies returns the networks of proxies whose X-Forwarded-For is trusted.
func (c *Config) Proxies() []netip.Prefix {
	now := c.server.Get()
	if len(now.Proxies) == 0 {
		return nil
	}
	known := c.trusted.Load()
	if known == nil || known.of != now {
		all, _ := networks(now.Proxies)
		known = &trusted{now, all}
		c.trusted.Store(known)
	}
	return known.networks
}

// trusted is the networks of a value of the section server, which every request needs.
type trusted struct {
	of       *Server
	networks []netip.Prefix
}

// MaxBody returns how long a JSON body may be.
func (c *Config) MaxBody() int64 { return c.server.Get().MaxBody }

// Guardrails is the guardrails of all agents.
type Guardrails struct {
	_ struct{} `json:"-" name:"AdminConfigGuardrails"`

	Guardrails []guardrail.PlatformRule `json:"guardrails" required:"true" maxItems:"100" doc:"The guardrails, in the order in which they check. A run that is at work has those that it began with."`
}

func checkGuardrails(g *Guardrails) error {
	if _, wrong := guardrail.CompilePlatform(g.Guardrails); wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// PlatformGuardrails returns the guardrails of all agents; nil: there are none.
func (c *Config) PlatformGuardrails() *guardrail.Platform { return c.platform.Load() }

// Markup is what companies pay beyond what models cost.
type Markup struct {
	_ struct{} `json:"-" name:"AdminConfigMarkupValues"`

	Percent float64 `json:"percent" minimum:"0" maximum:"1000" doc:"Per cent that are added to the price of every model that is called with a key of the operator's. Calls with a company's own key have none."`
}

// MarkupDocument is the section markup.
type MarkupDocument struct {
	_ struct{} `json:"-" name:"AdminConfigMarkup"`

	Markup Markup `json:"markup" required:"true" doc:"What companies pay beyond what models cost."`
}

// machineryRoutes returns the operations of the sections about how the service works.
func (c *Config) machineryRoutes() (all []route.Route) {
	all = append(all, routes(c.workers, published[WorkerPool, WorkerPool]{
		name: "worker-pool", id: "WorkerPool", what: "how much a node works on at once", shown: itself[WorkerPool],
		example: `{"max_workers": 4096}`, doc: "How much each node works on at once.",
	})...)
	all = append(all, routes(c.adapters, published[LLMAdapters, LLMAdapters]{
		name: "llm-adapters", id: "LlmAdapters", what: "when endpoints of models are left alone", shown: itself[LLMAdapters],
		example: `{"circuit_breaker_failures": 5}`,
		doc:     "When an endpoint of models that does not answer is left alone, and for how long. A change forgets which are left alone now.",
	})...)
	all = append(all, routes(c.mcp, published[MCP, MCP]{
		name: "mcp", id: "Mcp", what: "limits of connections to MCP servers", shown: itself[MCP], example: `{"idle_timeout_seconds": 300}`,
		doc: "What connections to MCP servers may take on each node.",
	})...)
	all = append(all, routes(c.delivery, published[WebhookDelivery, WebhookDelivery]{
		name: "webhooks", id: "Webhooks", what: "how webhooks are delivered", shown: itself[WebhookDelivery],
		example: `{"delivery_timeout_ms": 10000}`, doc: "How an attempt of a webhook delivery is made; webhooks-policy says how it is repeated.",
	})...)
	all = append(all, routes(c.evaluation, published[Evaluation, Evaluation]{
		name: "evaluation", id: "Evaluation", what: "defaults and limits of evaluations", shown: itself[Evaluation],
		example: `{"default_concurrency": 16}`, doc: "How evaluations and experiments that begin from now on are run.",
	})...)
	all = append(all, routes(c.buffers, published[Backpressure, Backpressure]{
		name: "backpressure", id: "Backpressure", what: "buffers of event streams", shown: itself[Backpressure],
		example: `{"sse_buffer_events": 768}`, doc: "What is kept for readers of event streams that are slower than the events.",
	})...)
	all = append(all, routes(c.server, published[Server, Server]{
		name: "server", id: "Server", what: "how requests are taken", shown: itself[Server], example: `{"max_body_bytes": 10485760}`,
		doc: "How requests are taken.",
	})...)
	all = append(all, routes(c.guardrails, published[Guardrails, Guardrails]{
		name: "guardrails", id: "Guardrails", what: "guardrails of all agents", shown: itself[Guardrails], example: `{"guardrails": []}`,
		doc: "Guardrails that check the agents of all companies, before their own ones.",
	})...)
	return append(all, routes(c.markup, published[Markup, MarkupDocument]{
		name: "markup", id: "Markup", what: "the markup of models", wrap: "markup", example: `{"markup": {"percent": 0}}`,
		doc:   "What companies pay beyond what models cost, from the next call on.",
		shown: func(m *Markup) MarkupDocument { return MarkupDocument{Markup: *m} },
	})...)
}
