package client

import (
	"bytes"
	"context"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
)

// File is a file on its way to the server. Its content is read as it is sent.
type File struct {
	Name    string
	Type    string // media type
	Size    int64  // in bytes
	Content io.Reader
}

// sized is a body whose length is known.
type sized struct {
	io.Reader

	size int64
}

// Upload posts a file as a form, without holding it in memory, and reads the answer into
// out. It takes as long as ctx lets it. Errors: those of Do.
func (c *Client) Upload(ctx context.Context, path string, f File, out any) error {
	var around bytes.Buffer
	form := multipart.NewWriter(&around)
	_, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": "file", "filename": f.Name})},
		"Content-Type":        {f.Type},
	})
	if err != nil {
		return err
	}
	before := bytes.Clone(around.Bytes())
	if err := form.Close(); err != nil {
		return err
	}
	after := around.Bytes()[len(before):]
	body := sized{
		io.MultiReader(bytes.NewReader(before), f.Content, bytes.NewReader(after)), int64(len(before)) + f.Size + int64(len(after)),
	}
	res, err := c.Send(ctx, http.MethodPost, path, body, http.Header{"Content-Type": {form.FormDataContentType()}})
	if err != nil {
		return err
	}
	return c.read(res, out)
}
