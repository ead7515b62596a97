package mcp

import (
	"encoding/base64"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
)

const (
	// StartPath is where a person begins to authorize a server.
	StartPath = "/api/v1/mcp/oauth/start"
	// CallbackPath is where the authorization server redirects them to.
	CallbackPath = "/api/v1/mcp/oauth/callback"

	// startLinkLife is how long a link to StartPath works: a run may wait for days
	// until a person sees it.
	startLinkLife = 7 * 24 * time.Hour
	// pendingLife is how long a person may take at the authorization server.
	pendingLife = 10 * time.Minute
)

// sealedState is the state parameter of a start link or of a callback, sealed.
type sealedState struct {
	Tenant  string    `json:"t"`
	ID      string    `json:"i"` // of the server, or of the pending authorization
	Expires time.Time `json:"e"`
	// By is who created a start link, "" for a run; and of a consent the
	// credential that it was shown to.
	By string `json:"b,omitzero"`
}

// The purposes of states; one is never accepted for another.
const (
	purposeStart    = "mcp_start"
	purposeConsent  = "mcp_consent"
	purposeCallback = "mcp_callback"
)

// links seals and opens the states in links to the authorization pages.
type links struct {
	box   *secret.Box
	clock clock.Clock
	base  func() string
}

func (l *links) seal(purpose, tenant, id, by string, life time.Duration) string {
	text, err := json.Marshal(sealedState{Tenant: tenant, ID: id, Expires: l.clock.Now().Add(life), By: by})
	if err != nil {
		panic(err) // strings and times always encode
	}
	return base64.RawURLEncoding.EncodeToString(l.box.Seal(text, purpose))
}

// open returns a state. Errors: fault.Malformed if it is not ours or has expired.
func (l *links) open(purpose, state string) (sealedState, error) {
	var s sealedState
	sealed, err := base64.RawURLEncoding.DecodeString(state)
	if err == nil {
		var text []byte
		if text, err = l.box.Open(sealed, purpose); err == nil {
			err = json.Unmarshal(text, &s)
		}
	}
	if err != nil || l.clock.Now().After(s.Expires) {
		return s, invalidState()
	}
	return s, nil
}

func invalidState() error {
	return fault.New(fault.Malformed, "", "The link is invalid, was already used or has expired; start again.")
}

// startURL returns the link to the page on which a person authorizes a server. The
// page names by as the person who asked for that, and a run if by is "".
func (l *links) startURL(tenant, server, by string) string {
	return l.base() + StartPath + "?state=" + l.seal(purposeStart, tenant, server, by, startLinkLife)
}
