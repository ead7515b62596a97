package integration

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
)

const (
	codeOAuth = "OAUTH_FAILED"
	// pendingLife is how long a person may take at the provider.
	pendingLife = 10 * time.Minute
	// purposeState keeps states apart from other sealed texts.
	purposeState = "integration_oauth"
)

// state is the state parameter of an authorization, sealed. It is bound to the company
// and the person who began, and works once.
type state struct {
	Tenant  string    `json:"t"`
	ID      string    `json:"i"`
	Person  string    `json:"p"`
	Expires time.Time `json:"e"`
}

// begun is an authorization that a person began, as it is stored, sealed.
type begun struct {
	Connector   string         `json:"connector"`
	Provider    mcp.Provider   `json:"provider"`
	Client      mcp.Client     `json:"client"`
	Redirect    string         `json:"redirect"`
	Verifier    string         `json:"verifier"`
	AgentID     string         `json:"agent_id,omitzero"`
	Name        string         `json:"name,omitzero"`
	Config      jsontext.Value `json:"config,omitzero"`
	Integration string         `json:"integration,omitzero"` // that is authorized again
}

type startBody struct {
	_ struct{} `json:"-" name:"IntegrationOAuthStart"`

	AgentID       string        `json:"agent_id,omitzero" format:"uuid" doc:"An agent that gets the tools."`
	Name          string        `json:"name,omitzero" maxLength:"200" doc:"Name of the integration. Default: that of the connector."`
	Scopes        []string      `json:"scopes,omitzero" maxItems:"50" doc:"What the person is asked to allow. Default: what the connector needs."`
	ConnectorID   string        `json:"connector_id,omitzero" maxLength:"64" doc:"The connector, where the provider has several. Default: the first of them."`
	IntegrationID string        `json:"integration_id,omitzero" format:"uuid" doc:"An integration that is to be authorized again. Absent: a new one."`
	Extra         schema.Object `json:"extra,omitzero" doc:"Settings of the new integration, as config."`
}

type startIn struct {
	Provider string `path:"provider"`
	Body     startBody
}

type started struct {
	_ struct{} `json:"-" name:"IntegrationOAuthStarted"`

	AuthURL string `json:"auth_url" required:"true" format:"uri" doc:"Where a person authorizes it, in a browser."`
	State   string `json:"state" required:"true" doc:"Comes back in the callback. It works once, for ten minutes, for the person who began."`
}

// start begins an authorization.
func (s *Authorizer) start(ctx context.Context, who authz.Caller, in *startIn) (started, error) {
	b := begun{AgentID: in.Body.AgentID, Name: in.Body.Name, Config: jsontext.Value(in.Body.Extra), Integration: in.Body.IntegrationID}
	c, err := s.connectorOf(ctx, who, in.Provider, &in.Body)
	if err != nil {
		return started{}, err
	}
	client, ok := s.Operator.Client(in.Provider)
	if !ok {
		return started{}, fault.New(fault.Invalid, "PREREQUISITE_MISSING",
			"The operator has set no OAuth client for %.50q (PUT /api/v1/admin/config/integrations). "+
				"A token of your own works without one: create the integration with it in config.", in.Provider)
	}
	for _, scope := range in.Body.Scopes {
		if scope == "" || strings.ContainsAny(scope, " ,\"\\\r\n") {
			return started{}, fault.BadFields(fault.Field{Field: "scopes", Message: "a scope is one word"})
		}
	}
	if err := s.checkNew(ctx, who, c, &b); err != nil {
		return started{}, err
	}
	b.Connector = c.ID
	oauth := c.api.OAuth
	b.Provider = mcp.Provider{
		Authorize: cmp.Or(client.AuthorizeURL, oauth.AuthorizeURL), Token: cmp.Or(client.TokenURL, oauth.TokenURL), Scopes: c.Scopes,
		Params: oauth.Params, ScopeSeparator: oauth.ScopeSeparator, AnyType: true,
	}
	if len(in.Body.Scopes) > 0 {
		b.Provider.Scopes = in.Body.Scopes
	}
	b.Client = mcp.Client{ID: client.ID, Secret: client.Secret}
	if oauth.SecretInBody {
		b.Client.Method = "client_secret_post"
	}
	b.Redirect = s.Base() + CallbackPath(in.Provider)
	b.Verifier = rand.Text() + rand.Text()
	back, err := s.putBegun(ctx, who, &b)
	if err != nil {
		return started{}, err
	}
	return started{AuthURL: s.OAuth.AuthorizeURL(b.Provider, b.Client, b.Redirect, back, b.Verifier), State: back}, nil
}

// CallbackPath returns where a provider sends people back to.
func CallbackPath(provider string) string { return collection + "/" + provider + "/oauth/callback" }

