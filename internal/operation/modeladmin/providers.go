package modeladmin

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/model"
	"agentd/internal/operation/setting"
)

const (
	maxCustoms     = 200
	maxAllowed     = 1000
	minKey, maxKey = 10, 500 // characters
	openAICompat   = "openai_compat"
)

// Customs are the providers that were added while the program ran.
type Customs struct {
	Providers []Custom `json:"providers"`
}

// Custom is a provider that was added while the program ran.
type Custom struct {
	ID           string        `json:"id"`
	Name         string        `json:"name"`
	Endpoint     string        `json:"default_endpoint"`
	Wire         model.Wire    `json:"wire,omitzero"` // "": that of the endpoint
	NeedsKey     bool          `json:"requires_api_key"`
	Enabled      bool          `json:"enabled"`
	Allowed      []string      `json:"model_allowlist"`
	Capabilities schema.Object `json:"default_capabilities"`
	APIKey       secret.String `json:"api_key"`
	CreatedAt    time.Time     `json:"created_at"`
	UpdatedAt    time.Time     `json:"updated_at"`
}

func (c *Custom) provider() model.Provider {
	return model.Provider{
		Name: c.ID, Title: c.Name, BaseURL: c.Endpoint, APIKey: c.APIKey, Wire: c.Wire, Allowed: c.Allowed, NeedsKey: c.NeedsKey,
		Capabilities: jsontext.Value(c.Capabilities), Screened: true,
	}
}

// Provider is a model provider as the operator sees it.
type Provider struct {
	_ struct{} `json:"-" name:"AdminLlmProvider"`

	ID           string        `json:"id" required:"true" doc:"The provider in the names of its models: <id>/<model>."`
	Name         string        `json:"name" required:"true" doc:"Display name."`
	Canonical    string        `json:"canonical" required:"true" doc:"Protocol of its endpoint; openai_compat is chat completions."`
	Endpoint     string        `json:"default_endpoint" required:"true" doc:"Its address."`
	Custom       bool          `json:"custom" required:"true" doc:"It was added with this API, and can be changed by it."`
	Enabled      bool          `json:"enabled" required:"true" doc:"Its models can be called, if a key is there where one is needed."`
	NeedsKey     bool          `json:"requires_api_key" required:"true" doc:"Calls without a key are refused before they are made."`
	Configured   bool          `json:"configured" required:"true" doc:"The operator has a key for it."`
	KeyHint      *string       `json:"key_hint" required:"true" doc:"The end of the operator's key. Null: there is none."`
	Allowed      []string      `json:"model_allowlist" required:"true" doc:"The only models that can be called. Empty: all of the endpoint's."`
	Capabilities schema.Object `json:"default_capabilities" required:"true" doc:"Of its models that the catalogue does not list."`
	Health       string        `json:"health" required:"true" enum:"ok,degraded,down,unknown" doc:"As observed by this node's own calls."`
	CreatedAt    *time.Time    `json:"created_at,omitzero" doc:"Of custom providers."`
	UpdatedAt    *time.Time    `json:"updated_at,omitzero" doc:"Of custom providers."`
}

type providerList struct {
	_ struct{} `json:"-" name:"AdminLlmProviders"`

	Providers []Provider `json:"providers" required:"true"`
}

type createIn struct {
	Body struct {
		_ struct{} `json:"-" name:"AdminLlmProviderCreate"`

		ID           string        `json:"id" required:"true" minLength:"1" maxLength:"64" doc:"1 to 64 characters of a-z, 0-9, dots, underscores and hyphens, beginning with a letter or digit."`
		Name         string        `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Display name."`
		Endpoint     string        `json:"default_endpoint" required:"true" maxLength:"2048" doc:"Its address, as in https://host/v1. It must be public, unless AGENTD_EGRESS_ALLOW allows it."`
		Canonical    string        `json:"canonical,omitzero" enum:"openai_compat,openai_chat,openai_responses,anthropic,gemini,azure_openai,bedrock" doc:"Protocol of its endpoint. Default: that of a known address, else openai_compat."`
		NeedsKey     bool          `json:"requires_api_key,omitzero" doc:"Refuse calls without a key before they are made. Default: false."`
		Capabilities schema.Object `json:"default_capabilities,omitzero" doc:"Options of its models that the catalogue does not list, as in the providers file: thinking, reasoning_effort, thinking_budget, images."`
		APIKey       string        `json:"api_key,omitzero" doc:"The operator's key, 10 to 500 characters. Stored encrypted, never shown again."`
	}
}

