package file

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"reflect"
	"regexp"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/media"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
)

// Files per page.
const (
	defaultPage = 20
	maxPage     = 100
)

type uploadIn struct {
	Body route.Upload
}

// uploadJSON is a file in a JSON body.
type uploadJSON struct {
	_ struct{} `json:"-" name:"FileUpload"`

	Data     string `json:"data" required:"true" doc:"The content in base64. A JSON body is limited to 10 MiB; send larger files as a form."`
	MimeType string `json:"mime_type" required:"true" minLength:"1" maxLength:"255" doc:"Type of the content, such as application/pdf."`
	Filename string `json:"filename,omitzero" maxLength:"1000" doc:"Name of the file, as people see it."`
}

type listIn struct {
	MimePrefix string `query:"mime_prefix" maxLength:"255" doc:"Only files whose type starts with this, such as image/."`
	Limit      string `query:"limit" doc:"Files per page, 1 to 100. Default: 20."`
	Cursor     string `query:"cursor"`
}

// Page is one page of files.
type Page struct {
	_ struct{} `json:"-" name:"FileList"`

	Items   []File  `json:"items" required:"true"`
	Cursor  *string `json:"cursor" required:"true"`
	HasMore bool    `json:"has_more" required:"true"`
}

type idIn struct {
	FileID string `path:"fileId"`
}

// Routes returns the operations of the area Files.
func (s *Service) Routes() []route.Route {
	read := func(path, id, summary string) route.Row {
		return route.Row{
			Method: "GET", Path: "/api/v1/files" + path, ID: id, Tag: "Files", Summary: summary,
			Scopes: []authz.Scope{"files:read"}, Role: authz.Viewer,
		}
	}
	list := read("", "listFiles", "List files, newest first")
	list.Errors = []int{422}
	content := read("/{fileId}/content", "downloadFileContent", "Download a file")
	content.Reads = "file.downloaded"
	content.Doc = "Supports ranges and conditional requests. The key may be sent as ?token=. " +
		"Browsers display images other than SVG, PDFs, audio and video, and save everything else."
	write := []authz.Scope{"files:write"}
	return []route.Route{
		route.Action(route.Row{
			Method: "POST", Path: "/api/v1/files", ID: "uploadFile", Tag: "Files", Scopes: write, Role: authz.Developer,
			Summary: "Upload a file", Status: 201, Uploads: []string{route.Form, route.JSON}, BodyOf: reflect.TypeFor[uploadJSON](),
			Doc: "Send a form with the file in the field file, up to 50 MiB, or base64 in JSON. The file is kept until it is deleted.",
		}, s.upload),
		route.Action(list, s.list),
		route.Action(read("/{fileId}", "getFileMetadata", "Get a file's metadata"), s.get),
		route.Action(content, s.content),
		route.Action(route.Row{
			Method: "DELETE", Path: "/api/v1/files/{fileId}", ID: "deleteFile", Tag: "Files", Scopes: write, Role: authz.Developer,
			Summary: "Delete a file", Status: 204, Destroys: true,
		}, func(ctx context.Context, who authz.Caller, in *idIn) (struct{}, error) {
			return struct{}{}, s.Delete(ctx, who, in.FileID)
		}),
	}
}

func (s *Service) get(ctx context.Context, who authz.Caller, in *idIn) (*File, error) {
	return s.Get(ctx, who.TenantID, in.FileID)
}

func (s *Service) upload(ctx context.Context, who authz.Caller, in *uploadIn) (*File, error) {
	u := &in.Body
	from, name, mimeType := u.Content, u.Name, u.Type
	if u.Content == nil {
		body, err := schema.Decode[uploadJSON](u.JSON)
		if err != nil {
			return nil, err
		}
		if from, err = body.content(); err != nil {
			return nil, err
		}
		name, mimeType = body.Filename, body.MimeType
	}
	st, err := s.Blobs.Stage(ctx, who.TenantID, from)
	if err != nil {
		return nil, err
	}
	return s.Add(ctx, who.TenantID, name, mimeType, st)
}

// content decodes the data in place.
func (u *uploadJSON) content() (io.Reader, error) {
	var invalid []fault.Field
	if _, ok := media.Clean(u.MimeType); !ok {
		invalid = append(invalid, fault.Field{Field: "mime_type", Message: "it is not a media type, such as text/plain"})
	}
	data := []byte(u.Data)
	n, err := base64.StdEncoding.Decode(data, data)
	if err != nil {
		invalid = append(invalid, fault.Field{Field: "data", Message: "it is not base64 with padding"})
	}
	if invalid != nil {
		return nil, fault.BadFields(invalid...)
	}
	return bytes.NewReader(data[:n]), nil
}

var typeLetters = regexp.MustCompile(`^[a-z0-9!#$&^_.+-]*(/[a-z0-9!#$&^_.+;= "-]*)?$`)

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	prefix := strings.ToLower(in.MimePrefix)
	if !typeLetters.MatchString(prefix) {
		return nil, fault.New(fault.Malformed, "INVALID_QUERY",
			"The query parameter mime_prefix is not the beginning of a media type, such as image/.")
	}
	in.MimePrefix = prefix
	scope := page.ScopeOf(who.TenantID, "files", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	n := page.Limit(in.Limit, defaultPage, maxPage)
	files, err := s.Files.List(ctx, who.TenantID, Filter{MimePrefix: prefix, After: after, Limit: n + 1})
	if err != nil {
		return nil, err
	}
	p := &Page{Items: files}
	if len(files) > n {
		p.Items, p.HasMore = files[:n], true
		next := s.Cursors.Seal(scope, files[n-1].FileID)
		p.Cursor = &next
	}
	for i := range p.Items {
		p.Items[i].URL = contentPath(p.Items[i].FileID)
	}
	return p, nil
}

func (s *Service) content(ctx context.Context, who authz.Caller, in *idIn) (*route.Content, error) {
	f, r, err := s.Open(ctx, who.TenantID, in.FileID)
	if err != nil {
		return nil, err
	}
	return &route.Content{
		Name: f.Filename, Type: f.MimeType, Inline: media.Inline(f.MimeType), ETag: f.SHA256, Time: f.CreatedAt, Size: f.SizeBytes, Body: r,
	}, nil
}
