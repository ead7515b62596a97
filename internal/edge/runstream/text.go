package runstream

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TextOf returns the quoted text of the data of llm.chunk or llm.thinking.
func TextOf(data jsontext.Value) jsontext.Value {
	var v struct {
		Text jsontext.Value `json:"text"`
	}
	if json.Unmarshal(data, &v) != nil || v.Text.Kind() != '"' { // an event of another shape has no text
		return jsontext.Value(`""`)
	}
	return v.Text
}
