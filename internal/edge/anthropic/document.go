package anthropic

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

const (
	fileHead = `{"type":"file","file":{`
	// textFileHead is the beginning of every part with a text that addText makes.
	textFileHead = fileHead + `"file_data":"data:text/plain;base64,`
	pdf          = "application/pdf"
)

// documentSource are the members of a document's source.
type documentSource struct{ kind, media, data, content, url []byte }

func readSource(v []byte) (s documentSource) {
	for name, value := range members(v) {
		switch name {
		case "type":
			s.kind = value
		case "media_type":
			s.media = value
		case "data":
			s.data = value
		case "content":
			s.content = value
		case "url":
			s.url = value
		}
	}
	return s
}

// document returns a document as the model receives it: PDF and text as files, which each
// wire sends in its own form, and content as the texts and images that it has. A URL is
// passed on, not fetched.
func (c *fieldErrors) document(b *block, at blockPath) (parts []part) {
	if kind(b.source) != '{' {
		c.add(at.field("source"), "expected an object")
		return nil
	}
	if kind(b.context) == '"' {
		if about := unquote(b.context); about != "" {
			parts = append(parts, part{text: "[About the next document] " + about})
		}
	}
	s := readSource(b.source)
	switch c.str(s.kind, at, "source.type") {
	case "base64":
		if media := c.str(s.media, at, "source.media_type"); media != "" && media != pdf {
			c.add(at.field("source.media_type"), "expected application/pdf; send other documents as text")
			return nil
		}
		if len(s.data) == 0 || s.data[0] != '"' {
			c.str(s.data, at, "source.data")
			return nil
		}
		raw := make([]byte, 0, len(fileHead)+len(s.data)+len(b.title)+128)
		raw = append(append(raw, fileHead...), `"file_data":"data:application/pdf;base64,`...)
		raw = append(append(raw, s.data[1:]...), ',') // with the closing quote
		return append(parts, part{raw: b.appendName(raw, ".pdf")})
	case "text":
		if media := c.str(s.media, at, "source.media_type"); media != "" && media != "text/plain" {
			c.add(at.field("source.media_type"), "expected text/plain")
			return nil
		}
		return append(parts, b.textFile(c.str(s.data, at, "source.data"))...)
	case "content":
		return append(parts, c.contentOf(b, s.content, at)...)
	case "url":
		if address := c.str(s.url, at, "source.url"); address != "" && !isWeb(address) {
			c.add(at.field("source.url"), "expected an http or https URL")
			return nil
		}
		raw := append(append(make([]byte, 0, len(fileHead)+len(s.url)+len(b.title)+64), fileHead...), `"file_url":`...)
		raw = append(append(raw, s.url...), ',')
		return append(parts, part{raw: b.appendName(raw, ".pdf")})
	case "":
	default:
		c.add(at.field("source.type"), "expected one of base64, text, content, url; this server keeps no files of this API")
	}
	return nil
}

// contentOf returns a document that consists of content blocks: one file of text, or the
// texts and images one after the other.
func (c *fieldErrors) contentOf(b *block, content []byte, at blockPath) (parts []part) {
	var texts []string
	seen := false
	inner := at
	inner.source = true
	c.each(content, inner, true, func(block block, here blockPath) {
		switch block.kind {
		case "text":
			if text := c.str(block.text, here, "text"); text != "" {
				texts, parts = append(texts, text), append(parts, part{text: text})
			}
		case "image":
			if raw := c.image(&block, here); raw != nil {
				parts, seen = append(parts, part{raw: raw}), true
			}
		}
	})
	if !seen {
		return b.textFile(strings.Join(texts, paragraph))
	}
	return append([]part{{text: b.heading()}}, parts...)
}

// textFile returns a text as a file.
func (b *block) textFile(text string) []part {
	if text == "" {
		return nil
	}
	size := base64.StdEncoding.EncodedLen(len(text))
	raw := append(make([]byte, 0, len(textFileHead)+size+len(b.title)+64), textFileHead...)
	raw = append(base64.StdEncoding.AppendEncode(raw, []byte(text)), `",`...)
	return []part{{raw: b.appendName(raw, ".txt"), text: b.heading() + "\n" + text}}
}

// appendName ends a part with the name of its file, which has an extension.
func (b *block) appendName(raw []byte, extension string) jsontext.Value {
	name := b.documentName()
	if !strings.HasSuffix(strings.ToLower(name), extension) {
		name += extension
	}
	return append(appendString(append(raw, `"filename":`...), name), `}}`...)
}

// documentName returns a document's title in one line.
func (b *block) documentName() string {
	const most = 200
	title := ""
	if kind(b.title) == '"' {
		title = strings.Join(strings.Fields(unquote(b.title)), " ")
	}
	switch {
	case title == "":
		return "document"
	case len(title) > most:
		return strings.ToValidUTF8(title[:most], "")
	}
	return title
}

// heading stands before a document that is no file.
func (b *block) heading() string {
	if kind(b.title) == '"' {
		return "[Document: " + b.documentName() + "]"
	}
	return "[Document]"
}

func isWeb(address string) bool {
	return strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://")
}

// addDocument adds a document of a turn. Only the user's messages have files: of others the
// texts are kept.
func (t *messageBuilder) addDocument(b *block, at blockPath) {
	for _, p := range t.document(b, at) {
		switch {
		case p.raw == nil || t.role == model.User:
			t.parts = append(t.parts, p.file())
		case p.text != "":
			t.parts = append(t.parts, part{text: p.text})
		}
	}
}

// file returns the part as a file, if it is one.
func (p part) file() part {
	if p.raw != nil {
		p.text = ""
	}
	return p
}
