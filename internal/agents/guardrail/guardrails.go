package guardrail

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/cache"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
)

// Options is what guardrails need beside the kernel.
type Options struct {
	CheckURL func(url string) error // says why a webhook cannot be called; without looking it up
	Models   Models                 // of judges
	Client   model.Client
	Hooks    Hooks
	Logger   *slog.Logger
	// OnUsage is told what a judge cost; nil: nobody counts.
	OnUsage func(r policy.Run, target model.Target, usage model.Usage)
}

// recentBytes bounds what runs keep of their guardrails, by the size of the
// JSON.
const recentBytes = 4 << 20

// compiledKey is a version of a guardrail with what an agent changes of its config.
type compiledKey struct {
	tenant, id string
	version    int64
	override   string
}

// Guardrails keeps and asks guardrails. Safe for concurrent use.
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

// Store is what they are kept in.
func (a *Guardrails) Store() *resource.Store[Guardrail] { return a.store }

// Routes lists the operations on guardrails. The list is not the kernel's: it
// gives all there are, with their number, as the reference does.
func (a *Guardrails) Routes() []route.Route {
	var all []route.Route
	for _, r := range resource.Routes(a.store) {
		if r.ID != "listGuardrails" {
			all = append(all, r)
			continue
		}
		r.Row.Summary = "List the guardrails, newest first."
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
		{Name: "Total", Type: reflect.TypeFor[int](), Tag: `json:"total" required:"true" doc:"How many there are."`},
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

// prepared gives a guardrail ready to be asked, with an agent's changes to its
// config. Errors: the fields that the changes make wrong.
func (a *Guardrails) prepared(g *Guardrail, override schema.Nullable) (compiled, []fault.Field) {
	k := compiledKey{g.TenantID, g.ID, g.Version, string(override)}
	if c, ok := a.compiled.Get(k); ok {
		return c, nil
	}
	config := g.Config
	if len(override) > 0 {
		var wrong []fault.Field
		if config, wrong = mergeConfig(config, override); wrong != nil {
			return compiled{}, wrong
		}
	}
	c, wrong := a.compile(g, config)
	if wrong == nil {
		a.compiled.Set(k, c)
	}
	return c, wrong
}

// mergeConfig puts the members of an override over those of a config; null takes
// one away.
func mergeConfig(config schema.Object, override schema.Nullable) (schema.Object, []fault.Field) {
	members := map[string]schema.Any{}
	for _, object := range [][]byte{config, override} {
		if len(object) == 0 {
			continue
		}
		var more map[string]schema.Any
		if err := json.Unmarshal(object, &more); err != nil {
			return nil, []fault.Field{{Field: "config_override", Message: "it cannot be read"}}
		}
		for name, value := range more {
			if members[name] = value; value == nil {
				delete(members, name)
			}
		}
	}
	out, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil, []fault.Field{{Field: "config_override", Message: "it cannot be read"}}
	}
	return out, nil
}
