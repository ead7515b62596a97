package modeladmin

import (
	"context"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/operation/setting"
)

// Defaults are the operator's keys and default models that were set while the program ran.
type Defaults struct {
	Keys          map[string]Key `json:"keys"`           // by provider
	DefaultModel  string         `json:"default_model"`  // <provider>/<model>; "": the configured one
	FallbackModel string         `json:"fallback_model"` // as DefaultModel
}

// Key is the operator's key of a provider, for one endpoint.
type Key struct {
	Endpoint string        `json:"endpoint"` // in the form of model.NormalizeEndpoint
	APIKey   secret.String `json:"api_key"`
}

// DefaultKeys is what the operator set about keys and default models.
type DefaultKeys struct {
	_ struct{} `json:"-" name:"AdminLlmDefaults"`

	Providers []ProviderKey `json:"providers" required:"true"`
	ModelConfig
}

// ProviderKey is the state of the operator's key of a provider.
type ProviderKey struct {
	_ struct{} `json:"-" name:"AdminLlmDefaultKey"`

	ProviderID string  `json:"provider_id" required:"true"`
	Configured bool    `json:"configured" required:"true" doc:"The operator has a key for it."`
	KeyHint    *string `json:"key_hint" required:"true" doc:"The end of the key. Null: there is none."`
	Source     *string `json:"source" required:"true" enum:"setting,configuration" doc:"Where the key comes from. Null: there is none."`
}

// ModelConfig is the models that are used where none is named, or none answers.
type ModelConfig struct {
	_ struct{} `json:"-" name:"AdminLlmModelConfig"`

	DefaultProvider  *string `json:"default_provider" required:"true"`
	DefaultModel     *string `json:"default_model" required:"true" doc:"As <provider>/<model>. Null: there is no model."`
	FallbackProvider *string `json:"fallback_provider" required:"true"`
	FallbackModel    *string `json:"fallback_model" required:"true" doc:"As <provider>/<model>. Null: there is none."`
}

type keyIn struct {
	ID   string `path:"provider" doc:"Id of a provider of the configuration, an added one, or a well-known public one."`
	Body struct {
		_ struct{} `json:"-" name:"AdminLlmDefaultSet"`

		APIKey string `json:"api_key" required:"true" minLength:"10" maxLength:"500" doc:"10 to 500 characters. Stored encrypted, never shown again."`
	}
}

type updated struct {
	_ struct{} `json:"-" name:"AdminLlmDefaultUpdated"`

	Updated bool `json:"updated" required:"true"`
}

type configIn struct {
	Body struct {
		_ struct{} `json:"-" name:"AdminLlmModelConfigUpdate"`

		DefaultProvider  *string `json:"default_provider,omitzero" doc:"The provider of default_model, where that does not begin with it."`
		DefaultModel     *string `json:"default_model,omitzero" maxLength:"300" doc:"The model of new agents that name none, as <provider>/<model>. Empty: the configured one. Absent: unchanged."`
		FallbackProvider *string `json:"fallback_provider,omitzero" doc:"The provider of fallback_model, where that does not begin with it."`
		FallbackModel    *string `json:"fallback_model,omitzero" maxLength:"300" doc:"The model that proxied calls ask if the requested one does not answer. Empty: the configured one. Absent: unchanged."`
	}
}

func (s *Service) defaultRoutes() []route.Route {
	const all = "/llm-defaults"
	return []route.Route{
		route.Action(setting.Operation("GET", all, "getAdminLlmDefaults", "List the platform's keys of providers",
			"Keys are not shown, only whether there is one."), s.getDefaults),
		route.Action(setting.Operation("PUT", all+"/{provider}", "setAdminLlmDefault", "Set the platform's key of a provider",
			"It is used for all companies that have no key of their own, on every node within two seconds, and sent only to the provider's "+
				"present endpoint. With it the models of a well-known public provider can be called.", 404), s.putKey),
		route.Action(setting.Operation("DELETE", all+"/{provider}", "deleteAdminLlmDefault", "Delete the platform's key of a provider",
			"The key of the configuration is used again, if there is one.", 404), s.deleteKey),
		route.Action(setting.Operation("PUT", all+"/model-config", "setAdminModelConfig", "Set the default models", ""), s.putConfig),
	}
}

