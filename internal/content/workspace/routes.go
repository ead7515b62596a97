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

			Name string `json:"name" default:"New Workspace" minLength:"1" maxLength:"200" doc:"Name of the workspace, as people see it."`
		}
	}
	renameIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceUpdate"`

			Name string `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"Name of the workspace, as people see it."`
		}
	}
	listIn struct {
		Limit  string `query:"limit" doc:"Page size, up to 200. By default all workspaces are returned, without paging."`
		Cursor string `query:"cursor"`
	}
	idIn struct {
		WorkspaceID string `path:"workspaceId"`
	}
	assignIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        assignment
	}
	unassignIn struct {
		WorkspaceID string `path:"workspaceId"`
		AgentID     string `query:"agent_id" format:"uuid"`
		TeamID      string `query:"team_id" format:"uuid"`
		CompanyID   string `query:"company_id" format:"uuid"`
		Body        *assignment
	}
	shareIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceShare"`

			AgentID string `json:"agent_id" format:"uuid" required:"true" doc:"The agent that the workspace is shared with."`
		}
	}
	unshareIn struct {
		WorkspaceID string `path:"workspaceId"`
		AgentID     string `path:"agentId"`
	}
	filesIn struct {
		WorkspaceID string `path:"workspaceId"`
		Path        string `query:"path" doc:"The folder. Default: the root."`
		Recursive   bool   `query:"recursive" doc:"Include everything in its folders."`
	}
	agentFilesIn struct {
		AgentID string `path:"agentId"`
		Path    string `query:"path" doc:"The folder. Default: the root."`
	}
	fileIn struct {
		WorkspaceID string `path:"workspaceId"`
		Path        string `query:"path" doc:"Required."`
	}
	removeIn struct {
		WorkspaceID string `path:"workspaceId"`
		Path        string `query:"path" doc:"Required."`
		Trash       string `query:"trash" enum:"true,false" doc:"false: delete for good what a signed-in person would move to the trash. With a key everything is deleted for good."`
	}
	moveIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceFileMove"`

			From string `json:"from_path" required:"true" doc:"Path of the file or folder."`
			To   string `json:"to_path" required:"true" doc:"Its new path. Folders need not be created."`
		}
	}
	copyIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceFileCopy"`

			From    string `json:"source_path,omitzero" doc:"Required, under this name or as source."`
			To      string `json:"dest_path,omitzero" doc:"Required, under this name or as destination."`
			OldFrom string `json:"source,omitzero" deprecated:"true" doc:"The older name of source_path."`
			OldTo   string `json:"destination,omitzero" deprecated:"true" doc:"The older name of dest_path."`
		}
	}
	searchIn struct {
		WorkspaceID string `path:"workspaceId"`
		Text        string `query:"q" maxLength:"500" doc:"Text to find, ignoring case. An empty text finds nothing."`
		Glob        string `query:"glob" maxLength:"500" doc:"Only paths that match: * and ? match within a folder, ** across folders."`
		Regex       string `query:"regex" doc:"true or 1: q is a regular expression (RE2 syntax)."`
	}
)

// Page is a list of workspaces. The paging fields are present only if the
// request has a limit or a cursor.
type Page struct {
	_ struct{} `json:"-" name:"WorkspaceList"`

	Workspaces []Workspace `json:"workspaces" required:"true"`
	Total      int         `json:"total" required:"true" doc:"Number of workspaces on all pages."`
	HasMore    *bool       `json:"has_more,omitzero"`
	Cursor     *string     `json:"cursor,omitzero"`
}

const maxPage = 200

type searchOut struct {
	_ struct{} `json:"-" name:"WorkspaceSearch"`

	Results []Match `json:"results" required:"true"`
	Total   int     `json:"total" required:"true"`
}

// handlers are the operations of the API on a Service.
type handlers struct{ *Service }

