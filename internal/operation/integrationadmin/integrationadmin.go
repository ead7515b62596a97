// Package integrationadmin is what the operator sets of integrations while the program
// runs: the OAuth clients that agentd is registered as at providers, and the connectors
// that are switched off.
package integrationadmin

import (
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/operation/setting"
)

// Connector is what the settings show of a connector.
type Connector struct {
	_ struct{} `json:"-" name:"AdminIntegration"`

	ID       string `json:"id" required:"true" doc:"The connector, as in the catalogue."`
	Name     string `json:"name" required:"true"`
	Icon     string `json:"icon,omitzero"`
	AuthType string `json:"auth_type,omitzero" enum:"oauth2,api_key,none"`
	Provider string `json:"oauth_provider,omitzero" doc:"The provider that people authorize it at."`
	Enabled  bool   `json:"enabled" required:"true" doc:"Tenants can use it."`
	Source   string `json:"source" required:"true" enum:"default,kv" doc:"kv: the operator changed it. default: nobody did."`
}

// Settings are the settings.
type Settings struct {
	_ struct{} `json:"-" name:"AdminIntegrations"`

	Providers    map[string]Client `json:"providers" doc:"OAuth clients by provider, such as github and google."`
	Disabled     []string          `json:"disabled" maxItems:"100" doc:"Connectors that tenants cannot use. Their integrations lose their tools."`
	Integrations []Connector       `json:"integrations,omitzero" readOnly:"true" doc:"The connectors of this server."`
}

// Client is the operator's OAuth client at a provider.
type Client struct {
	_ struct{} `json:"-" name:"AdminOAuthClient"`

	ClientID     string        `json:"client_id" minLength:"1" maxLength:"500" doc:"Id of the client, from the provider."`
	ClientSecret secret.String `json:"client_secret,omitzero" doc:"Secret of the client, from the provider. Stored encrypted and never shown."`
	AuthorizeURL string        `json:"authorize_url,omitzero" maxLength:"2048" doc:"Where people authorize agentd. Default: that of the provider. For deployments of your own, such as GitHub Enterprise."`
	TokenURL     string        `json:"token_url,omitzero" maxLength:"2048" doc:"Where codes are exchanged for tokens. Default: that of the provider."`
}

// update is Settings with clients that can be removed.
type update struct {
	_ struct{} `json:"-" name:"AdminIntegrationsUpdate"`

	Providers map[string]schema.NullableOf[Client] `json:"providers" doc:"OAuth clients by provider. Null removes one."`
	Disabled  []string                             `json:"disabled" maxItems:"100" doc:"Connectors that tenants cannot use, as the complete list."`
}

// Service is the settings.
type Service struct {
	section *setting.Section[Settings]
	known   []Connector
}

// New adds the section to the settings.
func New(s *setting.Service, known []Connector) *Service {
	a := &Service{known: known}
	a.section = setting.Add(s, &setting.Section[Settings]{
		Name: "integrations", Secret: true, Initial: Settings{Providers: map[string]Client{}, Disabled: []string{}}, Check: a.check,
	})
	return a
}

var providerName = regexp.MustCompile(`^[a-z0-9_-]{1,50}$`)

const maxProviders = 50

func (a *Service) check(v *Settings) error {
	v.Integrations = nil
	var wrong []fault.Field
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	if len(v.Providers) > maxProviders {
		add("providers", "at most 50 providers")
	}
	for _, name := range slices.Sorted(maps.Keys(v.Providers)) {
		at, c := "providers."+name, v.Providers[name]
		if !providerName.MatchString(name) {
			add(at, "the name of a provider is of small letters, digits, - and _")
		}
		if c.ClientID == "" {
			add(at+".client_id", "required")
		}
		for field, address := range map[string]string{"authorize_url": c.AuthorizeURL, "token_url": c.TokenURL} {
			if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
				add(at+"."+field, "expected an address that begins with https:// or http://")
			}
		}
	}
	for _, id := range v.Disabled {
		if !slices.ContainsFunc(a.known, func(c Connector) bool { return c.ID == id }) {
			add("disabled", "there is no connector "+id)
		}
	}
	if len(wrong) > 0 {
		return fault.BadFields(wrong...)
	}
	return nil
}

func (a *Service) shown(v *Settings) Settings {
	out := *v
	out.Integrations = make([]Connector, 0, len(a.known))
	for _, c := range a.known {
		c.Enabled, c.Source = true, "default"
		if slices.Contains(v.Disabled, c.ID) {
			c.Enabled, c.Source = false, "kv"
		}
		out.Integrations = append(out.Integrations, c)
	}
	return out
}

// Client returns the OAuth client at a provider.
func (a *Service) Client(provider string) (Client, bool) {
	c, ok := a.section.Get().Providers[provider]
	return c, ok
}

// Disabled reports whether a connector is switched off.
func (a *Service) Disabled(connector string) bool {
	return slices.Contains(a.section.Get().Disabled, connector)
}

// Routes returns the operations on the settings.
func (a *Service) Routes() []route.Route {
	return setting.Routes(a.section, setting.Published[Settings]{
		Name: "integrations", GetID: "getAdminIntegrations", PutID: "updateAdminIntegrations", What: "the settings of integrations",
		Doc: "The OAuth clients that agentd is registered as at providers, and the connectors that tenants cannot use. " +
			"Secrets are never shown.",
		Example: `{"providers":{"github":{"client_id":"Iv1.8a61f9b3a7aba766","client_secret":"a secret of GitHub"}},"disabled":[]}`,
		Patch:   reflect.TypeFor[update](), Shown: a.shown,
	})
}
