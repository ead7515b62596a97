package mcpserver

import (
	"html/template"
	"net/http"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
)

// startAuthorization redirects a person to the authorization server.
func (s *Server) startAuthorization(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	location, err := s.Authorizations.Start(r.Context(), r.URL.Query().Get("state"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Location", location)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the state must not leak to the next site
	w.WriteHeader(http.StatusFound)
	return nil
}

var donePage = template.Must(template.New("done").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Authorized</title>
<body style="font-family: system-ui; max-width: 40em; margin: 4em auto">
<h1>{{.}} is authorized</h1><p>Agents can use it now, and runs that waited for it go on. You can close this window.</p></body></html>
`))

// finishAuthorization receives a person from the authorization server and shows
// that the server is authorized.
func (s *Server) finishAuthorization(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	q := r.URL.Query()
	server, err := s.Authorizations.Finish(r.Context(),
		mcp.CallbackParams{State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error"), Issuer: q.Get("iss")})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	return donePage.Execute(w, server)
}
