package modeladmin

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
	"agentd/internal/operation/setting"
)

// maxModels bounds the models of the catalogue, and the prices.
const maxModels = 5000

// Pricing is the prices that take precedence over those of the configuration and of the
// price list.
type Pricing struct {
	_ struct{} `json:"-" name:"AdminPricing"`

	Models map[string]Price `json:"models" doc:"Prices by <provider>/<model>."`
}

// pricingUpdate is Pricing with prices that can be removed.
type pricingUpdate struct {
	_ struct{} `json:"-" name:"AdminPricingUpdate"`

	Models map[string]schema.NullableOf[Price] `json:"models" doc:"Prices by <provider>/<model>. Null removes what is set of a model."`
}

// Price is what a model costs, in US dollars per million tokens.
type Price struct {
	_ struct{} `json:"-" name:"AdminModelPrice"`

	Input       *float64 `json:"input_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of input. Required."`
	Output      *float64 `json:"output_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of output. Required."`
	CachedInput *float64 `json:"cached_input_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of input that the provider had in its cache. Default: as input."`
	CacheWrite  *float64 `json:"cache_write_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of input that the provider stored in its cache. Default: as input."`
	Reasoning   *float64 `json:"reasoning_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of thinking. Default: as output."`
	Tiers       []Tier   `json:"tiers,omitzero" maxItems:"20" doc:"Prices of calls with more input, ascending."`
}

// Tier is the prices of calls with more input than AboveTokens.
type Tier struct {
	_ struct{} `json:"-" name:"AdminModelPriceTier"`

	AboveTokens int      `json:"above_tokens" minimum:"1" doc:"Input in tokens, cached tokens included, above which these prices hold for the whole call."`
	Input       *float64 `json:"input_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of input. Required."`
	Output      *float64 `json:"output_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of output. Required."`
	CachedInput *float64 `json:"cached_input_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of input that the provider had in its cache."`
	CacheWrite  *float64 `json:"cache_write_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of input that the provider stored in its cache."`
	Reasoning   *float64 `json:"reasoning_usd_per_mtok,omitzero" minimum:"0" maximum:"1000000" doc:"Of thinking."`
}

func (p *Price) fields() model.PriceFields {
	f := model.PriceFields{Input: p.Input, Output: p.Output, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, Reasoning: p.Reasoning}
	for _, t := range p.Tiers {
		f.Tiers = append(f.Tiers, model.TierFields{
			AboveTokens: t.AboveTokens, Input: t.Input, Output: t.Output,
			CachedInput: t.CachedInput, CacheWrite: t.CacheWrite, Reasoning: t.Reasoning,
		})
	}
	return f
}

func priceOf(p *model.Price) Price {
	out := Price{Input: &p.Input, Output: &p.Output, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, Reasoning: p.Reasoning}
	for i := range p.Tiers {
		t := &p.Tiers[i]
		out.Tiers = append(out.Tiers, Tier{
			AboveTokens: t.AboveTokens, Input: &t.Input, Output: &t.Output,
			CachedInput: t.CachedInput, CacheWrite: t.CacheWrite, Reasoning: t.Reasoning,
		})
	}
	return out
}

func (p *Pricing) overrides() map[string]model.PriceFields {
	all := make(map[string]model.PriceFields, len(p.Models))
	for ref, price := range p.Models {
		all[ref] = price.fields()
	}
	return all
}

func (s *Service) checkPricing(v *Pricing) error {
	if len(v.Models) > maxModels {
		return fault.BadFields(fault.Field{Field: "models", Message: fmt.Sprintf("has more than %d prices", maxModels)})
	}
	for ref, price := range v.Models {
		field := "models." + ref
		if provider, name, ok := strings.Cut(ref, "/"); !ok || provider == "" || name == "" {
			return fault.BadFields(fault.Field{Field: field, Message: "must be named <provider>/<model>"})
		}
		fields := price.fields()
		if price.Input == nil || price.Output == nil {
			return fault.BadFields(fault.Field{Field: field, Message: "needs input_usd_per_mtok and output_usd_per_mtok"})
		}
		if err := fields.Check(); err != nil {
			return fault.BadFields(fault.Field{Field: field, Message: err.Error()})
		}
	}
	return nil
}

// effective returns the prices of the models that the catalogue lists, and those that are
// set of others.
func (s *Service) effective(v *Pricing) Pricing {
	out := Pricing{Models: map[string]Price{}}
	for _, e := range s.with(v).List() {
		if e.Price != nil {
			out.Models[e.Ref] = priceOf(e.Price)
		}
	}
	maps.Copy(out.Models, v.Models)
	return out
}

