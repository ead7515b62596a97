package openai

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/content/file"
	"agentd/internal/edge/httpapi"
)

// Files serves OpenAI's files, which are the platform's.
type Files struct{ Service *file.Service }

// filePurpose is the purpose of all files: none is kept.
const filePurpose = "user_data"

// FileObject is a file in OpenAI's shape.
type FileObject struct {
	_ struct{} `json:"-" name:"OpenAIFile"`

	ID        string `json:"id" required:"true" format:"uuid"`
	Object    string `json:"object" required:"true" enum:"file"`
	Bytes     int64  `json:"bytes" required:"true"`
	CreatedAt int64  `json:"created_at" required:"true" doc:"Unix seconds."`
	Filename  string `json:"filename" required:"true"`
	Purpose   string `json:"purpose" required:"true" enum:"user_data" doc:"Purposes are not kept: every file may be used for everything."`
	Status    string `json:"status" required:"true" enum:"processed"`
}

func fileObject(f *file.File) *FileObject {
	return &FileObject{
		ID: f.FileID, Object: "file", Bytes: f.SizeBytes, CreatedAt: f.CreatedAt.Unix(), Filename: f.Filename,
		Purpose: filePurpose, Status: "processed",
	}
}

// ListOf is a page of OpenAI's lists. Send last_id as after to get the next one.
type ListOf[T any] struct {
	Object  string  `json:"object" required:"true" enum:"list"`
	Data    []T     `json:"data" required:"true"`
	FirstID *string `json:"first_id" required:"true"`
	LastID  *string `json:"last_id" required:"true"`
	HasMore bool    `json:"has_more" required:"true"`
}

// Entries per page of OpenAI's lists.
const (
	listPage    = 20
	listPageMax = 100
)

// listOf makes a page of at most limit entries from those found, of which there is one
// more where the list goes on.
func listOf[T any](found []T, limit int, id func(*T) string) *ListOf[T] {
	out := &ListOf[T]{Object: "list", Data: found, HasMore: len(found) > limit}
	if out.HasMore {
		out.Data = found[:limit]
	}
	if n := len(out.Data); n > 0 {
		first, last := id(&out.Data[0]), id(&out.Data[n-1])
		out.FirstID, out.LastID = &first, &last
	} else {
		out.Data = []T{}
	}
	return out
}

// PageIn is the parameters of OpenAI's lists.
type PageIn struct {
	Limit string `query:"limit" doc:"Entries per page, 1 to 100. Default: 20."`
	After string `query:"after" maxLength:"128" doc:"The last id of the previous page."`
	Order string `query:"order" enum:"desc" doc:"Newest first is the only order."`
}

func (p *PageIn) limit() int { return page.Limit(p.Limit, listPage, listPageMax) }

type fileIn struct {
	ID string `path:"fileId"`
}

type fileUploadIn struct {
	Body route.Upload
}

// FileDeleted says that a file is gone.
type FileDeleted struct {
	_ struct{} `json:"-" name:"OpenAIFileDeleted"`

	ID      string `json:"id" required:"true"`
	Object  string `json:"object" required:"true" enum:"file"`
	Deleted bool   `json:"deleted" required:"true"`
}

// Routes returns the routes of files.
func (s *Files) Routes() []httpapi.Raw {
	row := func(method, path, id, summary string) route.Row {
		r := route.Row{
			Method: method, Path: "/v1/files" + path, ID: id, Tag: "OpenAI-Compat", Summary: summary,
			Scopes: []authz.Scope{"files:write"}, Role: authz.Developer, Repeats: method == "POST",
		}
		if method == "GET" {
			r.Scopes, r.Role = []authz.Scope{"files:read"}, authz.Viewer
		}
		return r
	}
	upload := row("POST", "", "createOpenAIFile", "Upload a file")
	upload.Uploads = []string{route.Form}
	upload.Doc = "Send a form with the file in the field file, up to 50 MiB. Other fields, such as purpose, are ignored. " +
		"It is a file of the platform, which /api/v1/files shows too."
	content := row("GET", "/{fileId}/content", "downloadOpenAIFile", "Get the content of a file")
	content.Reads = "file.downloaded"
	remove := row("DELETE", "/{fileId}", "deleteOpenAIFile", "Delete a file")
	remove.Destroys = true
	return typedRoutes(
		route.Action(upload, s.upload),
		route.Action(row("GET", "", "listOpenAIFiles", "List files, newest first"), s.list),
		route.Action(row("GET", "/{fileId}", "getOpenAIFile", "Get a file"), s.get),
		route.Action(content, s.content),
		route.Action(remove, s.remove),
	)
}

func (s *Files) upload(ctx context.Context, who authz.Caller, in *fileUploadIn) (*FileObject, error) {
	u := &in.Body
	staged, err := s.Service.Blobs.Stage(ctx, who.TenantID, u.Content)
	if err != nil {
		return nil, err
	}
	f, err := s.Service.AddAnswering(ctx, who.TenantID, u.Name, u.Type, staged, func(f *file.File) any { return fileObject(f) })
	if err != nil {
		return nil, err
	}
	return fileObject(f), nil
}

func (s *Files) list(ctx context.Context, who authz.Caller, in *struct{ PageIn }) (*ListOf[FileObject], error) {
	n := in.limit()
	found, err := s.Service.Files.List(ctx, who.TenantID, file.Filter{After: in.After, Limit: n + 1})
	if err != nil {
		return nil, err
	}
	shown := make([]FileObject, len(found))
	for i := range found {
		shown[i] = *fileObject(&found[i])
	}
	return listOf(shown, n, func(f *FileObject) string { return f.ID }), nil
}

func (s *Files) get(ctx context.Context, who authz.Caller, in *fileIn) (*FileObject, error) {
	f, err := s.Service.Get(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	return fileObject(f), nil
}

func (s *Files) content(ctx context.Context, who authz.Caller, in *fileIn) (*route.Content, error) {
	f, opened, err := s.Service.Open(ctx, who.TenantID, in.ID)
	if err != nil {
		return nil, err
	}
	return &route.Content{Name: f.Filename, Type: f.MimeType, ETag: f.SHA256, Time: f.CreatedAt, Size: f.SizeBytes, Body: opened}, nil
}

func (s *Files) remove(ctx context.Context, who authz.Caller, in *fileIn) (*FileDeleted, error) {
	return &FileDeleted{ID: in.ID, Object: "file", Deleted: true}, s.Service.Delete(ctx, who, in.ID)
}
