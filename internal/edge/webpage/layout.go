package webpage

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// base is around the content of every page. Strangers wrote much of what pages show:
// html/template escapes it for its place.
var base = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"time": func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	}).Parse(`<!doctype html><html lang="en"><head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title><link rel="stylesheet" href="{{.Prefix}}/docs/page.css">{{block "head" .}}{{end}}</head>
{{block "body" .}}<body class="plain"><main>
<h1>{{.Title}}</h1>
{{with .Problem}}<p class="problem" role="alert">{{.}}</p>
{{end}}{{template "content" .}}</main></body>{{end}}</html>
{{define "content"}}{{end}}`))
})

// Page is a page for people. All pages have the same style and the same base.
type Page struct{ content func() *template.Template }

// NewPage returns a page. Its content is a template whose dot is a View.
func NewPage(content string) *Page { return newPage(`{{define "content"}}` + content + `{{end}}`) }

// newPage returns a page that replaces blocks of base. It is read at its first use: most
// programs that start show no page.
func newPage(blocks string) *Page {
	return &Page{sync.OnceValue(func() *template.Template {
		return template.Must(template.Must(base().Clone()).Parse(blocks))
	})}
}

// View is what a page shows.
type View struct {
	Title   string
	Prefix  string // before the paths of this server, as of PathPrefix
	Problem string // why the last try was refused; "": it was not
	Data    any    // of the page's content

	Status int    // 0: 200
	Forms  string // the sources that a form of the page may lead to; "": none
}

// PathPrefix returns the path of a public URL, without a slash at the end: a proxy
// serves everything of this server below it.
func PathPrefix(publicURL string) string {
	u, err := url.Parse(publicURL)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.EscapedPath(), "/")
}

// Show sends a page that is for one person: no cache keeps it, and its address, which
// may hold a secret, is sent to no other site.
func (p *Page) Show(w http.ResponseWriter, v View) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Referrer-Policy", "no-referrer")
	if v.Forms != "" {
		h.Set("Referrer-Policy", "same-origin") // older browsers send no Origin with a form otherwise
	}
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; form-action "+cmp.Or(v.Forms, "'none'")+"; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(cmp.Or(v.Status, http.StatusOK))
	return p.content().Execute(w, v)
}

// failure is the page of a refusal that has no form to correct.
var failure = NewPage(`<p>{{.Data}}</p>
`)
