package openaiclient

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// isFile reports whether a part is a file or a recording, rather than a text or an image,
// which nearly all endpoints know.
func isFile(part jsontext.Value) bool {
	var p struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(part, &p, modelcall.Lenient) == nil && (p.Type == "file" || p.Type == "input_audio")
}

func sendsFiles(req *model.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m model.Message) bool {
		return slices.ContainsFunc(m.Parts, isFile)
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

// shown returns a part as an endpoint takes it: files of text as text, as few endpoints take
// other files than PDF, and for one that takes no files the others in words.
func (d dialect) shown(part jsontext.Value) jsontext.Value {
	if text, ok := model.TextFile(part); ok {
		return model.TextPart(text)
	}
	if !d.noFiles {
		return part
	}
	if !isFile(part) {
		return part
	}
	return model.InWords(part)
}
