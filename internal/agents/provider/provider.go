// Package provider lists the model providers and models that a tenant can use, and
// their health. It never reveals the operator's endpoints or a key.
package provider

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/model"
)

// Credentials returns the stored keys of a tenant by provider;
// *providerkey.Service.
type Credentials interface {
	All(ctx context.Context, tenant string) (map[string]*model.Credential, error)
}

// HealthSource reports the health of the operator's providers, as observed by the
// calls of this process, and since when; model.Breaker. Status is one of model's
// Health constants. It never blocks.
type HealthSource interface {
	Health(provider string) (status string, since time.Time)
}

// Voice has the models of speech and transcription as <provider>/<model>; "" if none
// is configured.
type Voice struct {
	Speech        string
	Transcription string
	Name          string // the default voice; "": the endpoint's
}

// Deps holds what the service depends on.
type Deps struct {
	Resolver    model.Resolver
	Credentials Credentials
	Lister      model.Lister
	Health      HealthSource // nil: health is unknown
	Voice       func() Voice // nil: none is configured
	// Elapsed returns how long the process has run, by a monotonic clock [the
	// system's].
	Elapsed func() time.Duration
}

// Service lists providers and models. It is safe for concurrent use.
type Service struct {
	Deps

	lists *listCache
}

// New makes the service.
func New(d Deps) *Service {
	if d.Elapsed == nil {
		began := time.Now()
		d.Elapsed = func() time.Duration { return time.Since(began) }
	}
	return &Service{Deps: d, lists: newLists(d.Lister, d.Elapsed)}
}

// Levels of configuration.
const (
	levelTenant   = "tenant"
	levelPlatform = "platform"
)

// Provider is a model provider.
type Provider struct {
	_ struct{} `json:"-" name:"LlmProvider"`

	ID              string  `json:"id" required:"true"`
	Name            string  `json:"name" required:"true" doc:"Display name."`
	Canonical       string  `json:"canonical" required:"true" doc:"The id in the names of its models: <canonical>/<model>."`
	Configured      bool    `json:"configured" required:"true" doc:"Its models can be called."`
	ConfiguredLevel *string `json:"configured_level" required:"true" enum:"tenant,platform" doc:"Whose key is used: the company's or the deployment's. Null if not configured."`
	DefaultEndpoint string  `json:"default_endpoint" required:"true" doc:"Empty if the operator of this deployment chose it."`
	Local           bool    `json:"local" required:"true" doc:"Runs on the user's own machine, at its usual port."`
	Health          health  `json:"health" required:"true"`
}

type health struct {
	_ struct{} `json:"-" name:"LlmProviderHealth"`

	Status string     `json:"status" required:"true" enum:"ok,degraded,down,unknown" doc:"As observed by this deployment's calls; unknown without calls and for the company's own providers."`
	Since  *time.Time `json:"since,omitzero"`
}

type providerList struct {
	_ struct{} `json:"-" name:"LlmProviders"`

	Providers []Provider `json:"providers" required:"true"`
}

func (s *Service) listProviders(ctx context.Context, who authz.Caller, _ *struct{}) (providerList, error) {
	kept, err := s.Credentials.All(ctx, who.TenantID)
	if err != nil {
		return providerList{}, err
	}
	out := providerList{}
	seen := map[string]bool{}
	add := func(p Provider) error {
		if seen[p.ID] {
			return nil
		}
		seen[p.ID] = true
		p.Canonical = p.ID
		c := kept[p.ID]
		to, found, err := s.Resolver.Provider(ctx, who.TenantID, p.ID)
		if err != nil {
			return err
		}
		if c != nil && c.Origin != model.OriginPlatform {
			p.DefaultEndpoint = c.Endpoint
		}
		level := levelPlatform
		if to.OwnKey {
			level = levelTenant
		}
		p.Health = health{Status: model.HealthUnknown}
		if p.Configured = found; found {
			p.ConfiguredLevel = &level
			p.Health = s.health(to)
		}
		out.Providers = append(out.Providers, p)
		return nil
	}
	for _, p := range s.Resolver.Catalogue.Providers() {
		if err := add(Provider{ID: p.Name, Name: p.Title, DefaultEndpoint: p.Public}); err != nil {
			return providerList{}, err
		}
	}
	for _, p := range model.Publics() {
		if err := add(Provider{ID: p.ID, Name: p.Name, DefaultEndpoint: p.Endpoint, Local: p.Local}); err != nil {
			return providerList{}, err
		}
	}
	for _, name := range tenantProviders(kept) {
		if err := add(Provider{ID: name, Name: name}); err != nil {
			return providerList{}, err
		}
	}
	return out, nil
}

// tenantProviders returns the names of the providers that are not the operator's and
// that the tenant has a key for, sorted.
func tenantProviders(kept map[string]*model.Credential) (names []string) {
	for name, c := range kept {
		if c.Origin != model.OriginPlatform {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// health returns the health of a provider. It is unknown for tenants' own endpoints,
// because the observations of one tenant must not be visible to another.
func (s *Service) health(to model.Target) health {
	if s.Health == nil || to.Guarded {
		return health{Status: model.HealthUnknown}
	}
	status, since := s.Health.Health(to.Provider)
	out := health{Status: cmp.Or(status, model.HealthUnknown)}
	if !since.IsZero() {
		out.Since = &since
	}
	return out
}

// PlatformDefaults are the models that are used if none is named.
type PlatformDefaults struct {
	_ struct{} `json:"-" name:"PlatformLlmDefaults"`

	DefaultProvider  *string `json:"default_provider" required:"true"`
	DefaultModel     *string `json:"default_model" required:"true" doc:"As <provider>/<model>."`
	DefaultEndpoint  *string `json:"default_endpoint" required:"true" doc:"Null if the operator of this deployment chose it."`
	FallbackProvider *string `json:"fallback_provider" required:"true"`
	FallbackModel    *string `json:"fallback_model" required:"true" doc:"As <provider>/<model>."`
}

func (s *Service) defaults(context.Context, authz.Caller, *struct{}) (PlatformDefaults, error) {
	out := PlatformDefaults{}
	out.DefaultProvider, out.DefaultModel = s.split(s.defaultRef())
	out.FallbackProvider, out.FallbackModel = s.split(s.Resolver.Catalogue.Fallback())
	for _, p := range s.Resolver.Catalogue.Providers() {
		if p.Public != "" && out.DefaultProvider != nil && p.Name == *out.DefaultProvider {
			out.DefaultEndpoint = &p.Public
		}
	}
	return out, nil
}

// defaultRef returns the model of agents that name none.
func (s *Service) defaultRef() string { return cmp.Or(s.Resolver.Catalogue.Default(), model.EchoRef) }

// voice returns the models of speech and transcription.
func (s *Service) voice() Voice {
	if s.Voice == nil {
		return Voice{}
	}
	return s.Voice()
}

// split returns the provider and the full name of a model, nil if it is unknown.
func (s *Service) split(ref string) (provider, name *string) {
	if ref == "" {
		return nil, nil
	}
	to, err := s.Resolver.Catalogue.Lookup(ref)
	if err != nil {
		return nil, nil
	}
	whole := to.Provider + "/" + to.Model
	return &to.Provider, &whole
}

func noProvider(name string) error {
	return fault.New(fault.NotFound, "", "Unknown provider %q; GET /api/v1/providers lists the known ones.",
		strings.ToValidUTF8(name, "\uFFFD"))
}
