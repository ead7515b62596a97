package integration

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

// Bounds of OpenAPI documents.
const (
	// MaxDocument is how long a document may be.
	MaxDocument = 8 << 20
	// maxOperations is how many operations of a document are looked at.
	maxOperations = 5000
	// maxTools is how many tools an integration offers: models choose badly among
	// more, and each costs tokens.
	maxTools = 128
	// maxParameters is how many parameters an operation may have.
	maxParameters = 100
)

const fieldDocument = "spec"

// methods are the methods of operations, in the order in which they are offered.
var methods = []string{"get", "post", "put", "patch", "delete", "head"}

// document is what is read of an OpenAPI document: the rest stays bytes, until an
// operation needs it.
type document struct {
	OpenAPI string `json:"openapi"`
	Servers []struct {
		URL       string `json:"url"`
		Variables map[string]struct {
			Default string `json:"default"`
		} `json:"variables"`
	} `json:"servers"`
	Paths      map[string]jsontext.Value            `json:"paths"`
	Components map[string]map[string]jsontext.Value `json:"components"`
}

type pathItem struct {
	Parameters []jsontext.Value `json:"parameters"`
	Get        jsontext.Value   `json:"get"`
	Post       jsontext.Value   `json:"post"`
	Put        jsontext.Value   `json:"put"`
	Patch      jsontext.Value   `json:"patch"`
	Delete     jsontext.Value   `json:"delete"`
	Head       jsontext.Value   `json:"head"`
}

func (p *pathItem) of(method string) jsontext.Value {
	return map[string]jsontext.Value{"get": p.Get, "post": p.Post, "put": p.Put, "patch": p.Patch, "delete": p.Delete, "head": p.Head}[method]
}

type documentOperation struct {
	ID          string           `json:"operationId"`
	Summary     string           `json:"summary"`
	Description string           `json:"description"`
	Tags        []string         `json:"tags"`
	Deprecated  bool             `json:"deprecated"`
	Parameters  []jsontext.Value `json:"parameters"`
	RequestBody jsontext.Value   `json:"requestBody"`
}

type parameter struct {
	Ref         string         `json:"$ref"`
	Name        string         `json:"name"`
	In          string         `json:"in"`
	Description string         `json:"description"`
	Required    bool           `json:"required"`
	Schema      jsontext.Value `json:"schema"`
}

