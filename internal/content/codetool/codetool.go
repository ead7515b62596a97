// Package codetool has the built-in tool run_code: JavaScript that an agent writes, run
// where it reaches the files of the workspace and nothing else.
package codetool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/share"
	"agentd/internal/content/workspace"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/tool"
)

// Name of the tool.
const Name = "run_code"

// Bounds of one call.
const (
	maxRead     = 8 << 20  // bytes of one file
	maxReads    = 32 << 20 // of all
	maxListed   = 1000
	description = "Runs JavaScript, without network and without modules. The result has what console.log wrote and the value of the " +
		"last expression; a promise is awaited. readFile(path) and listFiles() read your workspace, writeFile(path, text) writes to " +
		"it once the code has ended well. Use it for computing, and for reading and making data."
	parameters = `{"type":"object","properties":{` +
		`"code":{"type":"string","minLength":1,"maxLength":200000,"description":"The code, a script; for await write (async () => { … })()"}` +
		`},"required":["code"],"additionalProperties":false}`
)

// Host is what code reaches; see jsengine.Host.
type Host interface {
	Read(path string) (string, error)
	Write(path, text string) error
	List() (string, error)
	Print(line string)
}

// Outcome is what became of a piece of code.
type Outcome struct {
	Result string
	Thrown string // "": nothing
	Ended  string // why it was cut off, for the model; "": it was not
}

// Engine is the port to what runs code, for limit at most.
type Engine interface {
	Run(ctx context.Context, code string, limit time.Duration, host Host) (Outcome, error)
}

// Service provides the tool.
type Service struct {
	Engine     Engine
	Workspaces *workspace.Service
	Blobs      *blob.Store
	Places     *share.Places
	Limits     func() Limits
}

// Limits are what one call may take.
type Limits struct {
	Time    time.Duration
	Output  int // bytes that the model reads of what is printed, and of the value
	Written int // bytes
	Writes  int // files
}

// Tool returns the tool.
func (s *Service) Tool() tool.Tool {
	return tool.Tool{
		Name: Name, Description: description, Parameters: jsontext.Value(parameters), Idempotent: true, Source: model.SourceFile,
		Timeout: time.Minute, Run: s.run,
	}
}

func (s *Service) run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var in struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal([]byte(call.Arguments), &in); err != nil {
		return tool.Result{}, err
	}
	release, err := s.Places.Acquire(ctx, call.TenantID)
	if err != nil {
		return tool.Failure("Too much code is running at the moment. Try again in a few seconds."), nil
	}
	defer release()
	f := &files{s: s, ctx: ctx, call: call, limits: s.Limits(), written: map[string]string{}}
	got, err := s.Engine.Run(ctx, in.Code, f.limits.Time, f)
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	case err != nil:
		return tool.Result{}, err
	case f.broken != nil:
		return tool.Result{}, f.broken
	case got.Ended != "":
		return tool.Failure(f.output() + got.Ended), nil
	case got.Thrown != "":
		return tool.Failure(f.output() + "The code threw " + f.cut(got.Thrown)), nil
	}
	stored, err := f.store()
	if wrong := fault.From(err); err != nil && wrong.Kind != fault.Internal && wrong.Kind != fault.Unavailable {
		return tool.Failure(f.output() + "A file was not written. " + wrong.Detail), nil
	}
	if err != nil {
		return tool.Result{}, err
	}
	out := f.output() + f.cut(got.Result)
	if len(stored) > 0 {
		out += "\nWritten: " + strings.Join(stored, ", ")
	}
	if strings.TrimSpace(out) == "" {
		out = "The code ended without a result. Print what you want to see, or let the last expression be it."
	}
	return tool.Result{Output: out}, nil
}

func (f *files) cut(s string) string {
	if len(s) <= f.limits.Output {
		return s
	}
	s = s[:f.limits.Output]
	for len(s) > 0 && !utf8.ValidString(s[len(s)-min(len(s), utf8.UTFMax):]) {
		s = s[:len(s)-1]
	}
	return s + "\n[the rest was cut off]"
}

