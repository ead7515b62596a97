package a2a

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/resource"
)

// The ways in which a credential is sent.
const (
	Bearer = "bearer"
	Basic  = "basic"
	APIKey = "api_key"
)

// Credential is what a company sends to an agent of another system, so that it lets it in.
type Credential struct {
	resource.Meta `json:"-"`

	Name   string `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"What it is called."`
	URL    string `json:"url" required:"true" format:"uri" minLength:"1" maxLength:"2048" immutable:"true" doc:"The address of the agents that get it: those at this address and below it. It is sent to addresses of the same scheme, host and port, and to no others. It cannot be changed: store another credential."`
	Scheme string `json:"scheme" enum:"bearer,basic,api_key" default:"bearer" doc:"bearer, basic: it is sent as Authorization; basic is a name and a password with a colon between them. api_key: it is sent in a header of its own."`
	Header string `json:"header" maxLength:"100" pattern:"^[A-Za-z0-9-]*$" default:"X-API-Key" doc:"The header of an api_key."`
	Token  string `json:"token" required:"true" minLength:"1" maxLength:"8192" secret:"true" doc:"The credential. It is sealed, and never shown."`
}

// Credentials keeps what companies send to agents of other systems.
type Credentials struct{ store *resource.Store[Credential] }

const indexOrigin = "origin"

// NewCredentials returns the credentials of all companies.
func NewCredentials(deps resource.Deps) *Credentials {
	return &Credentials{resource.NewStore(resource.Kind[Credential]{
		Name: "a2a_credential", Noun: "A2ACredential", Path: "/api/v1/a2a/credentials", IDField: "credential_id",
		Param: "a2aCredentialId", Tag: "A2A",
		Keys:    []string{"credentials"},
		Example: `{"name":"Partner","url":"https://agents.example.com/","scheme":"bearer","token":"a long secret"}`,
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin},
		Label:   func(c *Credential) string { return c.Name },
		Indexes: []resource.Index[Credential]{{Name: indexOrigin, Of: func(c *Credential) string { return mcp.Origin(c.URL) }}},
		Validate: func(c *Credential) (wrong []fault.Field) {
			add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
			if strings.TrimSpace(c.Name) == "" {
				add("name", "it is blank")
			}
			if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
				add("url", "it is no address that begins with https:// or http://, without a name and a password")
			}
			if c.Scheme == APIKey && c.Header == "" {
				add("header", "an api_key needs one")
			}
			if strings.ContainsAny(c.Token, "\r\n\x00") {
				add("token", "it has a line break")
			}
			return wrong
		},
		Addresses: func(c *Credential) []egress.Address { return []egress.Address{{Field: "url", URL: c.URL}} },
		Before:    stays,
	}, deps)}
}

// stays refuses to send a credential in another way than it was stored for, unless it is
// sent again: a header that the peer repeats would show it.
func stays(e *resource.Edit[Credential]) error {
	if e.Old == nil || e.Old.Token != e.New.Token || e.Old.Scheme == e.New.Scheme && e.Old.Header == e.New.Header {
		return nil
	}
	return fault.New(fault.Conflict, "secret_would_move",
		"A token is stored, and the change would send it in another way. Send a new token too, or store another credential.")
}

// Routes returns the operations on credentials.
func (c *Credentials) Routes() []route.Route { return resource.Routes(c.store) }

// maxOfOrigin bounds the credentials of one origin that are looked at.
const maxOfOrigin = 100

// For returns what is sent to an agent at a URL: the credential whose own URL is the
// longest beginning of it; nil: there is none.
func (c *Credentials) For(ctx context.Context, tenant, at string) (*Authorization, error) {
	found, err := c.store.List(ctx, tenant, resource.Find{Where: map[string]string{indexOrigin: mcp.Origin(at)}, Limit: maxOfOrigin})
	if err != nil {
		return nil, err
	}
	var best *Credential
	for _, one := range found {
		if one.covers(at) && (best == nil || len(one.URL) > len(best.URL)) {
			best = one
		}
	}
	if best == nil {
		return nil, nil
	}
	return best.authorization(), nil
}

// Get returns a credential as it is sent. Errors: fault.NotFound.
func (c *Credentials) Get(ctx context.Context, tenant, id string) (*Authorization, error) {
	one, err := c.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return one.authorization(), nil
}

// CheckTx returns why a credential cannot be sent to an address in a way; "": it can.
// Errors: fault.NotFound.
func (c *Credentials) CheckTx(tx txn.Tx, tenant, id, scheme, at string) (wrong string, err error) {
	one, err := c.store.GetTx(tx, tenant, id)
	switch {
	case err != nil:
		return "", err
	case mcp.Origin(one.URL) != mcp.Origin(at):
		return "the credential is for " + mcp.Origin(one.URL) + ", and is sent to no other address", nil
	case one.Scheme != scheme:
		return "the credential is sent as " + one.Scheme, nil
	}
	return "", nil
}

// covers reports whether the credential is for what is at an address of its origin.
func (c *Credential) covers(at string) bool {
	own, err := url.Parse(c.URL)
	if err != nil {
		return false
	}
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	below := strings.TrimSuffix(own.EscapedPath(), "/")
	rest, ok := strings.CutPrefix(u.EscapedPath(), below)
	return ok && (rest == "" || rest[0] == '/')
}

func (c *Credential) authorization() *Authorization {
	a := &Authorization{Origin: mcp.Origin(c.URL), Header: "Authorization", Value: secret.New("Bearer " + c.Token)}
	switch c.Scheme {
	case Basic:
		a.Value = secret.New("Basic " + base64.StdEncoding.EncodeToString([]byte(c.Token)))
	case APIKey:
		a.Header, a.Value = c.Header, secret.New(c.Token)
	}
	return a
}
