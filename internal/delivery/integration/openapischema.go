package integration

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"agentd/internal/base/fault"
)

// Bounds of the schema of one tool. What is beyond them is any value: the service
// checks it anyway.
const (
	maxSchema      = 16 << 10 // bytes of the parts that are read
	maxSchemaRead  = 64 << 10 // bytes of one schema, with what is in it
	maxSchemaDepth = 8
)

// keywords are what a tool's schema keeps of a schema. Others are dropped: they are for
// documentation, or models and checkers disagree on them.
var keywords = map[string]bool{
	"type": true, "description": true, "enum": true, "const": true, "default": true, "title": true,
	"minimum": true, "maximum": true, "minLength": true, "maxLength": true, "minItems": true, "maxItems": true, "required": true,
}

// schema returns a schema with its references replaced by what they lead to. A
// reference to a schema that is being read, one that leads nowhere and whatever is
// beyond the bounds become any value.
func (d *document) schema(raw jsontext.Value, budget *int) map[string]any {
	return d.resolved(raw, budget, nil, 0)
}

func (d *document) resolved(raw jsontext.Value, budget *int, through []string, depth int) map[string]any {
	*budget -= 16 + len(raw)/32 // its parts are paid for by themselves
	if len(raw) == 0 || len(raw) > maxSchemaRead || raw.Kind() != '{' || depth > maxSchemaDepth || *budget < 0 {
		return map[string]any{}
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(raw, &members, lenient) != nil {
		return map[string]any{}
	}
	if ref := members["$ref"]; ref != nil {
		var to string
		if json.Unmarshal(ref, &to) != nil {
			return map[string]any{}
		}
		target, ok := d.resolve(to)
		if !ok || slices.Contains(through, to) {
			return map[string]any{}
		}
		return d.resolved(target, budget, append(slices.Clip(through), to), depth)
	}
	return d.members(members, budget, through, depth)
}

func (d *document) members(members map[string]jsontext.Value, budget *int, through []string, depth int) map[string]any {
	s := map[string]any{}
	for name, value := range members {
		switch {
		case keywords[name]:
			*budget -= len(value)
			if *budget >= 0 {
				s[name] = value
			}
		case name == "properties":
			var properties map[string]jsontext.Value
			if json.Unmarshal(value, &properties, lenient) != nil {
				continue
			}
			all := map[string]any{}
			for property, of := range properties {
				all[property] = d.resolved(of, budget, through, depth+1)
			}
			s[name] = all
		case name == "items" || name == "additionalProperties" && value.Kind() == '{':
			s[name] = d.resolved(value, budget, through, depth+1)
		case name == "allOf" || name == "anyOf" || name == "oneOf":
			var parts []jsontext.Value
			if json.Unmarshal(value, &parts, lenient) != nil || len(parts) == 0 {
				continue
			}
			all := make([]any, 0, len(parts))
			for _, part := range parts {
				all = append(all, d.resolved(part, budget, through, depth+1))
			}
			if name == "oneOf" { // with parts that became any value more than one fits
				name = "anyOf"
			}
			s[name] = all
		}
	}
	if _, has := s["required"]; has && s["properties"] == nil {
		delete(s, "required")
	}
	allowNull(s, members)
	return s
}

// allowNull turns nullable of OpenAPI 3.0 into a type of JSON Schema.
func allowNull(s map[string]any, members map[string]jsontext.Value) {
	kind, ok := s["type"].(jsontext.Value)
	if string(members["nullable"]) != "true" || !ok || kind.Kind() != '"' {
		return
	}
	s["type"] = []any{kind, "null"}
	delete(s, "enum") // it need not list null, which is allowed
}

// Bounds of YAML, whose aliases could make little text much.
const (
	maxYAML  = 2 << 20
	maxNodes = 400_000
)

// fromYAML returns a document of YAML as JSON.
func fromYAML(text []byte) ([]byte, error) {
	if len(text) > maxYAML {
		return nil, fault.New(fault.Invalid, "",
			"The OpenAPI document is no JSON, and as YAML at most %d bytes are read; convert it to JSON.", maxYAML)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil || len(root.Content) != 1 {
		return nil, fault.New(fault.Invalid, "", "The OpenAPI document is neither JSON nor YAML.").Because(err)
	}
	left := maxNodes
	value, err := plain(root.Content[0], &left, 0)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "The OpenAPI document cannot be read: %s.", err).Because(err)
	}
	out, err := json.Marshal(value, json.Deterministic(true))
	if err == nil && len(out) > MaxDocument {
		err = fault.New(fault.Invalid, "", "The OpenAPI document has more than %d bytes as JSON.", MaxDocument)
	}
	return out, err
}

const maxYAMLDepth = 100

// plain returns a YAML node as JSON knows values.
func plain(n *yaml.Node, left *int, depth int) (any, error) {
	if *left--; *left < 0 || depth > maxYAMLDepth {
		return nil, fmt.Errorf("it has too many parts")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return plain(n.Alias, left, depth+1)
	case yaml.SequenceNode:
		all := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := plain(item, left, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case yaml.MappingNode:
		all := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := plain(n.Content[i+1], left, depth+1)
			if err != nil {
				return nil, err
			}
			all[n.Content[i].Value] = v // 200: in responses is a key of JSON too
		}
		return all, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("a value in line %d is not valid", n.Line)
	}
	switch v.(type) {
	case string, bool, int, int64, uint64, float64, nil:
		return v, nil
	}
	return n.Value, nil // such as a date
}
