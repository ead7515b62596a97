package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

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
		d.add(published{Row: r.Row, in: r.In, out: r.Out, stream: r.Open != nil, queryToken: r.Out == contentType})
	}
	for _, r := range append(slices.Clone(raw), edgeRoutes(nil)...) {
		if r.ID != "" {
			d.add(published{
				Row: r.Row, in: r.In, stream: r.Streams, fail: r.FailOf, mixed: r.Mixed, media: r.Media,
				queryToken: r.QueryToken || r.Upgrade, apiKeyHeader: r.APIKeyHeader,
			})
		}
	}
	return d.render()
}

// published is what the document says of an operation.
type published struct {
	route.Row

	in, out      reflect.Type
	stream       bool
	fail         reflect.Type // schema of refusals; nil: problem documents
	mixed        []int        // statuses that come as problem documents too
	media        string       // of an answer of bytes that is no download; "": it is another
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
			Description: "Agents, their runs and what belongs to them. Every answer carries X-API-Version, the date of this contract, " +
				"and X-Request-Id; refusals are problem documents whose code is stable.",
		},
		Components: &huma.Components{
			Schemas:   registry.Registry,
			Responses: map[string]*huma.Response{},
			Headers:   map[string]*huma.Header{},
			SecuritySchemes: map[string]*huma.SecurityScheme{
				bearerScheme:  {Type: "http", Scheme: "bearer", BearerFormat: "svc_<prefix>_<secret>", Description: "An API key."},
				cookieScheme:  {Type: "apiKey", In: "cookie", Name: keyCookie, Description: "The same key; writes must come from the service's own pages."},
				sessionScheme: {Type: "apiKey", In: "cookie", Name: sessionCookie, Description: "The session of a signed-in browser; writes must come from the service's own pages."},
				queryScheme:   {Type: "apiKey", In: "query", Name: "token", Description: "The same key, on event streams (with Accept: text/event-stream), upgrades and downloads only."},
				headerScheme:  {Type: "apiKey", In: "header", Name: "x-api-key", Description: "The same key, on the messages routes only."},
			},
		},
	}
	return d
}

func (d *document) add(p published) {
	op := &huma.Operation{
		Method: p.Method, Path: p.Path, OperationID: p.ID, Summary: p.Summary, Description: describe(p.Row),
		Deprecated: p.Deprecated != "", Responses: map[string]*huma.Response{}, Security: security(p),
	}
	if p.Tag != "" {
		op.Tags = []string{p.Tag}
		d.tags[p.Tag] = true
	}
	d.parameters(op, p)
	d.body(op, p)
	d.answers(op, p)
	d.refusals(op, p)
	if repeatable(p.Row) {
		d.repeats(op, p.Repeats)
	}
	d.openapi.AddOperation(op)
}

