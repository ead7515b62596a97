package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/media"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/tool"
)

// ToolNames are the built-in tools on workspaces.
var ToolNames = []string{"read_file", "write_file", "list_files"}

const (
	// maxRead is how many bytes of a file one call reads, less than the limit of
	// a tool's result.
	maxRead = 48 << 10
	// maxEntries is how many files one call lists.
	maxEntries = 1000
)

const fileArgument = `"path":{"type":"string","minLength":1,"maxLength":2000,` +
	`"description":"Path of the file, for example notes/today.md"}`

const sharedArgument = `"workspace_id":{"type":["string","null"],` +
	`"description":"Id of another workspace that is shared with you; your own if left out"}`

// fileTools are the built-in tools on a Service.
type fileTools struct{ *Service }

// Tools returns the built-in tools. They work in the workspace of the calling
// agent and can read those that are shared with it.
func (s *Service) Tools() []tool.Tool {
	f := fileTools{s}
	object := func(properties, required string) jsontext.Value {
		return jsontext.Value(`{"type":"object","properties":{` + properties + `},"required":[` + required + `],"additionalProperties":false}`)
	}
	return []tool.Tool{
		{
			Name: "read_file",
			Description: "Reads a text file of your workspace, or a file that this run created. " +
				"A long file is returned in pieces; the result then says how to read on.",
			Parameters: object(fileArgument+`,`+
				`"offset":{"type":["integer","null"],"minimum":0,"description":"Byte to start from; 0 if left out"},`+sharedArgument, `"path"`),
			ReadOnly: true, Source: model.SourceFile,
			Run: f.readTool,
		},
		{
			Name:        "write_file",
			Description: "Writes a text file to your workspace, and replaces the file at that path, if any. Missing folders are created.",
			Parameters: object(fileArgument+`,`+
				`"content":{"type":"string","description":"The whole content of the file"}`, `"path","content"`),
			Idempotent: true,
			Run:        f.writeTool,
		},
		{
			Name:        "list_files",
			Description: "Lists the files and folders of your workspace.",
			Parameters: object(`"path":{"type":["string","null"],"maxLength":2000,"description":"Folder to list; everything if left out"},`+
				sharedArgument, ``),
			ReadOnly: true, Source: model.SourceFile,
			Run: f.listTool,
		},
	}
}

type fileArguments struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Offset      int64  `json:"offset"`
	WorkspaceID string `json:"workspace_id"`
}

// enter decodes a call's arguments and finds the workspace that it works in. A
// non-nil failure is the tool's result, an error that the model can correct.
func (f fileTools) enter(ctx context.Context, call tool.Call, root bool) (args fileArguments, id string, failure *tool.Result, err error) {
	if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
		return args, "", nil, err
	}
	refuse := func(format string, values ...any) (fileArguments, string, *tool.Result, error) {
		r := tool.Failure(fmt.Sprintf(format, values...))
		return args, "", &r, nil
	}
	path, problem := clean(args.Path)
	if problem == "" && path == "" && !root {
		problem = "it names no file"
	}
	if problem != "" {
		return refuse("The path %.200q cannot be used: %s.", args.Path, problem)
	}
	args.Path = path
	if args.WorkspaceID != "" && args.WorkspaceID != call.WorkspaceID {
		shared, err := f.Table.ListShared(ctx, call.TenantID, call.AgentID)
		if err != nil {
			return args, "", nil, err
		}
		if !slices.Contains(shared, args.WorkspaceID) {
			own, err := f.OfAgent(ctx, call.TenantID, call.AgentID)
			if err != nil {
				return args, "", nil, err
			}
			if own.WorkspaceID != args.WorkspaceID {
				return refuse("No workspace %.100q is shared with you. Leave workspace_id out to use your own.", args.WorkspaceID)
			}
		}
		return args, args.WorkspaceID, nil, nil
	}
	id, err = f.OfCall(ctx, call)
	if call.WorkspaceID != "" && fault.Is(err, fault.NotFound) {
		return refuse("The workspace of this conversation was deleted.")
	}
	return args, id, nil, err
}

// OfCall returns the workspace that a tool call works in. Errors: fault.NotFound for one
// that was deleted.
func (s *Service) OfCall(ctx context.Context, call tool.Call) (string, error) {
	if call.WorkspaceID != "" {
		return call.WorkspaceID, s.Check(ctx, call.TenantID, call.WorkspaceID)
	}
	w, err := s.OfAgent(ctx, call.TenantID, call.AgentID)
	if err != nil {
		return "", err
	}
	return w.WorkspaceID, nil
}

