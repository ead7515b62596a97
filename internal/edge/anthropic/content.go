package anthropic

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

// block is a content block: the raw members that are read of any type.
type block struct {
	kind                               string
	text, source, id, name, input      []byte
	toolUseID, content, isError, title []byte
	data, context                      []byte
}

func readBlock(v []byte) (b block) {
	for name, value := range members(v) {
		switch name {
		case "type":
			if kind(value) == '"' {
				b.kind = unquote(value)
			}
		case "text":
			b.text = value
		case "source":
			b.source = value
		case "id":
			b.id = value
		case "name":
			b.name = value
		case "input":
			b.input = value
		case "tool_use_id":
			b.toolUseID = value
		case "content":
			b.content = value
		case "is_error":
			b.isError = value
		case "title":
			b.title = value
		case "data":
			b.data = value
		case "context":
			b.context = value
		}
	}
	return b
}

// blockPath locates a content block. Indexes that do not apply are -1.
type blockPath struct {
	message, block, inner int
	source                bool // inner is in the source of the block
}

// field returns the path of a member of the block.
func (p blockPath) field(name string) string {
	b := []byte("system")
	if p.message >= 0 {
		b = append(strconv.AppendInt(append(b[:0], "messages["...), int64(p.message), 10), "].content"...)
	}
	for i, n := range [...]int{p.block, p.inner} {
		if n < 0 {
			break
		}
		if i > 0 && p.source {
			b = append(b, ".source"...)
		}
		if i > 0 {
			b = append(b, ".content"...)
		}
		b = append(strconv.AppendInt(append(b, '['), int64(n), 10), ']')
	}
	if name != "" {
		b = append(append(b, '.'), name...)
	}
	return string(b)
}

const (
	// maxFieldErrors is how many invalid fields one error lists.
	maxFieldErrors = 100
	// maxBlocks bounds the content blocks of a request, each of which costs memory
	// beyond its bytes.
	maxBlocks = 100_000
)

// fieldErrors collects the invalid fields of a request.
type fieldErrors struct {
	fields []fault.Field
	blocks int
}

func (c *fieldErrors) add(field, message string) {
	if len(c.fields) < maxFieldErrors {
		c.fields = append(c.fields, fault.Field{Field: field, Message: message})
	}
}

func (c *fieldErrors) err() error {
	if len(c.fields) == 0 {
		return nil
	}
	return fault.BadFields(c.fields...)
}

const (
	notString  = "expected a string"
	notContent = "expected a string or an array of content blocks"
)

// str reads a member that must be a string.
func (c *fieldErrors) str(v []byte, at blockPath, name string) string {
	switch {
	case len(v) == 0:
		c.add(at.field(name), "required but missing")
	case v[0] != '"':
		c.add(at.field(name), notString)
	default:
		return unquote(v)
	}
	return ""
}

// each calls add with each block of a content; a string counts as one block of text.
// It collects the blocks that are invalid.
func (c *fieldErrors) each(content []byte, at blockPath, inner bool, add func(b block, at blockPath)) {
	switch kind(content) {
	case '"':
		add(block{kind: "text", text: content}, at)
	case '[':
		for i, v := range elements(content) {
			here := at
			if inner {
				here.inner = i
			} else {
				here.block = i
			}
			if c.blocks++; c.blocks > maxBlocks {
				if c.blocks == maxBlocks+1 {
					c.add("messages", "expected at most "+strconv.Itoa(maxBlocks)+" content blocks in all")
				}
				return
			}
			if kind(v) != '{' {
				c.add(here.field(""), "expected an object")
				continue
			}
			b := readBlock(v)
			if b.kind == "" {
				c.add(here.field("type"), notString)
				continue
			}
			add(b, here)
		}
	default:
		c.add(at.field(""), notContent)
	}
}

// image returns an image in the form of chat completions. A URL is passed on, not
// fetched.
func (c *fieldErrors) image(b *block, at blockPath) jsontext.Value {
	if kind(b.source) != '{' {
		c.add(at.field("source"), "expected an object")
		return nil
	}
	var form, media, data, url []byte
	for name, value := range members(b.source) {
		switch name {
		case "type":
			form = value
		case "media_type":
			media = value
		case "data":
			data = value
		case "url":
			url = value
		}
	}
	const head, tail = `{"type":"image_url","image_url":{"url":`, `}}`
	switch c.str(form, at, "source.type") {
	case "base64":
		kind := c.str(media, at, "source.media_type")
		if kind != "" && !isImage(kind) {
			c.add(at.field("source.media_type"), "expected an image type such as image/png")
			return nil
		}
		if len(data) == 0 || data[0] != '"' {
			c.str(data, at, "source.data")
			return nil
		}
		part := make([]byte, 0, len(head)+len(kind)+len(data)+len(tail)+16)
		part = append(append(append(part, head...), `"data:`...), kind...)
		part = append(append(part, ";base64,"...), data[1:]...) // with the closing quote
		return append(part, tail...)
	case "url":
		if address := c.str(url, at, "source.url"); address != "" && !isWeb(address) {
			c.add(at.field("source.url"), "expected an http or https URL")
			return nil
		}
		part := make([]byte, 0, len(head)+len(url)+len(tail))
		return append(append(append(part, head...), url...), tail...)
	case "":
	default:
		c.add(at.field("source.type"), "expected one of base64, url")
	}
	return nil
}

// isImage reports whether a media type is an image's and safe in a data: URL.
func isImage(media string) bool {
	rest, ok := strings.CutPrefix(media, "image/")
	return ok && rest != "" && strings.Trim(strings.ToLower(rest), "abcdefghijklmnopqrstuvwxyz0123456789.+-") == ""
}