// Routes returns the operations of the area Workspaces.
func (s *Service) Routes() []route.Route {
	h := handlers{s}
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
	create := write("POST", "", "createWorkspace", "Create a workspace", 201)
	create.Optional = true
	put := write("PUT", "/{workspaceId}/files", "uploadWorkspaceFile", "Write a file", 200, 409, 412)
	put.Also, put.Uploads, put.AnswerOf = []int{201}, []string{route.Form, route.Bytes}, reflect.TypeFor[File]()
	put.Doc = "Send a form with the file in the field file, or the bytes themselves, up to 50 MiB. " +
		"Answers 201 if the path is new, 200 if a file was replaced."
	unassign := write("DELETE", "/{workspaceId}/assign", "unassignWorkspace", "Unassign a workspace from an agent", 200, 409)
	unassign.Optional = true
	unassign.Doc = "Name the agent in the query or in a body. With neither, it is the one agent that the workspace is assigned to."
	content := read("/{workspaceId}/files/content", "downloadWorkspaceFile", "Download a file of a workspace")
	content.Reads = "workspace.file_downloaded"
	content.Doc = "Supports ranges and conditional requests. The key may be sent as ?token=."
	agentFiles := read("", "listAgentWorkspaceFiles", "List the files of an agent's workspace")
	agentFiles.Path = "/api/v1/agents/{agentId}/workspace/files"
	discard := write("DELETE", "/{workspaceId}/files", "deleteWorkspaceFile", "Delete a file or folder", 200)
	discard.Also, discard.AnswerOf, discard.Destroys = []int{204}, reflect.TypeFor[Trashed](), true
	discard.Doc = "A file that a signed-in person deletes goes to the trash, which answers 200. With a key, with trash=false, " +
		"and for a folder everything is gone for good, which answers 204."
	get := read("/{workspaceId}", "getWorkspace", "Get a workspace")
	rename := write("PATCH", "/{workspaceId}", "updateWorkspace", "Rename a workspace", 200)
	remove := write("DELETE", "/{workspaceId}", "deleteWorkspace", "Delete a workspace with its files", 204, 409)
	get.Conditional, rename.Conditional, remove.Conditional, remove.Destroys = true, true, true, true
	return append([]route.Route{
		route.Action(create, h.create),
		route.Action(read("", "listWorkspaces", "List workspaces, newest first"), h.list),
		route.Action(get, h.get),
		route.Action(rename, h.rename),
		route.Action(remove, h.delete),
		route.Action(write("POST", "/{workspaceId}/assign", "assignWorkspace", "Assign a workspace to an agent", 200, 409), h.assign),
		route.Action(unassign, h.unassign),
		route.Action(write("POST", "/{workspaceId}/share", "shareWorkspace", "Share a workspace with an agent", 200), h.share),
		route.Action(
			write("DELETE", "/{workspaceId}/share/{agentId}", "revokeWorkspaceShare", "Stop sharing a workspace with an agent", 200), h.unshare,
		),
		route.Action(read("/{workspaceId}/files", "listWorkspaceFiles", "List a folder of a workspace"), h.files),
		route.Action(put, h.put),
		route.Action(discard, h.remove),
		route.Action(content, h.content),
		route.Action(write("POST", "/{workspaceId}/files/move", "moveWorkspaceFile", "Move a file", 200, 409), h.move),
		route.Action(write("POST", "/{workspaceId}/files/copy", "copyWorkspaceFile", "Copy a file", 201, 409), h.copy),
		route.Action(read("/{workspaceId}/search", "searchWorkspaceFiles", "Search the text files of a workspace"), h.search),
		route.Action(agentFiles, h.agentFiles),
	}, h.trashRoutes(read, write)...)
}

func (h handlers) get(ctx context.Context, who authz.Caller, in *idIn) (*Workspace, error) {
	return h.Table.Get(ctx, who.TenantID, in.WorkspaceID)
}

func (h handlers) rename(ctx context.Context, who authz.Caller, in *renameIn) (*Workspace, error) {
	return h.Rename(ctx, who.TenantID, in.WorkspaceID, in.Body.Name)
}

func (h handlers) delete(ctx context.Context, who authz.Caller, in *idIn) (struct{}, error) {
	return struct{}{}, h.Delete(ctx, who, in.WorkspaceID)
}