// files is what one piece of code reaches. It implements Host.
type files struct {
	s    *Service
	ctx  context.Context //nolint:containedctx // of the call that it lives for
	call tool.Call

	limits    Limits
	workspace string // "": not looked up yet
	read      int
	written   map[string]string
	bytes     int
	printed   strings.Builder
	broken    error // a failure that is not the code's
}

// errBroken is thrown in the code where something failed that is not its fault.
var errBroken = errors.New("the workspace cannot be read at the moment")

// fail keeps a failure that the code cannot help, and returns others as the code sees them.
func (f *files) fail(err error) error {
	if e := fault.From(err); e.Kind != fault.Internal && e.Kind != fault.Unavailable {
		return errors.New(e.Detail)
	}
	f.broken = errors.Join(f.broken, err)
	return errBroken
}

// enter looks the workspace up.
func (f *files) enter() (err error) {
	if f.workspace == "" {
		f.workspace, err = f.s.Workspaces.OfCall(f.ctx, f.call)
	}
	if err != nil {
		return f.fail(err)
	}
	return nil
}

// Read implements Host.
func (f *files) Read(path string) (string, error) {
	at, err := workspace.Clean(path)
	if err != nil {
		return "", errors.New(fault.From(err).Detail)
	}
	if text, ok := f.written[at]; ok {
		return text, nil
	}
	if err := f.enter(); err != nil {
		return "", err
	}
	_, r, err := f.s.Workspaces.Open(f.ctx, f.call.TenantID, f.workspace, at)
	if fault.Is(err, fault.NotFound) {
		return "", fmt.Errorf("there is no file %.200q; listFiles() says which there are", path)
	}
	if err != nil {
		return "", f.fail(err)
	}
	defer r.Close()
	if size := r.Size(); size > maxRead || f.read+int(size) > maxReads {
		return "", fmt.Errorf("the file %.200q is too large: code reads files of %d MiB, and %d MiB in all", path, maxRead>>20, maxReads>>20)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return "", f.fail(err)
	}
	f.read += len(data)
	if !utf8.Valid(data) {
		return "", fmt.Errorf("the file %.200q is not text", path)
	}
	return string(data), nil
}

// Write implements Host.
func (f *files) Write(path, text string) error {
	at, err := workspace.Clean(path)
	if err != nil {
		return errors.New(fault.From(err).Detail)
	}
	old, again := f.written[at]
	switch size := f.bytes - len(old) + len(text); {
	case size > f.limits.Written:
		return fmt.Errorf("the code writes too much: %d bytes at most", f.limits.Written)
	case !again && len(f.written) >= f.limits.Writes:
		return fmt.Errorf("the code writes too many files: %d at most", f.limits.Writes)
	default:
		f.written[at], f.bytes = text, size
	}
	return nil
}

// List implements Host.
func (f *files) List() (string, error) {
	if err := f.enter(); err != nil {
		return "", err
	}
	l, err := f.s.Workspaces.Files(f.ctx, f.call.TenantID, f.workspace, "", true)
	if err != nil {
		return "", f.fail(err)
	}
	paths := []string{}
	for path := range f.written {
		paths = append(paths, path)
	}
	for _, e := range l.Files {
		if _, mine := f.written[e.Path]; !mine && len(paths) < maxListed {
			paths = append(paths, e.Path)
		}
	}
	slices.Sort(paths)
	text, err := json.Marshal(paths)
	return string(text), err
}

// Print implements Host.
func (f *files) Print(line string) {
	if f.printed.Len() <= f.limits.Output {
		f.printed.WriteString(line[:min(len(line), f.limits.Output)] + "\n")
	}
}

func (f *files) output() string { return f.cut(strings.ToValidUTF8(f.printed.String(), "\uFFFD")) }

// store writes what the code wrote into the workspace, and returns the paths.
func (f *files) store() (paths []string, err error) {
	for path := range f.written {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		if err := f.enter(); err != nil {
			return nil, f.broken
		}
		st, err := f.s.Blobs.StageBytes(f.ctx, f.call.TenantID, []byte(strings.ToValidUTF8(f.written[path], "\uFFFD")))
		if err != nil {
			return nil, err
		}
		if err := f.s.Workspaces.Write(f.ctx, f.call.TenantID, f.workspace, path, "", st); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
