package opconfig

import (
	"context"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/operation/setting"
)

// published is how the operations of a section are described.
type published[T, O any] struct {
	name    string // of the section
	id      string // of the operations, after get and update
	what    string
	doc     string
	example string
	wrap    string // the member of the document that has the values; "": it is them
	shown   func(*T) O
	merge   func(*T, jsontext.Value) error // nil: that of the section
	answer  func(*T) any                   // of a change; nil: shown
}

type sectionIn struct {
	Body jsontext.Value
}

// routes returns the operations of a section. PUT takes what GET answers; of a document
// with one member also what is in it.
func routes[T, O any](s *setting.Section[T], p published[T, O]) []route.Route {
	operation := func(method, verb, doc string) route.Row {
		row := setting.Operation(method, "/config/"+p.name, verb+"AdminConfig"+p.id, "", p.doc+doc)
		row.Tag, row.AnswerOf = "Admin Config", reflect.TypeFor[O]()
		return row
	}
	get, put := operation("GET", "get", ""), operation("PUT", "update",
		" The body is merged: objects member by member, null resets a member, "+
			"arrays are replaced. A change acts on every node within two seconds.")
	get.Summary, put.Summary = "Get "+p.what, "Update "+p.what
	put.BodyOf, put.Partial, put.Example, put.Errors = reflect.TypeFor[O](), true, p.example, []int{422}
	if p.merge == nil {
		p.merge = s.Merge
	}
	if p.answer == nil {
		p.answer = func(value *T) any { return p.shown(value) }
	} else {
		put.AnswerOf = nil
	}
	reply := func(value any) (*route.Reply, error) {
		b, err := json.Marshal(value, json.Deterministic(true))
		return &route.Reply{JSON: b}, err
	}
	return []route.Route{
		route.Action(get, func(context.Context, authz.Caller, *struct{}) (*route.Reply, error) { return reply(p.shown(s.Get())) }),
		route.Action(put, func(ctx context.Context, who authz.Caller, in *sectionIn) (out *route.Reply, err error) {
			err = s.Update(ctx, who, func(value *T) error { return p.merge(value, unwrap(in.Body, p.wrap)) }, func(value *T) any {
				out, err = reply(p.answer(value))
				return out
			})
			return out, err
		}),
	}
}

// unwrap returns the member of a document that has the values, where it has that.
func unwrap(body jsontext.Value, member string) jsontext.Value {
	if member == "" || body.Kind() != '{' {
		return body
	}
	members, err := schema.Members(body)
	if err != nil {
		return body
	}
	if i := slices.IndexFunc(members, func(m schema.Member) bool { return m.Name == member }); i >= 0 {
		return members[i].Value
	}
	return body
}

// itself is the shown form of sections that are shown as they are.
func itself[T any](value *T) T { return *value }

// RuntimeDocument is the section runtime.
type RuntimeDocument struct {
	_ struct{} `json:"-" name:"AdminConfigRuntime"`

	Runtime Runtime `json:"runtime" required:"true" doc:"What no run exceeds."`
}

// URLDocument is the section platform-urls.
type URLDocument struct {
	_ struct{} `json:"-" name:"AdminConfigPlatformUrls"`

	URLs URLs `json:"urls" required:"true" doc:"Where this service is reached."`
}

// PlansChanged is the answer to a change of plans.
type PlansChanged struct {
	_ struct{} `json:"-" name:"AdminConfigPlansUpdated"`

	Plans   map[string]Plan `json:"plans" required:"true"`
	Updated bool            `json:"updated" required:"true"`
}

// Cleared is the answer where a section was reset.
type Cleared struct {
	_ struct{} `json:"-" name:"AdminConfigCleared"`

	Cleared bool `json:"cleared" required:"true"`
}