func describe(row route.Row) string {
	parts := []string{row.Doc}
	if row.Role != "" {
		parts = append(parts, "Needs the role "+string(row.Role)+" or higher.")
	}
	if row.Operator {
		parts = append(parts, "Only for members of the operator's company, the first of the deployment.")
	}
	if row.Fresh {
		parts = append(parts, "A browser session of somebody with a second factor must have shown it within the last 15 minutes; else 401 mfa_required.")
	}
	if row.Successor != "" {
		parts = append(parts, "Use "+row.Successor+" instead.")
	}
	return strings.TrimSpace(strings.Join(parts, " "))
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

// commonDocs describe the parameters whose meaning is the same everywhere.
var commonDocs = map[string]string{
	"limit":         "How many entries at most. Clamped into range, never refused.",
	"cursor":        "The cursor of the previous page; empty for the first.",
	"Last-Event-ID": "Resume after this event.",
	"last_event_id": "The same as Last-Event-ID, where headers cannot be set.",
}

func (d *document) parameters(op *huma.Operation, p published) {
	if p.in == nil {
		for _, name := range pathNames(p.Path) {
			op.Parameters = append(op.Parameters, &huma.Param{
				Name: name, In: "path", Required: true, Description: "Id of the " + noun(name) + ".", Schema: &huma.Schema{Type: huma.TypeString},
			})
		}
		return
	}
	for _, f := range reflect.VisibleFields(p.in) {
		for _, in := range []string{"path", "query", "header", "cookie"} {
			name := f.Tag.Get(in)
			if name == "" || !f.IsExported() {
				continue
			}
			s := schema.Parameter(d.registry, f)
			if name == "limit" {
				s.Type = huma.TypeInteger // rows take it as text, because any text is tolerated
			}
			doc := cmp.Or(f.Tag.Get("doc"), commonDocs[name])
			if in == "path" && strings.HasSuffix(name, "Id") {
				doc = cmp.Or(doc, "Id of the "+noun(name)+".")
				if s.Type == huma.TypeString && s.Format == "" {
					s.Format = "uuid"
				}
			}
			op.Parameters = append(op.Parameters, &huma.Param{
				Name: name, In: in, Description: doc, Schema: s,
				Required: in == "path", Deprecated: f.Tag.Get("deprecated") == "true",
			})
		}
	}
}

func (d *document) body(op *huma.Operation, p published) {
	t := p.BodyOf
	if p.in != nil && t == nil {
		if f, ok := p.in.FieldByName("Body"); ok && f.Type != rawJSON && f.Type != uploadType && f.Type != messageType {
			t = f.Type
		}
	}
	if p.Uploads != nil {
		d.upload(op, p, t)
		return
	}
	if p.MaxBytes > 0 {
		op.RequestBody = &huma.RequestBody{
			Description: fmt.Sprintf("Anything, up to %d KiB.", p.MaxBytes>>10),
			Content:     map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
		}
		return
	}
	if t == nil {
		return
	}
	s := d.registry.Schema(t, true, p.ID+"Body")
	if p.Partial && s.Ref != "" {
		whole := *d.registry.SchemaFromRef(s.Ref)
		if whole.Required != nil {
			whole.Required = nil
			s = &whole
		}
	}
	op.RequestBody = &huma.RequestBody{Required: !p.Optional, Content: map[string]*huma.MediaType{"application/json": {Schema: s}}}
}

// upload publishes what a file may come as; t is the type of the JSON.
func (d *document) upload(op *huma.Operation, p published, t reflect.Type) {
	file := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	for _, form := range p.Uploads {
		s := file
		switch form {
		case route.Form:
			s = &huma.Schema{Type: huma.TypeObject, Required: []string{formField}, Properties: map[string]*huma.Schema{formField: file}}
		case route.JSON:
			s = d.registry.Schema(t, true, p.ID+"Body")
		}
		op.RequestBody.Content[form] = &huma.MediaType{Schema: s}
	}
}

var (
	replyType = reflect.TypeFor[route.Reply]()
	emptyType = reflect.TypeFor[struct{}]()
)

func (d *document) answers(op *huma.Operation, p published) {
	for i, status := range append([]int{cmp.Or(p.Status, http.StatusOK)}, p.Also...) {
		answer := &huma.Response{Description: http.StatusText(status)}
		t := p.answer()
		if i > 0 && p.AlsoOf != nil {
			t = p.AlsoOf
		}
		switch {
		case p.out == contentType:
			answer.Content = map[string]*huma.MediaType{route.Bytes: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
		case p.media != "":
			answer.Content = map[string]*huma.MediaType{p.media: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
		case p.stream:
			answer.Content = map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}
		case t != nil && status != http.StatusNoContent:
			s := d.registry.Schema(t, true, p.ID+"Answer")
			if p.Nullable {
				s = &huma.Schema{AnyOf: []*huma.Schema{s, {Type: "null"}}}
			}
			answer.Content = map[string]*huma.MediaType{"application/json": {Schema: s}}
		}
		if limited(&p.Row) {
			d.rateHeaders(answer)
		}
		op.Responses[strconv.Itoa(status)] = answer
	}
	if p.out == contentType {
		ok := op.Responses[strconv.Itoa(http.StatusOK)]
		op.Responses[strconv.Itoa(http.StatusPartialContent)] = &huma.Response{Description: http.StatusText(http.StatusPartialContent), Content: ok.Content}
		op.Responses[strconv.Itoa(http.StatusNotModified)] = &huma.Response{Description: http.StatusText(http.StatusNotModified)}
	}
}

// answer is the type of the answer, nil where there is none or it is free.
func (p published) answer() reflect.Type {
	t := p.AnswerOf
	if t == nil {
		t = p.out
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t == replyType || t == emptyType || t.Kind() == reflect.Interface {
		return nil
	}
	return t
}

func (d *document) refusals(op *huma.Operation, p published) {
	statuses := append([]int{http.StatusInternalServerError, http.StatusServiceUnavailable}, p.Errors...)
	if limited(&p.Row) {
		statuses = append(statuses, http.StatusTooManyRequests)
	}
	if !p.Public {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusForbidden)
	}
	if strings.Contains(p.Path, "{") {
		statuses = append(statuses, http.StatusNotFound)
	}
	if len(op.Parameters) > len(pathNames(p.Path)) {
		statuses = append(statuses, http.StatusBadRequest)
	}
	if slices.ContainsFunc(op.Parameters, func(in *huma.Param) bool { return in.Name == "cursor" }) {
		statuses = append(statuses, http.StatusUnprocessableEntity)
	}
	if p.out == contentType {
		statuses = append(statuses, http.StatusRequestedRangeNotSatisfiable)
	}
	switch {
	case p.MaxBytes > 0:
		statuses = append(statuses, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	case op.RequestBody != nil:
		statuses = append(statuses, http.StatusBadRequest, http.StatusLengthRequired, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	}
	for _, status := range statuses {
		if p.fail != nil {
			refusal := &huma.Response{
				Description: title(status),
				Content:     map[string]*huma.MediaType{"application/json": {Schema: d.registry.Schema(p.fail, true, "")}},
			}
			if status == http.StatusTooManyRequests {
				d.tooMany(refusal)
			}
			if slices.Contains(p.mixed, status) {
				refusal.Content["application/problem+json"] = &huma.MediaType{Schema: d.problem}
			}
			op.Responses[strconv.Itoa(status)] = refusal
			continue
		}
		op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: d.refusal(status)}
	}
}

// repeats publishes that a write can be repeated with an Idempotency-Key. compatible:
// a repetition that comes too early is refused.
func (d *document) repeats(op *huma.Operation, compatible bool) {
	op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/IdempotencyKey"})
	if op.Responses["202"] == nil && !compatible {
		op.Responses["202"] = &huma.Response{Ref: "#/components/responses/InProgress"}
	}
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		if op.Responses[strconv.Itoa(status)] == nil {
			op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: d.refusal(status)}
		}
	}
	c := d.openapi.Components
	if c.Parameters != nil {
		return
	}
	c.Parameters = map[string]*huma.Param{"IdempotencyKey": {
		Name: keyHeader, In: "header",
		Description: "Names this write, so that repeating it has no second effect: within 24 hours the same request with the same key is answered as the first was, " +
			"with X-Idempotency-Replayed: true. 1 to 128 letters, digits, '_', '.' or '-'.",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[A-Za-z0-9_.-]{1,128}$"},
	}}
	c.Responses["InProgress"] = &huma.Response{
		Description: "The first request with this Idempotency-Key is still running; send it again.",
		Headers:     map[string]*huma.Header{"Retry-After": {Description: "Seconds.", Schema: &huma.Schema{Type: huma.TypeInteger}}},
		Content:     map[string]*huma.MediaType{"application/json": {Schema: d.registry.Schema(reflect.TypeFor[inProgress](), true, "")}},
	}
}

// refusal publishes the problem document of a status once.
func (d *document) refusal(status int) string {
	name := strings.ReplaceAll(title(status), " ", "")
	if d.openapi.Components.Responses[name] == nil {
		r := &huma.Response{
			Description: title(status),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: d.problem}},
		}
		d.refusalHeaders(r, status)
		d.openapi.Components.Responses[name] = r
	}
	return "#/components/responses/" + name
}

func (d *document) render() ([]byte, error) {
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