// with returns the catalogue as it is with these prices.
func (s *Service) with(v *Pricing) *model.Catalogue {
	c := &model.Catalogue{}
	if c.Replace(s.offering(s.providers.Get(), s.defaults.Get(), v, s.models.Get())) != nil {
		return s.Catalogue
	}
	return c
}

// PriceSnapshot is the prices of all listed models as they are used.
type PriceSnapshot struct {
	_ struct{} `json:"-" name:"AdminModelPricing"`

	AsOf   string         `json:"as_of" required:"true" doc:"The day of the price list of public providers, YYYY-MM-DD."`
	Models []ModelPricing `json:"models" required:"true"`
}

// ModelPricing is the price of a model, and where it comes from.
type ModelPricing struct {
	_ struct{} `json:"-" name:"AdminModelPricingEntry"`

	Model    string `json:"model" required:"true" doc:"<provider>/<model>."`
	Provider string `json:"provider" required:"true"`
	Known    bool   `json:"known" required:"true" doc:"False: calls of the model cost null."`
	Source   string `json:"source" required:"true" enum:"setting,configuration,price_list,unknown" doc:"Set with PUT /api/v1/admin/config/pricing, the operator's configuration or catalogue, or the price list of public providers."`
	Price
}

func (s *Service) snapshot(context.Context, authz.Caller, *struct{}) (PriceSnapshot, error) {
	out := PriceSnapshot{Models: []ModelPricing{}}
	if s.Base.Prices != nil {
		out.AsOf = s.Base.Prices.AsOf
	}
	stated := &model.Catalogue{}
	o := s.offering(s.providers.Get(), s.defaults.Get(), &Pricing{}, s.models.Get())
	o.Prices = nil
	if err := stated.Replace(o); err != nil {
		return out, err
	}
	for _, e := range s.Catalogue.List() {
		entry := ModelPricing{Model: e.Ref, Provider: e.Provider, Source: "unknown"}
		if e.Price != nil {
			entry.Known, entry.Price, entry.Source = true, priceOf(e.Price), "price_list"
			if to, err := stated.Lookup(e.Ref); err == nil && to.Price != nil {
				entry.Source = "configuration"
			}
			if _, ok := s.pricing.Get().Models[e.Ref]; ok {
				entry.Source = "setting"
			}
		}
		out.Models = append(out.Models, entry)
	}
	return out, nil
}

// Models is the catalogue of models.
type Models struct {
	_ struct{} `json:"-" name:"AdminModelCatalog"`

	Models []Model `json:"models" maxItems:"5000" doc:"The listed models, in the order in which they are shown. Models that are not listed can be called too, unless their provider has a model_allowlist."`
}

// Model is a listed model.
type Model struct {
	_ struct{} `json:"-" name:"AdminCatalogModel"`

	Provider      string        `json:"provider" minLength:"1" maxLength:"64" doc:"Id of its provider."`
	ID            string        `json:"id" minLength:"1" maxLength:"300" doc:"The name that the provider knows."`
	Title         string        `json:"display_name,omitzero" maxLength:"200" doc:"Display name. Default: the id."`
	Tier          string        `json:"tier,omitzero" maxLength:"100" doc:"A word of the operator's own, for people who choose a model."`
	ContextWindow int           `json:"context_window,omitzero" minimum:"0" maximum:"1000000000" doc:"Tokens. Default: that of the price list, if it knows the model."`
	MaxOutput     int           `json:"max_output_tokens,omitzero" minimum:"0" maximum:"1000000000" doc:"The longest answer in tokens. Default: that of the price list, if it knows the model."`
	ToolCalls     *bool         `json:"supports_tool_calls,omitzero" doc:"For people who choose a model."`
	Streaming     *bool         `json:"supports_streaming,omitzero" doc:"For people who choose a model."`
	JSONMode      *bool         `json:"supports_json_mode,omitzero" doc:"For people who choose a model."`
	Vision        *bool         `json:"supports_vision,omitzero" doc:"false: messages with images are refused. Default: as the price list says, if it knows the model."`
	Modality      string        `json:"modality,omitzero" enum:"chat,stt,tts,image,embedding" doc:"Default: chat, or image if capabilities has images."`
	Capabilities  schema.Object `json:"capabilities,omitzero" doc:"Options that change how the model is called, as in the providers file: thinking, reasoning_effort, thinking_budget, images, inputs."`
	Price
}

func (m *Model) offer() model.Offer {
	return model.Offer{
		ID: m.ID, ContextWindow: m.ContextWindow, PriceFields: m.fields(), Capabilities: []byte(m.Capabilities),
		Facts: model.Facts{
			Title: m.Title, Tier: m.Tier, MaxOutput: m.MaxOutput, ToolCalls: m.ToolCalls, Streaming: m.Streaming, JSONMode: m.JSONMode,
			Vision: m.Vision, Modality: model.Modality(m.Modality),
		},
	}
}

