package httpapi

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// binder fills a row's input from a request. It is compiled at start, so that a
// request pays only for setting the fields.
type binder struct {
	typ     reflect.Type
	params  []parameter
	queries []string // parameters that are read
	body    *bodyPlan
	bodies  *bodies
	members []parameter // maps, whose keys are in the names of query parameters
}

// parameter is a field that comes from the path, a header, the query or a
// cookie. A field may name a header and a query parameter: the header wins.
type parameter struct {
	field       reflect.StructField
	position    int // in the path, from 0; -1: not in the path
	header      string
	query       string
	cookie      string
	id          bool   // a malformed one is answered 404, like an unknown one
	resource    string // of that thing
	list        bool
	tolerant    bool   // any text is accepted; the handler deals with it
	defaultText string // the default tag
	schema      *schema.Text
}

type bodyPlan struct {
	index    []int
	schema   *schema.Schema // nil: raw
	outline  *schema.Schema // of a raw body: names its fields; nil: it has no published schema
	pointer  bool
	optional bool
	partial  bool
	uploads  []string // accepted forms of an Upload
	message  int64    // size limit of a Message; 0: not a Message
}

// tolerated are the query parameters that are never malformed: an invalid limit is
// replaced by the default, an unknown cursor is answered INVALID_CURSOR, and an
// unknown event id replays from the beginning.
var tolerated = map[string]bool{"limit": true, "cursor": true, "last_event_id": true}

var rawJSON = reflect.TypeFor[jsontext.Value]()

// compile plans a row's input. It panics on a field without a place in the request
// and on a path parameter without a field.
func (s *Server) compile(row route.Row, in reflect.Type) *binder {
	b := &binder{typ: in, bodies: s.bodies}
	names := pathNames(row.Path)
	taken := 0
	for _, f := range reflect.VisibleFields(in) {
		switch {
		case f.Anonymous, !f.IsExported():
			continue
		case f.Name == "Body":
			b.body = planBody(row, f)
			continue
		}
		p := parameter{
			field:    f,
			position: -1,
			header:   http.CanonicalHeaderKey(f.Tag.Get("header")),
			query:    f.Tag.Get("query"),
			cookie:   f.Tag.Get("cookie"),
		}
		if name := f.Tag.Get("path"); name != "" {
			p.position = slices.Index(names, name)
			if p.position < 0 {
				panic("httpapi: " + row.Path + " has no parameter " + name)
			}
			taken++
			p.resource = noun(name)
			p.id = strings.HasSuffix(name, "Id") && f.Type.Kind() == reflect.String && f.Tag.Get("format") != "any"
		} else if p.header == "" && p.query == "" && p.cookie == "" {
			panic("httpapi: the field " + f.Name + " of the input of " + row.Path + " has no tag path, query, header or cookie")
		}
		if f.Type.Kind() == reflect.Map {
			b.members = append(b.members, p)
			continue
		}
		p.list = f.Type.Kind() == reflect.Slice
		p.tolerant = tolerated[p.query]
		p.defaultText = f.Tag.Get("default")
		p.schema = schema.TextOf(f)
		if p.query != "" {
			b.queries = append(b.queries, p.query)
		}
		b.params = append(b.params, p)
	}
	if taken != len(names) {
		panic("httpapi: the input of " + row.Method + " " + row.Path + " has no field for a path parameter")
	}
	return b
}

func planBody(row route.Row, f reflect.StructField) *bodyPlan {
	plan := &bodyPlan{index: f.Index, optional: row.Optional, partial: row.Partial}
	if f.Type == rawJSON {
		if row.BodyOf != nil {
			plan.outline = schema.For(row.BodyOf)
		}
		return plan
	}
	if f.Type == uploadType {
		if plan.uploads = row.Uploads; len(plan.uploads) == 0 {
			panic("httpapi: " + row.Path + " must list Uploads")
		}
		return plan
	}
	if f.Type == messageType {
		if plan.message = row.MaxBytes; plan.message <= 0 || plan.message > MaxBody {
			panic("httpapi: " + row.Path + " must set MaxBytes, up to MaxBody")
		}
		return plan
	}
	plan.pointer = f.Type.Kind() == reflect.Pointer
	t := f.Type
	if plan.pointer {
		t = t.Elem()
	}
	plan.schema = schema.For(t)
	return plan
}

