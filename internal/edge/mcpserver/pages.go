package mcpserver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
)

const (
	// pageStyle is the only style of the pages; their Content-Security-Policy has its
	// hash.
	pageStyle = `body{font-family:system-ui,sans-serif;line-height:1.5;max-width:36em;margin:4em auto;padding:0 1em}` +
		`button{font:inherit;padding:.5em 1.5em}dt{font-weight:600}dd{margin:0 0 .5em}`
	// browserCookie binds an authorization to the browser that began it.
	browserCookie = "svc_mcp"
	browserLife   = 10 * time.Minute
	maxForm       = 8 << 10
)

var pages = template.Must(template.New("").Funcs(template.FuncMap{"style": func() template.CSS { return pageStyle }}).Parse(
	`{{define "top"}}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.}}</title><style>{{style}}</style></head><body><h1>{{.}}</h1>
{{end}}
{{define "consent"}}{{template "top" "Authorize an MCP server"}}
<dl><dt>Company</dt><dd>{{.Company}}</dd><dt>Server</dt><dd>{{.Server}} ({{.URL}})</dd>
<dt>Asked by</dt><dd>{{if .AskedBy}}{{.AskedBy}}{{else}}a run of an agent that needs the server{{end}}</dd></dl>
<p>All agents of {{.Company}} that the server is assigned to will act there with the account that you sign in with next.
Continue only if you want that.</p>
<form method="post" action="{{.Action}}"><input type="hidden" name="consent" value="{{.Token}}">
<button>Continue to {{.Server}}</button></form>
</body></html>
{{end}}
{{define "done"}}{{template "top" (print . " is authorized")}}
<p>Agents can use it now, and runs that waited for it go on. You can close this window.</p></body></html>
{{end}}
{{define "failed"}}{{template "top" .Title}}
<p>{{.Detail}}</p></body></html>
{{end}}`))

var styleHash = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// showPage sends a page. forms are the sources that its form may lead to.
func showPage(w http.ResponseWriter, status int, name string, data any, forms string) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	// The state must not leak to the next site. To this one the browser must say where
	// the form comes from.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src "+styleHash+"; form-action "+forms+"; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	return pages.ExecuteTemplate(w, name, data)
}

// askConsent shows a member what they are asked to consent to.
func (s *Server) askConsent(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	consent, err := s.Authorizations.Ask(r.Context(), who, r.URL.Query().Get("state"))
	if err != nil {
		return err
	}
	// Browsers check where a form's answer redirects to as well, which is any
	// authorization server.
	return showPage(w, http.StatusOK, "consent", struct {
		mcp.Consent
		Action string
	}{consent, mcp.StartPath}, "'self' https: http:")
}

// beginAuthorization redirects a member who consented to the authorization server.
func (s *Server) beginAuthorization(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return fault.New(fault.Malformed, "", "The form cannot be read; open the link again.").Because(err)
	}
	browser := s.browserOf(r)
	if browser == "" {
		browser = rand.Text()
	}
	location, err := s.Authorizations.Begin(r.Context(), who, r.PostForm.Get("consent"), browser)
	if err != nil {
		return err
	}
	name, secure := s.cookieName()
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // G124: over plain HTTP, as on a developer's machine, browsers drop secure cookies
		Name: name, Value: browser, Path: "/", MaxAge: int(browserLife / time.Second),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
	h := w.Header()
	h.Set("Location", location)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// cookieName returns the name of browserCookie. Browsers accept the prefix only from
// this host, for all of it, over TLS.
func (s *Server) cookieName() (name string, secure bool) {
	if at, err := url.Parse(s.PublicURL()); err == nil && at.Scheme == "https" {
		return "__Host-" + browserCookie, true
	}
	return browserCookie, false
}

// browserOf returns what the browser keeps, "" if that is nothing of ours.
func (s *Server) browserOf(r *http.Request) string {
	name, _ := s.cookieName()
	all := r.CookiesNamed(name)
	if len(all) != 1 || len(all[0].Value) != len(rand.Text()) {
		return ""
	}
	return all[0].Value
}

// finishAuthorization receives a person from the authorization server and shows
// that the server is authorized.
func (s *Server) finishAuthorization(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	q := r.URL.Query()
	server, err := s.Authorizations.Finish(r.Context(), mcp.CallbackParams{
		State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error"), Issuer: q.Get("iss"), Browser: s.browserOf(r),
	})
	if err != nil {
		return err
	}
	return showPage(w, http.StatusOK, "done", server, "'none'")
}

// failAsPage shows a refusal to a person, and sends a problem document to anything but
// a browser.
func failAsPage(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		httpapi.Problem(w, r, status, e)
		return
	}
	detail := e.Detail
	if status == http.StatusUnauthorized {
		detail = "Only members of the company that was named to you can authorize its servers. " +
			"Sign in to agentd in this browser, then open the link again."
		if e.Code == "mfa_required" {
			detail = "Your sign-in still needs its second factor. Complete it in this browser, then open the link again."
		}
	}
	httpapi.RefusalHeaders(w, status, e)
	_ = showPage(w, status, "failed", struct{ Title, Detail string }{"This server was not authorized", detail}, "'none'") // the client left
}
