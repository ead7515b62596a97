package openai

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// inputPart is a content part of an input item, with the members of all types.
type inputPart struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Refusal  string         `json:"refusal"`
	Image    jsontext.Value `json:"image_url"`
	Detail   string         `json:"detail"`
	FileID   string         `json:"file_id"`
	FileData jsontext.Value `json:"file_data"`
	Filename string         `json:"filename"`
	Audio    jsontext.Value `json:"input_audio"`
}

// readContent reads the content of a message or the output of a call: a string or
// parts. Parts that are all text become one text; otherwise all are returned in the
// form of chat completions, and their texts too.
func (p *inputReader) readContent(at string, v jsontext.Value) (text string, parts []jsontext.Value, ok bool) {
	switch v.Kind() {
	case 0, 'n':
		return "", nil, true
	case '"':
		return unquote(v), nil, true
	case '[':
	default:
		p.addError(at, "expected a string or an array of content parts")
		return "", nil, false
	}
	all, err := elements(v)
	if p.parts += len(all); err != nil || p.parts > maxAllParts {
		p.addError(at, errParts.Error())
		return "", nil, false
	}
	var texts []string
	for i, v := range all {
		part, message := inputPartOf(v)
		if message != "" {
			p.addError(at+"["+strconv.Itoa(i)+"]", message)
			continue
		}
		if part.isText {
			texts = append(texts, part.text)
			part.wire = model.TextPart(part.text)
		}
		parts = append(parts, part.wire)
	}
	if len(parts) < len(all) {
		return "", nil, false
	}
	text = strings.Join(texts, "\n")
	if len(texts) == len(parts) {
		return text, nil, true
	}
	return text, parts, true
}

// modelPart is a part in the form of chat completions.
type modelPart struct {
	isText bool
	text   string
	wire   jsontext.Value
}

func textPart(text string) (modelPart, string) { return modelPart{isText: true, text: text}, "" }

func inputPartOf(v jsontext.Value) (part modelPart, message string) {
	var in inputPart
	if v.Kind() != '{' || json.Unmarshal(v, &in) != nil {
		return part, "expected a content part: an object with a type, whose text, detail, file_id and filename are strings"
	}
	switch in.Type {
	case "input_text", "output_text", "text", "summary_text":
		return textPart(in.Text)
	case "refusal":
		return textPart(in.Refusal)
	case "input_image":
		return imagePart(&in)
	case "input_audio":
		if in.Audio.Kind() != '{' {
			return part, "expected input_audio to be an object with data and format"
		}
		return modelPart{wire: wrapJSON(`{"type":"input_audio","input_audio":`, in.Audio, `}`)}, ""
	case "input_file":
		return filePart(&in)
	}
	return part, "content parts of this type are not supported: expected input_text, output_text, refusal, input_image, input_audio " +
		"or input_file"
}

func imagePart(in *inputPart) (modelPart, string) {
	if in.Image.Kind() != '"' || !isImageURL(string(in.Image[1:min(len(in.Image), len(`"https://`))])) {
		return modelPart{}, "expected image_url to begin with https://, http:// or data:; file_id is not supported"
	}
	b := wrapJSON(`{"type":"image_url","image_url":{"url":`, in.Image, ``)
	if in.Detail != "" {
		b = append(append(b, `,"detail":`...), quote(in.Detail)...)
	}
	return modelPart{wire: append(b, `}}`...)}, ""
}

func filePart(in *inputPart) (modelPart, string) {
	if in.FileData.Kind() != '"' || len(in.FileData) == 2 {
		return modelPart{}, "expected the file's bytes in file_data: file_id and file_url are not supported"
	}
	b := wrapJSON(`{"type":"file","file":{"file_data":`, in.FileData, ``)
	if in.Filename != "" {
		b = append(append(b, `,"filename":`...), quote(in.Filename)...)
	}
	return modelPart{wire: append(b, `}}`...)}, ""
}

func wrapJSON(before string, value jsontext.Value, after string) jsontext.Value {
	return append(append(append(make([]byte, 0, len(before)+len(value)+len(after)+2), before...), value...), after...)
}

func partType(v jsontext.Value) string {
	var part struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(v, &part) // agentd wrote it
	return part.Type
}
