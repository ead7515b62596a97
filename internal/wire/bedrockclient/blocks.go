package bedrockclient

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// turn encodes a turn. A turn with a document has a text.
func (e *encoder) turn(t *modelcall.Turn) (m message, err error) {
	if t.Model != nil {
		m.Role = "assistant"
		for _, said := range t.Model {
			m.Content = append(m.Content, e.said(said)...)
		}
	} else {
		m.Role = "user"
		if m.Content, err = e.blocks(t.Blocks); err != nil {
			return message{}, err
		}
	}
	text, document := len(m.Content) > 0, false
	for _, b := range m.Content {
		document = document || b.Document != nil
		if b.Text != "" {
			document = false
			break
		}
	}
	if !text || document {
		m.Content = append(m.Content, block{Text: "(No text.)"})
	}
	return m, nil
}

func (e *encoder) blocks(all []modelcall.Block) (blocks []block, err error) {
	for _, b := range all {
		switch {
		case b.Result != nil:
			content, err := e.blocks(b.Result.Blocks)
			if err != nil {
				return nil, err
			}
			if content == nil {
				content = []block{{Text: "(Nothing.)"}}
			}
			blocks = append(blocks, block{ToolResult: &toolResult{e.ids.Of(b.Result.Call.ID), content}})
		case b.Media != nil:
			m, err := e.media(b.Media)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, m)
		default:
			blocks = append(blocks, textBlocks(b.Text, "")...)
		}
	}
	return blocks, nil
}

// imageFormats and documentFormats are the API's names of media types.
var (
	imageFormats = map[string]string{
		"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif", "image/webp": "webp",
	}
	documentFormats = map[string]string{
		"application/pdf": "pdf", "text/plain": "txt", "text/csv": "csv", "text/html": "html", "text/markdown": "md", "application/msword": "doc",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
		"application/vnd.ms-excel": "xls",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
	}
)

// media encodes an image or a document. The API takes no addresses.
func (e *encoder) media(m *modelcall.Media) (block, error) {
	b := &media{}
	b.Source.Bytes = m.Data
	if b.Format = imageFormats[m.Type]; m.Data != "" && b.Format != "" {
		return block{Image: b}, nil
	}
	b.Format = documentFormats[m.Type]
	if b.Format == "" && m.Is("text") {
		b.Format = "txt"
	}
	if m.Data == "" || b.Format == "" {
		const takes = "images (PNG, JPEG, GIF, WebP) and documents (PDF, text, CSV, HTML, Word, Excel) with their data"
		return block{}, modelcall.Unsupported(e.req, m, takes)
	}
	e.documents++
	b.Name = documentName(m.Name, e.documents)
	return block{Document: b}, nil
}

// documentName returns a name that the API takes: letters, digits, single spaces, hyphens
// and brackets, another one for each document.
func documentName(name string, n int) string {
	name, _, _ = strings.Cut(name, ".")
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-()[]", r) {
			return r
		}
		return ' '
	}
	name = strings.Join(strings.Fields(strings.Map(clean, name)), " ")
	if name == "" {
		name = "document"
	}
	return fmt.Sprintf("%s %d", name[:min(len(name), 100)], n)
}

// said encodes a message of the model. Arguments that are no JSON object go back as {}.
func (e *encoder) said(m *model.Message) []block {
	var calls []block
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		calls = append(calls, block{ToolUse: &toolUse{e.ids.Of(c.ID), c.Name, modelcall.ValidObject(c.Arguments)}})
	}
	text := model.Plain(m)
	if m.HasOpaque() && !e.style.noOpaque {
		return modelcall.Arrange(modelcall.ReadLayout(m.Opaque.Data), text, calls, thought, textBlocks)
	}
	return append(textBlocks(text, ""), calls...)
}

func thought(v jsontext.Value) block { return block{Reasoning: v} }

// textBlocks returns a block for a text; none for a blank one, which the API refuses.
func textBlocks(text, _ string) []block {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return []block{{Text: text}}
}
