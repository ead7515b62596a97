package httpapi

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// Version is the version of the OpenAPI document.
const Version = "0.2.0"

// Names of the security schemes in the document.
const (
	bearerScheme  = "bearerAuth"
	cookieScheme  = "cookieAuth"
	sessionScheme = "sessionAuth"
	queryScheme   = "queryTokenAuth"
	headerScheme  = "apiKeyHeaderAuth"
)

// OpenAPI renders the OpenAPI 3.1 document of routes, of those raw ones that
// have an ID, and of the edge's own. It is the same bytes for the same rows.
func OpenAPI(routes []route.Route, raw []Raw) ([]byte, error) {
	d := newDocument()
	for _, r := range routes {
		if !r.Hidden {
			d.add(published{Row: r.Row, in: r.In, out: r.Out, stream: r.Open != nil, queryToken: r.Out == contentType})
		}
	}
	for _, r := range append(slices.Clone(raw), edgeRoutes(nil)...) {
		if t := r.Typed; t != nil {
			d.add(published{Row: r.Row, in: t.In, out: t.Out, queryToken: t.Out == contentType, fail: r.FailOf, mixed: r.Mixed})
		} else if r.ID != "" {
			d.add(published{
				Row: r.Row, in: r.In, stream: r.Streams, mayStream: r.MayStream, fail: r.FailOf, mixed: r.Mixed, media: r.Media,
				queryToken: r.QueryToken || r.Upgrade, apiKeyHeader: r.APIKeyHeader,
			})
		}
	}
	return d.render()
}

// published is an operation as the document describes it.
type published struct {
	route.Row

	in, out      reflect.Type
	stream       bool
	mayStream    bool         // answers an event stream if the request asks for it
	fail         reflect.Type // schema of refusals; nil: problem documents
	mixed        []int        // statuses that may also be problem documents
	media        string       // of an answer of bytes that is not a download
	queryToken   bool
	apiKeyHeader bool
}

type document struct {
	openapi  *huma.OpenAPI
	registry *schema.Registry
	problem  *huma.Schema
	tags     map[string]bool
}

func newDocument() *document {
	registry := schema.NewRegistry()
	d := &document{registry: registry, tags: map[string]bool{}}
	d.problem = registry.Schema(reflect.TypeFor[problem](), true, "")
	d.openapi = &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "agentd", Version: Version, License: &huma.License{Name: "MIT", Identifier: "MIT"},
			Description: "Agents, their runs and everything around them. Every answer carries X-API-Version, the date of this contract, " +
				"and X-Request-Id. Errors are problem documents with a stable code. Any request may name the company that it is meant for " +
				"in the header X-Tenant-Id; a credential of another company is refused with 409 TENANT_SWITCHED before anything is done.",
		},
		Servers: []*huma.Server{{URL: "/", Description: "This server."}},
		Components: &huma.Components{
			Schemas:   registry.Registry,
			Responses: map[string]*huma.Response{},
			Headers:   map[string]*huma.Header{},
			SecuritySchemes: map[string]*huma.SecurityScheme{
				bearerScheme: {Type: "http", Scheme: "bearer", BearerFormat: "svc_<prefix>_<secret>", Description: "An API key."},
				cookieScheme: {Type: "apiKey", In: "cookie", Name: keyCookie,
					Description: "An API key; writes must come from the service's own pages."},
				sessionScheme: {
					Type: "apiKey", In: "cookie", Name: sessionCookie,
					Description: "The session of a signed-in browser; writes must come from the service's own pages.",
				},
				queryScheme: {
					Type: "apiKey", In: "query", Name: "token",
					Description: "An API key or stream token, only on event streams (with Accept: text/event-stream), upgrades and downloads.",
				},
				headerScheme: {Type: "apiKey", In: "header", Name: "x-api-key", Description: "An API key, only on the Anthropic-compatible routes."},
			},
		},
	}
	return d
}

func (d *document) add(p published) {
	op := &huma.Operation{
		Method: p.Method, Path: p.Path, OperationID: p.ID, Summary: strings.TrimSuffix(p.Summary, "."), Description: describe(p.Row),
		Deprecated: p.Deprecated != "", Responses: map[string]*huma.Response{}, Security: security(p), Extensions: access(p.Row),
	}
	if p.Tag != "" {
		op.Tags = []string{p.Tag}
		d.tags[p.Tag] = true
	}
	d.parameters(op, p)
	d.body(op, p)
	d.answers(op, p)
	d.refusals(op, p)
	d.conditions(op, p)
	if repeatable(p.Row) {
		d.repeats(op, p.Repeats)
	}
	d.openapi.AddOperation(op)
	if p.Sends != nil {
		d.webhooks(op, p.Sends, p.Tag)
	}
}

// access returns what a client needs to show only what its user may call: the least
// role, which is anyone where no credential is needed. The scopes are in the operation's security.
func access(row route.Row) map[string]any {
	all := map[string]any{"x-role": string(cmp.Or(row.Role, authz.Viewer))}
	if row.Public {
		all["x-role"] = "anyone"
	}
	if row.Operator {
		all["x-operator"] = true
	}
	if row.Fresh {
		all["x-recent-mfa"] = true
	}
	if row.Person {
		all["x-whole-person"] = true
	}
	return all
}

func describe(row route.Row) string {
	parts := []string{row.Doc}
	if row.Role != "" {
		parts = append(parts, "Needs the role "+string(row.Role)+" or higher.")
	}
	if row.Operator {
		parts = append(parts, "Only for members of the company that operates the service.")
	}
	if row.Person {
		parts = append(parts, "Reaches beyond the company of the credential: needs a browser session, or a key with the scope `*`.")
	}
	if row.Fresh {
		parts = append(parts, "A browser session of a user with MFA must have completed it within the last 15 minutes; otherwise 401 "+
			"mfa_required.")
	}
	if row.Successor != "" {
		parts = append(parts, "Use "+row.Successor+" instead.")
	}
	return cmp.Or(strings.TrimSpace(strings.Join(parts, " ")), strings.TrimSuffix(row.Summary, ".")+".")
}

// security lists the alternatives: each scheme with each of the scopes.
func security(p published) []map[string][]string {
	if p.Public {
		return []map[string][]string{}
	}
	schemes := []string{bearerScheme, cookieScheme, sessionScheme}
	if p.stream || p.queryToken {
		schemes = append(schemes, queryScheme)
	}
	if p.apiKeyHeader {
		schemes = append(schemes, headerScheme)
	}
	var all []map[string][]string
	for _, scheme := range schemes {
		if len(p.Scopes) == 0 {
			all = append(all, map[string][]string{scheme: {}})
		}
		for _, scope := range p.Scopes {
			needs := []string{string(scope)}
			for _, more := range p.And {
				needs = append(needs, string(more))
			}
			all = append(all, map[string][]string{scheme: needs})
		}
	}
	return all
}

func (d *document) render() ([]byte, error) {
	d.finish()
	for tag := range d.tags {
		d.openapi.Tags = append(d.openapi.Tags, &huma.Tag{Name: tag})
	}
	slices.SortFunc(d.openapi.Tags, func(a, b *huma.Tag) int { return strings.Compare(a.Name, b.Name) })
	raw, err := d.openapi.MarshalJSON()
	if err != nil {
		return nil, fault.From(err)
	}
	doc := jsontext.Value(raw)
	if err := doc.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, err
	}
	return append(doc, '\n'), nil
}
