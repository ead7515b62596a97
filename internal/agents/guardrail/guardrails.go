package guardrail

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
)

// Options holds what guardrails depend on besides the kernel.
type Options struct {
	CheckURL func(url string) error // returns why a webhook cannot be called; without DNS
	Models   Models                 // of judges
	Client   model.Client
	Hooks    Hooks
	Logger   *slog.Logger
	// OnUsage, if set, is called with the usage of each judge's model call.
	OnUsage func(r policy.Run, target model.Target, usage model.Usage)
}

// recentBytes bounds the cache of guardrails, by the size of their JSON.
const recentBytes = 4 << 20

// compiledKey identifies a version of a guardrail with an agent's config_override.
type compiledKey struct {
	tenant, id string
	version    int64
	override   string
}

// Guardrails stores and compiles guardrails. It is safe for concurrent use.
type Guardrails struct {
	deps     resource.Deps
	options  Options
	store    *resource.Store[Guardrail]
	recent   *resource.Recent[Guardrail]
	compiled *cache.Cache[compiledKey, compiled] // what was compiled of them
}

// New makes the guardrails.
func New(deps resource.Deps, o Options) *Guardrails {
	a := &Guardrails{deps: deps, options: o, compiled: cache.New(cache.Options[compiledKey, compiled]{Most: 1000})}
	a.store = resource.NewStore(a.kind(), deps)
	a.recent = resource.NewRecent(a.store, recentBytes)
	return a
}

// Store returns the store of guardrails.
func (a *Guardrails) Store() *resource.Store[Guardrail] { return a.store }

// Routes returns the operations on guardrails. The list differs from the kernel's: it
// returns all guardrails with their number, as the reference does.
func (a *Guardrails) Routes() []route.Route {
	var all []route.Route
	for _, r := range resource.Routes(a.store) {
		if r.ID != "listGuardrails" {
			all = append(all, r)
			continue
		}
		r.Row.Summary = "List guardrails, newest first"
		r.Row.AnswerOf = a.listType()
		all = append(all, route.Action(r.Row, a.list))
	}
	return all
}

type listIn struct{}

// listType is the published type of the list. A type made at start has no
// name: the blank field carries it.
func (a *Guardrails) listType() reflect.Type {
	return reflect.StructOf([]reflect.StructField{
		{Name: "_", PkgPath: reflect.TypeFor[Guardrails]().PkgPath(), Type: reflect.TypeFor[struct{}](), Tag: `json:"-" name:"GuardrailList"`},
		{Name: "Guardrails", Type: reflect.SliceOf(a.store.AnswerType()), Tag: `json:"guardrails" required:"true"`},
		{Name: "Total", Type: reflect.TypeFor[int](), Tag: `json:"total" required:"true" doc:"Number of guardrails."`},
	})
}

func (a *Guardrails) list(ctx context.Context, who authz.Caller, _ *listIn) (*route.Reply, error) {
	all, err := a.store.List(ctx, who.TenantID, resource.Find{Limit: MaxGuardrails})
	if err != nil {
		return nil, err
	}
	out := struct {
		Guardrails []jsontext.Value `json:"guardrails"`
		Total      int              `json:"total"`
	}{make([]jsontext.Value, len(all)), len(all)}
	for i, g := range all {
		if out.Guardrails[i], err = a.store.Wire(g); err != nil {
			return nil, err
		}
	}
	body, err := json.Marshal(out)
	return &route.Reply{JSON: body}, err
}

// prepared returns a compiled guardrail with an agent's config_override, or the fields
// that the override makes invalid.
func (a *Guardrails) prepared(g *Guardrail, override schema.Nullable) (compiled, []fault.Field) {
	k := compiledKey{g.TenantID, g.ID, g.Version, string(override)}
	if c, ok := a.compiled.Get(k); ok {
		return c, nil
	}
	config := g.Config
	if len(override) > 0 {
		var invalid []fault.Field
		if config, invalid = mergeConfig(config, override); invalid != nil {
			return compiled{}, invalid
		}
	}
	c, invalid := a.compile(g, config)
	if invalid == nil {
		a.compiled.Set(k, c)
	}
	return c, invalid
}

// mergeConfig replaces members of a config by those of an override; null removes one.
func mergeConfig(config schema.Object, override schema.Nullable) (schema.Object, []fault.Field) {
	members := map[string]schema.Any{}
	for _, object := range [][]byte{config, override} {
		if len(object) == 0 {
			continue
		}
		var more map[string]schema.Any
		if err := json.Unmarshal(object, &more); err != nil {
			return nil, []fault.Field{{Field: "config_override", Message: "cannot be read"}}
		}
		for name, value := range more {
			if members[name] = value; value == nil {
				delete(members, name)
			}
		}
	}
	out, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil, []fault.Field{{Field: "config_override", Message: "cannot be read"}}
	}
	return out, nil
}
