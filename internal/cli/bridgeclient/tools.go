package bridgeclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxRead    = 256 << 10 // bytes that read_file answers
	maxWrite   = 1 << 20
	maxEntries = 1000 // that list_files answers
	maxOutput  = 64 << 10
	lastWords  = 2 * time.Second // for the output of a command that was ended
)

// tool is something that the model may do on the machine.
type tool struct {
	name, doc  string
	parameters jsontext.Value
	permission Permission
	reads      bool // repeating it changes nothing
	run        func(ctx context.Context, arguments string, used *counts) (out string, failed bool)
}

// toolbox has the tools of the machine.
type toolbox struct{ all []tool }

func newToolbox(c Config, root *os.Root, s *servers) *toolbox {
	b := &toolbox{}
	add := func(t tool) {
		if t.permission != Off && b.find(t.name) == nil {
			b.all = append(b.all, t)
		}
	}
	add(tool{
		name: "list_files", doc: "List the files and folders in a folder.", permission: Allow, reads: true,
		parameters: jsontext.Value(`{"type":"object","properties":{"path":{"type":"string",` +
			`"description":"The folder; left out: the whole one."}}}`),
		run: typed(func(_ context.Context, in pathArgs, _ *counts) (string, error) {
			return listFiles(root, in.Path)
		}),
	})
	add(tool{
		name: "read_file", doc: "Read a text file.", permission: Allow, reads: true,
		parameters: jsontext.Value(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
		run: typed(func(_ context.Context, in pathArgs, _ *counts) (string, error) {
			return readFile(root, in.Path)
		}),
	})
	add(tool{
		name: "write_file", doc: "Write a text file, in place of what it was.", permission: c.Writes,
		parameters: jsontext.Value(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},` +
			`"required":["path","content"]}`),
		run: typed(func(_ context.Context, in writeArgs, used *counts) (string, error) {
			used.FilesModified++
			return writeText(root, in)
		}),
	})
	add(tool{
		name: "run_command", doc: "Run a command in a shell, in the folder. A person may have to approve it.", permission: c.Commands,
		parameters: jsontext.Value(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`),
		run: typed(func(ctx context.Context, in commandArgs, used *counts) (string, error) {
			used.Commands++
			return runCommand(ctx, c, in.Command)
		}),
	})
	for _, t := range s.tools(c.Remote) {
		add(t)
	}
	return b
}

// typed is a tool's function on its decoded arguments.
func typed[In any](do func(context.Context, In, *counts) (string, error)) func(context.Context, string, *counts) (string, bool) {
	return func(ctx context.Context, arguments string, used *counts) (string, bool) {
		var in In
		if strings.TrimSpace(arguments) != "" {
			if err := json.Unmarshal([]byte(arguments), &in); err != nil {
				return "The arguments cannot be read: " + err.Error(), true
			}
		}
		out, err := do(ctx, in, used)
		if err != nil {
			return strings.TrimSpace(out + "\n" + err.Error()), true
		}
		return out, false
	}
}

type (
	pathArgs struct {
		Path string `json:"path"`
	}
	writeArgs struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	commandArgs struct {
		Command string `json:"command"`
	}
)

func (b *toolbox) find(name string) *tool {
	for i := range b.all {
		if b.all[i].name == name {
			return &b.all[i]
		}
	}
	return nil
}

func (b *toolbox) names() []string {
	names := make([]string, len(b.all))
	for i := range b.all {
		names[i] = b.all[i].name
	}
	return names
}

// schemas are the tools as models are offered them.
func (b *toolbox) schemas() []map[string]any {
	all := make([]map[string]any, len(b.all))
	for i := range b.all {
		t := &b.all[i]
		all[i] = map[string]any{"type": "function", "function": map[string]any{
			"name": t.name, "description": t.doc, "parameters": t.parameters,
		}}
	}
	return all
}

// inRoot returns a path as os.Root takes it: what leaves the folder is refused there.
func inRoot(name string) string {
	name = path.Clean("/" + filepath.ToSlash(name))
	if name == "/" {
		return "."
	}
	return strings.TrimPrefix(name, "/")
}

func listFiles(root *os.Root, name string) (string, error) {
	entries, err := fs.ReadDir(root.FS(), inRoot(name))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, e := range entries {
		if i == maxEntries {
			fmt.Fprintf(&b, "… and %d more\n", len(entries)-i)
			break
		}
		if e.IsDir() {
			fmt.Fprintf(&b, "%s/\n", e.Name())
			continue
		}
		size := int64(0)
		if info, err := e.Info(); err == nil {
			size = info.Size()
		}
		fmt.Fprintf(&b, "%s (%d bytes)\n", e.Name(), size)
	}
	if b.Len() == 0 {
		return "The folder is empty.", nil
	}
	return b.String(), nil
}

func readFile(root *os.Root, name string) (string, error) {
	f, err := root.Open(inRoot(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is no file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if bytes.IndexByte(text, 0) >= 0 {
		return "", errors.New("it is no text file")
	}
	return cut(string(text), maxRead), err
}

func writeText(root *os.Root, in writeArgs) (string, error) {
	if len(in.Content) > maxWrite {
		return "", fmt.Errorf("the content has more than %d bytes", maxWrite)
	}
	name := inRoot(in.Path)
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(in.Content)
	return fmt.Sprintf("%d bytes were written to %s.", len(in.Content), name), errors.Join(err, f.Close())
}

// runCommand runs a command with a time limit. Its processes end with it.
func runCommand(ctx context.Context, c Config, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cmd := shell(ctx, command)
	cmd.Dir, cmd.WaitDelay = c.Dir, lastWords
	cmd.Env = withoutKeys(os.Environ())
	out := &bounded{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	text := out.text()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return text, fmt.Errorf("the command was ended after %s", c.Timeout)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return text, fmt.Errorf("exit status %d", exit.ExitCode())
	}
	return text, err
}

// withoutKeys takes what authorizes this program from the environment of a command.
func withoutKeys(environ []string) (rest []string) {
	for _, one := range environ {
		if name, _, _ := strings.Cut(one, "="); !strings.HasPrefix(strings.ToUpper(name), "AGENTD_") {
			rest = append(rest, one)
		}
	}
	return rest
}

// bounded keeps the beginning and the end of what a command prints.
type bounded struct {
	head, tail []byte
	skipped    int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if room := maxOutput/2 - len(b.head); room > 0 {
		take := min(room, len(p))
		b.head, p = append(b.head, p[:take]...), p[take:]
	}
	b.tail = append(b.tail, p...)
	if extra := len(b.tail) - maxOutput/2; extra > 0 {
		b.skipped += extra
		b.tail = append(b.tail[:0], b.tail[extra:]...)
	}
	return n, nil
}

func (b *bounded) text() string {
	if b.skipped == 0 {
		return string(b.head) + string(b.tail)
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", b.head, b.skipped, b.tail)
}
