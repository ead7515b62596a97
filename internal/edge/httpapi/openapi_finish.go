package httpapi

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"agentd/internal/base/schema"
)

// finish makes the document one that client generators understand: a name stands
// for one thing, required is what is always sent, and forms can be drawn from the
// bodies of requests.
func (d *document) finish() {
	components := d.registry.Map()
	for _, s := range components {
		dropAliases(s)
		deprecateTwins(s)
	}
	bodies, answers := d.contents()
	in, out := d.reach(bodies), d.reach(answers)
	d.splitInputs(bodies, in, out)
	in = d.reach(bodies)
	for name, s := range components {
		if in[name] {
			d.form(s)
		} else {
			delete(s.Extensions, schema.Order) // of use to forms only
		}
	}
	for _, m := range bodies {
		d.form(m.Schema)
	}
	used := d.reach(answers)
	maps.Copy(used, in)
	maps.DeleteFunc(components, func(name string, _ *huma.Schema) bool { return !used[name] })
}

// dropAliases leaves second spellings of a field out, of which generators would make
// fields of one name. The extension x-aliases still lists them.
func dropAliases(s *huma.Schema) {
	var aliases []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if s.Properties[name].Extensions[schema.AliasOf] == nil {
			continue
		}
		aliases = append(aliases, name)
		delete(s.Properties, name)
		s.Required = slices.DeleteFunc(s.Required, func(required string) bool { return required == name })
	}
	if aliases != nil {
		s.Extensions = maps.Clone(s.Extensions)
		s.Extensions["x-aliases"] = aliases
	}
}

// deprecateTwins marks the older name of a list's items: an array of the same
// type beside items.
func deprecateTwins(s *huma.Schema) {
	items := s.Properties["items"]
	if items == nil || items.Items == nil || items.Items.Ref == "" {
		return
	}
	for name, p := range s.Properties {
		if name != "items" && p.Items != nil && p.Items.Ref == items.Items.Ref {
			p.Deprecated = true
			p.Description = "The same as items, under its older name."
		}
	}
}

// contents lists the bodies of all requests and of all answers.
func (d *document) contents() (bodies, answers []*huma.MediaType) {
	collect := func(to *[]*huma.MediaType, content map[string]*huma.MediaType) {
		for _, name := range slices.Sorted(maps.Keys(content)) {
			*to = append(*to, content[name])
		}
	}
	for _, path := range d.openapi.Paths {
		for _, op := range operationsOf(path) {
			if op.RequestBody != nil {
				collect(&bodies, op.RequestBody.Content)
			}
			for _, r := range op.Responses {
				collect(&answers, r.Content)
			}
			for _, callback := range op.Callbacks {
				for _, path := range callback {
					collect(&answers, path.Post.RequestBody.Content) // written by the server, as answers are
				}
			}
		}
	}
	for _, r := range d.openapi.Components.Responses {
		collect(&answers, r.Content)
	}
	for _, path := range d.openapi.Webhooks {
		collect(&answers, path.Post.RequestBody.Content)
	}
	return bodies, answers
}

func operationsOf(p *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{p.Get, p.Put, p.Post, p.Patch, p.Delete, p.Head}
	return slices.DeleteFunc(all, func(op *huma.Operation) bool { return op == nil })
}

// reach returns the components that contents refer to, directly or not.
func (d *document) reach(contents []*huma.MediaType) map[string]bool {
	reached := map[string]bool{}
	var visit func(s *huma.Schema)
	visit = func(s *huma.Schema) {
		each(s, func(s *huma.Schema) {
			name := strings.TrimPrefix(s.Ref, schema.Prefix)
			if s.Ref == "" || reached[name] {
				return
			}
			reached[name] = true
			visit(d.registry.Map()[name])
		})
	}
	for _, m := range contents {
		visit(m.Schema)
	}
	return reached
}

// splitInputs makes required exact. A component that only answers have requires
// every field that is always sent. One that requests have too is split where the
// two differ: requests get a copy, whose name ends with Input.
func (d *document) splitInputs(bodies []*huma.MediaType, in, out map[string]bool) {
	components := d.registry.Map()
	split := map[string]bool{}
	sent := map[string][]string{}
	for name := range out {
		s := components[name]
		sent[name] = d.sent(name, s)
		split[name] = in[name] && len(sent[name]) > len(s.Required)
	}
	for grows := true; grows; {
		grows = false
		for name := range in {
			if !split[name] && out[name] && refersTo(components[name], split) {
				split[name], grows = true, true
			}
		}
	}
	rename := func(s *huma.Schema) {
		each(s, func(s *huma.Schema) {
			if name := strings.TrimPrefix(s.Ref, schema.Prefix); s.Ref != "" && split[name] {
				s.Ref += "Input"
			}
		})
	}
	for name := range in {
		switch {
		case split[name]:
			copied := clone(components[name])
			rename(copied)
			components[name+"Input"] = copied
		case !out[name]:
			rename(components[name])
		}
	}
	for _, m := range bodies {
		m.Schema = clone(m.Schema)
		rename(m.Schema)
	}
	for name, fields := range sent {
		if !in[name] || split[name] {
			components[name].Required = fields
			for _, p := range components[name].Properties {
				p.ReadOnly = false // of a type that is never sent to us it says nothing, and oapi-codegen makes it a pointer
			}
		}
	}
}

