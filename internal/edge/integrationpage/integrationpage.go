// Package integrationpage serves the page that people come back to after they
// authorized an integration at its provider.
package integrationpage

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"agentd/internal/accounts/signin"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/delivery/integration"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/webpage"
)

// Integrations is the port to integrations.
type Integrations interface {
	CheckCallback(provider, state, code, refusal string) error
	Complete(ctx context.Context, who authz.Caller, provider string, in *integration.CompleteBody) (*integration.Integration, string, error)
}

// Pages are the page and what its button sends.
type Pages struct {
	Integrations Integrations
	PublicURL    func() string // of this deployment
}

// maxForm bounds what the button sends.
const maxForm = 16 << 10

// Path is the path of the page.
const Path = "/api/v1/integrations/{provider}/oauth/callback"

// Routes returns the routes of the page.
func (p *Pages) Routes() []httpapi.Raw {
	ask := route.Row{
		Method: "GET", Path: Path, ID: "returnFromIntegrationOAuth", Tag: "Integrations", Public: true, Errors: []int{400},
		Summary: "Receive a person from the provider of an integration",
		Doc: "The provider redirects people here. The page has a button that completes the authorization with the browser's session, " +
			"and what a terminal needs to complete it. Nothing is completed by the redirect alone.",
	}
	finish := route.Row{
		Method: "POST", Path: Path, ID: "finishIntegrationOAuth", Tag: "Integrations",
		Summary: "Complete the authorization of an integration in a browser", Doc: "The button of the page sends this.",
		Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin, Fresh: true, Outside: true, Errors: []int{400, 409, 503},
	}
	return []httpapi.Raw{{Row: ask, Serve: p.ask, Fail: p.fail}, {Row: finish, Serve: p.finish, Fail: p.fail}}
}

var (
	askPage = webpage.NewPage(`<p>{{.Data.Provider}} allows the connection. Complete it only if you began it yourself.</p>
<form method="post" action="{{$.Prefix}}{{.Data.Action}}"><input type="hidden" name="state" value="{{.Data.State}}">
<input type="hidden" name="code" value="{{.Data.Code}}"><button>Connect</button></form>
{{if .Data.Typed}}<p>Or in the terminal in which you began it:</p>
<pre><code>agentd integration complete {{.Data.Provider}} --state {{.Data.State}} --code {{.Data.Code}}</code></pre>
{{end}}`)
	donePage = webpage.NewPage(`<p>Agents that it is linked to can use it now. You can close this window.</p>
`)
	failedPage = webpage.NewPage(`<p>{{.Data.Detail}}</p>
{{with .Data.SignIn}}<p><a class="button" href="{{$.Prefix}}{{.}}">Sign in</a></p>
{{end}}`)
)

func (p *Pages) view(title string, data any) webpage.View {
	return webpage.View{Title: title, Prefix: webpage.PathPrefix(p.PublicURL()), Data: data}
}

// plainCode matches codes that mean nothing to a shell. Others, which a stranger may
// have made up, are not offered for a terminal.
var plainCode = regexp.MustCompile(`^[A-Za-z0-9._/+=-]+$`)

func (p *Pages) ask(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	q := r.URL.Query()
	state, code := q.Get("state"), q.Get("code")
	if err := p.Integrations.CheckCallback(r.PathValue("provider"), state, code, q.Get("error")); err != nil {
		return err
	}
	provider := r.PathValue("provider")
	v := p.view("Connect "+provider, struct {
		Provider, Action, State, Code string
		Typed                         bool
	}{provider, integration.CallbackPath(provider), state, code, plainCode.MatchString(code)})
	v.Forms = "'self'"
	return askPage.Show(w, v)
}

func (p *Pages) finish(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return fault.New(fault.Malformed, "", "The form cannot be read; start again.").Because(err)
	}
	done, _, err := p.Integrations.Complete(r.Context(), who, r.PathValue("provider"), &integration.CompleteBody{
		State: r.PostForm.Get("state"), Code: r.PostForm.Get("code"),
	})
	if err != nil {
		return err
	}
	return donePage.Show(w, p.view(done.Name+" is connected", nil))
}

// fail shows a refusal to a person, and sends a problem document to anything but a
// browser.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, status int, e *fault.Error) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		httpapi.Problem(w, r, status, e)
		return
	}
	data := struct{ Detail, SignIn string }{Detail: e.Detail}
	if status == http.StatusUnauthorized {
		data.Detail = "Sign in to agentd in this browser, or complete the connection in the terminal in which you began it."
		data.SignIn = signin.SignInPath
		if r.Method == http.MethodGet {
			data.SignIn += "?" + url.Values{"return_to": {r.URL.RequestURI()}}.Encode()
		}
	}
	httpapi.RefusalHeaders(w, status, e)
	v := p.view("The integration was not connected", data)
	v.Status = status
	_ = failedPage.Show(w, v) // the client left
}
