// Package console serves the console: the pages on which people use agentd in a browser.
// They are built from web/ by make web, and the built files are part of the program. The
// pages call the public API, and nothing else.
package console

import (
	"bytes"
	"embed"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/webpage"
)

//go:embed dist
var dist embed.FS

// Home is the path of the console's first page.
const Home = "/"

// policy lets the page use scripts, styles and pictures of this server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; " +
	"font-src 'self'; frame-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

// places are the first parts of the console's addresses. What is below them is up to the
// console; every other path of the server is what it was without it.
var places = [...]string{"overview", "inbox", "chat", "runs", "agents", "teams", "missions",
	"initiatives", "library", "governance", "marketplace", "settings", "reference"}

// medias are the media types of the built files.
var medias = map[string]string{
	".js":  "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

// Console serves the pages.
type Console struct {
	// PublicURL returns the address of this deployment. Its path is before all
	// addresses of the console.
	PublicURL func() string
}

// Routes returns the pages and their files. They are public, as they hold no data, and
// not part of the OpenAPI document.
func (c Console) Routes() []httpapi.Raw {
	serve := func(path string, serve func(http.ResponseWriter, *http.Request, authz.Caller) error) httpapi.Raw {
		return httpapi.Raw{Row: route.Row{Method: http.MethodGet, Path: path, Public: true}, Quiet: true, Serve: serve}
	}
	all := []httpapi.Raw{serve(Home, c.home)}
	for _, place := range places {
		all = append(all, serve("/"+place, c.page), serve("/"+place+"/*", c.page))
	}
	for _, name := range files() {
		file := httpapi.NewFile(medias[path.Ext(strings.TrimSuffix(name, ".gz"))], func() ([]byte, bool, error) {
			content, err := dist.ReadFile("dist/" + name)
			return content, true, err
		})
		if strings.HasPrefix(name, "assets/") {
			file.Immutable() // the name changes with the content
		}
		all = append(all, serve("/"+strings.TrimSuffix(name, ".gz"), file.Serve))
	}
	return all
}

// files lists the built files that are served as they are.
func files() []string {
	names, err := fs.Glob(dist, "dist/*.gz")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	assets, err := fs.Glob(dist, "dist/assets/*.gz")
	if err != nil {
		panic(err)
	}
	names = append(names, assets...)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, "dist/")
	}
	return names
}

// home serves browsers. Programs that ask for / get the refusal of any path that does
// not exist.
func (c Console) home(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return fault.New(fault.NotFound, "",
			"There is nothing at this path; /api/v1/openapi.json lists the operations, and a browser shows the console.")
	}
	return c.page(w, r, who)
}

// page serves the one page of the console, which draws what its address names. The base
// of its addresses is below the public URL, so that one build fits every path prefix.
func (c Console) page(w http.ResponseWriter, _ *http.Request, _ authz.Caller) error {
	index, err := dist.ReadFile("dist/index.html")
	if err != nil {
		return err
	}
	base := `<base href="` + html.EscapeString(webpage.PathPrefix(c.PublicURL())+"/") + `" />`
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Add("Vary", "Accept")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(bytes.Replace(index, []byte("<!-- base -->"), []byte(base), 1)) // net/http notices a client that left
	return nil
}
