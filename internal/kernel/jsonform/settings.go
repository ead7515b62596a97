package jsonform

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

// WrongSettings returns the field of model_settings whose value cannot be used although
// its shape is right: a response_format of another kind, or whose schema does not compile.
func WrongSettings(settings []byte) []fault.Field {
	var s struct {
		Format jsontext.Value `json:"response_format"`
	}
	if len(settings) == 0 || json.Unmarshal(settings, &s) != nil || len(s.Format) == 0 || s.Format.Kind() == 'n' {
		return nil
	}
	const field = "model_settings.response_format"
	var f struct {
		Type string `json:"type"`
	}
	known := []string{"text", "json_object", "json_schema"}
	if s.Format.Kind() != '{' || json.Unmarshal(s.Format, &f) != nil || !slices.Contains(known, f.Type) {
		return []fault.Field{{Field: field, Message: "expected an object whose type is text, json_object or json_schema"}}
	}
	if _, err := OfResponseFormat(s.Format); errors.Is(err, ErrSchema) {
		return []fault.Field{{Field: field, Message: strings.TrimPrefix(err.Error(), "jsonform: ")}}
	}
	return nil
}