// sent returns the required fields of a component in answers, in a stable order.
func (d *document) sent(name string, s *huma.Schema) []string {
	required := slices.Clone(s.Required)
	if s.Extensions["x-open"] == true {
		return required // it is answered as it was sent
	}
	if t := d.registry.TypeFromRef(schema.Prefix + name); t != nil {
		for _, field := range schema.Sent(t) {
			if s.Properties[field] != nil && !slices.Contains(required, field) {
				required = append(required, field)
			}
		}
	}
	return required
}

func refersTo(s *huma.Schema, names map[string]bool) bool {
	found := false
	each(s, func(s *huma.Schema) { found = found || s.Ref != "" && names[strings.TrimPrefix(s.Ref, schema.Prefix)] })
	return found
}

// each calls do with a schema and all schemas inside it, without following
// references.
func each(s *huma.Schema, do func(*huma.Schema)) {
	if s == nil {
		return
	}
	do(s)
	each(s.Items, do)
	for _, p := range s.Properties {
		each(p, do)
	}
	for _, list := range [][]*huma.Schema{s.OneOf, s.AnyOf, s.AllOf} {
		for _, alternative := range list {
			each(alternative, do)
		}
	}
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		each(more, do)
	}
}

// clone copies a schema with all schemas inside it.
func clone(s *huma.Schema) *huma.Schema {
	if s == nil {
		return nil
	}
	c := *s
	c.Items = clone(s.Items)
	c.Properties = maps.Clone(s.Properties)
	for name, p := range c.Properties {
		c.Properties[name] = clone(p)
	}
	c.OneOf, c.AnyOf, c.AllOf = cloneAll(s.OneOf), cloneAll(s.AnyOf), cloneAll(s.AllOf)
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		c.AdditionalProperties = clone(more)
	}
	c.Required, c.Extensions = slices.Clone(s.Required), maps.Clone(s.Extensions)
	return &c
}

func cloneAll(all []*huma.Schema) []*huma.Schema {
	copied := slices.Clone(all)
	for i := range copied {
		copied[i] = clone(copied[i])
	}
	return copied
}

// form adds to the fields of a request what a form needs: a title, and the kind
// of resource that an id refers to. The order of the fields loses those that were
// left out of the document.
func (d *document) form(s *huma.Schema) {
	each(s, func(s *huma.Schema) {
		if order, ok := s.Extensions[schema.Order].([]string); ok {
			s.Extensions = maps.Clone(s.Extensions)
			s.Extensions[schema.Order] = slices.DeleteFunc(slices.Clone(order), func(name string) bool { return s.Properties[name] == nil })
		}
		for name, p := range s.Properties {
			if p.Ref != "" {
				continue
			}
			if p.Title == "" {
				p.Title = sentence(name)
			}
			if target := referenceOf(name); target != "" && isText(p) && p.Extensions["x-ref"] == nil {
				p.Extensions = maps.Clone(p.Extensions)
				if p.Extensions == nil {
					p.Extensions = map[string]any{}
				}
				p.Extensions["x-ref"] = target
			}
		}
	})
}

func isText(p *huma.Schema) bool {
	return p.Type == huma.TypeString && p.Enum == nil || p.Type == huma.TypeArray && p.Items != nil && p.Items.Type == huma.TypeString
}

// referenced maps fields whose name does not tell what they refer to.
var referenced = map[string]string{
	"model_ref": "model", "fallback_model": "model", "built_in_tools": "tool", "tools": "tool", "key_id": "api_key",
	"server_ids": "mcp_server", "server_id": "mcp_server", "plan": "plan",
}

// things are what ids refer to; a field may have a word before it, as in
// assign_agent_id.
var things = []string{
	"agent", "session", "run", "workspace", "knowledge_base", "file", "guardrail", "tenant", "user", "webhook", "todo", "branch",
	"approval", "team",
}

// referenceOf returns what a field refers to by its name, "" for none.
func referenceOf(field string) string {
	if target := referenced[field]; target != "" {
		return target
	}
	stem, ok := strings.CutSuffix(strings.TrimSuffix(field, "s"), "_id")
	if !ok {
		return ""
	}
	for _, thing := range things {
		if stem == thing || strings.HasSuffix(stem, "_"+thing) {
			return thing
		}
	}
	return ""
}

// initialisms are words that titles write in capitals.
var initialisms = map[string]string{
	"id": "ID", "ids": "IDs", "url": "URL", "mcp": "MCP", "llm": "LLM", "api": "API", "sec": "(s)", "ms": "(ms)", "usd": "(USD)",
	"json": "JSON", "ttl": "TTL",
}

// sentence makes a title of a field's name: "Max tokens" of max_tokens.
func sentence(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	for i, word := range words {
		if capitals := initialisms[strings.ToLower(word)]; capitals != "" {
			words[i] = capitals
		}
	}
	title := []rune(strings.Join(words, " "))
	if len(title) > 0 {
		title[0] = unicode.ToUpper(title[0])
	}
	return string(title)
}
