package openai

import (
	"bytes"
	"cmp"
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ptr"
	"agentd/internal/kernel/model"
)

// turn is a message as the model gets it.
func (m *Message) turn(text string, parts []jsontext.Value) model.Message {
	t := model.Message{Role: model.Role(m.Role), Text: text, Parts: parts, Name: ptr.Value(m.Name), ToolCallID: ptr.Value(m.ToolCallID)}
	for _, c := range m.ToolCalls {
		t.ToolCalls = append(t.ToolCalls, model.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return t
}

var (
	errContent = errors.New("expected a string, an array of content parts, or null")
	errPart    = errors.New("expected every content part to be an object with a type, and a text where the type is text")
	errImage   = errors.New("expected a part of type image_url to have image_url: {url}, where the url is one of http, https or data")
	errAudio   = errors.New("expected a part of type input_audio to have input_audio: {data, format}")
	errFile    = errors.New("expected a part of type file to have file: {file_data, filename}; files cannot be named by an id here")
	errParts   = errors.New("expected at most 1000 content parts in a message, and 10000 in all")
)

// What a conversation has at most, beside its bytes: each part costs memory of
// its own.
const (
	maxParts    = 1000
	maxAllParts = 10_000
)

// content reads a message's content. Parts that are all text become one text;
// otherwise the parts are passed on to the model as they came.
func content(v jsontext.Value) (text string, parts []jsontext.Value, err error) {
	switch v.Kind() {
	case 0, 'n':
		return "", nil, nil
	case '"':
		return unquote(v), nil, nil
	case '[':
	default:
		return "", nil, errContent
	}
	if parts, err = elements(v); err != nil {
		return "", nil, err
	}
	var texts []string
	for _, p := range parts {
		text, is, err := chatPart(p)
		if err != nil {
			return "", nil, err
		}
		if is {
			texts = append(texts, text)
		}
	}
	text = strings.Join(texts, "\n")
	if len(texts) == len(parts) {
		return text, nil, nil
	}
	return text, parts, nil
}

// chatPart reads a content part, and says whether it is text. What a model takes
// beside text is for its endpoint to know: parts of kinds that are not known
// here pass.
func chatPart(p jsontext.Value) (text string, is bool, err error) {
	var part struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
		Image   struct {
			URL textPrefix `json:"url"`
		} `json:"image_url"`
		Audio struct {
			Data   textPrefix `json:"data"`
			Format textPrefix `json:"format"`
		} `json:"input_audio"`
		File struct {
			Data textPrefix `json:"file_data"`
		} `json:"file"`
	}
	if p.Kind() != '{' || json.Unmarshal(p, &part) != nil || part.Type == "" {
		return "", false, cmp.Or(partShapeError(p), errPart)
	}
	switch part.Type {
	case "text", "input_text":
		return part.Text, true, nil
	case "refusal":
		return part.Refusal, true, nil
	case "image_url":
		if !isImageURL(string(part.Image.URL)) {
			return "", false, errImage
		}
	case "input_audio":
		if part.Audio.Data == "" || part.Audio.Format == "" {
			return "", false, errAudio
		}
	case "file":
		if part.File.Data == "" {
			return "", false, errFile
		}
	}
	return "", false, nil
}

// partShapeError is what to say of a part whose members are of the wrong kinds.
func partShapeError(p jsontext.Value) error {
	var kind struct {
		Type jsontext.Value `json:"type"`
	}
	_ = json.Unmarshal(p, &kind)
	switch string(kind.Type) {
	case `"image_url"`:
		return errImage
	case `"input_audio"`:
		return errAudio
	case `"file"`:
		return errFile
	}
	return nil
}

// textPrefix is how a text begins that may be megabytes long.
type textPrefix string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *textPrefix) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if v.Kind() != '"' {
		return errContent
	}
	head := v[1:min(len(v)-1, 1+len("https://"))]
	if bytes.IndexByte(head, '\\') >= 0 { // PHP writes https:\/\/
		head = jsontext.Value(unquote(v))
	}
	*s = textPrefix(head)
	return nil
}

func isImageURL(url string) bool {
	return strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "data:")
}

// elements gives the parts of a content, and no more than there may be.
func elements(v jsontext.Value) (parts []jsontext.Value, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := dec.ReadToken(); err != nil {
		return nil, errContent
	}
	for dec.PeekKind() != ']' {
		part, err := dec.ReadValue()
		switch {
		case err != nil:
			return nil, errContent
		case len(parts) == maxParts:
			return nil, errParts
		}
		parts = append(parts, part.Clone())
	}
	return parts, nil
}

// unquote gives the text of a valid JSON string.
func unquote(v jsontext.Value) string {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, v) // it was checked
	return string(text)
}
