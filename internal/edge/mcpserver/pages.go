package mcpserver

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agentd/internal/accounts/signin"
	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/webpage"
)

const (
	// browserCookie binds an authorization to the browser that began it.
	browserCookie = "svc_mcp"
	browserLife   = 10 * time.Minute
	maxForm       = 8 << 10
)

var (
	consentPage = webpage.NewPage(`{{with .Data}}<dl><dt>Company</dt><dd>{{.Company}}</dd><dt>Server</dt><dd>{{.Server}} ({{.URL}})</dd>
<dt>Asked by</dt><dd>{{if .AskedBy}}{{.AskedBy}}{{else}}a run of an agent that needs the server{{end}}</dd></dl>
<p>All agents of {{.Company}} that the server is assigned to will act there with the account that you sign in with next.
Continue only if you want that.</p>
<form method="post" action="{{$.Prefix}}{{.Action}}"><input type="hidden" name="consent" value="{{.Token}}">
<button>Continue to {{.Server}}</button></form>
{{end}}`)
	donePage = webpage.NewPage(`<p>Agents can use it now, and runs that waited for it go on. You can close this window.</p>
`)
	failedPage = webpage.NewPage(`<p>{{.Data.Detail}}</p>
{{with .Data.SignIn}}<p><a class="button" href="{{$.Prefix}}{{.}}">Sign in</a></p>
{{end}}`)
)

// failed is why a server was not authorized.
type failed struct {
	Detail string
	SignIn string // path of the page to sign in, which leads back; "": signing in does not help
}

func (s *Server) view(title string, data any) webpage.View {
	return webpage.View{Title: title, Prefix: webpage.PathPrefix(s.PublicURL()), Data: data}
}

// askConsent shows a member what they are asked to consent to.
func (s *Server) askConsent(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	consent, err := s.Authorizations.Ask(r.Context(), who, r.URL.Query().Get("state"))
	if err != nil {
		return err
	}
	// Browsers check where a form's answer redirects to as well, which is any
	// authorization server.
	v := s.view("Authorize an MCP server", struct {
		mcp.Consent
		Action string
	}{consent, mcp.StartPath})
	v.Forms = "'self' https: http:"
	return consentPage.Show(w, v)
}

// beginAuthorization redirects a member who consented to the authorization server.
func (s *Server) beginAuthorization(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return fault.New(fault.Malformed, "", "The form cannot be read; open the link again.").Because(err)
	}
	browser := browserOf(r)
	if browser == "" {
		browser = rand.Text()
	}
	location, err := s.Authorizations.Begin(r.Context(), who, r.PostForm.Get("consent"), browser)
	if err != nil {
		return err
	}
	httpapi.SetCookie(r.Context(), &route.Cookie{Name: browserCookie, Value: browser, Lasts: browserLife, Host: true})
	h := w.Header()
	h.Set("Location", location)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// browserOf returns what the browser keeps, "" if that is nothing of ours.
func browserOf(r *http.Request) string {
	value := httpapi.Cookie(r, browserCookie)
	if len(value) != len(rand.Text()) {
		return ""
	}
	return value
}

// finishAuthorization receives a person from the authorization server and shows
// that the server is authorized.
func (s *Server) finishAuthorization(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	q := r.URL.Query()
	server, err := s.Authorizations.Finish(r.Context(), mcp.CallbackParams{
		State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error"), Issuer: q.Get("iss"), Browser: browserOf(r),
	})
	if err != nil {
		return err
	}
	return donePage.Show(w, s.view(server+" is authorized", nil))
}

// failAsPage shows a refusal to a person, and sends a problem document to anything but
// a browser.
func (s *Server) failAsPage(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		httpapi.Problem(w, r, status, e)
		return
	}
	f := failed{Detail: e.Detail}
	if status == http.StatusUnauthorized {
		f.SignIn = signin.SignInPath
		if r.Method == http.MethodGet {
			f.SignIn += "?" + url.Values{"return_to": {r.URL.RequestURI()}}.Encode()
		}
		f.Detail = "Only members of the company that was named to you can authorize its servers. Sign in to agentd in this browser first."
		if e.Code == "mfa_required" {
			f.Detail = "Your sign-in still needs its second factor."
			f.SignIn = strings.Replace(f.SignIn, signin.SignInPath, signin.FactorPath, 1)
		}
	}
	httpapi.RefusalHeaders(w, status, e)
	v := s.view("This server was not authorized", f)
	v.Status = status
	_ = failedPage.Show(w, v) // the client left
}
