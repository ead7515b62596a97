// Package webpage serves pages for browsers: a welcome page at / and the API
// reference at /docs, which shows the OpenAPI document of this server with Swagger UI.
// Everything comes from the program; nothing is fetched from elsewhere.
package webpage

import (
	"embed"
	"net/http"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

//go:embed assets/docs.js assets/page.css assets/swagger-ui-bundle.js.gz assets/swagger-ui.css.gz
//go:embed assets/LICENSE assets/NOTICE assets/swagger-ui-bundle.js.LICENSE.txt.gz
var assets embed.FS

// Policies of the pages: nothing is loaded from elsewhere, no script stands in a page,
// and no page is framed. Swagger UI draws with images in data URLs.
const (
	plainPolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	docsPolicy  = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// Pages are the pages. They are made once.
type Pages struct {
	// Console is the path of the console; "": there is none.
	Console string
	// PublicURL returns the address of this deployment.
	PublicURL func() string
}

// Routes returns the pages and their files. They are public and not part of the
// OpenAPI document.
func (p Pages) Routes() []httpapi.Raw {
	page := func(path string, serve func(http.ResponseWriter, *http.Request, authz.Caller) error) httpapi.Raw {
		return httpapi.Raw{Row: route.Row{Method: http.MethodGet, Path: path, Public: true}, Quiet: true, Serve: serve}
	}
	all := []httpapi.Raw{page("/", p.welcome), page("/docs", p.docs), page("/docs/", p.docs)}
	for _, f := range []struct{ name, stored, media string }{
		{"docs.js", "docs.js", "text/javascript; charset=utf-8"},
		{"page.css", "page.css", "text/css; charset=utf-8"},
		{"swagger-ui-bundle.js", "swagger-ui-bundle.js.gz", "text/javascript; charset=utf-8"},
		{"swagger-ui.css", "swagger-ui.css.gz", "text/css; charset=utf-8"},
		{"LICENSE", "LICENSE", "text/plain; charset=utf-8"},
		{"NOTICE", "NOTICE", "text/plain; charset=utf-8"},
		{"swagger-ui-bundle.js.LICENSE.txt", "swagger-ui-bundle.js.LICENSE.txt.gz", "text/plain; charset=utf-8"},
	} {
		file := httpapi.NewFile(f.media, func() ([]byte, bool, error) {
			content, err := assets.ReadFile("assets/" + f.stored)
			return content, strings.HasSuffix(f.stored, ".gz"), err
		})
		all = append(all, page("/docs/"+f.name, file.Serve))
	}
	return all
}

var welcomePage = NewPage(`<p>This server runs AI agents: durably, streamed, behind one API.</p>
<ul>
{{with .Data.Console}}<li><a href="{{.}}">Console</a>: agents, chats, runs and approvals in the browser</li>
{{end}}<li><a href="{{.Prefix}}/docs">API reference</a>: every operation, with its fields and examples</li>
<li><a href="{{.Prefix}}/api/v1/openapi.json">OpenAPI document</a>, for client generators</li>
<li><a href="{{.Prefix}}/health">Health</a> of this server</li>
<li><a href="{{.Prefix}}/signin">Sign in</a> with this browser</li>
</ul>
<p>Programs use <code>{{.Data.Base}}/api/v1</code> with an API key; clients of OpenAI use <code>{{.Data.Base}}/v1</code> as their base URL.
From a terminal:</p>
<pre><code>export AGENTD_URL={{.Data.Base}}
export AGENTD_KEY=svc_…    # the first start printed it
agentd agent create --name hello
agentd chat hello</code></pre>
<p>A lost key is replaced on the machine of the server: <code>agentd admin key create --role owner --scopes '*' --name NAME</code></p>
`)

// docsPage has a body of its own: Swagger UI has its own style, and no dark one.
var docsPage = newPage(`{{define "head"}}
<link rel="stylesheet" href="{{.Prefix}}/docs/swagger-ui.css">{{end}}
{{define "body"}}<body>
<noscript><p>This page needs JavaScript. The same is in <a href="{{.Prefix}}/api/v1/openapi.json">the OpenAPI document</a>.</p></noscript>
<div id="docs"></div><script src="{{.Prefix}}/docs/swagger-ui-bundle.js"></script>
<script src="{{.Prefix}}/docs/docs.js"></script></body>{{end}}`)

// welcome serves browsers. Programs that ask for / get the refusal of any path that
// does not exist.
func (p Pages) welcome(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return fault.New(fault.NotFound, "",
			"There is nothing at this path; /api/v1/openapi.json lists the operations, and /docs shows them in a browser.")
	}
	scheme := "http://"
	if strings.HasPrefix(p.PublicURL(), "https://") {
		scheme = "https://"
	}
	prefix := PathPrefix(p.PublicURL())
	return welcomePage.showPublic(w, plainPolicy, View{
		Title: "agentd", Prefix: prefix, Data: struct{ Console, Base string }{p.Console, scheme + r.Host + prefix},
	})
}

func (p Pages) docs(w http.ResponseWriter, _ *http.Request, _ authz.Caller) error {
	return docsPage.showPublic(w, docsPolicy, View{Title: "agentd API reference", Prefix: PathPrefix(p.PublicURL())})
}

// showPublic sends a page that is the same for everybody.
func (p *Page) showPublic(w http.ResponseWriter, policy string, v View) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Add("Vary", "Accept")
	h.Set("Content-Security-Policy", policy)
	w.WriteHeader(http.StatusOK)
	return p.content().Execute(w, v)
}
