package mcpclient

import (
	"fmt"
	"mime"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/base/text"
	"agentd/internal/kernel/tool"
)

// Limits of a result. The registry of tools truncates text further.
const (
	maxText  = 1 << 20
	maxFiles = 16
)

// rendering converts what a server sends to a result: text unchanged, everything else
// to files, each with a line that mentions it.
type rendering struct {
	parts []string
	size  int
	files []tool.File
}

// resultOf converts the result of a call.
func resultOf(res *sdk.CallToolResult) tool.Result {
	if res.NeedsInput() {
		return tool.Failure("The tool asks for input from a person, which agents cannot provide.")
	}
	var r rendering
	for _, c := range res.Content {
		r.content(c)
	}
	if len(r.parts) == 0 && res.StructuredContent != nil {
		if text, err := json.Marshal(res.StructuredContent, json.Deterministic(true)); err == nil {
			r.text(string(text))
		}
	}
	return r.result(res.IsError)
}

func (r *rendering) content(c sdk.Content) {
	switch c := c.(type) {
	case *sdk.TextContent:
		r.text(c.Text)
	case *sdk.ImageContent:
		r.file("image", c.MIMEType, c.Data)
	case *sdk.AudioContent:
		r.file("audio", c.MIMEType, c.Data)
	case *sdk.ResourceLink:
		line := "[link: " + c.URI
		for _, more := range []string{c.Name, c.MIMEType, c.Description} {
			if more != "" {
				line += ", " + more
			}
		}
		r.text(line + "]")
	case *sdk.EmbeddedResource:
		if c.Resource != nil {
			r.resource(c.Resource)
		}
	}
}

func (r *rendering) resource(c *sdk.ResourceContents) {
	if len(c.Blob) > 0 {
		name := path.Base(c.URI)
		if name == "." || name == "/" || len(name) > 100 {
			name = ""
		}
		r.named(name, "resource", c.MIMEType, c.Blob)
		return
	}
	r.text("[resource: " + c.URI + "]\n" + c.Text)
}

func (r *rendering) text(s string) {
	s = text.PrefixBytes(s, maxText-r.size)
	r.size += len(s)
	// Not every database stores NUL.
	r.parts = append(r.parts, strings.ReplaceAll(s, "\x00", "\uFFFD"))
}

func (r *rendering) file(kind, mimeType string, data []byte) { r.named("", kind, mimeType, data) }

func (r *rendering) named(name, kind, mimeType string, data []byte) {
	if len(r.files) == maxFiles {
		r.text("[" + kind + ": omitted, there are too many files]")
		return
	}
	mediaType, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		mediaType = "application/octet-stream"
	}
	if name == "" {
		name = fmt.Sprintf("%s-%d%s", kind, len(r.files)+1, extension(mediaType))
	}
	r.files = append(r.files, tool.File{Name: name, MimeType: mediaType, Data: data})
	r.text(fmt.Sprintf("[%s: the file %s, %s, %d bytes]", kind, name, mediaType, len(data)))
}

// extensions are the file extensions of common types; the system's table differs
// between machines.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"audio/wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "application/pdf": ".pdf",
}

func extension(mediaType string) string { return extensions[mediaType] }

func (r *rendering) result(failed bool) tool.Result {
	out := strings.Join(r.parts, "\n\n")
	if out == "" && failed {
		out = "The tool failed without a message."
	}
	return tool.Result{Output: out, Failed: failed, Files: r.files}
}
