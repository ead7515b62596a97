package model

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
)

// The providers that an agent's model config may name, and the names that
// targets carry.
const (
	OpenAICompat    = "openai_compat" // the catalogue, or the agent's own endpoint
	Custom          = "custom"        // the agent's own endpoint, or a builtin model
	DefaultProvider = "default"       // whose models need no prefix
	Builtin         = "builtin"       // models that live in this process
	EchoRef         = Builtin + "/echo"
)

// Spec is which model an agent, a session or a fallback asks for.
type Spec struct {
	Provider    string `json:"provider,omitzero"`     // openai_compat | custom; "" is openai_compat
	ModelRef    string `json:"model_ref,omitzero"`    // <provider>/<model>, or a bare name; "": the default model
	EndpointURL string `json:"endpoint_url,omitzero"` // the agent's own endpoint; "": the catalogue
	APIKeyRef   string `json:"api_key_ref,omitzero"`  // names a credential of the tenant

	// Remembered is the operator's provider that served the model when it was named;
	// "": it is not known. The model is never looked for at another.
	Remembered string `json:"remembered,omitzero"`

	Capabilities jsontext.Value `json:"capabilities,omitzero"` // see ParseCapabilities
}

// The origins of a credential's endpoint.
const (
	OriginPlatform = "platform" // a provider of the catalogue
	OriginPublic   = "public"   // a provider that is known without being configured
	OriginOwn      = "own"      // the tenant named it
)

// Credential is a key that a tenant stored under a name.
type Credential struct {
	Name string // of the provider
	// Endpoint is the only address that the key is sent to, in the form of
	// NormalizeEndpoint.
	Endpoint string
	Origin   string // of the endpoint: one of the Origin constants
	// Shared keys are used for all models that are named <Name>/<model>. Others
	// are used only where api_key_ref names them.
	Shared bool
	Key    secret.String
	Wire   Wire // "": see WireAt
	Access Access
	Limits Limits
}

// Credentials finds the credentials of tenants. It is used for every model call,
// so it must answer from memory.
type Credentials interface {
	// Kept returns a tenant's credential by its name; nil if there is none. The
	// caller must not change it.
	Kept(ctx context.Context, tenant, name string) (*Credential, error)
}

// Resolver resolves the model that an agent names to the target of a request.
//
// A key is sent only to its own endpoint: the operator's keys to the operator's
// endpoints, a tenant's key to the endpoint that it was stored for, spelled as it
// was stored. A target whose address a tenant chose is Guarded.
type Resolver struct {
	Catalogue   *Catalogue
	Credentials Credentials // nil: tenants keep no credentials here
}

// Resolve returns the target of a spec. Errors: *Error with the codes
// provider_not_configured and CodeProviderMissing; those of the credentials port, unchanged.
func (r Resolver) Resolve(ctx context.Context, tenant string, spec Spec) (Target, error) {
	t, err := r.resolve(ctx, tenant, spec)
	if err != nil {
		return Target{}, err
	}
	if t.NeedsKey && t.APIKey.Empty() && t.Access.AWS == nil && t.Access.Entra == nil {
		return Target{}, notConfigured("There is no key of the provider %q: store one with PUT /api/v1/llm-credentials/%s, "+
			"or ask the operator for one.", t.Provider, t.Provider)
	}
	if t.Guarded || t.Limits != (Limits{}) {
		t.TenantID = tenant
	}
	said := ParseCapabilities(spec.Capabilities)
	if t.Context == 0 || said.Context > 0 && said.Context < t.Context { // the operator's value is an upper limit
		t.Context = said.Context
	}
	said.Context = 0
	t.Capabilities = said.Over(t.Capabilities)
	if t.Capabilities.Budget == "" {
		t.Capabilities.Budget = budgets[t.Wire]
	}
	return t, nil
}

