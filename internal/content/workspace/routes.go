package workspace

import (
	"context"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/media"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

type (
	createIn struct {
		Body struct {
			_ struct{} `json:"-" name:"WorkspaceCreate"`

			Name string `json:"name" default:"New Workspace" minLength:"1" maxLength:"200"`
		}
	}
	renameIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceUpdate"`

			Name string `json:"name" required:"true" minLength:"1" maxLength:"200"`
		}
	}
	listIn struct {
		Limit  string `query:"limit" doc:"Page size, up to 200. Left out: all of them at once, without paging."`
		Cursor string `query:"cursor"`
	}
	idIn struct {
		WorkspaceID string `path:"workspaceId"`
	}
	assignIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceAssignment"`

			AgentID   string `json:"agent_id,omitzero" format:"uuid"`
			TeamID    string `json:"team_id,omitzero" format:"uuid"`
			CompanyID string `json:"company_id,omitzero" format:"uuid"`
		}
	}
	shareIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceShare"`

			AgentID string `json:"agent_id" format:"uuid" required:"true"`
		}
	}
	unshareIn struct {
		WorkspaceID string `path:"workspaceId"`
		AgentID     string `path:"agentId"`
	}
	filesIn struct {
		WorkspaceID string `path:"workspaceId"`
		Path        string `query:"path" doc:"The folder; the root if it is left out."`
		Recursive   bool   `query:"recursive" doc:"With everything in its folders."`
	}
	agentFilesIn struct {
		AgentID string `path:"agentId"`
		Path    string `query:"path" doc:"The folder; the root if it is left out."`
	}
	fileIn struct {
		WorkspaceID string `path:"workspaceId"`
		Path        string `query:"path" doc:"Required."`
	}
	putIn struct {
		WorkspaceID string `path:"workspaceId"`
		Path        string `query:"path" doc:"Required. Folders on the way need not exist."`
		Match       string `header:"If-Match" doc:"Refuse with 412 unless the file has this ETag."`
		NoneMatch   string `header:"If-None-Match" doc:"With *: refuse with 412 where there is a file."`
		Body        route.Upload
	}
	moveIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceFileMove"`

			From string `json:"from_path" required:"true"`
			To   string `json:"to_path" required:"true"`
		}
	}
	copyIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceFileCopy"`

			From    string `json:"source_path,omitzero" doc:"Required, under this name or as source."`
			To      string `json:"dest_path,omitzero" doc:"Required, under this name or as destination."`
			OldFrom string `json:"source,omitzero" deprecated:"true"`
			OldTo   string `json:"destination,omitzero" deprecated:"true"`
		}
	}
	searchIn struct {
		WorkspaceID string `path:"workspaceId"`
		Text        string `query:"q" maxLength:"500" doc:"What to find, whatever its case; nothing is found for nothing."`
		Glob        string `query:"glob" maxLength:"500" doc:"Only in paths like this: * and ? stay in a folder, ** does not."`
		Regex       string `query:"regex" doc:"true or 1: q is a regular expression in the syntax of RE2."`
	}
)

// Page is a list of workspaces. Paging fields appear only where a limit was
// asked for (behaviours 0.2).
type Page struct {
	_ struct{} `json:"-" name:"WorkspaceList"`

	Workspaces []Workspace `json:"workspaces" required:"true"`
	Total      int         `json:"total" required:"true" doc:"How many there are on all pages."`
	HasMore    *bool       `json:"has_more,omitzero"`
	Cursor     *string     `json:"cursor,omitzero"`
}

const maxPage = 200

type searchOut struct {
	_ struct{} `json:"-" name:"WorkspaceSearch"`

	Results []Match `json:"results" required:"true"`
	Total   int     `json:"total" required:"true"`
}

