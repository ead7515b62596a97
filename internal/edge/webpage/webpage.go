// Package webpage serves pages for browsers that need no console: signing in, invites,
// shared conversations, and the API reference at /docs, which shows the OpenAPI document
// of this server with Swagger UI.
// Everything comes from the program; nothing is fetched from elsewhere.
package webpage

import (
	"embed"
	"net/http"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
)

//go:embed assets/docs.js assets/page.css assets/swagger-ui-bundle.js.gz assets/swagger-ui.css.gz
//go:embed assets/LICENSE assets/NOTICE assets/swagger-ui-bundle.js.LICENSE.txt.gz
var assets embed.FS

// docsPolicy is the policy of the reference: nothing is loaded from elsewhere, no script
// stands in a page, and no page is framed. Swagger UI draws with images in data URLs.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Pages are the pages. They are made once.
type Pages struct {
	// PublicURL returns the address of this deployment.
	PublicURL func() string
}

// Routes returns the pages and their files. They are public and not part of the
// OpenAPI document.
func (p Pages) Routes() []httpapi.Raw {
	page := func(path string, serve func(http.ResponseWriter, *http.Request, authz.Caller) error) httpapi.Raw {
		return httpapi.Raw{Row: route.Row{Method: http.MethodGet, Path: path, Public: true}, Quiet: true, Serve: serve}
	}
	all := []httpapi.Raw{page("/docs", p.docs), page("/docs/", p.docs)}
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

// docsPage has a body of its own: Swagger UI has its own style, and no dark one.
var docsPage = newPage(`{{define "head"}}
<link rel="stylesheet" href="{{.Prefix}}/docs/swagger-ui.css">{{end}}
{{define "body"}}<body>
<noscript><p>This page needs JavaScript. The same is in <a href="{{.Prefix}}/api/v1/openapi.json">the OpenAPI document</a>.</p></noscript>
<div id="docs"></div><script src="{{.Prefix}}/docs/swagger-ui-bundle.js"></script>
<script src="{{.Prefix}}/docs/docs.js"></script></body>{{end}}`)

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