// connectorOf returns the connector that is to be authorized.
func (s *Authorizer) connectorOf(
	ctx context.Context, who authz.Caller, provider string, in *startBody,
) (*Connector, error) {
	if in.IntegrationID != "" {
		v, err := s.store.Get(ctx, who.TenantID, in.IntegrationID)
		if err != nil {
			return nil, err
		}
		in.ConnectorID = v.ConnectorID
	}
	for _, c := range s.catalogue.all {
		if c.authorizedAt(provider) && s.enabled(c.ID) != nil && (in.ConnectorID == "" || in.ConnectorID == c.ID) {
			return c, nil
		}
	}
	return nil, fault.New(fault.Invalid, "",
		"No connector %.50q is authorized at a provider %.50q; the catalogue lists the connectors with auth_type oauth2.",
		in.ConnectorID, provider)
}

// checkNew checks what the new integration will be, before a person is sent away for
// it.
func (s *Authorizer) checkNew(ctx context.Context, who authz.Caller, c *Connector, b *begun) error {
	if b.Integration != "" {
		return nil
	}
	b.Name = cmp.Or(b.Name, c.Name)
	v := s.store.Blank()
	v.TenantID, v.ConnectorID, v.Name = who.TenantID, c.ID, b.Name
	if b.AgentID != "" {
		v.Assigned = []string{b.AgentID}
	}
	if _, err := c.merged(v, b.Config); err != nil {
		return err
	}
	return s.admit(ctx, c, v, nil, b.AgentID)
}

func (s *Authorizer) putBegun(ctx context.Context, who authz.Caller, b *begun) (string, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	now := s.Clock.Now()
	st := state{Tenant: who.TenantID, ID: ident.New(), Person: who.UserID, Expires: now.Add(pendingLife)}
	err = s.Kernel.Writer.Write(ctx, func(tx txn.Tx) error {
		return s.Grants.CreatePendingTx(tx, mcp.Pending{
			TenantID: st.Tenant, ID: st.ID, Expires: st.Expires,
			Sealed: s.Kernel.Box.Seal(text, pendingContext(&st)),
		}, now)
	})
	if err != nil {
		return "", err
	}
	sealed, err := json.Marshal(st)
	return base64.RawURLEncoding.EncodeToString(s.Kernel.Box.Seal(sealed, purposeState)), err
}

// pendingContext is what pending authorizations are sealed for, by the table that they
// are in.
func pendingContext(st *state) string { return "mcp_pending/" + st.Tenant + "/" + st.ID }

func invalidState() error {
	return fault.New(fault.Malformed, codeOAuth, "The state is not one of this server, was already used or has expired; start again.")
}

// openState returns a state. Errors: fault.Malformed if it is not ours or has expired.
func (s *Authorizer) openState(text string) (st state, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return st, invalidState()
	}
	plain, err := s.Kernel.Box.Open(sealed, purposeState)
	if err != nil || json.Unmarshal(plain, &st) != nil || s.Clock.Now().After(st.Expires) {
		return st, invalidState()
	}
	return st, nil
}

// CheckCallback reports whether a callback is the answer to an authorization that was
// begun here and may still be completed. It uses nothing up. Errors: fault.Malformed.
func (s *Authorizer) CheckCallback(provider, text, code, refusal string) error {
	if !slices.ContainsFunc(s.catalogue.all, func(c *Connector) bool { return c.authorizedAt(provider) }) {
		return invalidState()
	}
	if _, err := s.openState(text); err != nil {
		return err
	}
	if refusal != "" {
		return fault.New(fault.Malformed, codeOAuth, "The provider did not authorize it: %.100q.", refusal)
	}
	if code == "" {
		return fault.New(fault.Malformed, codeOAuth, "The provider sent no code.")
	}
	return nil
}

type completeIn struct {
	Provider string `path:"provider"`
	Body     CompleteBody
}

// CompleteBody is what completes an authorization.
type CompleteBody struct {
	_ struct{} `json:"-" name:"IntegrationOAuthComplete"`

	State   string `json:"state" required:"true" maxLength:"4096" doc:"As it came in the callback."`
	Code    string `json:"code" required:"true" minLength:"1" maxLength:"4096" doc:"As it came in the callback."`
	AgentID string `json:"agent_id,omitzero" format:"uuid" doc:"An agent that gets the tools. Default: the one of the start."`
	Name    string `json:"name,omitzero" maxLength:"200" doc:"Name of the integration. Default: the one of the start."`
}

// complete exchanges the code for tokens and stores the integration.
func (s *Authorizer) complete(ctx context.Context, who authz.Caller, in *completeIn) (agentView, error) {
	v, agent, err := s.Complete(ctx, who, in.Provider, &in.Body)
	if err != nil {
		return agentView{}, err
	}
	return agentViewOf(agent, v), nil
}

