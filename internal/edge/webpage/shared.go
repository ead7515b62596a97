package webpage

import (
	"context"
	"html/template"
	"net/http"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/session"
)

// SharedPath is the path of the pages of shared conversations, before the secret of
// the link.
const SharedPath = "/shared/"

// sharedTemplates show conversations. Everything in them was written by strangers:
// html/template escapes it for its place.
var sharedTemplates = template.Must(template.Must(templates.Clone()).Funcs(template.FuncMap{
	"time": func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
}).Parse(`{{define "shared"}}{{template "top" .}}<meta name="robots" content="noindex"></head><body class="plain"><main>
{{with .Session}}<h1>Conversation with {{.AgentName}}</h1>
<p>Shared by link, last changed on
<time datetime="{{.UpdatedAt.Format "2006-01-02T15:04:05Z07:00"}}">{{time .UpdatedAt}}</time>. Agents can be wrong.</p>
<ol class="messages">
{{range .Messages}}<li><h2>{{if eq .Role "user"}}Person{{else}}{{$.Session.AgentName}}{{end}}</h2>
<p class="said">{{.Content}}</p></li>
{{else}}<li>Nothing was said yet.</li>
{{end}}</ol>
{{if .Todos}}<h2>Todos</h2>
<ul>{{range .Todos}}<li>{{.Title}} ({{.Status}})</li>
{{end}}</ul>
{{end}}{{if .Artifacts}}<h2>Files</h2>
<ul>{{range .Artifacts}}<li>{{.Name}} ({{.MimeType}}, {{.SizeBytes}} bytes)</li>
{{end}}</ul>
{{end}}{{end}}</main></body></html>
{{end}}
{{define "failed"}}{{template "top" .}}<meta name="robots" content="noindex"></head><body class="plain"><main>
<h1>{{.Title}}</h1>
<p>{{.Detail}}</p>
</main></body></html>
{{end}}`))

// SharedFunc returns the conversation of a public link. Errors: fault.NotFound.
type SharedFunc func(ctx context.Context, link string) (*session.Shared, error)

// Shared shows conversations that are shared by public links to people: the same as
// GET /api/v1/shared/{shareId}, for which it needs no script and no files from elsewhere.
type Shared struct {
	Read SharedFunc
}

// Routes returns the page. It is not part of the OpenAPI document.
func (s Shared) Routes() []httpapi.Raw {
	return []httpapi.Raw{{
		Row: route.Row{Method: http.MethodGet, Path: SharedPath + "{shareId}", Public: true, Refused: "session.share_refused"},
		Serve: func(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
			shown, err := s.Read(r.Context(), r.PathValue("shareId"))
			if err != nil {
				return err
			}
			return showPrivate(w, http.StatusOK, "shared", struct {
				Title   string
				Session *session.Shared
			}{"Conversation with " + shown.AgentName, shown})
		},
		Fail: func(w http.ResponseWriter, _ *http.Request, status int, e *fault.Error) {
			httpapi.RefusalHeaders(w, status, e)
			_ = showPrivate(w, status, "failed", struct{ Title, Detail string }{http.StatusText(status), e.Detail}) // the browser is gone
		},
	}}
}

// showPrivate shows a page whose address is a secret: it is kept by no cache and sent
// to no other site.
func showPrivate(w http.ResponseWriter, status int, name string, data any) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Content-Security-Policy", plainPolicy)
	w.WriteHeader(status)
	return sharedTemplates.ExecuteTemplate(w, name, data)
}
