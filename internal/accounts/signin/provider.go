package signin

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
)

// ProviderConfig is an OpenID provider that the operator allows people to sign
// in with.
type ProviderConfig struct {
	ID           string        `json:"id"`   // in paths: lower-case letters, digits and hyphens
	Name         string        `json:"name"` // shown to people; empty: the ID
	Issuer       string        `json:"issuer"`
	ClientID     string        `json:"client_id"`
	ClientSecret secret.String `json:"client_secret"` // empty for a public client; PKCE is always used
	Scopes       []string      `json:"scopes"`        // nil: openid, email and profile
}

var providerID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// OTP is the name of the code by email in GET /me/auth-providers. No provider
// has that ID.
const OTP = "otp"

// ParseProviders parses the operator's file: a JSON array of providers.
func ParseProviders(file []byte) ([]ProviderConfig, error) {
	var all []ProviderConfig
	if err := json.Unmarshal(file, &all, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("must be a JSON array of providers: %w", err)
	}
	seen := map[string]bool{}
	for i := range all {
		p := &all[i]
		switch {
		case !ValidProviderID(p.ID):
			return nil, fmt.Errorf("provider %d has the id %q; it must be at most 32 lower-case letters, digits and hyphens, and not %s", i+1, p.ID,
				OTP)
		case seen[p.ID]:
			return nil, fmt.Errorf("two providers have the id %s", p.ID)
		case p.ClientID == "":
			return nil, fmt.Errorf("the provider %s has no client_id", p.ID)
		}
		if err := CheckIssuer(p.Issuer); err != nil {
			return nil, fmt.Errorf("the provider %s has an issuer that %w", p.ID, err)
		}
		seen[p.ID] = true
		p.Complete()
	}
	return all, nil
}

// ValidProviderID reports whether a provider may have an ID.
func ValidProviderID(id string) bool { return providerID.MatchString(id) && id != OTP }

// Complete fills what was left out of a provider.
func (p *ProviderConfig) Complete() {
	if p.Name == "" {
		p.Name = p.ID
	}
	if len(p.Scopes) == 0 {
		p.Scopes = []string{"email", "profile"}
	}
	if !slices.Contains(p.Scopes, "openid") {
		p.Scopes = append([]string{"openid"}, p.Scopes...)
	}
}

// CheckIssuer returns why a URL cannot be that of an issuer.
func CheckIssuer(raw string) error {
	at, err := url.Parse(raw)
	switch {
	case err != nil, at.Scheme != "https" && at.Scheme != "http", at.Host == "":
		return errors.New("does not begin with https:// and a host")
	case at.User != nil, strings.ContainsAny(raw, "?#"):
		return errors.New("contains more than scheme, host and path")
	}
	return nil
}

// Grant holds the parameters of a flow with a provider. They are the same when
// it starts and when it finishes.
type Grant struct {
	Redirect string // URL to which the provider redirects the browser
	State    string
	Nonce    string
	Verifier string // of PKCE
}

// Claims are what a provider asserts about a person.
type Claims struct {
	Issuer        string
	Subject       string // the account, unique and unchanging within the issuer
	Email         string // as the provider spells it
	EmailVerified bool
	Name          string
}

// Provider is the port to an OpenID provider. Errors: OAUTH_FAILED, as
// fault.Malformed where the provider does not know the code, and as
// fault.Upstream where it fails or its response is not trustworthy;
// fault.UpstreamTimeout.
type Provider interface {
	// Start returns the URL of the provider's page for a flow.
	Start(ctx context.Context, g Grant) (string, error)
	// Finish exchanges the code of a flow for claims. It checks signature,
	// issuer, audience, expiry and nonce.
	Finish(ctx context.Context, g Grant, code string) (Claims, error)
	// Verify returns the claims of an ID token that a page got from the provider. It
	// checks what Finish checks, but for the nonce. Errors: fault.Unauthenticated with
	// OAUTH_FAILED for a token that is not the provider's, is for another client or has
	// expired; fault.Upstream and fault.UpstreamTimeout as above.
	Verify(ctx context.Context, token string) (Claims, error)
}

// ConfiguredProvider is a provider with the port to it.
type ConfiguredProvider struct {
	ProviderConfig
	Port Provider
}

// providers returns the providers that are configured now.
type providers func() []ConfiguredProvider

// shown returns the providers as people choose from them.
func (all providers) shown() []OAuthProvider {
	list := []OAuthProvider{}
	for _, p := range all() {
		list = append(list, OAuthProvider{ID: p.ID, Name: p.Name, Enabled: true})
	}
	return list
}

func (all providers) find(id string) (ConfiguredProvider, error) {
	for _, p := range all() {
		if p.ID == id {
			return p, nil
		}
	}
	return ConfiguredProvider{}, fault.New(fault.NotFound, "",
		"There is no sign-in provider of that name on this deployment; GET %s/providers lists them.", oauthPath)
}