// Complete completes an authorization of the caller. Errors: fault.Malformed for a state
// that is not ours, is used or has expired; fault.Forbidden for another person's;
// OAUTH_FAILED.
func (s *Authorizer) Complete(
	ctx context.Context, who authz.Caller, provider string, in *CompleteBody,
) (v *Integration, agent string, err error) {
	st, err := s.openState(in.State)
	if err != nil {
		return nil, "", err
	}
	if st.Tenant != who.TenantID || st.Person != who.UserID {
		s.reportForeign(ctx, who, provider)
		return nil, "", fault.New(fault.Forbidden, "", "Another person began this authorization; start again.")
	}
	if in.AgentID != "" {
		if err := s.agents.Check(ctx, who.TenantID, in.AgentID); err != nil {
			return nil, "", err
		}
	}
	b, err := s.takeBegun(ctx, &st)
	if err != nil {
		return nil, "", err
	}
	c := s.enabled(b.Connector)
	if c == nil || c.provider() != provider {
		return nil, "", invalidState()
	}
	token, err := s.OAuth.Exchange(authz.WithTenant(ctx, st.Tenant), b.Provider, b.Client, b.Redirect, in.Code, b.Verifier)
	if errors.Is(err, mcp.ErrInvalidGrant) {
		return nil, "", fault.New(fault.Malformed, codeOAuth, "The provider does not accept the code; start again.").Because(err)
	}
	if err != nil {
		return nil, "", err
	}
	b.AgentID, b.Name = cmp.Or(in.AgentID, b.AgentID), cmp.Or(in.Name, b.Name)
	v, err = s.authorized(ctx, who, c, b, token)
	return v, b.AgentID, err
}

// reportForeign records an attempt to complete the authorization of another person.
func (s *Authorizer) reportForeign(ctx context.Context, who authz.Caller, provider string) {
	err := s.Kernel.Writer.Write(context.WithoutCancel(ctx), func(tx txn.Tx) error {
		entry := audit.Entry{Action: "oauth.tenant_mismatch", TargetType: "integration_provider", TargetID: provider}
		return audit.Write(s.Audit, tx, who, entry)
	})
	if err != nil {
		s.Logger.Warn("an entry of the audit log was not written", "tenant", who.TenantID, "err", err)
	}
}

// takeBegun uses an authorization up.
func (s *Authorizer) takeBegun(ctx context.Context, st *state) (*begun, error) {
	var pending *mcp.Pending
	err := s.Kernel.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		pending, err = s.Grants.ConsumePendingTx(tx, st.Tenant, st.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if pending == nil || s.Clock.Now().After(pending.Expires) {
		return nil, invalidState()
	}
	plain, err := s.Kernel.Box.Open(pending.Sealed, pendingContext(st))
	if err != nil {
		return nil, err
	}
	b := new(begun)
	return b, json.Unmarshal(plain, b)
}

// authorized stores a token with its integration, a new one or the one that was
// authorized again, and connects with its service.
func (s *Authorizer) authorized(
	ctx context.Context, who authz.Caller, c *Connector, b *begun, token mcp.Token,
) (v *Integration, err error) {
	var old *Integration
	if b.Integration != "" {
		if old, err = s.store.Get(ctx, who.TenantID, b.Integration); err != nil {
			return nil, err
		}
		copied := *old
		v = &copied
	} else {
		v = s.store.Blank()
		v.ID, v.TenantID, v.ConnectorID, v.Name = ident.New(), who.TenantID, c.ID, b.Name
		if _, err := c.merged(v, b.Config); err != nil {
			return nil, err
		}
	}
	if b.AgentID != "" {
		if err := v.assign(b.AgentID, true); err != nil {
			return nil, err
		}
	}
	v.Account, v.NeedsAuth, v.Failure, v.FailedAt = mcp.Origin(c.baseURL(v)), false, "", nil
	now := s.Clock.Now()
	v.LastSync, v.Tools = &now, len(c.Operations)
	grant := &mcp.Authorization{Origin: v.Account, Provider: b.Provider, Client: b.Client, Redirect: b.Redirect, Token: token}
	err = s.Kernel.Writer.Write(ctx, func(tx txn.Tx) error {
		if old == nil {
			if err := s.store.CreateTx(tx, who, v); err != nil {
				return err
			}
		} else if v, err = s.store.UpdateTx(tx, who, old.ID, func(current *Integration) error {
			meta := current.Meta
			*current = *v
			current.Meta = meta
			return nil
		}); err != nil {
			return err
		}
		return s.vault.PutTx(tx, who.TenantID, v.ID, grant)
	})
	if err != nil {
		return nil, err
	}
	connected := *v
	s.connect(ctx, c, &connected, nil)
	if connected.Failure == "" {
		return v, nil
	}
	return s.replace(ctx, who, v, &connected, nil, asOf(b.AgentID))
}
