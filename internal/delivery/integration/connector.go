package integration

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
)

// The ways in which connectors authorize themselves.
const (
	authOAuth  = "oauth2"
	authAPIKey = "api_key"
	authNone   = "none"
)

// Connectors that are code beside their data.
const (
	connectorHTTP     = "http"
	connectorPostgres = "postgres"
	connectorSMTP     = "smtp"
)

// Connector is a service that integrations connect with.
type Connector struct {
	_ struct{} `json:"-" name:"IntegrationCatalogItem"`

	ID            string           `json:"id" required:"true" doc:"What connector_id of an integration names."`
	Name          string           `json:"name" required:"true"`
	Description   string           `json:"description" required:"true"`
	Icon          string           `json:"icon" required:"true" doc:"Name of a symbol; clients choose the picture."`
	AuthType      string           `json:"auth_type" required:"true" enum:"api_key,oauth2,webhook,none" doc:"How it is authorized. oauth2: a person authorizes it, or config has a token."`
	OAuthProvider string           `json:"oauth_provider,omitzero" doc:"The provider in the paths of the OAuth operations. Absent: the connector's id."`
	Scopes        []string         `json:"required_oauth_scopes,omitempty" doc:"What a person is asked to allow."`
	ConfigSchema  map[string]Field `json:"config_schema" required:"true" doc:"The members of config."`
	Operations    []Operation      `json:"tools" required:"true" doc:"The tools of agents. Of http: none, as they come from the OpenAPI document."`

	api *api
}

// Field describes a member of an integration's config.
type Field struct {
	_ struct{} `json:"-" name:"ConnectorConfigField"`

	Type        string   `json:"type" required:"true" enum:"string,integer,boolean,array,object" doc:"JSON type. The items of an array and the members of an object are strings."`
	Required    bool     `json:"required,omitzero"`
	Description string   `json:"description,omitzero"`
	Secret      bool     `json:"secret,omitzero" doc:"Stored encrypted and never shown."`
	Default     string   `json:"default,omitzero"`
	Enum        []string `json:"enum,omitempty" doc:"The values that it may have."`
	Format      string   `json:"format,omitzero" doc:"uri: an address that is called."`
	// Anchor says that the field decides where the credential is sent.
	Anchor bool `json:"anchor,omitzero" doc:"The credential is sent there: a change of it needs the secrets again."`
}

// api is how a connector's HTTP API is called.
type api struct {
	BaseURL string            `json:"base_url"` // the default of the field base_url
	Header  map[string]string `json:"header"`
	// Credential is the header that carries the secret of the field, after the prefix.
	Credential struct {
		Field  string `json:"field"`
		Header string `json:"header"`
		Prefix string `json:"prefix"`
	} `json:"credential"`
	Basic []string `json:"basic"` // the fields of user and password, in place of Credential
	OAuth *struct {
		AuthorizeURL   string            `json:"authorize_url"`
		TokenURL       string            `json:"token_url"`
		Params         map[string]string `json:"params"`
		ScopeSeparator string            `json:"scope_separator"`
		SecretInBody   bool              `json:"secret_in_body"` // of the client, in place of the Authorization header
	} `json:"oauth"`
	Test *call `json:"test"` // of the connection
	// OK is a member that is false in answers that report a failure; Errors is one
	// that only such answers have; Message is the member with the explanation.
	OK      string `json:"ok"`
	Errors  string `json:"errors"`
	Message string `json:"message"`
}

// Operation is one HTTP operation of a service, and the tool that agents get for it.
type Operation struct {
	_ struct{} `json:"-" name:"IntegrationTool"`

	Name        string        `json:"name" required:"true" doc:"Name of the tool. Agents with two integrations of the same connector see it with a prefix."`
	Description string        `json:"description" required:"true"`
	Parameters  schema.Object `json:"parameters" required:"true" doc:"JSON Schema of the arguments."`
	ReadOnly    bool          `json:"read_only" required:"true" doc:"It changes nothing."`
	Call        call          `json:"-"`
}

