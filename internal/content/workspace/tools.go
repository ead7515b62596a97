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
	"agentd/internal/kernel/tool"
)

// ToolNames are the tools by which agents use workspaces (decisions.md D12).
var ToolNames = []string{"read_file", "write_file", "list_files"}

const (
	// readMost is how much of a file one call reads: less than a tool's result
	// may have.
	readMost = 48 << 10
	// listMost is how many entries one call lists.
	listMost = 1000
)

const sharedArgument = `"workspace_id":{"type":["string","null"],"description":"Id of another workspace that is shared with you; your own if left out"}`

// Tools makes the tools. They act on the workspace of the agent that calls
// them, and read those that are shared with it.
func (s *Service) Tools() []tool.Tool {
	object := func(properties, required string) jsontext.Value {
		return jsontext.Value(`{"type":"object","properties":{` + properties + `},"required":[` + required + `],"additionalProperties":false}`)
	}
	return []tool.Tool{
		{
			Name:        "read_file",
			Description: "Reads a text file of your workspace, or a file that this run made. A long file comes in pieces; the result then says how to read on.",
			Parameters: object(`"path":{"type":"string","minLength":1,"maxLength":2000,"description":"Path of the file, for example notes/today.md"},`+
				`"offset":{"type":["integer","null"],"minimum":0,"description":"Byte to start from; 0 if left out"},`+sharedArgument, `"path"`),
			ReadOnly: true,
			Run:      s.readTool,
		},
		{
			Name:        "write_file",
			Description: "Writes a text file to your workspace, in place of the file at that path if there is one. Folders need not be made first.",
			Parameters: object(`"path":{"type":"string","minLength":1,"maxLength":2000,"description":"Path of the file, for example notes/today.md"},`+
				`"content":{"type":"string","description":"The whole content of the file"}`, `"path","content"`),
			Idempotent: true,
			Run:        s.writeTool,
		},
		{
			Name:        "list_files",
			Description: "Lists the files and folders of your workspace.",
			Parameters: object(`"path":{"type":["string","null"],"maxLength":2000,"description":"Folder to list; everything if left out"},`+
				sharedArgument, ``),
			ReadOnly: true,
			Run:      s.listTool,
		},
	}
}

type fileArguments struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Offset      int64  `json:"offset"`
	WorkspaceID string `json:"workspace_id"`
}

// enter reads a call's arguments and finds the workspace that it acts on. A
// result is a failure that the model can mend.
func (s *Service) enter(ctx context.Context, call tool.Call, root bool) (args fileArguments, id string, failure *tool.Result, err error) {
	if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
		return args, "", nil, err
	}
	refuse := func(format string, values ...any) (fileArguments, string, *tool.Result, error) {
		r := tool.Failure(fmt.Sprintf(format, values...))
		return args, "", &r, nil
	}
	path, complaint := clean(args.Path)
	if complaint == "" && path == "" && !root {
		complaint = "it names no file"
	}
	if complaint != "" {
		return refuse("The path %.200q cannot be used: %s.", args.Path, complaint)
	}
	args.Path = path
	if args.WorkspaceID != "" {
		shared, err := s.Table.ListShared(ctx, call.TenantID, call.AgentID)
		if err != nil {
			return args, "", nil, err
		}
		if !slices.Contains(shared, args.WorkspaceID) {
			own, err := s.OfAgent(ctx, call.TenantID, call.AgentID)
			if err != nil {
				return args, "", nil, err
			}
			if own.WorkspaceID != args.WorkspaceID {
				return refuse("No workspace %.100q is shared with you. Leave workspace_id out to use your own.", args.WorkspaceID)
			}
		}
		return args, args.WorkspaceID, nil, nil
	}
	w, err := s.OfAgent(ctx, call.TenantID, call.AgentID)
	if err != nil {
		return args, "", nil, err
	}
	return args, w.WorkspaceID, nil, nil
}

func (s *Service) readTool(ctx context.Context, call tool.Call) (tool.Result, error) {
	args, id, failure, err := s.enter(ctx, call, false)
	if failure != nil || err != nil {
		return orFailure(failure), err
	}
	mimeType, content, err := s.readable(ctx, call, id, args)
	if fault.Is(err, fault.NotFound) {
		return tool.Failure(fmt.Sprintf("There is no file %q. list_files shows what there is.", args.Path)), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	defer content.Close()
	return readText(args, mimeType, content)
}

// readable opens a file of the workspace, or where there is none, one that the
// run made.
func (s *Service) readable(ctx context.Context, call tool.Call, id string, args fileArguments) (string, Content, error) {
	f, r, err := s.Open(ctx, call.TenantID, id, args.Path)
	if err == nil {
		return f.MimeType, r, nil
	}
	if !fault.Is(err, fault.NotFound) || s.Artifact == nil || args.WorkspaceID != "" {
		return "", nil, err
	}
	return s.Artifact(ctx, call.TenantID, call.RunID, args.Path)
}

func readText(args fileArguments, mimeType string, content Content) (tool.Result, error) {
	size := content.Size()
	if args.Offset > size {
		return tool.Failure(fmt.Sprintf("The file has only %d bytes.", size)), nil
	}
	if _, err := content.Seek(args.Offset, io.SeekStart); err != nil {
		return tool.Result{}, err
	}
	buf := make([]byte, min(readMost, size-args.Offset))
	if _, err := io.ReadFull(content, buf); err != nil {
		return tool.Result{}, err
	}
	text, skipped := wholeRunes(buf, args.Offset+int64(len(buf)) == size)
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return tool.Failure(fmt.Sprintf("The file is no text but %s, of %d bytes.", media.Base(mimeType), size)), nil
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

// wholeRunes leaves out the halves of characters at the ends of a piece, and
// says how many bytes there were in front.
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

func (s *Service) writeTool(ctx context.Context, call tool.Call) (tool.Result, error) {
	args, id, failure, err := s.enter(ctx, call, false)
	if failure != nil || err != nil {
		return orFailure(failure), err
	}
	data := []byte(args.Content)
	mimeType := media.Of(args.Path)
	if mimeType == media.Octets {
		mimeType = "text/plain" // what models write is text
	}
	var st *blob.Staged
	if st, err = s.Blobs.StageBytes(ctx, call.TenantID, data); err != nil {
		return tool.Result{}, err
	}
	_, created, err := s.Put(ctx, call.TenantID, id, args.Path, mimeType, st, Conditions{})
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

func (s *Service) listTool(ctx context.Context, call tool.Call) (tool.Result, error) {
	args, id, failure, err := s.enter(ctx, call, true)
	if failure != nil || err != nil {
		return orFailure(failure), err
	}
	l, err := s.Files(ctx, call.TenantID, id, args.Path, true)
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
	for i, f := range l.Files {
		if i == listMost {
			fmt.Fprintf(&b, "[%d more; list a folder of them by its path]\n", len(l.Files)-i)
			break
		}
		fmt.Fprintf(&b, "%s (%d bytes)\n", f.Path, f.SizeBytes)
	}
	if args.Path == "" && args.WorkspaceID == "" {
		shared, err := s.Table.ListShared(ctx, call.TenantID, call.AgentID)
		if err != nil {
			return tool.Result{}, err
		}
		for i, id := range shared {
			if i == 50 {
				break
			}
			if w, err := s.Table.Get(ctx, call.TenantID, id); err == nil {
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
