package model

import (
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/text"
)

// maxInstance bounds how deep echo follows a schema.
const maxInstance = 12

// echoInstance returns the JSON that echo answers where a request has a
// response_format; false if it has none. Values are the message, and numbers that
// fit; a number whose description quotes a text is 1 if the message has the text, else 0.
// It follows the usual keywords; a schema with others may refuse the answer.
func echoInstance(format jsontext.Value, message string) (string, bool) {
	var f struct {
		Type   string `json:"type"`
		Schema struct {
			Schema map[string]any `json:"schema"`
		} `json:"json_schema"`
	}
	if format.Kind() != '{' || json.Unmarshal(format, &f) != nil {
		return "", false
	}
	message = text.Prefix(message, echoLongest)
	var value any
	switch {
	case f.Type == "json_object", f.Type == "json_schema" && f.Schema.Schema == nil:
		value = map[string]any{"message": message}
	case f.Type == "json_schema":
		value = instance{root: f.Schema.Schema, message: message}.of(f.Schema.Schema, 0)
	default:
		return "", false
	}
	b, err := json.Marshal(value, json.Deterministic(true))
	return string(b), err == nil
}

// instance makes values that fit a schema.
type instance struct {
	root    map[string]any
	message string
}

func (i instance) of(schema map[string]any, depth int) any {
	if depth > maxInstance {
		return nil
	}
	for _, keyword := range []string{"const", "default"} {
		if v, ok := schema[keyword]; ok {
			return v
		}
	}
	if choices, ok := schema["enum"].([]any); ok && len(choices) > 0 {
		return choices[0]
	}
	if ref, ok := schema["$ref"].(string); ok {
		return i.of(i.resolve(ref), depth+1)
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		if options, ok := schema[keyword].([]any); ok && len(options) > 0 {
			first, _ := options[0].(map[string]any)
			return i.of(first, depth+1)
		}
	}
	switch kindOf(schema) {
	case "object":
		return i.object(schema, depth)
	case "array":
		item, _ := schema["items"].(map[string]any)
		list := []any{}
		for range min(max(1, int(number(schema, "minItems", 1))), 100) {
			list = append(list, i.of(item, depth+1))
		}
		return list
	case "integer":
		return int64(bounded(schema))
	case "number":
		if quoted := quotedText(schema); quoted != "" { // so that it can judge
			if strings.Contains(i.message, quoted) {
				return 1.0
			}
			return 0.0
		}
		return bounded(schema)
	case "boolean":
		return true
	case "null":
		return nil
	}
	return i.string(schema)
}

func (i instance) object(schema map[string]any, depth int) any {
	members := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for name, property := range properties {
		p, _ := property.(map[string]any)
		if depth < 4 || slices.Contains(required, any(name)) { // a schema that contains itself ends where it may
			members[name] = i.of(p, depth+1)
		}
	}
	for _, name := range required {
		if name, ok := name.(string); ok && members[name] == nil && properties[name] == nil {
			members[name] = i.message
		}
	}
	return members
}

// resolve returns the schema that a reference inside of the document names, an empty
// one if there is none.
func (i instance) resolve(ref string) map[string]any {
	path, inside := strings.CutPrefix(ref, "#")
	at := i.root
	if !inside {
		return nil
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name != "" {
			at, _ = at[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)].(map[string]any)
		}
	}
	return at
}

// kindOf returns the type of a schema, the first one that is not null if it lists
// several.
func kindOf(schema map[string]any) string {
	switch t := schema["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
		return "null"
	}
	switch {
	case schema["properties"] != nil || schema["required"] != nil:
		return "object"
	case schema["items"] != nil:
		return "array"
	}
	return "string"
}

// quotedText returns what the description of a number has between quotation marks; "" if
// it has none.
func quotedText(schema map[string]any) string {
	description, _ := schema["description"].(string)
	_, rest, _ := strings.Cut(description, `"`)
	quoted, _, closed := strings.Cut(rest, `"`)
	if !closed {
		return ""
	}
	return quoted
}

// formats are examples of the formats that strings are most often asked for.
var formats = map[string]string{
	"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "time": "03:04:05Z", "email": "ada@example.com",
	"uri": "https://example.com", "uuid": "00000000-0000-4000-8000-000000000000", "ipv4": "192.0.2.1", "hostname": "example.com",
}

func (i instance) string(schema map[string]any) string {
	if name, ok := schema["format"].(string); ok && formats[name] != "" {
		return formats[name]
	}
	s := i.message
	for least := int(min(number(schema, "minLength", 0), echoLongest)); len([]rune(s)) < least; {
		s += " " + i.message + "."
	}
	if most := number(schema, "maxLength", echoLongest); most >= 0 {
		s = text.Prefix(s, int(min(most, echoLongest)))
	}
	return s
}

// bounded returns 1, or the nearest number that the bounds of a schema allow.
func bounded(schema map[string]any) float64 {
	n := 1.0
	if step := number(schema, "multipleOf", 0); step > 0 {
		n = step
		if least := number(schema, "minimum", n); least > n {
			n = step * math.Ceil(least/step)
		}
		return n
	}
	if least := number(schema, "minimum", n); least > n {
		n = math.Ceil(least)
	}
	if above := number(schema, "exclusiveMinimum", n-1); above >= n {
		n = math.Floor(above) + 1
	}
	if most := number(schema, "maximum", n); most < n {
		n = math.Floor(most)
	}
	if below := number(schema, "exclusiveMaximum", n+1); below <= n {
		n = math.Ceil(below) - 1
	}
	return n
}

func number(schema map[string]any, keyword string, otherwise float64) float64 {
	if n, ok := schema[keyword].(float64); ok {
		return n
	}
	return otherwise
}