// Routes of the area Workspaces.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary string, scope authz.Scope, role authz.Role) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/workspaces" + path, ID: id, Tag: "Workspaces", Summary: summary,
			Scopes: []authz.Scope{scope}, Role: role,
		}
	}
	read := func(path, id, summary string) route.Row {
		return row("GET", path, id, summary, "files:read", authz.Viewer)
	}
	write := func(method, path, id, summary string, status int, errors ...int) route.Row {
		r := row(method, path, id, summary, "files:write", authz.Developer)
		r.Status, r.Errors = status, errors
		return r
	}
	create := write("POST", "", "createWorkspace", "Make a workspace", 201)
	create.Optional = true
	list := read("", "listWorkspaces", "List workspaces, newest first")
	put := write("PUT", "/{workspaceId}/files", "uploadWorkspaceFile", "Write a file to a path", 200, 409, 412)
	put.Also, put.Uploads, put.AnswerOf = []int{201}, []string{route.Form, route.Bytes}, reflect.TypeFor[File]()
	put.Doc = "As a form with the file in its field file, or as the bytes themselves, up to 50 MiB. 201 where the path is new, 200 where a file was replaced."
	content := read("/{workspaceId}/files/content", "downloadWorkspaceFile", "Download a file of a workspace")
	content.Doc = "Answers ranges and conditional requests. The key may come as ?token=."
	agentFiles := read("", "listAgentWorkspaceFiles", "List files of the workspace that an agent works in")
	agentFiles.Path = "/api/v1/agents/{agentId}/workspace/files"
	return []route.Route{
		route.Action(create, s.create),
		route.Action(list, s.list),
		route.Action(read("/{workspaceId}", "getWorkspace", "Read a workspace"), func(ctx context.Context, who authz.Caller, in *idIn) (*Workspace, error) {
			return s.Table.Get(ctx, who.TenantID, in.WorkspaceID)
		}),
		route.Action(write("PATCH", "/{workspaceId}", "updateWorkspace", "Rename a workspace", 200), func(ctx context.Context, who authz.Caller, in *renameIn) (*Workspace, error) {
			return s.Rename(ctx, who.TenantID, in.WorkspaceID, in.Body.Name)
		}),
		route.Action(write("DELETE", "/{workspaceId}", "deleteWorkspace", "Delete a workspace with its files", 204, 409), func(ctx context.Context, who authz.Caller, in *idIn) (struct{}, error) {
			return struct{}{}, s.Delete(ctx, who, in.WorkspaceID)
		}),
		route.Action(write("POST", "/{workspaceId}/assign", "assignWorkspace", "Have an agent work in a workspace", 200, 409), func(ctx context.Context, who authz.Caller, in *assignIn) (*Workspace, error) {
			id, err := in.agent()
			if err != nil {
				return nil, err
			}
			return s.Assign(ctx, who, in.WorkspaceID, id)
		}),
		route.Action(write("DELETE", "/{workspaceId}/assign", "unassignWorkspace", "Take an agent out of a workspace", 200, 409), func(ctx context.Context, who authz.Caller, in *assignIn) (*Workspace, error) {
			id, err := in.agent()
			if err != nil {
				return nil, err
			}
			return s.Unassign(ctx, who, in.WorkspaceID, id)
		}),
		route.Action(write("POST", "/{workspaceId}/share", "shareWorkspace", "Let an agent read a workspace", 200), func(ctx context.Context, who authz.Caller, in *shareIn) (*Workspace, error) {
			return s.Share(ctx, who, in.WorkspaceID, in.Body.AgentID)
		}),
		route.Action(write("DELETE", "/{workspaceId}/share/{agentId}", "revokeWorkspaceShare", "Let an agent read a workspace no longer", 200), func(ctx context.Context, who authz.Caller, in *unshareIn) (*Workspace, error) {
			return s.Unshare(ctx, who, in.WorkspaceID, in.AgentID)
		}),
		route.Action(read("/{workspaceId}/files", "listWorkspaceFiles", "List a folder of a workspace"), func(ctx context.Context, who authz.Caller, in *filesIn) (*Listing, error) {
			dir, err := queryPath(in.Path, true)
			if err != nil {
				return nil, err
			}
			return s.Files(ctx, who.TenantID, in.WorkspaceID, dir, in.Recursive)
		}),
		route.Action(put, s.put),
		route.Action(write("DELETE", "/{workspaceId}/files", "deleteWorkspaceFile", "Delete a file, or a folder with everything in it", 204), s.remove),
		route.Action(content, s.content),
		route.Action(write("POST", "/{workspaceId}/files/move", "moveWorkspaceFile", "Give a file another path", 200, 409), s.move),
		route.Action(write("POST", "/{workspaceId}/files/copy", "copyWorkspaceFile", "Copy a file to another path", 201, 409), s.copy),
		route.Action(read("/{workspaceId}/search", "searchWorkspaceFiles", "Search the text files of a workspace"), s.search),
		route.Action(agentFiles, s.agentFiles),
	}
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*Workspace, error) {
	return s.Create(ctx, who.TenantID, in.Body.Name)
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	scope := page.Scope{Tenant: who.TenantID, List: "workspaces"}
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	total, err := s.Table.Count(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	if in.Limit == "" && in.Cursor == "" {
		all, err := s.Table.List(ctx, who.TenantID, "", total)
		return &Page{Workspaces: all, Total: len(all)}, err
	}
	n := page.Limit(in.Limit, maxPage, maxPage)
	all, err := s.Table.List(ctx, who.TenantID, after, n+1)
	if err != nil {
		return nil, err
	}
	more := len(all) > n
	p := &Page{Workspaces: all, Total: total, HasMore: &more}
	if more {
		p.Workspaces = all[:n]
		next := s.Cursors.Seal(scope, all[n-1].WorkspaceID)
		p.Cursor = &next
	}
	return p, nil
}

// agent is the one that an assignment names. There are no teams and no
// companies in this deployment's company that could be another's.
func (in *assignIn) agent() (string, error) {
	b := &in.Body
	named := 0
	for _, id := range []string{b.AgentID, b.TeamID, b.CompanyID} {
		if id != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return "", fault.New(fault.Malformed, "MISSING_FIELD", "Name exactly one of agent_id, team_id and company_id.")
	case b.TeamID != "":
		return "", fault.NoSuch("team")
	case b.CompanyID != "":
		return "", fault.NoSuch("initiative")
	}
	return b.AgentID, nil
}

// queryPath cleans a path that came in a query.
func queryPath(sent string, root bool) (string, error) {
	path, complaint := clean(sent)
	if complaint == "" && path == "" && !root {
		complaint = "it names no file"
	}
	if complaint != "" {
		return "", fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter path cannot be accepted: %s.", complaint)
	}
	return path, nil
}

// bodyPaths cleans two paths that came in a body.
func bodyPaths(fromField, sentFrom, toField, sentTo string) (from, to string, err error) {
	var wrong []fault.Field
	one := func(field, sent string) string {
		path, complaint := clean(sent)
		if complaint == "" && path == "" {
			complaint = "it names no file"
		}
		if complaint != "" {
			wrong = append(wrong, fault.Field{Field: field, Message: complaint})
		}
		return path
	}
	from, to = one(fromField, sentFrom), one(toField, sentTo)
	if wrong != nil {
		err = fault.BadFields(wrong...)
	}
	return from, to, err
}

func (s *Service) put(ctx context.Context, who authz.Caller, in *putIn) (*route.Reply, error) {
	path, err := queryPath(in.Path, false)
	if err != nil {
		return nil, err
	}
	// What is refused anyway is refused before it is sent.
	w, err := s.Table.Get(ctx, who.TenantID, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	c := Conditions{in.Match, in.NoneMatch}
	now, err := s.Table.GetFile(ctx, who.TenantID, in.WorkspaceID, path)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if fault.Is(err, fault.NotFound) {
		now = nil
		w.FileCount++
	} else {
		w.TotalSizeBytes -= now.SizeBytes
	}
	w.TotalSizeBytes += max(0, in.Body.Size)
	if err := c.check(now); err != nil {
		return nil, err
	}
	if err := fits(w); err != nil {
		return nil, err
	}
	st, err := s.Blobs.Stage(ctx, who.TenantID, in.Body.Content)
	if err != nil {
		return nil, err
	}
	f, created, err := s.Put(ctx, who.TenantID, in.WorkspaceID, path, in.Body.Type, st, c)
	if err != nil {
		return nil, err
	}
	status := 200
	if created {
		status = 201
	}
	body, err := json.Marshal(f)
	return &route.Reply{Status: status, ETag: f.ETag, JSON: body}, err
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *fileIn) (struct{}, error) {
	path, err := queryPath(in.Path, false)
	if err == nil {
		err = s.Remove(ctx, who.TenantID, in.WorkspaceID, path)
	}
	return struct{}{}, err
}

func (s *Service) content(ctx context.Context, who authz.Caller, in *fileIn) (*route.Content, error) {
	path, err := queryPath(in.Path, false)
	if err != nil {
		return nil, err
	}
	f, r, err := s.Open(ctx, who.TenantID, in.WorkspaceID, path)
	if err != nil {
		return nil, err
	}
	return &route.Content{
		Name: f.Filename, Type: f.MimeType, Inline: media.Inline(f.MimeType), ETag: f.ETag, Time: f.UpdatedAt, Size: f.SizeBytes, Body: r,
	}, nil
}

func (s *Service) move(ctx context.Context, who authz.Caller, in *moveIn) (*File, error) {
	from, to, err := bodyPaths("from_path", in.Body.From, "to_path", in.Body.To)
	if err != nil {
		return nil, err
	}
	return s.Move(ctx, who.TenantID, in.WorkspaceID, from, to)
}

func (s *Service) copy(ctx context.Context, who authz.Caller, in *copyIn) (*File, error) {
	b := &in.Body
	if b.From == "" {
		b.From = b.OldFrom
	}
	if b.To == "" {
		b.To = b.OldTo
	}
	from, to, err := bodyPaths("source_path", b.From, "dest_path", b.To)
	if err != nil {
		return nil, err
	}
	return s.Copy(ctx, who.TenantID, in.WorkspaceID, from, to)
}

func (s *Service) search(ctx context.Context, who authz.Caller, in *searchIn) (*searchOut, error) {
	regex := strings.EqualFold(in.Regex, "true") || in.Regex == "1"
	found, err := s.Search(ctx, who.TenantID, in.WorkspaceID, Query{Text: in.Text, Glob: in.Glob, Regex: regex})
	return &searchOut{Results: found, Total: len(found)}, err
}

func (s *Service) agentFiles(ctx context.Context, who authz.Caller, in *agentFilesIn) (*Listing, error) {
	dir, err := queryPath(in.Path, true)
	if err != nil {
		return nil, err
	}
	w, err := s.OfAgent(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	return s.Files(ctx, who.TenantID, w.WorkspaceID, dir, false)
}