func (r Resolver) resolve(ctx context.Context, tenant string, spec Spec) (Target, error) {
	switch {
	case spec.EndpointURL != "":
		return r.own(ctx, tenant, spec)
	case spec.ModelRef == EchoRef:
		return echoTarget(), nil
	case spec.Provider != OpenAICompat && spec.Provider != Custom && spec.Provider != "":
		return Target{}, notConfigured("The model provider %q is not known; use %s or %s.", spec.Provider, OpenAICompat, Custom)
	case spec.APIKeyRef != "":
		return r.withKey(ctx, tenant, spec)
	case spec.Provider == Custom:
		return Target{}, notConfigured("The model provider custom needs an endpoint_url, an api_key_ref, or the model_ref %s.", EchoRef)
	}
	return r.named(ctx, tenant, spec.ModelRef, spec.Remembered)
}

// own resolves a spec that names its endpoint.
func (r Resolver) own(ctx context.Context, tenant string, spec Spec) (Target, error) {
	if spec.ModelRef == "" {
		return Target{}, notConfigured("The agent names an endpoint_url but no model; set model_ref to the model's name there.")
	}
	t := Target{Provider: Custom, Model: spec.ModelRef, BaseURL: trimBase(spec.EndpointURL), Guarded: true, Wire: WireAt("", spec.EndpointURL)}
	if normal, ok := NormalizeEndpoint(spec.EndpointURL); ok {
		r.Catalogue.complete(&t, publicAt(normal))
	}
	if spec.APIKeyRef == "" {
		return t, nil
	}
	c, err := r.credential(ctx, tenant, spec.APIKeyRef)
	if err != nil {
		return Target{}, err
	}
	if at, ok := NormalizeEndpoint(spec.EndpointURL); !ok || at != c.Endpoint {
		return Target{}, elsewhere(c.Name)
	}
	t.BaseURL, t.Wire = c.Endpoint, c.wire()
	t.use(c)
	return t, nil
}

// withKey resolves a spec that names a credential and no endpoint: the endpoint
// is the credential's.
func (r Resolver) withKey(ctx context.Context, tenant string, spec Spec) (Target, error) {
	c, err := r.credential(ctx, tenant, spec.APIKeyRef)
	if err != nil {
		return Target{}, err
	}
	name, model := c.Name, spec.ModelRef
	if first, rest, ok := strings.Cut(spec.ModelRef, "/"); ok {
		switch _, platform := r.Catalogue.Endpoint(first); {
		case first == c.Name:
			model = rest
		case platform:
			name, model = first, rest
		default:
			other, err := r.Credentials.Kept(ctx, tenant, first)
			if err != nil {
				return Target{}, err
			}
			if other != nil { // the model of that credential is meant, which has its own key
				return Target{}, elsewhere(c.Name)
			}
		}
	}
	if model == "" {
		return Target{}, notConfigured("The agent names the credential %q but no model; set model_ref to %s/<model>.", c.Name, c.Name)
	}
	if name == c.Name && c.Origin != OriginPlatform {
		return r.tenants(c, model), nil
	}
	t, err := r.Catalogue.Lookup(name + "/" + model)
	if err != nil || !r.Catalogue.At(name, c.Endpoint) {
		return Target{}, elsewhere(c.Name)
	}
	t.use(c)
	return t, nil
}

// named resolves a model's name alone: by a provider of which the tenant has a
// key and which the operator does not serve, or by the catalogue.
func (r Resolver) named(ctx context.Context, tenant, ref, remembered string) (Target, error) {
	if r.Credentials == nil {
		return r.Catalogue.lookup(ref, remembered)
	}
	if ref == "" {
		ref = r.Catalogue.Default()
	}
	first, rest, prefixed := strings.Cut(ref, "/")
	if prefixed && !r.Catalogue.lists(ref) {
		c, err := r.Credentials.Kept(ctx, tenant, first)
		if err != nil {
			return Target{}, err
		}
		if c != nil && c.Shared && c.Origin != OriginPlatform {
			if rest == "" {
				return Target{}, notConfigured("The model_ref %q names a provider but no model; write %s/<model>.", ref, first)
			}
			return r.tenants(c, rest), nil
		}
	}
	t, err := r.Catalogue.lookup(ref, remembered)
	if err != nil && remembered == "" {
		if known, ok := PublicProvider(first); ok && prefixed {
			return Target{}, notConfigured("There is no key of %s in this company: store one with PUT /api/v1/llm-credentials/%s.",
				known.Name, known.ID)
		}
	}
	if err != nil {
		return Target{}, err
	}
	return t, r.takeOwnKey(ctx, tenant, &t)
}