func (h handlers) assign(ctx context.Context, who authz.Caller, in *assignIn) (*Workspace, error) {
	id, err := in.Body.agent()
	if err != nil {
		return nil, err
	}
	return h.Assign(ctx, who, in.WorkspaceID, id)
}

func (h handlers) unassign(ctx context.Context, who authz.Caller, in *unassignIn) (*Workspace, error) {
	named := assignment{AgentID: in.AgentID, TeamID: in.TeamID, CompanyID: in.CompanyID}
	if in.Body != nil && named.empty() {
		named = *in.Body
	}
	if named.empty() {
		w, err := h.Table.Get(ctx, who.TenantID, in.WorkspaceID)
		if err != nil {
			return nil, err
		}
		if len(w.AssignedAgents) != 1 {
			return nil, fault.New(fault.Malformed, "MISSING_FIELD",
				"The workspace is assigned to %d agents; name the one to unassign, as agent_id.", len(w.AssignedAgents))
		}
		named.AgentID = w.AssignedAgents[0]
	}
	id, err := named.agent()
	if err != nil {
		return nil, err
	}
	return h.Unassign(ctx, who, in.WorkspaceID, id)
}

func (h handlers) share(ctx context.Context, who authz.Caller, in *shareIn) (*Workspace, error) {
	return h.Share(ctx, who, in.WorkspaceID, in.Body.AgentID)
}

func (h handlers) unshare(ctx context.Context, who authz.Caller, in *unshareIn) (*Workspace, error) {
	return h.Unshare(ctx, who, in.WorkspaceID, in.AgentID)
}

func (h handlers) files(ctx context.Context, who authz.Caller, in *filesIn) (*Listing, error) {
	dir, err := queryPath(in.Path, true)
	if err != nil {
		return nil, err
	}
	return h.Files(ctx, who.TenantID, in.WorkspaceID, dir, in.Recursive)
}

func (h handlers) create(ctx context.Context, who authz.Caller, in *createIn) (*Workspace, error) {
	return h.Create(ctx, who.TenantID, in.Body.Name)
}

func (h handlers) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	scope := page.ScopeOf(who.TenantID, "workspaces", in)
	after, err := h.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	total, err := h.Table.Count(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	if in.Limit == "" && in.Cursor == "" {
		all, err := h.Table.List(ctx, who.TenantID, "", total)
		return &Page{Workspaces: all, Total: len(all)}, err
	}
	n := page.Limit(in.Limit, maxPage, maxPage)
	all, err := h.Table.List(ctx, who.TenantID, after, n+1)
	if err != nil {
		return nil, err
	}
	more := len(all) > n
	p := &Page{Workspaces: all, Total: total, HasMore: &more}
	if more {
		p.Workspaces = all[:n]
		next := h.Cursors.Seal(scope, all[n-1].WorkspaceID)
		p.Cursor = &next
	}
	return p, nil
}

// assignment names whom a workspace is assigned to.
type assignment struct {
	_ struct{} `json:"-" name:"WorkspaceAssignment"`

	AgentID   string `json:"agent_id,omitzero" format:"uuid" doc:"The agent. Exactly one of the three ids is required."`
	TeamID    string `json:"team_id,omitzero" format:"uuid" doc:"Teams do not exist yet: any id is refused with 404."`
	CompanyID string `json:"company_id,omitzero" format:"uuid" doc:"Initiatives do not exist yet: any id is refused with 404."`
}

func (a *assignment) empty() bool { return a.AgentID == "" && a.TeamID == "" && a.CompanyID == "" }

// agent returns the agent that an assignment names. Teams and initiatives do
// not exist yet, so an id of one is not found.
func (a *assignment) agent() (string, error) {
	named := 0
	for _, id := range []string{a.AgentID, a.TeamID, a.CompanyID} {
		if id != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return "", fault.New(fault.Malformed, "MISSING_FIELD", "Name exactly one of agent_id, team_id and company_id.")
	case a.TeamID != "":
		return "", fault.NewNotFound("team")
	case a.CompanyID != "":
		return "", fault.NewNotFound("initiative")
	}
	return a.AgentID, nil
}