// pathNames lists the parameters of a pattern: {runId}.
func pathNames(pattern string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(pattern, "{")
		if !found {
			return names
		}
		var name string
		name, pattern, _ = strings.Cut(rest, "}")
		names = append(names, name)
	}
}

// noun returns the name of the resource that a path parameter identifies:
// "knowledge base" for knowledgeBaseId, "version" for versionNum.
func noun(parameter string) string {
	var b strings.Builder
	for _, r := range strings.TrimSuffix(strings.TrimSuffix(parameter, "Id"), "Num") {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// bind returns a *In. The caller releases held, also after an error.
func (b *binder) bind(x *exchange, r *http.Request) (in any, held body, err error) {
	v := reflect.New(b.typ)
	if err := b.bindParams(x, r, v.Elem()); err != nil {
		return nil, body{}, err
	}
	if b.body != nil {
		if held, err = b.bindBody(x, r, v.Elem().FieldByIndex(b.body.index)); err != nil {
			return nil, held, err
		}
	} else if r.ContentLength < 0 && r.Method != http.MethodGet && r.Header.Get("Content-Type") != "" && isJSON(r.Header.Get("Content-Type")) {
		return nil, body{}, errLengthRequired // although the row reads no body
	}
	return v.Interface(), held, nil
}

// Params returns the parameters of a Raw route whose In is the type In. Errors are
// refusals.
func Params[In any](r *http.Request) (*In, error) {
	x := exchangeOf(r.Context())
	in := new(In)
	return in, x.op.params.bindParams(x, r, reflect.ValueOf(in).Elem())
}

func (b *binder) bindParams(x *exchange, r *http.Request, in reflect.Value) error {
	var query url.Values
	if r.URL.RawQuery != "" {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil && b.queries != nil {
			return fault.New(fault.Malformed, "INVALID_QUERY", "The query string is not properly escaped.").Because(err)
		}
		x.warnOfParameters(query, b)
		for i := range b.members {
			if err := b.members[i].setMembers(in, query); err != nil {
				return err
			}
		}
	}
	for i := range b.params {
		p := &b.params[i]
		field := in.FieldByIndex(p.field.Index)
		if p.position >= 0 {
			text := x.param(p.position)
			if p.id && !ident.Valid(text) || p.schema.Violation(text) != "" || schema.SetScalar(field, text) != nil {
				return fault.NewNotFound(p.resource)
			}
			continue
		}
		texts, where := p.find(r, query)
		if err := p.set(field, texts, where); err != nil {
			return err
		}
	}
	return nil
}

// find returns what was sent for a parameter; empty text counts as not sent.
func (p *parameter) find(r *http.Request, query url.Values) (texts []string, where string) {
	if p.header != "" {
		if sent := r.Header[p.header]; len(sent) > 0 && sent[0] != "" {
			return sent, "header " + p.header
		}
	}
	if p.query != "" {
		if sent := query[p.query]; len(sent) > 0 && sent[0] != "" {
			return sent, "query parameter " + p.query
		}
	}
	if p.cookie != "" {
		if c, err := r.Cookie(p.cookie); err == nil && c.Value != "" {
			return []string{c.Value}, "cookie " + p.cookie
		}
	}
	if p.defaultText != "" {
		return []string{p.defaultText}, ""
	}
	return nil, ""
}

func (p *parameter) set(field reflect.Value, texts []string, where string) error {
	if texts == nil {
		return nil
	}
	if !p.list {
		texts = texts[:1]
	} else if texts = split(texts); len(texts) > maxValues {
		return fault.New(fault.Malformed, "INVALID_QUERY", "The %s has more than %d values.", where, maxValues)
	}
	for _, text := range texts {
		if complaint := p.schema.Violation(text); complaint != "" && !p.tolerant {
			return fault.New(fault.Malformed, "INVALID_QUERY", "The %s is invalid: %s.", where, complaint)
		}
		into := field
		if p.list {
			into = reflect.New(field.Type().Elem()).Elem()
		}
		if err := schema.SetScalar(into, text); err != nil {
			return fault.New(fault.Malformed, "INVALID_QUERY", "The %s is invalid.", where).Because(err)
		}
		if p.list {
			field.Set(reflect.Append(field, into))
		}
	}
	return nil
}

// maxMembers bounds the keys of one parameter, and maxMemberKey their bytes.
const (
	maxMembers   = 3
	maxMemberKey = 256
)

// member returns the key of a parameter name[key].
func (p *parameter) member(name string) (key string, ok bool) {
	key, ok = strings.CutPrefix(name, p.query+"[")
	if !ok || !strings.HasSuffix(key, "]") {
		return "", false
	}
	return strings.TrimSuffix(key, "]"), true
}

// setMembers sets a map to the values of the parameters name[key].
func (p *parameter) setMembers(in reflect.Value, query url.Values) error {
	var members map[string]string
	for name, values := range query {
		key, ok := p.member(name)
		switch {
		case !ok:
			continue
		case key == "" || len(key) > maxMemberKey || !utf8.ValidString(key) || len(values) != 1 || !utf8.ValidString(values[0]):
			return fault.New(fault.Malformed, "INVALID_QUERY",
				"The query parameter %s[key] takes a key of 1 to %d bytes of UTF-8 and one value for each key.", p.query, maxMemberKey)
		case len(members) == maxMembers:
			return fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter %s[key] can be sent for up to %d keys.", p.query, maxMembers)
		case members == nil:
			members = map[string]string{}
		}
		members[key] = values[0]
	}
	if members != nil {
		in.FieldByIndex(p.field.Index).Set(reflect.ValueOf(members))
	}
	return nil
}

// maxValues bounds the values of one parameter.
const maxValues = 100

// split returns the values of a list: each is sent in a parameter of its own, or
// several in one, with commas between them.
func split(texts []string) []string {
	var all []string
	for _, text := range texts {
		for value := range strings.SplitSeq(text, ",") {
			if all = append(all, value); len(all) > maxValues {
				return all
			}
		}
	}
	return all
}

var emptyObject = []byte("{}")

func (b *binder) bindBody(x *exchange, r *http.Request, field reflect.Value) (body, error) {
	plan := b.body
	if plan.uploads != nil {
		return b.bindUpload(x, r, field.Addr().Interface().(*route.Upload))
	}
	if plan.message > 0 {
		return b.bindMessage(x, r, field.Addr().Interface().(*route.Message))
	}
	held, err := b.bodies.read(x, r, plan.optional, plan.schema != nil)
	if err != nil {
		return held, err
	}
	unknown, err := plan.decode(held.data, field)
	x.warnOfFields(unknown)
	return held, err
}

// decode sets field to the body and returns the members that it ignored.
func (plan *bodyPlan) decode(data []byte, field reflect.Value) ([]schema.UnknownField, error) {
	empty := len(data) == 0
	if plan.schema == nil {
		switch {
		case empty:
			return nil, nil
		case plan.outline == nil:
			field.SetBytes(data)
			return nil, schema.Syntax(data)
		}
		field.SetBytes(data)
		return plan.outline.Unknown(data)
	}
	if plan.pointer {
		if empty {
			return nil, nil
		}
		field.Set(reflect.New(field.Type().Elem()))
		return plan.schema.DecodeReporting(data, field.Interface(), plan.partial)
	}
	if empty {
		data = emptyObject // for the defaults of its fields
	}
	return plan.schema.DecodeReporting(data, field.Addr().Interface(), plan.partial)
}