type requestBody struct {
	Ref         string `json:"$ref"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Content     map[string]struct {
		Schema jsontext.Value `json:"schema"`
	} `json:"content"`
}

// lenient reads documents of others: a name may stand twice, text may be broken.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// parseDocument reads a document. Errors: fault.Invalid, whose Detail is for people.
func parseDocument(text []byte) (*document, error) {
	d := new(document)
	if err := json.Unmarshal(text, d, lenient); err != nil {
		return nil, fault.New(fault.Invalid, "",
			"The OpenAPI document cannot be read: a part of it has another form than OpenAPI 3 defines.").Because(err)
	}
	if !strings.HasPrefix(d.OpenAPI, "3.") {
		return nil, fault.New(fault.Invalid, "",
			"The document is not OpenAPI 3: its member openapi is %.20q. Convert older documents first.", d.OpenAPI)
	}
	return d, nil
}

// documentOf returns a document that was sent inline, as an object or as text.
func documentOf(value any) ([]byte, error) {
	var text []byte
	switch v := value.(type) {
	case string:
		text = []byte(v)
	case map[string]any:
		var err error
		if text, err = json.Marshal(v); err != nil {
			return nil, err
		}
	default:
		return nil, fault.New(fault.Invalid, "", "Expected the OpenAPI document, as an object or as text.")
	}
	text, err := normalized(text)
	if err != nil {
		return nil, err
	}
	_, err = parseDocument(text)
	return text, err
}

// normalized returns a document as JSON.
func normalized(text []byte) ([]byte, error) {
	if len(text) > MaxDocument {
		return nil, fault.New(fault.Invalid, "", "The OpenAPI document has %d bytes; at most %d are read.", len(text), MaxDocument)
	}
	if trimmed := bytes.TrimLeft(text, " \t\r\n\ufeff"); len(trimmed) > 0 && trimmed[0] == '{' {
		if jsontext.Value(trimmed).IsValid(lenient) {
			return trimmed, nil
		}
	}
	return fromYAML(text)
}

// server returns the address that a document names, relative to where it came from.
func (d *document) server(from string) string {
	if len(d.Servers) == 0 {
		return ""
	}
	address := d.Servers[0].URL
	for name, v := range d.Servers[0].Variables {
		address = strings.ReplaceAll(address, "{"+name+"}", v.Default)
	}
	base, err := url.Parse(from)
	if err != nil {
		return address
	}
	u, err := base.Parse(address)
	if err != nil {
		return address
	}
	return strings.TrimRight(u.String(), "/")
}

// filter selects and names operations.
type filter struct {
	include, exclude []string // operation ids, tags, paths; a trailing * matches anything
	methods          []string // none: all
	names            map[string]string
	descriptions     map[string]string
	prefix           string
}

func filterOf(values map[string]any) *filter {
	f := &filter{
		include: texts(values["include"]), exclude: texts(values["exclude"]), methods: texts(values["methods"]),
		names: textMap(values["names"]), descriptions: textMap(values["descriptions"]), prefix: text(values["prefix"]),
	}
	for i, m := range f.methods {
		f.methods[i] = strings.ToLower(m)
	}
	return f
}

func (f *filter) accepts(method, path string, o *documentOperation) bool {
	if len(f.methods) > 0 && !slices.Contains(f.methods, method) {
		return false
	}
	named := append([]string{o.ID, path, strings.ToUpper(method) + " " + path}, o.Tags...)
	matches := func(rules []string) bool {
		return slices.ContainsFunc(rules, func(rule string) bool {
			prefix, wild := strings.CutSuffix(rule, "*")
			return slices.ContainsFunc(named, func(name string) bool {
				return name != "" && (name == rule || wild && strings.HasPrefix(name, prefix))
			})
		})
	}
	return (len(f.include) == 0 || matches(f.include)) && !matches(f.exclude)
}

// operations returns the tools of a document, at most maxTools, and how many
// operations it has.
func (d *document) operations(f *filter) (tools []Operation, total int) {
	taken := map[string]bool{}
	paths := make([]string, 0, len(d.Paths))
	for path := range d.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		var item pathItem
		if json.Unmarshal(d.Paths[path], &item, lenient) != nil {
			continue
		}
		for _, method := range methods {
			raw := item.of(method)
			if len(raw) == 0 || total == maxOperations {
				continue
			}
			total++
			var o documentOperation
			if len(tools) == maxTools || json.Unmarshal(raw, &o, lenient) != nil || !f.accepts(method, path, &o) {
				continue
			}
			if t, ok := d.tool(f, method, path, &item, &o); ok && !taken[t.Name] {
				taken[t.Name] = true
				tools = append(tools, t)
			}
		}
	}
	return tools, total
}

// tool returns the tool of an operation; false where it needs what tools cannot send.
func (d *document) tool(f *filter, method, path string, item *pathItem, o *documentOperation) (Operation, bool) {
	id := cmp.Or(o.ID, method+" "+path)
	t := Operation{
		Name: mcp.ToolName(f.prefix + cmp.Or(f.names[id], id)), ReadOnly: method == "get" || method == "head",
		Description: f.describe(id, method, path, o),
		Call: call{
			Method: strings.ToUpper(method), Path: path, Query: map[string]string{}, Header: map[string]string{}, Names: map[string]string{},
			Idempotent: method == "put" || method == "delete",
		},
	}
	in := arguments{document: d, budget: maxSchema, properties: map[string]any{}, used: map[string]bool{}}
	for i, raw := range slices.Concat(o.Parameters, item.Parameters) {
		p, ok := d.parameter(raw)
		if !ok || i >= maxParameters {
			return t, false
		}
		in.add(&t.Call, &p)
	}
	if len(o.RequestBody) > 0 && !in.addBody(&t.Call, o.RequestBody) {
		return t, false
	}
	for _, name := range placeholders(path) {
		if _, known := t.Call.Names[name]; !known {
			return t, false // a part of the path without a parameter
		}
	}
	var err error
	t.Parameters, err = in.schema()
	return t, err == nil
}

const maxDescription = 1024

func (f *filter) describe(id, method, path string, o *documentOperation) string {
	if own := f.descriptions[id]; own != "" {
		return own
	}
	d := strings.TrimSpace(o.Summary)
	if more := strings.TrimSpace(o.Description); more != "" && more != d {
		d = strings.TrimSpace(d + "\n" + more)
	}
	if d == "" {
		d = strings.ToUpper(method) + " " + path
	}
	if len(d) > maxDescription {
		d = strings.ToValidUTF8(d[:maxDescription], "") + "…"
	}
	return d
}

// resolve returns what a local reference leads to.
func (d *document) resolve(ref string) (jsontext.Value, bool) {
	rest, local := strings.CutPrefix(ref, "#/components/")
	if !local {
		return nil, false
	}
	kind, name, found := strings.Cut(rest, "/")
	if !found {
		return nil, false
	}
	if decoded, err := url.PathUnescape(name); err == nil {
		name = decoded
	}
	value, ok := d.Components[kind][strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	return value, ok
}

// maxHops is how many references may lead to each other.
const maxHops = 8

func (d *document) parameter(raw jsontext.Value) (p parameter, ok bool) {
	for range maxHops {
		p = parameter{}
		if json.Unmarshal(raw, &p, lenient) != nil {
			return p, false
		}
		if p.Ref == "" {
			return p, p.Name != ""
		}
		if raw, ok = d.resolve(p.Ref); !ok {
			return p, false
		}
	}
	return p, false
}

// arguments collects the arguments of a tool.
type arguments struct {
	document   *document
	budget     int
	properties map[string]any
	required   []string
	used       map[string]bool // in + name of a parameter: that of the operation comes first
}

func (a *arguments) add(c *call, p *parameter) {
	if a.used[p.In+" "+p.Name] {
		return
	}
	a.used[p.In+" "+p.Name] = true
	if p.In == "cookie" || p.In == "header" && !validHeader(p.Name) {
		return
	}
	name := p.Name
	if _, taken := a.properties[name]; taken || name == "body" {
		name = p.In + "_" + name
	}
	s := a.document.schema(p.Schema, &a.budget)
	if p.Description != "" && s["description"] == nil {
		s["description"] = p.Description
	}
	a.properties[name] = s
	if p.Required || p.In == "path" {
		a.required = append(a.required, name)
	}
	switch p.In {
	case "path":
		c.Names[p.Name] = name
	case "query":
		c.Query[p.Name] = name
	case "header":
		c.Header[p.Name] = name
	}
}

// addBody adds the argument body. It reports false for a body that is not JSON.
func (a *arguments) addBody(c *call, raw jsontext.Value) bool {
	var b requestBody
	for range maxHops {
		b = requestBody{}
		if json.Unmarshal(raw, &b, lenient) != nil {
			return false
		}
		if b.Ref == "" {
			break
		}
		var ok bool
		if raw, ok = a.document.resolve(b.Ref); !ok {
			return false
		}
	}
	for media, content := range b.Content {
		kind, _, _ := strings.Cut(media, ";")
		if kind = strings.ToLower(strings.TrimSpace(kind)); kind != "application/json" && !strings.HasSuffix(kind, "+json") {
			continue
		}
		s := a.document.schema(content.Schema, &a.budget)
		if b.Description != "" && s["description"] == nil {
			s["description"] = b.Description
		}
		a.properties["body"] = s
		if b.Required {
			a.required = append(a.required, "body")
		}
		c.Body = jsontext.Value(`"{body}"`)
		return true
	}
	return !b.Required // without its body, where it can be left out
}

func (a *arguments) schema() (schema.Object, error) {
	s := map[string]any{"type": "object", "properties": a.properties, "additionalProperties": false}
	if len(a.required) > 0 {
		s["required"] = a.required
	}
	text, err := json.Marshal(s, json.Deterministic(true))
	if err == nil && len(text) > 4*maxSchema {
		err = fmt.Errorf("its schema has %d bytes", len(text))
	}
	return schema.Object(text), err
}

// placeholders returns the names in a path such as /repos/{owner}.
func placeholders(path string) (names []string) {
	for {
		_, rest, found := strings.Cut(path, "{")
		if !found {
			return names
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return names
		}
		names, path = append(names, name), after
	}
}