type changeIn struct {
	ID   string `path:"provider" doc:"Id of the provider."`
	Body struct {
		_ struct{} `json:"-" name:"AdminLlmProviderUpdate"`

		Name         *string        `json:"name,omitzero" minLength:"1" maxLength:"200" doc:"Display name."`
		Enabled      *bool          `json:"enabled,omitzero" doc:"Whether its models can be called."`
		Allowed      *[]string      `json:"model_allowlist,omitzero" maxItems:"1000" doc:"The only models that can be called. Empty: all of the endpoint's."`
		NeedsKey     *bool          `json:"requires_api_key,omitzero" doc:"Refuse calls without a key before they are made."`
		Canonical    *string        `json:"canonical,omitzero" enum:"openai_compat,openai_chat,openai_responses,anthropic,gemini,azure_openai,bedrock" doc:"Protocol of its endpoint."`
		Capabilities *schema.Object `json:"default_capabilities,omitzero" doc:"Options of its models that the catalogue does not list."`
		APIKey       *string        `json:"api_key,omitzero" doc:"The operator's key, 10 to 500 characters. Stored encrypted, never shown again. Empty: it is removed."`
	}
}

type idIn struct {
	ID string `path:"provider" doc:"Id of the provider."`
}

type deleted struct {
	_ struct{} `json:"-" name:"AdminLlmProviderDeleted"`

	Deleted    bool   `json:"deleted" required:"true"`
	ProviderID string `json:"provider_id" required:"true"`
}

func (s *Service) providerRoutes() []route.Route {
	const all, one = "/providers", "/providers/{provider}"
	create := setting.Operation("POST", all, "createAdminProvider", "Add a model provider",
		"Its models can be called as <id>/<model> by every company, on every node within two seconds. "+
			"It is called through the guarded client.", 400)
	create.Status = 201
	return []route.Route{
		route.Action(setting.Operation("GET", all, "listAdminProviders", "List model providers with the operator's settings",
			"Those of the configuration, those that were added, and the well-known public ones."), s.listProviders),
		route.Action(create, s.createProvider),
		route.Action(setting.Operation("GET", one, "getAdminProvider", "Get a model provider with the operator's settings", "",
			404), s.getProvider),
		route.Action(setting.Operation("PATCH", one, "updateAdminProvider", "Change an added model provider",
			"A change acts on every node within two seconds. Providers of the configuration cannot be changed.", 404), s.changeProvider),
		route.Action(setting.Operation("DELETE", one, "deleteAdminProvider", "Remove an added model provider",
			"Runs of agents whose model it served fail with model_provider_missing.", 404), s.deleteProvider),
	}
}

func (s *Service) listProviders(context.Context, authz.Caller, *struct{}) (providerList, error) {
	out := providerList{Providers: []Provider{}}
	for _, name := range s.names() {
		if p, ok := s.shown(name); ok {
			out.Providers = append(out.Providers, p)
		}
	}
	return out, nil
}

func (s *Service) getProvider(_ context.Context, _ authz.Caller, in *idIn) (Provider, error) {
	p, ok := s.shown(in.ID)
	if !ok {
		return Provider{}, fault.NewNotFound("provider")
	}
	return p, nil
}

