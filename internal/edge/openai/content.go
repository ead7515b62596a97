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

// turn returns the message as the model receives it.
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
	errImage   = errors.New("expected a part of type image_url to have image_url: {url} with an http, https or data URL")
	errAudio   = errors.New("expected a part of type input_audio to have input_audio: {data, format}")
	errFile    = errors.New("expected a part of type file to have file: {file_data, filename}; file ids are not supported")
	errParts   = errors.New("expected at most 1000 content parts in a message and 10000 in all messages")
)

// Limits of content parts, each of which costs memory beyond its bytes.
const (
	maxParts    = 1000
	maxAllParts = 10_000
)

// content reads a message's content. Parts that are all text become one text;
// otherwise the parts are returned unchanged.
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
		text, isText, err := chatPart(p)
		if err != nil {
			return "", nil, err
		}
		if isText {
			texts = append(texts, text)
		}
	}
	text = strings.Join(texts, "\n")
	if len(texts) == len(parts) {
		return text, nil, nil
	}
	return text, parts, nil
}

// chatPart reads a content part, and reports whether it is text. Parts of unknown
// types pass: their endpoint decides whether the model accepts them.
func chatPart(p jsontext.Value) (text string, isText bool, err error) {
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

// partShapeError returns the error of a part whose members have the wrong types.
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

// textPrefix is the beginning of a string that may be megabytes long.
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

// elements returns the parts of a content, or errParts if there are too many.
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

// unquote returns the text of a valid JSON string.
func unquote(v jsontext.Value) string {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, v) // it is valid
	return string(text)
}
