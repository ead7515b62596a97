package jsonform

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Form is the form that a caller set for an answer: any JSON object, or what fits a
// schema.
type Form struct {
	schema *Schema // nil: any object
}

// ErrSchema is the error of a response_format whose schema cannot be used.
var ErrSchema = errors.New("jsonform: the schema cannot be used")

// OfResponseFormat returns the form that a response_format of OpenAI's chat
// completions sets; nil if it sets none. Errors: ErrSchema, wrapped with the reason.
func OfResponseFormat(format jsontext.Value) (*Form, error) {
	var f struct {
		Type   string `json:"type"`
		Schema struct {
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	}
	if format.Kind() != '{' || json.Unmarshal(format, &f) != nil {
		return nil, nil // text, or a form of newer clients
	}
	switch {
	case f.Type == "json_schema" && f.Schema.Schema.Kind() == '{':
		s, err := Compile(f.Schema.Schema, "the schema")
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSchema, err)
		}
		return &Form{s}, nil
	case f.Type == "json_object", f.Type == "json_schema":
		return &Form{}, nil
	}
	return nil, nil
}

// Check returns the JSON of an answer, without the fence of Markdown that many models
// write around it, and "" as problem if it has the form. Otherwise problem says what
// is wrong, in words for the model.
func (f *Form) Check(answer string) (clean, problem string) {
	clean = unfenced(answer)
	if f.schema == nil {
		return clean, checkObject(clean)
	}
	switch p, detail := f.schema.Check(clean, "the answer"); p {
	case None:
		return clean, ""
	case TooDeep:
		return clean, fmt.Sprintf("it nests deeper than %d levels", maxDepth)
	case NotJSON:
		return clean, "it is not valid JSON (" + detail + ")"
	case TooCostly:
		return clean, "it cannot be checked against the schema"
	default:
		return clean, detail
	}
}

func checkObject(answer string) string {
	switch v := jsontext.Value(answer); {
	case depth(answer) > maxDepth:
		return fmt.Sprintf("it nests deeper than %d levels", maxDepth)
	case !v.IsValid():
		return "it is not valid JSON"
	case v.Kind() != '{':
		return "it is not a JSON object"
	}
	return ""
}

// unfenced returns what stands in a fence of Markdown, if that is all of a text.
func unfenced(answer string) string {
	answer = strings.TrimSpace(answer)
	inner, fenced := strings.CutPrefix(answer, "```")
	if !fenced {
		return answer
	}
	inner, closed := strings.CutSuffix(inner, "```")
	label, inner, lines := strings.Cut(inner, "\n")
	if !closed || !lines || strings.ContainsAny(label, "`{[\"") || strings.Contains(inner, "```") {
		return answer
	}
	return strings.TrimSpace(inner)
}
