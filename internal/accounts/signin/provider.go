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

	"agentd/internal/base/secret"
)

// ProviderConfig is an OpenID provider that the operator lets people sign in
// with.
type ProviderConfig struct {
	ID           string        `json:"id"`   // in paths: lower-case letters, digits and hyphens
	Name         string        `json:"name"` // for people; "" is the ID
	Issuer       string        `json:"issuer"`
	ClientID     string        `json:"client_id"`
	ClientSecret secret.String `json:"client_secret"` // "" for a public client: PKCE is used in any case
	Scopes       []string      `json:"scopes"`        // nil: openid, email and profile
}

var providerID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// OTP is what GET /me/auth-providers calls the mailed code; no provider is
// called so.
const OTP = "otp"

// ParseProviders reads the operator's file: a JSON array of providers.
func ParseProviders(file []byte) ([]ProviderConfig, error) {
	var all []ProviderConfig
	if err := json.Unmarshal(file, &all, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("is no JSON array of providers: %w", err)
	}
	seen := map[string]bool{}
	for i := range all {
		p := &all[i]
		switch {
		case !providerID.MatchString(p.ID) || p.ID == OTP:
			return nil, fmt.Errorf("gives provider %d the id %q; it must be lower-case letters, digits and hyphens, at most 32, and not %s", i+1, p.ID, OTP)
		case seen[p.ID]:
			return nil, fmt.Errorf("has two providers with the id %s", p.ID)
		case p.ClientID == "":
			return nil, fmt.Errorf("gives the provider %s no client_id", p.ID)
		}
		if err := checkIssuer(p.Issuer); err != nil {
			return nil, fmt.Errorf("gives the provider %s an issuer that %w", p.ID, err)
		}
		seen[p.ID] = true
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
	return all, nil
}

func checkIssuer(raw string) error {
	at, err := url.Parse(raw)
	switch {
	case err != nil, at.Scheme != "https" && at.Scheme != "http", at.Host == "":
		return errors.New("does not begin with https:// and a host")
	case at.User != nil, strings.ContainsAny(raw, "?#"):
		return errors.New("holds more than scheme, host and path")
	}
	return nil
}

// Grant is what a flow with a provider began with and must end with.
type Grant struct {
	Redirect string // where the provider sends the browser back to
	State    string
	Nonce    string
	Verifier string // of PKCE
}

// Claims are what a provider vouches for.
type Claims struct {
	Issuer        string
	Subject       string // who it is, unique and unchanging within the issuer
	Email         string // as the provider writes it
	EmailVerified bool
	Name          string
}

// Provider is the port to an OpenID provider. Errors: OAUTH_FAILED, as
// fault.Malformed where the provider does not know the code, as fault.Upstream
// where it fails or answers what cannot be trusted; fault.UpstreamTimeout.
type Provider interface {
	// Start gives the address of the provider's page for a flow.
	Start(ctx context.Context, g Grant) (string, error)
	// Finish trades the code of a flow for what the provider vouches for, having
	// checked signature, issuer, audience, expiry and nonce.
	Finish(ctx context.Context, g Grant, code string) (Claims, error)
}
