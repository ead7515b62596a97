package model

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/fault"
	"agentd/internal/secret"
)

// The providers that an agent's model config may name (interface.md section 2,
// AgentModelConfig), and the names that targets carry.
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
	APIKeyRef   string `json:"api_key_ref,omitzero"`  // names a credential of the tenant; only with EndpointURL

	Capabilities jsontext.Value `json:"capabilities,omitzero"` // see ParseCapabilities
}

// Credentials finds the keys that tenants keep for their own endpoints. It
// refuses with fault.NotFound where the tenant has no such credential, or keeps
// it for another endpoint.
type Credentials interface {
	Key(ctx context.Context, tenant, ref, endpoint string) (secret.String, error)
}

// Resolver turns what an agent asks for into where a request goes.
type Resolver struct {
	Catalogue   *Catalogue
	Credentials Credentials // nil: tenants keep no credentials here
}

// Resolve finds the target of a spec. An endpoint that the spec names is the
// tenant's choice: its target is Guarded and carries the tenant's key or none,
// never the operator's. Errors: *Error with the code provider_not_configured;
// whatever else the credentials port fails with, unchanged.
func (r Resolver) Resolve(ctx context.Context, tenant string, spec Spec) (Target, error) {
	t, err := r.resolve(ctx, tenant, spec)
	if err != nil {
		return Target{}, err
	}
	said := ParseCapabilities(spec.Capabilities)
	if t.Context == 0 || said.Context > 0 && said.Context < t.Context { // the operator knows better how much there is
		t.Context = said.Context
	}
	said.Context = 0
	t.Capabilities = said.Over(t.Capabilities)
	return t, nil
}

func (r Resolver) resolve(ctx context.Context, tenant string, spec Spec) (Target, error) {
	switch {
	case spec.EndpointURL != "":
		return r.own(ctx, tenant, spec)
	case spec.ModelRef == EchoRef:
		return echoTarget(), nil
	case spec.Provider == Custom:
		return Target{}, notConfigured("The model provider custom needs an endpoint_url, or the model_ref %s.", EchoRef)
	case spec.Provider != OpenAICompat && spec.Provider != "":
		return Target{}, notConfigured("The model provider %q is not known; use %s or %s.", spec.Provider, OpenAICompat, Custom)
	}
	return r.Catalogue.Lookup(spec.ModelRef)
}

// own resolves a spec that names its endpoint.
func (r Resolver) own(ctx context.Context, tenant string, spec Spec) (Target, error) {
	if spec.ModelRef == "" {
		return Target{}, notConfigured("The agent names an endpoint_url but no model; set model_ref to the model's name there.")
	}
	t := Target{Provider: Custom, Model: spec.ModelRef, BaseURL: trimBase(spec.EndpointURL), Guarded: true}
	if spec.APIKeyRef == "" {
		return t, nil
	}
	if r.Credentials == nil {
		return Target{}, noCredential(spec.APIKeyRef)
	}
	key, err := r.Credentials.Key(ctx, tenant, spec.APIKeyRef, t.BaseURL)
	if fault.Is(err, fault.NotFound) {
		return Target{}, noCredential(spec.APIKeyRef)
	}
	if err != nil {
		return Target{}, err
	}
	t.APIKey = key
	return t, nil
}

func noCredential(ref string) *Error {
	return notConfigured("There is no such credential as %q for this endpoint in this company; store one, or leave out api_key_ref.", ref)
}

// trimBase takes off what people paste after the part that ends in /v1.
func trimBase(url string) string {
	url = strings.TrimRight(url, "/")
	return strings.TrimSuffix(url, "/chat/completions")
}

func notConfigured(format string, args ...any) *Error {
	return &Error{Code: "provider_not_configured", Detail: fmt.Sprintf(format, args...)}
}
