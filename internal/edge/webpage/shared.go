package webpage

import (
	"context"
	"net/http"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/session"
)

// SharedPath is the path of the pages of shared conversations, before the secret of
// the link.
const SharedPath = "/shared/"

var sharedPage = NewPage(`{{with .Data}}<p>Shared by link, last changed on
<time datetime="{{.UpdatedAt.Format "2006-01-02T15:04:05Z07:00"}}">{{time .UpdatedAt}}</time>. Agents can be wrong.</p>
<ol class="messages">
{{range .Messages}}<li><h2>{{if eq .Role "user"}}Person{{else}}{{$.Data.AgentName}}{{end}}</h2>
<p class="said">{{.Content}}</p></li>
{{else}}<li>Nothing was said yet.</li>
{{end}}</ol>
{{if .Todos}}<h2>Todos</h2>
<ul>{{range .Todos}}<li>{{.Title}} ({{.Status}})</li>
{{end}}</ul>
{{end}}{{if .Artifacts}}<h2>Files</h2>
<ul>{{range .Artifacts}}<li>{{.Name}} ({{.MimeType}}, {{.SizeBytes}} bytes)</li>
{{end}}</ul>
{{end}}{{end}}`)

// SharedFunc returns the conversation of a public link. Errors: fault.NotFound.
type SharedFunc func(ctx context.Context, link string) (*session.Shared, error)

// Shared shows conversations that are shared by public links to people: the same as
// GET /api/v1/shared/{shareId}, for which it needs no script and no files from elsewhere.
type Shared struct {
	Read      SharedFunc
	PublicURL func() string
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
			return sharedPage.Show(w, View{Title: "Conversation with " + shown.AgentName, Prefix: PathPrefix(s.PublicURL()), Data: shown})
		},
		Fail: func(w http.ResponseWriter, _ *http.Request, status int, e *fault.Error) {
			httpapi.RefusalHeaders(w, status, e)
			_ = failure.Show(w, View{ // the browser left
				Title: http.StatusText(status), Prefix: PathPrefix(s.PublicURL()), Data: e.Detail, Status: status,
			})
		},
	}}
}