// Routes returns the operations.
func (c *Config) Routes() []route.Route {
	plans := routes(c.plans, published[Plans, PlanList]{
		name: "plans", id: "Plans", what: "plans", example: `{"plans": {"self_hosted": {"name": "Self-hosted"}}}`,
		doc:    "What companies on a plan may use. GET lists the plans; PUT takes them by id.",
		shown:  func(p *Plans) PlanList { return c.planList(p) },
		answer: func(p *Plans) any { return PlansChanged{Plans: p.Plans, Updated: true} },
	})
	plans[1].BodyOf, plans[1].AnswerOf = reflect.TypeFor[Plans](), reflect.TypeFor[PlansChanged]()
	rates := routes(c.rates, published[RateLimits, RateLimits]{
		name: "rate-limits", id: "RateLimits", what: "rate limits", shown: itself[RateLimits], example: `{"key": "1000000/m"}`,
		doc: "How many requests are admitted. Those of operations that have limits of their own are admitted by both.",
	})
	reset := setting.Operation("DELETE", "/config/rate-limits", "clearAdminConfigRateLimits", "Reset rate limits",
		"The limits of AGENTD_RATE_LIMITS hold again, within two seconds on every node.")
	reset.Tag = "Admin Config"
	rates = append(rates, route.Action(reset, func(ctx context.Context, who authz.Caller, _ *struct{}) (Cleared, error) {
		return Cleared{Cleared: true}, c.rates.Reset(ctx, who, Cleared{Cleared: true})
	}))
	all := slices.Concat(plans, rates,
		routes(c.features, published[Features, Flags]{
			name: "feature-flags", id: "FeatureFlags", what: "features", example: `{"flags": [{"name": "commerce", "enabled": true}]}`,
			doc:   "Parts of the service that can be switched off: their operations then answer 501 FEATURE_DISABLED.",
			shown: c.flags, merge: c.mergeFlags,
		}),
		routes(c.runtime, published[Runtime, RuntimeDocument]{
			name: "runtime", id: "Runtime", what: "caps of runs", wrap: "runtime", example: `{"runtime": {"max_steps": 100000}}`,
			doc:   "What no run exceeds, whatever its own limits are. Runs that are under way keep to it too.",
			shown: func(r *Runtime) RuntimeDocument { return RuntimeDocument{Runtime: *r} },
		}),
		routes(c.urls, published[URLs, URLDocument]{
			name: "platform-urls", id: "PlatformUrls", what: "addresses of the service", wrap: "urls", example: `{"urls": {}}`,
			doc:   "Where this service is reached, for the links that it hands out.",
			shown: func(u *URLs) URLDocument { return URLDocument{URLs: *u} },
		}),
		routes(c.security, published[Security, Security]{
			name: "security-policies", id: "SecurityPolicies", what: "security policies", shown: itself[Security],
			example: `{"file_upload_max_size_bytes": 0}`, doc: "Which pages may call the API, where webhooks may go, and what may be uploaded.",
		}),
		routes(c.webhooks, published[Webhooks, Webhooks]{
			name: "webhooks-policy", id: "WebhooksPolicy", what: "the repetition of webhooks", shown: itself[Webhooks],
			example: `{"delivery_max_retries": 4}`, doc: "How deliveries that failed are repeated.",
		}),
	)
	return slices.Concat(
		all, c.smallRoutes(), c.commandRoutes(), c.machineryRoutes(), c.contentRoutes(), c.durabilityRoutes(), c.clientRoutes(),
	)
}

// smallRoutes returns the operations of sections with one or two values.
func (c *Config) smallRoutes() []route.Route {
	return slices.Concat(
		routes(c.auth, published[Auth, Auth]{
			name: "auth", id: "Auth", what: "how people sign in", shown: itself[Auth], example: `{"signup_enabled": false}`, doc: "Who may sign up.",
		}),
		routes(c.idem, published[Idempotency, Idempotency]{
			name: "idempotency", id: "Idempotency", what: "how long writes are recognised", shown: itself[Idempotency],
			example: `{"window_hours": 24}`, doc: "How long a repeated write is recognised by its Idempotency-Key.",
		}),
		routes(c.sse, published[SSE, SSE]{
			name: "sse", id: "Sse", what: "limits of event streams", shown: itself[SSE], example: `{"heartbeat_seconds": 15}`,
			doc: "Event streams: how many, and how often a silent one shows that it is open.",
		}),
		routes(c.tools, published[Tools, Tools]{
			name: "tool-security", id: "ToolSecurity", what: "which tools are switched off", shown: itself[Tools],
			example: `{"disabled_tools": []}`, doc: "Tools that no agent of this service may call.",
		}),
		routes(c.logging, published[Logging, Logging]{
			name: "logging", id: "Logging", what: "what is logged", shown: itself[Logging], example: `{"level": "info"}`,
			doc: "What the service logs.",
		}),
	)
}
