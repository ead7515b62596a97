package httpapi

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// commonDocs describe the parameters whose meaning is the same everywhere.
var commonDocs = map[string]string{
	"limit":  "Maximum number of entries. A value out of range is clamped, never refused.",
	"cursor": "Cursor of the previous page; empty for the first.",
	"Last-Event-ID": "Id of the last event received: the stream resumes after it. Where headers cannot be set, send the query " +
		"parameter last_event_id.",
}

// secondSpellings are parameters that repeat another one. They are accepted and not
// published: generators would make two fields of one name.
var secondSpellings = []string{"last_event_id"}

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
			if name == "" || !f.IsExported() || slices.Contains(secondSpellings, name) {
				continue
			}
			s := schema.Parameter(d.registry, f)
			if name == "limit" {
				s.Type = huma.TypeInteger // rows read it as text, because any text is accepted
			}
			doc := cmp.Or(f.Tag.Get("doc"), commonDocs[name], sentence(name))
			if in == "path" && strings.HasSuffix(name, "Id") {
				doc = cmp.Or(doc, "Id of the "+noun(name)+".")
				if s.Type == huma.TypeString && s.Format == "" {
					s.Format = "uuid"
				}
			}
			param := &huma.Param{
				Name: name, In: in, Description: doc, Schema: s,
				Required: in == "path", Deprecated: f.Tag.Get("deprecated") == "true",
			}
			if s.Type == huma.TypeObject { // name[key]=value
				param.Style, param.Explode = "deepObject", new(true)
			}
			if s.Type == huma.TypeArray {
				param.Explode = new(bool) // commas between the values
			}
			op.Parameters = append(op.Parameters, param)
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
			Description: fmt.Sprintf("Any content, up to %d KiB.", p.MaxBytes>>10),
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
	content := &huma.MediaType{Schema: s}
	if example := Example(p.Row); example != nil {
		content.Example = example
	}
	op.RequestBody = &huma.RequestBody{Required: !p.Optional, Content: map[string]*huma.MediaType{"application/json": content}}
}

// upload publishes the media types of an upload; t is the type of its JSON form.
func (d *document) upload(op *huma.Operation, p published, t reflect.Type) {
	file := &huma.Schema{Type: huma.TypeString, Format: "binary", Description: "The content of the file."}
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	for _, form := range p.Uploads {
		s := file
		switch form {
		case route.Form:
			s = &huma.Schema{Type: huma.TypeObject, Required: []string{formField}, Properties: map[string]*huma.Schema{formField: file}}
		case route.JSON:
			s = d.registry.Schema(t, true, p.ID+"Body")
		}
		content := &huma.MediaType{Schema: s}
		if example := Example(p.Row); form == route.JSON && example != nil {
			content.Example = example
		}
		op.RequestBody.Content[form] = content
	}
}
