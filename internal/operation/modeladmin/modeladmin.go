// Package modeladmin is what the operator sets about models while the program runs:
// further providers, keys, the default model, prices and the catalogue. Each is a section
// of settings; together with the program's configuration they make the catalogue that all
// calls use.
package modeladmin

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/model"
	"agentd/internal/operation/setting"
)

// Deps holds what the service depends on.
type Deps struct {
	Settings  *setting.Service
	Catalogue *model.Catalogue
	// Base is what the program's configuration has.
	Base   model.Offering
	Clock  clock.Clock
	Logger *slog.Logger
	// CheckURL validates the address of a provider; outbound.CheckURL.
	CheckURL func(string) error
	Egress   egress.CheckFunc // checks what an address leads to, before it is stored
	Voice    Voice            // of the configuration
	// Health reports the health of a provider; nil: it is unknown.
	Health func(provider string) string
}

// Service keeps the catalogue as the operator set it. It is safe for concurrent use.
type Service struct {
	Deps

	providers *setting.Section[Customs]
	defaults  *setting.Section[Defaults]
	pricing   *setting.Section[Pricing]
	models    *setting.Section[Models]
	voice     *setting.Section[Voice]
	presets   *setting.Section[VoicePresets]

	replacing sync.Mutex
}

// New adds the sections to the settings. The catalogue has them once the settings are
// loaded.
func New(d Deps) *Service {
	s := &Service{Deps: d}
	if d.Settings == nil { // for the document of operations
		return s
	}
	s.providers = setting.Add(d.Settings, &setting.Section[Customs]{
		Name: "providers", Secret: true, Changed: func(*Customs) { s.replace() },
	})
	s.defaults = setting.Add(d.Settings, &setting.Section[Defaults]{
		Name: "llm-defaults", Secret: true, Changed: func(*Defaults) { s.replace() },
		Check: func(v *Defaults) error { return s.checkDefaults(v) },
	})
	s.pricing = setting.Add(d.Settings, &setting.Section[Pricing]{
		Name: "pricing", Changed: func(*Pricing) { s.replace() }, Check: func(v *Pricing) error { return s.checkPricing(v) },
	})
	s.models = setting.Add(d.Settings, &setting.Section[Models]{
		Name: "model-catalog", Changed: func(*Models) { s.replace() }, Check: func(v *Models) error { return s.checkModels(v) },
	})
	s.addVoice(d)
	return s
}

// replace has the catalogue offer what is set.
func (s *Service) replace() {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	o := s.offering(s.providers.Get(), s.defaults.Get(), s.pricing.Get(), s.models.Get())
	if err := s.Catalogue.Replace(o); err != nil {
		s.Logger.Error("the models that the operator set cannot be used; those before stay", "err", err)
	}
}

// offering joins the program's configuration and what is set. What does not fit any more,
// because the configuration changed, is left out.
func (s *Service) offering(custom *Customs, defaults *Defaults, prices *Pricing, listed *Models) model.Offering {
	o := s.Base
	o.Providers = slices.Clone(o.Providers)
	for i := range o.Providers {
		useKey(&o.Providers[i], defaults)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(o.Providers, func(p model.Provider) bool { return p.Name == name })
	}
	for i := range custom.Providers {
		p := custom.Providers[i].provider()
		switch {
		case has(p.Name):
		case !custom.Providers[i].Enabled:
			o.Disabled = append(o.Disabled, p.Name)
		default:
			useKey(&p, defaults)
			o.Providers = append(o.Providers, p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defaults.Keys)) {
		if known, ok := model.PublicProvider(name); ok && !has(name) {
			p := model.Provider{Name: name, Title: known.Name, BaseURL: known.Endpoint, Wire: known.Wire, Screened: true}
			useKey(&p, defaults)
			if !p.APIKey.Empty() {
				o.Providers = append(o.Providers, p)
			}
		}
	}
	if s.models.IsSet() || listed != s.models.Get() {
		listed.use(o.Providers)
	}
	o.Overrides = prices.overrides()
	o.Default = s.usable(&o, defaults.DefaultModel, o.Default)
	o.Fallback = s.usable(&o, defaults.FallbackModel, o.Fallback)
	return o
}

// usable returns a model that was set if its provider is there, and else the configured
// one.
func (s *Service) usable(o *model.Offering, set, configured string) string {
	if set == "" {
		return configured
	}
	name, _, prefixed := strings.Cut(set, "/")
	there := slices.ContainsFunc(o.Providers, func(p model.Provider) bool {
		return p.Name == name && prefixed && (len(p.Allowed) == 0 || slices.Contains(p.Allowed, strings.TrimPrefix(set, name+"/")))
	})
	if set == model.EchoRef || there {
		return set
	}
	return configured
}

// useKey sets the key that is stored for a provider's endpoint.
func useKey(p *model.Provider, defaults *Defaults) {
	key, ok := defaults.Keys[p.Name]
	if at, _ := model.NormalizeEndpoint(p.BaseURL); ok && key.Endpoint == at {
		p.APIKey, p.AWS, p.Entra = key.APIKey, nil, nil
	}
}

// endpointOf returns the address of a provider that a key can be stored for; "" if there
// is none.
func (s *Service) endpointOf(name string) string {
	address := ""
	if p, ok := s.Catalogue.Endpoint(name); ok {
		address = p.BaseURL
	} else if known, ok := model.PublicProvider(name); ok {
		address = known.Endpoint
	}
	normal, _ := model.NormalizeEndpoint(address)
	return normal
}

// names returns the names of all providers: configured, custom and public ones.
func (s *Service) names() []string {
	var names []string
	for i := range s.Base.Providers {
		names = append(names, s.Base.Providers[i].Name)
	}
	for i := range s.providers.Get().Providers {
		names = append(names, s.providers.Get().Providers[i].ID)
	}
	for _, p := range model.Publics() {
		names = append(names, p.ID)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(names, func(name string) bool {
		twice := seen[name]
		seen[name] = true
		return twice
	})
}

// configured returns a provider of the program's configuration; nil if there is none.
func (s *Service) configured(name string) *model.Provider {
	i := slices.IndexFunc(s.Base.Providers, func(p model.Provider) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Base.Providers[i]
}

func invalid(field string, err error) error {
	message := err.Error()
	if e := fault.From(err); e != nil && e.Detail != "" && fault.Is(err, fault.Invalid) {
		message = e.Detail
	}
	return fault.BadFields(fault.Field{Field: cmp.Or(field, "body"), Message: message})
}
