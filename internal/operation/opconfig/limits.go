package opconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/ratelimit"
)

// RateLimits is how many requests are admitted.
type RateLimits struct {
	_ struct{} `json:"-" name:"AdminConfigRateLimits"`

	Tenant    string          `json:"tenant" maxLength:"40" doc:"Requests of a company, as 6000/m: a number and /s, /m or /h. Empty: no limit."`
	Key       string          `json:"key" maxLength:"40" doc:"Requests of a key or a browser session. Empty: no limit."`
	Endpoint  string          `json:"endpoint" maxLength:"40" doc:"Requests of a company to any one operation. Empty: no limit."`
	Endpoints []EndpointLimit `json:"endpoints" maxItems:"500" doc:"Limits of single operations, which take the place of endpoint there."`
}

// EndpointLimit is the limit of one operation.
type EndpointLimit struct {
	_ struct{} `json:"-" name:"AdminConfigEndpointLimit"`

	Operation string `json:"operation" required:"true" maxLength:"100" doc:"The id of the operation, as createRun."`
	Limit     string `json:"limit" required:"true" maxLength:"40" doc:"Requests of a company to it, as 10/m."`
}

func ratesOf(l ratelimit.Limits) RateLimits {
	return RateLimits{Tenant: l.Tenant.String(), Key: l.Key.String(), Endpoint: l.Endpoint.String(), Endpoints: []EndpointLimit{}}
}

// limits reads the limits. fields names what is wrong.
func (r *RateLimits) limits(known func(string) bool) (l ratelimit.Limits, fields []fault.Field) {
	read := func(name, text string) ratelimit.Limit {
		limit, err := ratelimit.ParseLimit(text)
		if err != nil {
			fields = append(fields, fault.Field{Field: name, Message: err.Error()})
		}
		return limit
	}
	l.Tenant, l.Key, l.Endpoint = read("tenant", r.Tenant), read("key", r.Key), read("endpoint", r.Endpoint)
	l.Operations = map[string]ratelimit.Limit{}
	for i, e := range r.Endpoints {
		place := fmt.Sprintf("endpoints[%d]", i)
		if _, twice := l.Operations[e.Operation]; twice {
			fields = append(fields, fault.Field{Field: place + ".operation", Message: "is in the list twice"})
		}
		if known != nil && !known(e.Operation) {
			fields = append(fields, fault.Field{
				Field: place + ".operation", Message: "is not the id of an operation; the OpenAPI document has them",
			})
		}
		if e.Limit == "" {
			fields = append(fields, fault.Field{Field: place + ".limit", Message: "must be a number and /s, /m or /h, as in 10/m"})
		}
		l.Operations[e.Operation] = read(place+".limit", e.Limit)
	}
	return l, fields
}