func listed(provider string, o *model.Offer) Model {
	m := Model{
		Provider: provider, ID: o.ID, Title: o.Title, Tier: o.Tier, ContextWindow: o.ContextWindow, MaxOutput: o.MaxOutput,
		ToolCalls: o.ToolCalls, Streaming: o.Streaming, JSONMode: o.JSONMode, Vision: o.Vision, Modality: string(o.Modality),
		Capabilities: schema.Object(o.Capabilities),
		Price:        Price{Input: o.Input, Output: o.Output, CachedInput: o.CachedInput, CacheWrite: o.CacheWrite, Reasoning: o.Reasoning},
	}
	for _, t := range o.Tiers {
		m.Tiers = append(m.Tiers, Tier{
			AboveTokens: t.AboveTokens, Input: t.Input, Output: t.Output,
			CachedInput: t.CachedInput, CacheWrite: t.CacheWrite, Reasoning: t.Reasoning,
		})
	}
	return m
}

// use replaces the listed models of providers.
func (v *Models) use(providers []model.Provider) {
	for i := range providers {
		p := &providers[i]
		p.Models = nil
		for j := range v.Models {
			if v.Models[j].Provider == p.Name {
				p.Models = append(p.Models, v.Models[j].offer())
			}
		}
	}
}

// seed is the catalogue of the configuration.
func (s *Service) seed() Models {
	out := Models{Models: []Model{}}
	for i := range s.Base.Providers {
		p := &s.Base.Providers[i]
		for j := range p.Models {
			out.Models = append(out.Models, listed(p.Name, &p.Models[j]))
		}
	}
	return out
}

func (s *Service) checkModels(v *Models) error {
	if len(v.Models) > maxModels {
		return fault.BadFields(fault.Field{Field: "models", Message: fmt.Sprintf("has more than %d models", maxModels)})
	}
	names := s.names()
	seen := map[string]bool{}
	for i := range v.Models {
		m := &v.Models[i]
		field := fmt.Sprintf("models[%d]", i)
		ref := m.Provider + "/" + m.ID
		switch {
		case m.Provider == "" || m.ID == "":
			return fault.BadFields(fault.Field{Field: field, Message: "needs provider and id"})
		case !slices.Contains(names, m.Provider):
			return fault.BadFields(fault.Field{
				Field: field + ".provider", Message: "is the id of no provider; GET /api/v1/admin/providers lists them",
			})
		case seen[ref]:
			return fault.BadFields(fault.Field{Field: field, Message: "lists " + ref + " a second time"})
		}
		seen[ref] = true
		offer := m.offer()
		if err := offer.Check(); err != nil {
			return fault.BadFields(fault.Field{Field: field, Message: err.Error()})
		}
	}
	if err := s.offering(s.providers.Get(), s.defaults.Get(), s.pricing.Get(), v).Check(); err != nil {
		return invalid("models", err)
	}
	return nil
}

// shownModels returns the catalogue as it is used.
func (s *Service) shownModels(v *Models) Models {
	if v == s.models.Get() && !s.models.IsSet() {
		return s.seed()
	}
	return *v
}

// Routes lists the operator's operations on models.
func (s *Service) Routes() []route.Route {
	all := slices.Concat(s.providerRoutes(), s.defaultRoutes(), s.voiceRoutes())
	all = append(all, setting.Routes(s.pricing, setting.Published[Pricing]{
		Name: "pricing", GetID: "getAdminPricing", PutID: "updateAdminPricing", What: "the prices of models",
		Doc:     "Prices that are set take precedence over those of the configuration and of the price list, in the next call's cost.",
		Example: `{"models":{"default/sim-1":{"input_usd_per_mtok":1,"output_usd_per_mtok":2}}}`, Shown: s.effective,
		Patch: reflect.TypeFor[pricingUpdate](),
	})...)
	all = append(all, setting.Routes(s.models, setting.Published[Models]{
		Name: "model-catalog", GetID: "adminGetModelCatalog", PutID: "adminPutModelCatalog", What: "the catalogue of models",
		Doc:     "The catalogue replaces the models that the configuration lists.",
		Example: `{"models":[]}`, Shown: s.shownModels,
	})...)
	return append(all,
		route.Action(setting.Operation("GET", "/config/model-catalog/seed", "adminGetModelCatalogSeed", "Get the catalogue of the configuration",
			"What the catalogue is until another is set. PUT it to go back to it."), func(context.Context, authz.Caller, *struct{}) (Models, error) {
			return s.seed(), nil
		}),
		route.Action(setting.Operation("GET", "/config/model-pricing", "adminGetModelPricing", "Get the prices of the listed models",
			"With where each comes from."), s.snapshot),
	)
}