// call is how an operation is called. A text {name} in Path, and a whole text "{name}"
// in Body, stands for an argument.
type call struct {
	Method     string            `json:"method"`
	Path       string            `json:"path"`
	Query      map[string]string `json:"query"`  // argument by parameter; =text is that text
	Header     map[string]string `json:"header"` // argument by header; =text is that text
	Body       jsontext.Value    `json:"body"`
	Idempotent bool              `json:"idempotent"`
	Sources    []string          `json:"sources"` // untrusted sources of the answer, beside the integration
	Names      map[string]string `json:"-"`       // of path parameters whose argument is called otherwise
}

// provider returns the name of the provider in the paths of the OAuth operations.
func (c *Connector) provider() string {
	if c.OAuthProvider != "" {
		return c.OAuthProvider
	}
	return c.ID
}

// authorizedAt reports whether people authorize the connector at a provider.
func (c *Connector) authorizedAt(provider string) bool {
	return c.api != nil && c.api.OAuth != nil && c.provider() == provider
}

// catalogue is the connectors.
type catalogue struct {
	all  []*Connector
	byID map[string]*Connector
}

//go:embed connectors/*.json
var files embed.FS

// builtIn is the connectors of the program.
var builtIn = mustLoad(files)

func mustLoad(files fs.FS) *catalogue {
	c, err := load(files)
	if err != nil {
		panic(err)
	}
	return c
}

// file is a connector as its file describes it.
type file struct {
	Connector struct {
		ID            string           `json:"id"`
		Name          string           `json:"name"`
		Description   string           `json:"description"`
		Icon          string           `json:"icon"`
		AuthType      string           `json:"auth_type"`
		OAuthProvider string           `json:"oauth_provider"`
		Scopes        []string         `json:"required_oauth_scopes"`
		ConfigSchema  map[string]Field `json:"config_schema"`
	} `json:"connector"`
	API   *api `json:"api"`
	Tools []struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
		ReadOnly    bool           `json:"read_only"`
		Call        call           `json:"call"`
	} `json:"tools"`
}

func load(files fs.FS) (*catalogue, error) {
	names, err := fs.Glob(files, "connectors/*.json")
	if err != nil {
		return nil, err
	}
	c := &catalogue{byID: map[string]*Connector{}}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		var f file
		if err := json.Unmarshal(text, &f, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		v := f.connector()
		c.all, c.byID[v.ID] = append(c.all, v), v
	}
	slices.SortFunc(c.all, func(a, b *Connector) int { return strings.Compare(a.ID, b.ID) })
	return c, nil
}

func (f *file) connector() *Connector {
	c := &Connector{
		ID: f.Connector.ID, Name: f.Connector.Name, Description: f.Connector.Description, Icon: f.Connector.Icon,
		AuthType: f.Connector.AuthType, OAuthProvider: f.Connector.OAuthProvider, Scopes: f.Connector.Scopes,
		ConfigSchema: f.Connector.ConfigSchema, Operations: []Operation{}, api: f.API,
	}
	if c.api != nil && c.ID != connectorHTTP {
		c.ConfigSchema["base_url"] = Field{
			Type: "string", Default: c.api.BaseURL, Format: "uri", Anchor: true, Required: c.api.BaseURL == "",
			Description: "Address of the API, for a deployment of your own or a gateway.",
		}
	}
	for _, t := range f.Tools {
		c.Operations = append(c.Operations, Operation{
			Name: t.Name, Description: t.Description, Parameters: schema.Object(t.Parameters), ReadOnly: t.ReadOnly, Call: t.Call,
		})
	}
	return c
}

// enabled returns a connector that the operator did not switch off, nil if there is
// none.
func (s *core) enabled(id string) *Connector {
	c := s.catalogue.byID[id]
	if c == nil || s.Operator.Disabled(id) {
		return nil
	}
	return c
}

// Info is what the operator's settings show of a connector.
type Info struct{ ID, Name, Icon, AuthType, Provider string }

// Connectors returns the connectors of the program.
func Connectors() []Info {
	all := make([]Info, 0, len(builtIn.all))
	for _, c := range builtIn.all {
		i := Info{ID: c.ID, Name: c.Name, Icon: c.Icon, AuthType: c.AuthType}
		if c.api != nil && c.api.OAuth != nil {
			i.Provider = c.provider()
		}
		all = append(all, i)
	}
	return all
}
