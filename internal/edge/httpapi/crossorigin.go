package httpapi

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

// page is the page of another origin that sent a request to a CrossOrigin row.
type page struct {
	origin string
	header http.Header // of the answer
}

// pageOf returns the page that sent a request to an operation; nil where the operation is
// not CrossOrigin, or no browser sent the request.
func (o *operation) pageOf(w http.ResponseWriter, r *http.Request) *page {
	if !o.row.CrossOrigin {
		return nil
	}
	h := w.Header()
	if h.Get("Vary") == "" {
		h.Set("Vary", "Origin")
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	return &page{origin, h}
}

// AllowOrigin implements route.OriginAllower.
func (p *page) AllowOrigin() {
	p.header.Set("Access-Control-Allow-Origin", p.origin)
	p.header.Set("Access-Control-Expose-Headers", corsExposed)
}

// preflight answers a browser that asks whether a page of another origin may call an
// operation. Where it is CrossOrigin any page may: its function then refuses by the
// origin, as only it knows whose agent the request is for.
func (m *mux) preflight(x *exchange, r *http.Request) {
	method, origin, h := r.Header.Get("Access-Control-Request-Method"), r.Header.Get("Origin"), x.Header()
	if method == "" || origin == "" || h.Get("Access-Control-Allow-Origin") != "" {
		return // no preflight, or the operator allows the origin everywhere
	}
	o := m.operations[mounted{method, m.tree.Find(chi.NewRouteContext(), method, routingPath(r))}]
	if o == nil || !o.row.CrossOrigin {
		return
	}
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Methods", method)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) <= maxCORSHeaders && tokens(asked) {
		h.Set("Access-Control-Allow-Headers", asked)
	}
}