func (s *Service) getDefaults(context.Context, authz.Caller, *struct{}) (DefaultKeys, error) {
	now := s.defaults.Get()
	out := DefaultKeys{Providers: []ProviderKey{}, ModelConfig: s.config(now)}
	for _, name := range s.names() {
		p, ok := s.shown(name)
		if !ok {
			continue
		}
		key := ProviderKey{ProviderID: name, Configured: p.Configured, KeyHint: p.KeyHint}
		if source := "configuration"; p.Configured {
			if set, ok := now.Keys[name]; ok && set.Endpoint == s.endpointOf(name) {
				source = "setting"
			}
			key.Source = &source
		}
		out.Providers = append(out.Providers, key)
	}
	return out, nil
}

// config returns the default models as they are with a value.
func (s *Service) config(v *Defaults) (out ModelConfig) {
	o := s.offering(s.providers.Get(), v, s.pricing.Get(), s.models.Get())
	c := &model.Catalogue{}
	if c.Replace(o) != nil {
		c = s.Catalogue
	}
	split := func(ref string) (provider, name *string) {
		if to, err := c.Lookup(ref); ref != "" && err == nil {
			whole := to.Provider + "/" + to.Model
			return &to.Provider, &whole
		}
		return nil, nil
	}
	out.DefaultProvider, out.DefaultModel = split(c.Default())
	out.FallbackProvider, out.FallbackModel = split(c.Fallback())
	return out
}

func (s *Service) putKey(ctx context.Context, who authz.Caller, in *keyIn) (updated, error) {
	out := updated{Updated: true}
	if err := checkKey(in.Body.APIKey); err != nil {
		return out, err
	}
	endpoint := s.endpointOf(in.ID)
	if endpoint == "" {
		return out, fault.NewNotFound("provider")
	}
	return out, s.defaults.Update(ctx, who, func(v *Defaults) error {
		if v.Keys == nil {
			v.Keys = map[string]Key{}
		}
		v.Keys[in.ID] = Key{Endpoint: endpoint, APIKey: secret.New(in.Body.APIKey)}
		return nil
	}, func(*Defaults) any { return out })
}

func (s *Service) deleteKey(ctx context.Context, who authz.Caller, in *idIn) (deleted, error) {
	out := deleted{Deleted: true, ProviderID: in.ID}
	return out, s.defaults.Update(ctx, who, func(v *Defaults) error {
		if _, ok := v.Keys[in.ID]; !ok {
			return fault.NewNotFound("key")
		}
		delete(v.Keys, in.ID)
		return nil
	}, func(*Defaults) any { return out })
}

func (s *Service) putConfig(ctx context.Context, who authz.Caller, in *configIn) (out ModelConfig, err error) {
	b := &in.Body
	err = s.defaults.Update(ctx, who, func(v *Defaults) error {
		if err := name(&v.DefaultModel, "default", b.DefaultProvider, b.DefaultModel); err != nil {
			return err
		}
		return name(&v.FallbackModel, "fallback", b.FallbackProvider, b.FallbackModel)
	}, func(v *Defaults) any {
		out = s.config(v)
		return out
	})
	return out, err
}

// name sets a model by its name and its provider's; nothing if neither is there.
func name(ref *string, which string, provider, named *string) error {
	switch {
	case provider != nil && named == nil:
		return fault.BadFields(fault.Field{Field: which + "_model", Message: "is required with " + which + "_provider"})
	case named == nil:
		return nil
	case provider == nil || *named == "" || strings.HasPrefix(*named, *provider+"/"):
		*ref = *named
	default:
		*ref = *provider + "/" + *named
	}
	return nil
}

// checkDefaults checks that the default models can be called.
func (s *Service) checkDefaults(v *Defaults) error {
	o := s.offering(s.providers.Get(), v, s.pricing.Get(), s.models.Get())
	for _, set := range []struct{ field, ref, used string }{
		{"default_model", v.DefaultModel, o.Default}, {"fallback_model", v.FallbackModel, o.Fallback},
	} {
		if set.ref != "" && set.ref != set.used {
			return fault.BadFields(fault.Field{Field: set.field, Message: "must be <provider>/<model>, of a provider that can be called"})
		}
	}
	if err := o.Check(); err != nil {
		return invalid("", err)
	}
	return nil
}
