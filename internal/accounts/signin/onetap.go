package signin

import (
	"context"
	"errors"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// google is the ID of the provider whose pages offer One Tap.
const google = "google"

const (
	oneTapToken = "onetap" // an ID token that was used
	// oneTapLife is longer than Google's ID tokens are valid.
	oneTapLife = 2 * time.Hour
)

type oneTapIn struct {
	Body struct {
		_ struct{} `json:"-" name:"GoogleOneTap"`

		Credential    string `json:"credential" required:"true" minLength:"1" maxLength:"8192" doc:"The ID token that Google's script hands to the page. It is accepted once."`
		DeviceLabel   string `json:"device_label,omitzero" maxLength:"80" doc:"A name for the list of signed-in devices."`
		CookieOnly    bool   `json:"cookie_only,omitzero" doc:"true, from a page: the answer has no api_key."`
		AcceptTerms   bool   `json:"accept_terms,omitzero" doc:"Required to sign up."`
		AcceptPrivacy bool   `json:"accept_privacy,omitzero" doc:"As accept_terms."`
	}
}

// oneTap signs in the person of an ID token that Google gave to a page. A token that was
// seen by somebody else on its way is worth nothing once it was used.
func (o oauth) oneTap(ctx context.Context, who authz.Caller, in *oneTapIn) (*route.Reply, error) {
	p, err := o.providers.find(google)
	if err != nil {
		return nil, fault.New(fault.Unsupported, "", "Signing in with Google is not configured on this deployment.")
	}
	claims, err := p.Port.Verify(ctx, in.Body.Credential)
	if err != nil {
		return nil, err
	}
	err = o.writer.Write(ctx, func(tx txn.Tx) error {
		if err := o.store.DeleteExpiredTx(tx, o.clock.Now(), 50); err != nil {
			return err
		}
		hash := hashToken(in.Body.Credential)
		switch _, err := o.store.GetTicketTx(tx, oneTapToken, hash, o.clock.Now()); {
		case err == nil:
			return fault.New(fault.Unauthenticated, Failed, "This credential was used already; sign in once more.")
		case !errors.Is(err, ErrNotFound):
			return err
		}
		return o.store.CreateTicketTx(tx, oneTapToken, hash, []byte{}, o.clock.Now().Add(oneTapLife))
	})
	if err != nil {
		return nil, err
	}
	return o.signIn(ctx, who, p, flow{
		Provider: p.ID, Label: in.Body.DeviceLabel, Cookie: in.Body.CookieOnly, Terms: in.Body.AcceptTerms && in.Body.AcceptPrivacy,
	}, claims)
}