// shown returns a provider by its name.
func (s *Service) shown(name string) (Provider, bool) {
	if c := s.configured(name); c != nil {
		p := s.describe(c)
		p.Enabled = true
		return p, true
	}
	customs := s.providers.Get().Providers
	if i := indexOf(customs, name); i >= 0 {
		return s.shownCustom(&customs[i]), true
	}
	known, ok := model.PublicProvider(name)
	if !ok {
		return Provider{}, false
	}
	p := s.describe(&model.Provider{Name: name, Title: known.Name, BaseURL: known.Endpoint, Wire: known.Wire, NeedsKey: !known.Local})
	p.Enabled = p.Configured
	return p, true
}

func (s *Service) shownCustom(c *Custom) Provider {
	configured := c.provider()
	p := s.describe(&configured)
	p.Custom, p.Enabled, p.CreatedAt, p.UpdatedAt = true, c.Enabled, &c.CreatedAt, &c.UpdatedAt
	return p
}

func (s *Service) describe(c *model.Provider) Provider {
	with := *c
	useKey(&with, s.defaults.Get())
	p := Provider{
		ID: c.Name, Name: cmp.Or(c.Title, c.Name), Canonical: string(cmp.Or(c.Wire, model.WireAt(c.Name, c.BaseURL), openAICompat)),
		Endpoint: c.BaseURL, NeedsKey: c.NeedsKey, Allowed: append([]string{}, c.Allowed...), Capabilities: schema.Object(c.Capabilities),
		Configured: !with.APIKey.Empty() || with.AWS != nil || with.Entra != nil, Health: model.HealthUnknown,
	}
	if p.Canonical == string(model.WireChat) {
		p.Canonical = openAICompat
	}
	if hint := hintOf(with.APIKey); hint != "" {
		p.KeyHint = &hint
	}
	if s.Health != nil {
		p.Health = s.Health(c.Name)
	}
	return p
}

// hintOf returns the end of a key; "" if there is none. Short keys have no end that can
// be shown.
func hintOf(key secret.String) string {
	k := key.Reveal()
	switch {
	case k == "":
		return ""
	case len(k) < 20:
		return "…"
	}
	return "…" + k[len(k)-4:]
}

func indexOf(all []Custom, id string) int {
	return slices.IndexFunc(all, func(c Custom) bool { return c.ID == id })
}

var validID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// reserved are names with another meaning in the names of models.
var reserved = []string{model.DefaultProvider, model.Builtin, model.Custom, model.OpenAICompat, "agent", "team"}

func (s *Service) checkID(id string) error {
	if !validID.MatchString(id) || slices.Contains(reserved, id) {
		return fault.New(fault.Malformed, "invalid_provider",
			"%q cannot be the id of a provider: it must have 1 to 64 characters of a-z, 0-9, '.', '_' and '-', begin with a letter or digit, "+
				"and not be one of %v.", id, reserved)
	}
	if _, public := model.PublicProvider(id); public || s.configured(id) != nil {
		return fault.New(fault.Malformed, "provider_exists", "There is a provider %q already; choose another id.", id)
	}
	return nil
}

func wireOf(canonical string) model.Wire {
	if canonical == openAICompat {
		return model.WireChat
	}
	return model.Wire(canonical)
}

func checkKey(key string) error {
	if n := len(key); n != 0 && (n < minKey || n > maxKey) {
		return fault.BadFields(fault.Field{Field: "api_key", Message: "must have 10 to 500 characters"})
	}
	for _, r := range key {
		if r <= ' ' || r > '~' {
			return fault.BadFields(fault.Field{Field: "api_key", Message: "must not contain spaces, control characters or non-ASCII characters"})
		}
	}
	return nil
}

// checkEndpoint checks an address and where it leads to.
func (s *Service) checkEndpoint(ctx context.Context, endpoint string) (normal string, err error) {
	if err := s.CheckURL(endpoint); err != nil {
		return "", invalid("default_endpoint", err)
	}
	normal, ok := model.NormalizeEndpoint(endpoint)
	if !ok {
		return "", fault.BadFields(fault.Field{
			Field:   "default_endpoint",
			Message: "must be a URL like https://host/v1, without user name, query, fragment, escapes or dot segments in its path",
		})
	}
	return normal, s.Egress.CheckNew(ctx, "", nil, []egress.Address{{Field: "default_endpoint", URL: normal}})
}