// takeOwnKey replaces the operator's key by the tenant's, if the tenant stored
// one for that endpoint.
func (r Resolver) takeOwnKey(ctx context.Context, tenant string, t *Target) error {
	if t.Provider == Builtin {
		return nil
	}
	c, err := r.Credentials.Kept(ctx, tenant, t.Provider)
	if err != nil || c == nil || !c.Shared || !r.Catalogue.At(t.Provider, c.Endpoint) {
		return err
	}
	t.use(c)
	t.Price = r.Catalogue.unmarked(t)
	return nil
}

// Provider returns the target of a provider, with the key that a call of its
// models would carry: the tenant's or the operator's. The target has no Model.
// It returns false if the provider is not served here.
func (r Resolver) Provider(ctx context.Context, tenant, name string) (Target, bool, error) {
	if r.Credentials != nil {
		c, err := r.Credentials.Kept(ctx, tenant, name)
		if err != nil {
			return Target{}, false, err
		}
		_, platform := r.Catalogue.Endpoint(name)
		if c != nil && c.Origin != OriginPlatform && (c.Shared || !platform) {
			t := r.tenants(c, "")
			t.TenantID = tenant
			return t, true, nil
		}
	}
	t, ok := r.Catalogue.Endpoint(name)
	if !ok || r.Credentials == nil {
		return t, ok, nil
	}
	return t, true, r.takeOwnKey(ctx, tenant, &t)
}

// tenants returns the target of a credential whose endpoint is not the
// operator's.
func (r Resolver) tenants(c *Credential, model string) Target {
	t := c.target()
	t.Model = model
	r.Catalogue.complete(&t, publicAt(c.Endpoint))
	return t
}

func (c *Credential) target() Target {
	t := Target{Provider: c.Name, BaseURL: c.Endpoint, Guarded: true, Wire: c.wire()}
	t.use(c)
	return t
}

// WithKey returns the target of a credential, without a model. Where the endpoint is the
// operator's, it is that of the provider as it is now.
func (c *Catalogue) WithKey(with *Credential) Target {
	if with.Origin != OriginPlatform {
		return with.target()
	}
	t, _ := c.Endpoint(with.Name) // of a provider that is gone: an endpoint without an address
	t.use(with)
	t.Limits = Limits{}
	return t
}

// wire returns the wire of a credential's own endpoint.
func (c *Credential) wire() Wire { return cmp.Or(c.Wire, WireAt(c.Name, c.Endpoint)) }

// use has a target called with a tenant's key.
func (t *Target) use(c *Credential) {
	t.APIKey, t.OwnKey, t.Limits = c.Key, true, c.Limits
	before := t.Access
	t.Access = c.Access
	t.Access.APIVersion = cmp.Or(c.Access.APIVersion, before.APIVersion)
	t.Access.Region = cmp.Or(c.Access.Region, before.Region)
}

func (r Resolver) credential(ctx context.Context, tenant, ref string) (*Credential, error) {
	if r.Credentials == nil {
		return nil, noCredential(ref)
	}
	c, err := r.Credentials.Kept(ctx, tenant, ref)
	if err == nil && c == nil {
		return nil, noCredential(ref)
	}
	return c, err
}

func noCredential(ref string) *Error {
	return notConfigured("There is no credential %q in this company: "+
		"store one with PUT /api/v1/llm-credentials/<provider>, or leave out api_key_ref.", ref)
}

func elsewhere(name string) *Error {
	return notConfigured("The credential %q was stored for another endpoint than this model's, "+
		"and a key goes only to the one it was stored for: store it again for this endpoint, or name another.", name)
}

// trimBase removes what people paste after the part that ends in /v1.
func trimBase(url string) string {
	url = strings.TrimRight(url, "/")
	for _, path := range []string{"/chat/completions", "/responses", "/messages"} {
		url = strings.TrimSuffix(url, path)
	}
	return url
}

func notConfigured(format string, args ...any) *Error {
	return &Error{Code: "provider_not_configured", Detail: fmt.Sprintf(format, args...)}
}
