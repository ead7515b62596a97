// Package loginprovider is the OpenID providers with which people sign in and that the
// operator adds while the program runs.
package loginprovider

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/operation/setting"
)

const (
	maxProviders = 20
	// shownSecret is the length from which a secret's last four characters are shown.
	shownSecret = 16
)

// issuers are the issuers of providers that everybody knows.
var issuers = map[string]string{"google": "https://accounts.google.com"}

// names are what people call them.
var names = map[string]string{"google": "Google"}

// Provider is a provider as it is kept.
type Provider struct {
	Name         string        `json:"name"`
	Issuer       string        `json:"issuer"`
	ClientID     string        `json:"client_id"`
	ClientSecret secret.String `json:"client_secret"`
	Enabled      bool          `json:"enabled"`
	Scopes       []string      `json:"scopes"`
}

// Settings are the providers by ID.
type Settings struct {
	Providers map[string]Provider `json:"providers"`
}

// Deps is what a Service needs.
type Deps struct {
	Settings *setting.Service
	// ValidID reports whether a provider may have an ID.
	ValidID func(id string) bool
	// CheckIssuer returns why a URL cannot be that of an issuer. Nil: all can.
	CheckIssuer func(ctx context.Context, url string) error
	// Changed is called with the providers that are enabled, whenever they change.
	Changed func(map[string]Provider)
}

// Service is the slice.
type Service struct {
	Deps
	section *setting.Section[Settings]
}

// New adds the section to the settings.
func New(d Deps) *Service {
	s := &Service{Deps: d}
	s.section = setting.Add(d.Settings, &setting.Section[Settings]{
		Name: "oauth-login-providers", Secret: true, Initial: Settings{Providers: map[string]Provider{}}, Check: s.check,
		Changed: func(v *Settings) {
			enabled := map[string]Provider{}
			for id, p := range v.Providers {
				if p.Enabled {
					enabled[id] = p
				}
			}
			if d.Changed != nil {
				d.Changed(enabled)
			}
		},
	})
	return s
}

// check validates providers, those of an import too.
func (s *Service) check(v *Settings) error {
	if len(v.Providers) > maxProviders {
		return fault.New(fault.Invalid, "limit_reached", "There can be %d sign-in providers at most.", maxProviders)
	}
	var wrong []fault.Field
	for _, id := range slices.Sorted(maps.Keys(v.Providers)) {
		p := v.Providers[id]
		if !s.ValidID(id) {
			wrong = append(wrong, fault.Field{Field: "providers." + id, Message: "is no ID: lower-case letters, digits and hyphens, at most 32"})
		}
		for field, value := range map[string]string{"client_id": p.ClientID, "issuer": p.Issuer} {
			if value == "" {
				wrong = append(wrong, fault.Field{Field: field, Message: "is required for " + id})
			}
		}
	}
	if wrong != nil {
		slices.SortFunc(wrong, func(a, b fault.Field) int { return cmp.Compare(a.Field, b.Field) })
		return fault.BadFields(wrong...)
	}
	return nil
}

type oneIn struct {
	Provider string `path:"provider"`
}

// Shown is a provider as the operator sees it.
type Shown struct {
	_ struct{} `json:"-" name:"AdminOAuthProvider"`

	Provider   string   `json:"provider" required:"true"`
	Enabled    bool     `json:"enabled" required:"true" doc:"People can sign in with it."`
	Configured bool     `json:"configured" required:"true" doc:"False: there is no such provider here."`
	Name       string   `json:"name,omitzero" doc:"What people see."`
	Issuer     string   `json:"issuer,omitzero"`
	ClientID   string   `json:"client_id,omitzero"`
	SecretHint *string  `json:"client_secret_hint" required:"true" doc:"The last four characters of the secret after four dots; null without a secret."`
	Scopes     []string `json:"scopes" required:"true" doc:"Null: openid, email and profile." nullable:"true"`
}

type putIn struct {
	Provider string `path:"provider"`
	Body     update
}

// update is a change of a provider.
type update struct {
	_ struct{} `json:"-" name:"AdminOAuthProviderUpdate"`

	ClientID     string   `json:"client_id,omitzero" maxLength:"500" doc:"Id of the client that this service is registered as at the provider. Required the first time."`
	ClientSecret string   `json:"client_secret,omitzero" maxLength:"1000" doc:"Its secret. Left out: it stays. Required the first time. Kept encrypted and never shown."`
	Enabled      *bool    `json:"enabled,omitzero" doc:"Whether people can sign in with it. Default: true."`
	Scopes       []string `json:"scopes,omitzero" maxItems:"20" doc:"What people are asked to share. Default: openid, email and profile."`
	Issuer       string   `json:"issuer,omitzero" maxLength:"2000" doc:"The provider's issuer, where its discovery document is. Required the first time, except for google."`
	Name         string   `json:"name,omitzero" maxLength:"100" doc:"What people see. Default: the id."`
}