func (c *Config) checkRates(r *RateLimits) error {
	if _, wrong := r.limits(c.known); wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// useRates has the limiter keep to limits. An operation of another version of the program
// has none.
func (c *Config) useRates(r *RateLimits) {
	if c.limiter != nil {
		limits, _ := r.limits(nil)
		c.limiter.Set(limits)
	}
}

// Feature is a part of the service that the operator may switch off: the operations under
// paths.
type Feature struct {
	Name  string
	Paths []string
}

// Features is which features are off.
type Features struct {
	Off []string `json:"off"`
}

// Flag is whether a feature is on.
type Flag struct {
	_ struct{} `json:"-" name:"AdminConfigFeatureFlag"`

	Name    string `json:"name" required:"true" maxLength:"100" doc:"The feature; the answer lists all."`
	Enabled bool   `json:"enabled" required:"true" doc:"Whether its operations are served; otherwise they answer 501 FEATURE_DISABLED."`
}

// Flags is whether each feature is on.
type Flags struct {
	_ struct{} `json:"-" name:"AdminConfigFeatureFlags"`

	Flags []Flag `json:"flags" required:"true" maxItems:"100" doc:"The features. In a request only those that change."`
}

func (c *Config) checkFeatures(f *Features) error {
	for i, name := range f.Off {
		if !slices.ContainsFunc(c.Features, func(known Feature) bool { return known.Name == name }) {
			names := make([]string, len(c.Features))
			for j, known := range c.Features {
				names[j] = known.Name
			}
			return fault.BadFields(fault.Field{
				Field: fmt.Sprintf("flags[%d].name", i), Message: fmt.Sprintf("%q is no feature; the features are %s", name, strings.Join(names, ", ")),
			})
		}
	}
	return nil
}

func (c *Config) flags(f *Features) Flags {
	all := Flags{Flags: []Flag{}}
	for _, known := range c.Features {
		all.Flags = append(all.Flags, Flag{Name: known.Name, Enabled: !slices.Contains(f.Off, known.Name)})
	}
	return all
}

// mergeFlags changes the features that a body names. Unknown ones are refused by
// checkFeatures, where they are sent.
func (c *Config) mergeFlags(f *Features, body jsontext.Value) error {
	sent, err := schema.Decode[Flags](body)
	if err != nil {
		return err
	}
	var names Features
	for _, flag := range sent.Flags {
		names.Off = append(names.Off, flag.Name)
	}
	if err := c.checkFeatures(&names); err != nil {
		return err
	}
	for _, flag := range sent.Flags {
		f.Off = slices.DeleteFunc(f.Off, func(off string) bool { return off == flag.Name })
		if !flag.Enabled {
			f.Off = append(f.Off, flag.Name)
		}
	}
	slices.Sort(f.Off)
	return nil
}

// Has reports whether a path belongs to the feature.
func (f Feature) Has(path string) bool {
	return slices.ContainsFunc(f.Paths, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") })
}

// FeatureOf returns the check of the feature that a path belongs to; nil where it belongs
// to none.
func (c *Config) FeatureOf(path string) func() error {
	for _, f := range c.Features {
		if f.Has(path) {
			return func() error { return c.checkOn(f.Name) }
		}
	}
	return nil
}

func (c *Config) checkOn(feature string) error {
	if !slices.Contains(c.features.Get().Off, feature) {
		return nil
	}
	return fault.New(fault.Unsupported, "FEATURE_DISABLED", "The operator of this service has switched off %s.", feature)
}

// Plans is the plans by id.
type Plans struct {
	_ struct{} `json:"-" name:"AdminConfigPlans"`

	Plans map[string]Plan `json:"plans" doc:"By id. A plan that is null is removed; companies on it are then on the default one."`
}

// Plan is what companies on a plan may use.
type Plan struct {
	_ struct{} `json:"-" name:"AdminConfigPlan"`

	Name          string       `json:"name" minLength:"1" maxLength:"200" doc:"What people call it."`
	Limits        quota.Limits `json:"limits" doc:"What companies on it may use; a limit that is null is none."`
	Models        []string     `json:"models,omitzero" maxItems:"1000" doc:"Models that the model proxy may call, as provider/model, where the last character may be a *; left out: all."`
	PriceCents    int64        `json:"price_amount_cents,omitzero" minimum:"0" doc:"What it costs a month, in hundredths of the currency; only shown."`
	PriceCurrency string       `json:"price_currency,omitzero" maxLength:"3" doc:"ISO 4217, in lower case; default: usd."`
}

// ShownPlan is a plan as lists have it.
type ShownPlan struct {
	_ struct{} `json:"-" name:"AdminConfigPlanRow"`

	ID string `json:"id" required:"true"`
	Plan
	Quotas  quota.Limits `json:"quotas" required:"true" doc:"The same as limits."`
	Default bool         `json:"default" required:"true" doc:"Companies without a plan are on it."`
}

// PlanList is all plans.
type PlanList struct {
	_ struct{} `json:"-" name:"AdminConfigPlanList"`

	Plans []ShownPlan `json:"plans" required:"true"`
}

func plansOf(all *quota.Plans) Plans {
	p := Plans{Plans: map[string]Plan{}}
	for _, plan := range all.All() {
		p.Plans[plan.ID] = Plan{
			Name: plan.Name, Limits: plan.Limits, Models: plan.Models, PriceCents: plan.PriceCents, PriceCurrency: plan.PriceCurrency,
		}
	}
	return p
}

// list returns the plans in the order of those before, new ones at the end.
func (p *Plans) list(before []quota.Plan) []quota.Plan {
	all := make([]quota.Plan, 0, len(p.Plans))
	for id, plan := range p.Plans {
		all = append(all, quota.Plan{
			ID: id, Name: plan.Name, Limits: plan.Limits, Models: plan.Models, PriceCents: plan.PriceCents, PriceCurrency: plan.PriceCurrency,
		})
	}
	place := func(id string) int {
		if i := slices.IndexFunc(before, func(b quota.Plan) bool { return b.ID == id }); i >= 0 {
			return i
		}
		return len(before)
	}
	slices.SortFunc(all, func(a, b quota.Plan) int {
		return cmp.Or(cmp.Compare(place(a.ID), place(b.ID)), strings.Compare(a.ID, b.ID))
	})
	return all
}

func (c *Config) checkPlans(p *Plans) error {
	if wrong := quota.CheckPlans(p.list(nil), c.Deps.Plans.Default()); wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

func (c *Config) planList(p *Plans) PlanList {
	all := PlanList{Plans: []ShownPlan{}}
	for _, plan := range p.list(c.Deps.Plans.All()) {
		all.Plans = append(all.Plans, ShownPlan{
			ID: plan.ID, Plan: p.Plans[plan.ID], Quotas: plan.Limits, Default: plan.ID == c.Deps.Plans.Default(),
		})
	}
	return all
}