func (f fileTools) readTool(ctx context.Context, call tool.Call) (tool.Result, error) {
	args, id, failure, err := f.enter(ctx, call, false)
	if failure != nil || err != nil {
		return orFailure(failure), err
	}
	mimeType, content, err := f.readable(ctx, call, id, args)
	if fault.Is(err, fault.NotFound) {
		return tool.Failure(fmt.Sprintf("There is no file %q. list_files shows what there is.", args.Path)), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	defer content.Close()
	return readText(args, mimeType, content)
}

// readable opens a file of the workspace or, if there is none, an artifact of
// the run.
func (f fileTools) readable(ctx context.Context, call tool.Call, id string, args fileArguments) (string, Content, error) {
	file, r, err := f.Open(ctx, call.TenantID, id, args.Path)
	if err == nil {
		return file.MimeType, r, nil
	}
	if !fault.Is(err, fault.NotFound) || f.Artifact == nil || args.WorkspaceID != "" {
		return "", nil, err
	}
	return f.Artifact(ctx, call.TenantID, call.RunID, args.Path)
}

func readText(args fileArguments, mimeType string, content Content) (tool.Result, error) {
	size := content.Size()
	if args.Offset > size {
		return tool.Failure(fmt.Sprintf("The file has only %d bytes.", size)), nil
	}
	if _, err := content.Seek(args.Offset, io.SeekStart); err != nil {
		return tool.Result{}, err
	}
	buf := make([]byte, min(maxRead, size-args.Offset))
	if _, err := io.ReadFull(content, buf); err != nil {
		return tool.Result{}, err
	}
	text, skipped := wholeRunes(buf, args.Offset+int64(len(buf)) == size)
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return tool.Failure(fmt.Sprintf("The file is not text but %s (%d bytes).", media.Base(mimeType), size)), nil
	}
	from := args.Offset + int64(skipped)
	to := from + int64(len(text))
	if from == 0 && to == size {
		return tool.Result{Output: string(text)}, nil
	}
	note := fmt.Sprintf("\n[bytes %d to %d of %d", from, to, size)
	if to < size {
		note += fmt.Sprintf("; read on with offset %d", to)
	}
	return tool.Result{Output: string(text) + note + "]"}, nil
}

// wholeRunes cuts incomplete characters off both ends of a piece, and returns
// how many bytes it skipped at the beginning.
func wholeRunes(b []byte, end bool) (text []byte, skipped int) {
	for skipped < len(b) && skipped < utf8.UTFMax-1 && !utf8.RuneStart(b[skipped]) {
		skipped++
	}
	b = b[skipped:]
	for i := 1; !end && i <= min(utf8.UTFMax, len(b)); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				b = b[:len(b)-i]
			}
			break
		}
	}
	return b, skipped
}

func (f fileTools) writeTool(ctx context.Context, call tool.Call) (tool.Result, error) {
	args, id, failure, err := f.enter(ctx, call, false)
	if failure != nil || err != nil {
		return orFailure(failure), err
	}
	data := []byte(args.Content)
	mimeType := media.Of(args.Path)
	if mimeType == media.Octets {
		mimeType = "text/plain" // models write text
	}
	var st *blob.Staged
	if st, err = f.Blobs.StageBytes(ctx, call.TenantID, data); err != nil {
		return tool.Result{}, err
	}
	_, created, err := f.Put(ctx, call.TenantID, id, args.Path, mimeType, st, Conditions{})
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.Forbidden) {
		return tool.Failure("The file was not written. " + fault.From(err).Detail), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	verb := "Replaced"
	if created {
		verb = "Wrote"
	}
	return tool.Result{
		Output: fmt.Sprintf("%s %s (%d bytes).", verb, args.Path, len(data)),
		Files:  []tool.File{{Name: args.Path, MimeType: mimeType, Data: data}},
	}, nil
}

func (f fileTools) listTool(ctx context.Context, call tool.Call) (tool.Result, error) {
	args, id, failure, err := f.enter(ctx, call, true)
	if failure != nil || err != nil {
		return orFailure(failure), err
	}
	l, err := f.Files(ctx, call.TenantID, id, args.Path, true)
	if err != nil {
		return tool.Result{}, err
	}
	var b strings.Builder
	switch {
	case len(l.Files) > 0:
	case args.Path == "":
		b.WriteString("The workspace is empty.\n")
	default:
		return tool.Failure(fmt.Sprintf("There is no folder %q. Leave the path out to list everything.", args.Path)), nil
	}
	for i, file := range l.Files {
		if i == maxEntries {
			fmt.Fprintf(&b, "[%d more; list a folder of them by its path]\n", len(l.Files)-i)
			break
		}
		fmt.Fprintf(&b, "%s (%d bytes)\n", file.Path, file.SizeBytes)
	}
	if args.Path == "" && args.WorkspaceID == "" {
		shared, err := f.Table.ListShared(ctx, call.TenantID, call.AgentID)
		if err != nil {
			return tool.Result{}, err
		}
		for i, id := range shared {
			if i == 50 {
				break
			}
			if w, err := f.Table.Get(ctx, call.TenantID, id); err == nil {
				fmt.Fprintf(&b, "Shared with you for reading: workspace_id %s (%s)\n", id, w.Name)
			}
		}
	}
	return tool.Result{Output: strings.TrimSuffix(b.String(), "\n")}, nil
}

func orFailure(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}
