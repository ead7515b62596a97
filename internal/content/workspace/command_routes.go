package workspace

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
)

type (
	restoreIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceTrashRestore"`

			TrashPath string `json:"trash_path" required:"true" maxLength:"2048" doc:"The file, as the list of the trash names it."`
		}
	}
	commandIn struct {
		WorkspaceID string `path:"workspaceId"`
		Body        struct {
			_ struct{} `json:"-" name:"WorkspaceCommand"`

			Command string `json:"command" required:"true" minLength:"1" maxLength:"32768" doc:"The program and its arguments, separated by spaces, with quotes as in a shell. No shell reads it: run sh -c '…' where the operator allows sh."`
			Workdir string `json:"workdir,omitzero" maxLength:"1024" doc:"Folder of the workspace that it works in. Default: the root."`
			Timeout int64  `json:"timeout_sec,omitzero" minimum:"1" maximum:"3600" doc:"Seconds after which it is ended. Default: 60, or what the operator lets commands run if that is less."`
		}
	}
	putIn struct {
		WorkspaceID string `path:"workspaceId"`
		Path        string `query:"path" doc:"Required. Missing folders are created."`
		Match       string `header:"If-Match" doc:"Refuse with 412 unless the file has this ETag."`
		NoneMatch   string `header:"If-None-Match" doc:"With *: refuse with 412 if the file exists."`
		Body        route.Upload
	}
)

// trashRoutes returns the operations on the trash, and that which runs commands.
func (h handlers) trashRoutes(
	read func(path, id, summary string) route.Row, write func(method, path, id, summary string, status int, errors ...int) route.Row,
) []route.Route {
	const byPeople = "Only for signed-in people: what a key deletes is gone for good."
	listTrash := read("/{workspaceId}/trash", "listWorkspaceTrash", "List the trash of a workspace")
	empty := write("DELETE", "/{workspaceId}/trash", "emptyWorkspaceTrash", "Empty the trash of a workspace", 200)
	restore := write("POST", "/{workspaceId}/trash/restore", "restoreWorkspaceTrash", "Restore a file from the trash", 200, 409)
	restore.Example = `{"trash_path": ".trash/console/019b6d3c-2f6a-7c1e-9a53-0d4f1c2b3a45/docs/notes.md"}`
	listTrash.Doc, empty.Doc, restore.Doc = byPeople, byPeople, byPeople
	command := write("POST", "/{workspaceId}/run-command", "runWorkspaceCommand", "Run a command in a workspace", 200, 403, 409, 422, 501, 503)
	command.Outside, command.Example = true, `{"command": "wc -l notes.txt"}`
	command.Doc = "Runs a program on a copy of the workspace's files, in a sandbox without a network, and takes over what it changed. " +
		"Off until the operator switches it on (403 FEATURE_DISABLED); 501 where the machine cannot confine programs."
	return []route.Route{
		route.Action(listTrash, h.listTrash),
		route.Action(empty, h.emptyTrash),
		route.Action(restore, h.restore),
		route.Action(command, h.runCommand),
	}
}

func reply(answer any, err error) (*route.Reply, error) {
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(answer)
	return &route.Reply{JSON: body}, err
}

// person refuses keys.
func person(who authz.Caller) error {
	if who.SignedIn() {
		return nil
	}
	return fault.New(fault.Forbidden, "", "The trash is for people who signed in; what a key deletes is gone for good.")
}

func (h handlers) listTrash(ctx context.Context, who authz.Caller, in *idIn) (*Trash, error) {
	if err := person(who); err != nil {
		return nil, err
	}
	return h.ListTrash(ctx, who.TenantID, in.WorkspaceID)
}

func (h handlers) emptyTrash(ctx context.Context, who authz.Caller, in *idIn) (*TrashEmptied, error) {
	if err := person(who); err != nil {
		return nil, err
	}
	return h.EmptyTrash(ctx, who, in.WorkspaceID)
}

func (h handlers) restore(ctx context.Context, who authz.Caller, in *restoreIn) (*Restored, error) {
	if err := person(who); err != nil {
		return nil, err
	}
	return h.Restore(ctx, who, in.WorkspaceID, in.Body.TrashPath)
}

func (h handlers) runCommand(ctx context.Context, who authz.Caller, in *commandIn) (*CommandResult, error) {
	dir, problem := clean(in.Body.Workdir)
	if problem != "" {
		return nil, fault.BadFields(fault.Field{Field: "workdir", Message: problem})
	}
	timeout := time.Duration(in.Body.Timeout) * time.Second
	if timeout == 0 {
		timeout = defaultTimeout * time.Second
		if h.Service.Commands != nil {
			timeout = min(timeout, h.Service.Commands.Policy().MaxTime)
		}
	}
	return h.RunCommand(ctx, who, in.WorkspaceID, CommandLine{Line: in.Body.Command, Dir: dir, Timeout: timeout})
}
