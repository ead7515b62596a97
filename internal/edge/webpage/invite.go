package webpage

import (
	"context"
	"net/http"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

// Invitations are invites as their links know them; *identity.People implements it.
type Invitations interface {
	Invitation(ctx context.Context, inviteID, token string) (identity.Invitation, error)
	// Accept makes the holder of a link a member. The cookie is that of a session, nil
	// where the new member signs in with their address.
	Accept(ctx context.Context, who authz.Caller, inviteID, token, name string) (*route.Cookie, error)
}

// Invite is the page on which people accept invites. Opening it changes nothing:
// programs that read mail open links too.
type Invite struct {
	Invitations Invitations
	PublicURL   func() string
}

// invited is what the page shows.
type invited struct {
	identity.Invitation
	InviteID, Token, Name string
}

var invitePage = NewPage(`{{with .Data}}<p>{{if .Inviter}}{{.Inviter}} invites you{{else}}You are invited{{end}}
to join <strong>{{.Company}}</strong> as {{.Role}}, with the address <strong>{{.Email}}</strong>.
The invite is valid until <time>{{time .ExpiresAt}}</time>.</p>
<form method="post" action="{{$.Prefix}}` + identity.InvitePath + `">
<input type="hidden" name="invite" value="{{.InviteID}}"><input type="hidden" name="token" value="{{.Token}}">
<p><label for="name">Your name</label>
<input id="name" name="name" maxlength="200" autocomplete="name" autofocus value="{{.Name}}"></p>
<p><button>Accept the invite</button></p>
</form>
<p>Do you not expect this invite? Close the page, and nothing happens.</p>
{{end}}`)

// Routes returns the page. It is not part of the OpenAPI document.
func (i Invite) Routes() []httpapi.Raw {
	return []httpapi.Raw{
		{
			Row:   route.Row{Method: http.MethodGet, Path: identity.InvitePath, Public: true, SignIn: true, Limits: identity.LinkLimits},
			Serve: i.show, Fail: i.fail,
		},
		{
			Row:      route.Row{Method: http.MethodPost, Path: identity.InvitePath, Public: true, SignIn: true, Limits: identity.LinkLimits},
			OwnPages: true, Serve: i.accept, Fail: i.fail,
		},
	}
}

func (i Invite) show(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	q := r.URL.Query()
	return i.ask(w, r, invited{InviteID: q.Get("invite"), Token: q.Get("token")}, View{})
}

// ask shows the form to a person whose link is valid.
func (i Invite) ask(w http.ResponseWriter, r *http.Request, d invited, v View) (err error) {
	if d.Invitation, err = i.Invitations.Invitation(r.Context(), d.InviteID, d.Token); err != nil {
		return err
	}
	v.Title, v.Prefix, v.Forms, v.Data = "Join "+d.Company, PathPrefix(i.PublicURL()), "'self'", d
	return invitePage.Show(w, v)
}

func (i Invite) accept(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	get := r.PostForm.Get
	d := invited{InviteID: get("invite"), Token: get("token"), Name: get("name")}
	cookie, err := i.Invitations.Accept(r.Context(), who, d.InviteID, d.Token, d.Name)
	if fault.Is(err, fault.Invalid) {
		return i.ask(w, r, d, View{Problem: sayProblem(fault.From(err)), Status: http.StatusUnprocessableEntity})
	}
	if err != nil {
		return err
	}
	prefix := PathPrefix(i.PublicURL())
	if cookie == nil {
		return messagePage.Show(w, View{Title: "You are a member now", Prefix: prefix, Data: message{
			"Sign in with the address to which the invite was sent.", signInPath, "Sign in",
		}})
	}
	httpapi.SetCookie(r.Context(), cookie)
	return messagePage.Show(w, View{Title: "You are a member now", Prefix: prefix, Data: message{
		"This browser is signed in.", accountPath, "Continue",
	}})
}

// fail shows why a link does not work.
func (i Invite) fail(w http.ResponseWriter, _ *http.Request, status int, e *fault.Error) {
	detail := e.Detail
	if status == http.StatusNotFound {
		detail = "This link is not complete, or its invite was revoked. Open it as it stands in the email, or ask for a new invite."
	}
	httpapi.RefusalHeaders(w, status, e)
	_ = failure.Show(w, View{ // the browser left
		Title: "This invite cannot be accepted", Prefix: PathPrefix(i.PublicURL()), Data: detail, Status: status,
	})
}
