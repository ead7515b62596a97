package openaiclient

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// fileName returns the name and the type of a part with a file or a recording; not ok for
// texts and images, which nearly all endpoints know.
func fileName(part jsontext.Value) (name string, ok bool) {
	var p struct {
		Type string `json:"type"`
		File struct {
			Name string `json:"filename"`
		} `json:"file"`
	}
	if json.Unmarshal(part, &p, modelcall.Lenient) != nil || p.Type != "file" && p.Type != "input_audio" {
		return "", false
	}
	return p.File.Name, true
}

func sendsFiles(req *model.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m model.Message) bool {
		return slices.ContainsFunc(m.Parts, func(part jsontext.Value) bool { _, ok := fileName(part); return ok })
	})
}

// fileWords are how endpoints name parts that they do not take.
var fileWords = []string{
	"file", "input_audio", "audio", "part type", "content type", "content part", "message format", "modalit", "multimodal", "union_tag",
}

// mentionsFiles reports whether an endpoint's message is about parts of messages.
func mentionsFiles(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc(fileWords, func(word string) bool { return strings.Contains(message, word) })
}

// shown returns a part as an endpoint takes it that takes no files.
func (d dialect) shown(part jsontext.Value) jsontext.Value {
	if !d.noFiles {
		return part
	}
	name, ok := fileName(part)
	switch {
	case !ok:
		return part
	case name == "":
		return model.TextPart("[A recording is attached, which this model cannot hear.]")
	}
	return model.TextPart("[The file \"" + name + "\" is attached, which this model cannot read.]")
}
