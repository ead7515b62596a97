package identity

import (
	"context"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

type patchMeIn struct {
	Body jsontext.Value
}

// meChange is the body of PATCH /me. Fields that are left out stay.
type meChange struct {
	_ struct{} `json:"-" name:"MeUpdate"`

	Name      string  `json:"name,omitzero" maxLength:"200" doc:"Your name, as other people see it."`
	AvatarURL *string `json:"avatar_url" maxLength:"2048" doc:"URL of an image, http or https; null removes it."`
}

// patchMe changes the caller's name and picture in this tenant. The email cannot
// be changed, because it identifies the person in their other tenants.
func (p memberships) patchMe(ctx context.Context, who authz.Caller, in *patchMeIn) (User, error) {
	var change meChange
	present, err := readChange(in.Body, &change)
	if err != nil {
		return User{}, err
	}
	var invalid []fault.Field
	if message := badName(change.Name); present["name"] && message != "" {
		invalid = append(invalid, fault.Field{Field: "name", Message: message})
	}
	if change.AvatarURL != nil && !webURL(*change.AvatarURL) {
		invalid = append(invalid, fault.Field{Field: "avatar_url", Message: notWebURL})
	}
	if invalid != nil {
		return User{}, fault.BadFields(invalid...)
	}
	return withAnswer(ctx, p.db, func(tx txn.Tx) (User, error) {
		_, me, err := p.acting(tx, who, authz.Viewer)
		if err != nil {
			return User{}, err
		}
		if err := route.Match(tx.Context(), shownMe(me)); err != nil {
			return User{}, err
		}
		if present["name"] {
			me.Name = strings.TrimSpace(change.Name)
		}
		if present["avatar_url"] {
			me.AvatarURL = orEmpty(change.AvatarURL)
		}
		me.UpdatedAt = p.clock.Now()
		return shownMe(me), p.store.UpdateMemberTx(tx, me)
	})
}

const notWebURL = "must be a URL that begins with http:// or https://"

// webURL reports whether a browser may load an image from there. agentd itself
// never does.
func webURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