// queryPath cleans the query parameter path.
func queryPath(sent string, root bool) (string, error) {
	path, problem := clean(sent)
	if problem == "" && path == "" && !root {
		problem = "it names no file"
	}
	if problem != "" {
		return "", fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter path cannot be accepted: %s.", problem)
	}
	return path, nil
}

// bodyPaths cleans two paths of a body.
func bodyPaths(fromField, sentFrom, toField, sentTo string) (from, to string, err error) {
	var fields []fault.Field
	one := func(field, sent string) string {
		path, problem := clean(sent)
		if problem == "" && path == "" {
			problem = "it names no file"
		}
		if problem != "" {
			fields = append(fields, fault.Field{Field: field, Message: problem})
		}
		return path
	}
	from, to = one(fromField, sentFrom), one(toField, sentTo)
	if fields != nil {
		err = fault.BadFields(fields...)
	}
	return from, to, err
}

func (h handlers) put(ctx context.Context, who authz.Caller, in *putIn) (*route.Reply, error) {
	path, err := queryPath(in.Path, false)
	if err != nil {
		return nil, err
	}
	// Refuse what cannot succeed before the body is uploaded.
	w, err := h.Table.Get(ctx, who.TenantID, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	c := Conditions{in.Match, in.NoneMatch}
	now, err := h.Table.GetFile(ctx, who.TenantID, in.WorkspaceID, path)
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
	st, err := h.Blobs.Stage(ctx, who.TenantID, in.Body.Content)
	if err != nil {
		return nil, err
	}
	f, created, err := h.Put(ctx, who.TenantID, in.WorkspaceID, path, in.Body.Type, st, c)
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

func (h handlers) remove(ctx context.Context, who authz.Caller, in *removeIn) (*route.Reply, error) {
	path, err := queryPath(in.Path, false)
	if err != nil {
		return nil, err
	}
	if who.SignedIn() && in.Trash != "false" {
		t, err := h.Discard(ctx, who.TenantID, in.WorkspaceID, path)
		if !fault.Is(err, fault.NotFound) { // else it may be a folder
			return reply(t, err)
		}
	}
	return &route.Reply{Status: 204}, h.Remove(ctx, who.TenantID, in.WorkspaceID, path)
}

func (h handlers) content(ctx context.Context, who authz.Caller, in *fileIn) (*route.Content, error) {
	path, err := queryPath(in.Path, false)
	if err != nil {
		return nil, err
	}
	f, r, err := h.Open(ctx, who.TenantID, in.WorkspaceID, path)
	if err != nil {
		return nil, err
	}
	return &route.Content{
		Name: f.Filename, Type: f.MimeType, Inline: media.Inline(f.MimeType), ETag: f.ETag, Time: f.UpdatedAt, Size: f.SizeBytes, Body: r,
	}, nil
}

func (h handlers) move(ctx context.Context, who authz.Caller, in *moveIn) (*File, error) {
	from, to, err := bodyPaths("from_path", in.Body.From, "to_path", in.Body.To)
	if err != nil {
		return nil, err
	}
	return h.Move(ctx, who.TenantID, in.WorkspaceID, from, to)
}

func (h handlers) copy(ctx context.Context, who authz.Caller, in *copyIn) (*File, error) {
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
	return h.Copy(ctx, who.TenantID, in.WorkspaceID, from, to)
}

func (h handlers) search(ctx context.Context, who authz.Caller, in *searchIn) (*searchOut, error) {
	regex := strings.EqualFold(in.Regex, "true") || in.Regex == "1"
	found, err := h.Search(ctx, who.TenantID, in.WorkspaceID, Query{Text: in.Text, Glob: in.Glob, Regex: regex})
	return &searchOut{Results: found, Total: len(found)}, err
}

func (h handlers) agentFiles(ctx context.Context, who authz.Caller, in *agentFilesIn) (*Listing, error) {
	dir, err := queryPath(in.Path, true)
	if err != nil {
		return nil, err
	}
	w, err := h.OfAgent(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	return h.Files(ctx, who.TenantID, w.WorkspaceID, dir, false)
}