// apply changes a provider.
func (b *update) apply(p *Provider) {
	p.ClientID, p.Issuer, p.Name = cmp.Or(b.ClientID, p.ClientID), cmp.Or(b.Issuer, p.Issuer), cmp.Or(b.Name, p.Name)
	if b.ClientSecret != "" {
		p.ClientSecret = secret.New(b.ClientSecret)
	}
	if b.Enabled != nil {
		p.Enabled = *b.Enabled
	}
	if b.Scopes != nil {
		p.Scopes = b.Scopes
	}
}

// Changed answers a change.
type Changed struct {
	_ struct{} `json:"-" name:"AdminOAuthProviderUpdated"`

	Provider   string `json:"provider" required:"true"`
	Enabled    bool   `json:"enabled" required:"true"`
	Configured bool   `json:"configured" required:"true"`
}

// Removed answers a removal.
type Removed struct {
	_ struct{} `json:"-" name:"AdminOAuthProviderRemoved"`

	Provider   string `json:"provider" required:"true"`
	Configured bool   `json:"configured" required:"true"`
}

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	const one = "/oauth-login-providers/{provider}"
	put := setting.Operation("PUT", one, "adminPutOAuthProvider", "Set a sign-in provider",
		"An OpenID provider with which people sign in, on every node within two seconds. What is left out stays. "+
			"One of the same id takes the place of a provider of AGENTD_OIDC_PROVIDERS. "+
			"Register PUBLIC_URL/api/v1/auth/oauth/{provider}/callback at the provider.", 404, 422)
	put.Partial, put.Example = true, `{"client_id": "agentd", "client_secret": "a secret of the provider", "issuer": "https://id.example.com"}`
	return []route.Route{
		route.Action(setting.Operation("GET", one, "adminGetOAuthProvider", "Get a sign-in provider",
			"Of a provider that was not set here it says so.", 404), s.get),
		route.Action(put, s.put),
		route.Action(setting.Operation("DELETE", one, "adminDeleteOAuthProvider", "Remove a sign-in provider",
			"People can no longer sign in with it; their accounts and their links to it stay.", 404), s.remove),
	}
}

func (s *Service) known(id string) error {
	if !s.ValidID(id) {
		return fault.New(fault.NotFound, "", "No sign-in provider can have this id: lower-case letters, digits and hyphens, at most 32.")
	}
	return nil
}

func (s *Service) get(_ context.Context, _ authz.Caller, in *oneIn) (Shown, error) {
	p, found := s.section.Get().Providers[in.Provider]
	if !found {
		return Shown{Provider: in.Provider}, s.known(in.Provider)
	}
	out := Shown{
		Provider: in.Provider, Enabled: p.Enabled, Configured: true, Name: p.Name, Issuer: p.Issuer, ClientID: p.ClientID, Scopes: p.Scopes,
	}
	if text := p.ClientSecret.Reveal(); text != "" {
		hint := "••••"
		if len(text) >= shownSecret {
			hint += text[len(text)-4:]
		}
		out.SecretHint = &hint
	}
	return out, nil
}

func (s *Service) put(ctx context.Context, who authz.Caller, in *putIn) (out Changed, err error) {
	if err := s.known(in.Provider); err != nil {
		return out, err
	}
	b := &in.Body
	if b.Issuer != "" && s.CheckIssuer != nil {
		if err := s.CheckIssuer(ctx, b.Issuer); err != nil {
			return out, fault.BadFields(fault.Field{Field: "issuer", Message: err.Error()})
		}
	}
	for i, scope := range b.Scopes {
		if scope == "" || len(scope) > 100 {
			return out, fault.BadFields(fault.Field{Field: fmt.Sprintf("scopes[%d]", i), Message: "must have 1 to 100 characters"})
		}
	}
	err = s.section.Update(ctx, who, func(v *Settings) error {
		if v.Providers == nil {
			v.Providers = map[string]Provider{}
		}
		p, found := v.Providers[in.Provider]
		if !found {
			p = Provider{Enabled: true, Issuer: issuers[in.Provider], Name: names[in.Provider]}
		}
		b.apply(&p)
		if err := s.complete(in.Provider, &p); err != nil {
			return err
		}
		v.Providers[in.Provider] = p
		out = Changed{Provider: in.Provider, Enabled: p.Enabled, Configured: true}
		return nil
	}, func(*Settings) any { return out })
	return out, err
}

// complete refuses a provider without what the first setting of it needs.
func (s *Service) complete(id string, p *Provider) error {
	var wrong []fault.Field
	for _, needed := range []struct{ name, value string }{
		{"client_id", p.ClientID}, {"client_secret", p.ClientSecret.Reveal()}, {"issuer", p.Issuer},
	} {
		if needed.value == "" {
			wrong = append(wrong, fault.Field{Field: needed.name, Message: "is required the first time that " + id + " is set"})
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *oneIn) (Removed, error) {
	out := Removed{Provider: in.Provider}
	if err := s.known(in.Provider); err != nil {
		return out, err
	}
	err := s.section.Update(ctx, who, func(v *Settings) error {
		delete(v.Providers, in.Provider)
		return nil
	}, func(*Settings) any { return out })
	return out, err
}
