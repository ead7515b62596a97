// Package azureclient calls deployments of Azure OpenAI: chat completions under another
// path, with another header for the key, or with tokens of Microsoft Entra ID.
package azureclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"agentd/internal/base/authz"
	"agentd/internal/base/cache"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/openaiclient"
)

const (
	// defaultVersion is the version of the API that is called unless another is set.
	defaultVersion = "2024-10-21"
	entraAuthority = "https://login.microsoftonline.com"
	entraScope     = "https://cognitiveservices.azure.com/.default"
	tokenTimeout   = 20 * time.Second
	// tokenMargin is how long before its end a token is replaced.
	tokenMargin = 5 * time.Minute
	maxTokens   = 10_000
)

// New returns a client. authority is where tokens come from; "": Microsoft's.
func New(c modelcall.Config, authority string) *openaiclient.Client {
	client := openaiclient.New(c)
	began := time.Now()
	e := &entra{transport: client.Transport, authority: cmp.Or(authority, entraAuthority)}
	e.tokens = cache.New(cache.Options[tokenKey, *oauth2.Token]{
		Most: maxTokens, Elapsed: func() time.Duration { return time.Since(began) },
		Lasts: func(t *oauth2.Token) time.Duration { return max(time.Second, time.Until(t.Expiry)-tokenMargin) },
	})
	client.Place = func(to model.Target, q modelcall.Call) modelcall.Call {
		q.API = "Azure OpenAI"
		q.Path = place(&to, q.Path)
		q.Sign = func(r *http.Request) error { return e.sign(r, &to) }
		return q
	}
	return client
}

// place returns the path of a call below an address, which works with and without
// /openai. Calls of a model are below its deployment.
func place(to *model.Target, path string) string {
	if path != "/models" {
		path = "/deployments/" + url.PathEscape(to.Model) + path
	}
	if !strings.HasSuffix(to.BaseURL, "/openai") {
		path = "/openai" + path
	}
	return path + "?api-version=" + url.QueryEscape(cmp.Or(to.Access.APIVersion, defaultVersion))
}

// entra gets tokens of applications, and keeps them until they end.
type entra struct {
	transport func(*model.Target) (http.RoundTripper, error)
	authority string
	tokens    *cache.Cache[tokenKey, *oauth2.Token]
}

type tokenKey struct {
	guardedFor   string // the tenant whose egress rules hold; "": none
	tenant, app  string
	clientSecret [sha256.Size]byte
}

// sign adds the key, or a token in its place.
func (e *entra) sign(r *http.Request, to *model.Target) error {
	app := to.Access.Entra
	if app == nil {
		if !to.APIKey.Empty() {
			r.Header["Api-Key"] = []string{to.APIKey.Reveal()}
		}
		return nil
	}
	key := tokenKey{tenant: app.TenantID, app: app.ClientID, clientSecret: sha256.Sum256([]byte(app.ClientSecret.Reveal()))}
	if to.Guarded {
		key.guardedFor = to.TenantID
	}
	token, err := e.tokens.Load(r.Context(), key, func(ctx context.Context, _ tokenKey) (*oauth2.Token, error) { return e.fetch(ctx, to) })
	if err != nil {
		return err
	}
	r.Header["Authorization"] = []string{"Bearer " + token.AccessToken}
	return nil
}

// fetch gets a token. Errors: *model.Error; the context's.
func (e *entra) fetch(ctx context.Context, to *model.Target) (*oauth2.Token, error) {
	transport, err := e.transport(to)
	if err != nil {
		return nil, err
	}
	// Other calls wait for the same token, so its request outlives this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTimeout)
	defer cancel()
	if to.Guarded {
		ctx = authz.WithTenant(ctx, to.TenantID)
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	app := to.Access.Entra
	config := clientcredentials.Config{
		ClientID: app.ClientID, ClientSecret: app.ClientSecret.Reveal(), Scopes: []string{entraScope}, AuthStyle: oauth2.AuthStyleInParams,
		TokenURL: e.authority + "/" + url.PathEscape(app.TenantID) + "/oauth2/v2.0/token",
	}
	token, err := config.Token(ctx)
	if err == nil {
		return token, nil
	}
	// The cause has the answer of the directory, which never repeats the secret, but
	// names applications: it is not shown.
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	if answered && refused.Response != nil && refused.Response.StatusCode < http.StatusInternalServerError {
		return nil, &model.Error{Code: modelcall.CodeAuth, Status: http.StatusUnauthorized, Detail: fmt.Sprintf(
			"Microsoft Entra ID refused the application of the provider %q (status %d); check tenant_id, client_id and client_secret.",
			to.Provider, refused.Response.StatusCode)}
	}
	return nil, &model.Error{
		Code: modelcall.CodeModel, Retryable: true, Passing: true,
		Detail: "Microsoft Entra ID, which the provider's key comes from, could not be reached.",
	}
}
