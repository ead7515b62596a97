package openai

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var errContent = errors.New("must be a string, an array of content parts, or null")

// content reads a message's content. Parts that are all text become one text;
// otherwise the parts are passed on to the model as they came.
func content(v jsontext.Value) (text string, parts []jsontext.Value, err error) {
	switch v.Kind() {
	case 0, 'n':
		return "", nil, nil
	case '"':
		return text, nil, json.Unmarshal(v, &text)
	case '[':
	default:
		return "", nil, errContent
	}
	if err := json.Unmarshal(v, &parts); err != nil {
		return "", nil, errContent
	}
	var texts []string
	for _, p := range parts {
		var part struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if p.Kind() != '{' || json.Unmarshal(p, &part) != nil {
			return "", nil, errContent
		}
		if part.Type != "text" && part.Type != "input_text" {
			continue
		}
		texts = append(texts, part.Text)
	}
	text = strings.Join(texts, "\n")
	if len(texts) == len(parts) {
		parts = nil
	}
	return text, parts, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func itoa(n int) string { return strconv.Itoa(n) }
