package modelcall

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// Media is a part of a message that is not text. Either Data or URL is set.
type Media struct {
	Type string // the media type, as in image/png; "": unknown, of a URL
	Data string // base64
	URL  string // http or https
	Name string // of a file
}

// Is reports whether the medium is of a kind: image, audio, video, application.
func (m *Media) Is(kind string) bool { return strings.HasPrefix(m.Type, kind+"/") }

// readPart reads a content part of chat completions. One that is not known becomes a text
// that names its type.
func readPart(raw jsontext.Value) Block {
	var p struct {
		Type    Text `json:"type"`
		Text    Text `json:"text"`
		Refusal Text `json:"refusal"`
		Image   struct {
			URL Text `json:"url"`
		} `json:"image_url"`
		Audio struct {
			Data   Text `json:"data"`
			Format Text `json:"format"`
		} `json:"input_audio"`
		File struct {
			Data Text `json:"file_data"`
			URL  Text `json:"file_url"`
			Name Text `json:"filename"`
		} `json:"file"`
	}
	if json.Unmarshal(raw, &p, Lenient) != nil {
		return Block{}
	}
	switch p.Type {
	case "text", "input_text", "refusal":
		return Block{Text: string(cmp.Or(p.Text, p.Refusal))}
	case "image_url":
		return media(string(p.Image.URL), "", "")
	case "input_audio":
		return Block{Media: &Media{Type: "audio/" + string(p.Audio.Format), Data: string(p.Audio.Data)}}
	case "file":
		return media(string(cmp.Or(p.File.Data, p.File.URL)), string(p.File.Name), "application/pdf")
	}
	return Block{Text: fmt.Sprintf("[A part of the type %q, which cannot be shown.]", string(p.Type))}
}

// media returns a medium by its address, which may have its data. Bare data has the type
// otherwise.
func media(address, name, otherwise string) Block {
	if rest, ok := strings.CutPrefix(address, "data:"); ok {
		kind, data, _ := strings.Cut(rest, ",")
		kind, _, _ = strings.Cut(kind, ";")
		return Block{Media: &Media{Type: strings.ToLower(cmp.Or(kind, otherwise)), Data: data, Name: name}}
	}
	if strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://") {
		return Block{Media: &Media{URL: address, Name: name}}
	}
	return Block{Media: &Media{Type: otherwise, Data: address, Name: name}}
}

// Unsupported returns the error of a request with a medium that a wire cannot send.
func Unsupported(req *model.Request, m *Media, takes string) *model.Error {
	kind := cmp.Or(m.Type, "a file by its address")
	return &model.Error{
		Code: CodeModel, Status: 400,
		Detail: fmt.Sprintf("The provider of the model %q takes no %s in a message; it takes %s.", req.Target.Model, kind, takes),
	}
}