func (s *Service) createProvider(ctx context.Context, who authz.Caller, in *createIn) (out Provider, err error) {
	b := &in.Body
	if err := s.checkID(b.ID); err != nil {
		return out, err
	}
	if err := checkKey(b.APIKey); err != nil {
		return out, err
	}
	endpoint, err := s.checkEndpoint(ctx, b.Endpoint)
	if err != nil {
		return out, err
	}
	now := s.Clock.Now()
	c := Custom{
		ID: b.ID, Name: b.Name, Endpoint: endpoint, Wire: wireOf(b.Canonical), NeedsKey: b.NeedsKey, Enabled: true,
		Capabilities: b.Capabilities, APIKey: secret.New(b.APIKey), CreatedAt: now, UpdatedAt: now,
	}
	err = s.providers.Update(ctx, who, func(v *Customs) error {
		if indexOf(v.Providers, c.ID) >= 0 {
			return fault.New(fault.Malformed, "provider_exists", "There is a provider %q already; choose another id.", c.ID)
		}
		if len(v.Providers) >= maxCustoms {
			return fault.New(fault.Invalid, "limit_reached", "%d providers were added, which is the limit; remove an unused one first.", maxCustoms)
		}
		v.Providers = append(v.Providers, c)
		return s.checkCustoms(v)
	}, func(*Customs) any {
		out = s.shownCustom(&c)
		return out
	})
	return out, err
}

// checkCustoms checks the providers as the catalogue would have them.
func (s *Service) checkCustoms(v *Customs) error {
	if err := s.offering(v, s.defaults.Get(), s.pricing.Get(), s.models.Get()).Check(); err != nil {
		return invalid("", err)
	}
	return nil
}

func (s *Service) changeProvider(ctx context.Context, who authz.Caller, in *changeIn) (out Provider, err error) {
	b := &in.Body
	if b.APIKey != nil {
		if err := checkKey(*b.APIKey); err != nil {
			return out, err
		}
	}
	if b.Allowed != nil && len(*b.Allowed) > maxAllowed {
		return out, fault.BadFields(fault.Field{Field: "model_allowlist", Message: "has more than 1000 models"})
	}
	var changed Custom
	err = s.providers.Update(ctx, who, func(v *Customs) error {
		i := indexOf(v.Providers, in.ID)
		if i < 0 {
			return fault.NewNotFound("provider")
		}
		c := &v.Providers[i]
		set(&c.Name, b.Name)
		set(&c.Enabled, b.Enabled)
		set(&c.Allowed, b.Allowed)
		set(&c.NeedsKey, b.NeedsKey)
		set(&c.Capabilities, b.Capabilities)
		if b.Canonical != nil {
			c.Wire = wireOf(*b.Canonical)
		}
		if b.APIKey != nil {
			c.APIKey = secret.New(*b.APIKey)
		}
		c.UpdatedAt = s.Clock.Now()
		changed = *c
		return s.checkCustoms(v)
	}, func(*Customs) any {
		out = s.shownCustom(&changed)
		return out
	})
	return out, err
}

// set replaces a field where a request has a value for it.
func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func (s *Service) deleteProvider(ctx context.Context, who authz.Caller, in *idIn) (deleted, error) {
	out := deleted{Deleted: true, ProviderID: in.ID}
	err := s.providers.Update(ctx, who, func(v *Customs) error {
		i := indexOf(v.Providers, in.ID)
		if i < 0 {
			return fault.NewNotFound("provider")
		}
		v.Providers = slices.Delete(v.Providers, i, i+1)
		return nil
	}, func(*Customs) any { return out })
	return out, err
}
