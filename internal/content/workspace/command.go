package workspace

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/media"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
)

// Bounds of a command beside those of the operator.
const (
	maxCommandOutput = 256 << 10
	maxCommandBytes  = 128 << 20 // of the files of a workspace that commands can work on
	maxCommandFiles  = 5000
	defaultTimeout   = 60 // seconds
)

// CommandPolicy is what the operator lets commands do.
type CommandPolicy struct {
	Enabled   bool
	Allowed   []string      // programs, by name or by absolute path
	MaxTime   time.Duration // of one command
	MemoryMiB int           // of one process
	Terminal  bool          // admins may open terminals, if Enabled
}

// allows reports whether a program may be run.
func (p CommandPolicy) allows(program string) bool { return slices.Contains(p.Allowed, program) }

// Program is a program that is to run on copies of files.
type Program struct {
	Argv      []string
	Dir       string // it works in, a clean path
	Timeout   time.Duration
	MemoryMiB int
	MaxOutput int
	Files     []File
	// Open opens the content of one of Files.
	Open func(context.Context, File) (io.ReadCloser, error)
	// Changed is called with each file that the program wrote, after its end.
	Changed func(ctx context.Context, path string, content io.Reader) error
}

// Ended is how a program ended.
type Ended struct {
	Output    []byte // both of its outputs, as they came
	Truncated bool   // there was more output
	ExitCode  int    // -1: it was ended
	TimedOut  bool
	Failed    string   // why it did not start; "" if it did
	Deleted   []string // paths of Files that are gone
}

// Runner runs programs that cannot reach anything but copies of files.
type Runner interface {
	// Run runs a program to its end. Errors: fault.Unsupported where the machine
	// cannot confine programs.
	Run(ctx context.Context, p *Program) (*Ended, error)
}

// CommandResult is what a command did.
type CommandResult struct {
	_ struct{} `json:"-" name:"WorkspaceCommandResult"`

	Output    string           `json:"output" required:"true" doc:"What it wrote to its standard output and its error output, in the order in which it came; at most 256 KiB."`
	ExitCode  int64            `json:"exit_code" required:"true" doc:"0 means success. -1: it was ended before it ended by itself."`
	TimedOut  bool             `json:"timed_out" required:"true" doc:"It ran longer than timeout_sec and was ended. What it had written by then is kept."`
	Truncated bool             `json:"truncated" required:"true" doc:"There was more output."`
	Changed   []string         `json:"changed_files" required:"true" doc:"Files that it wrote, which are in the workspace now."`
	Deleted   []string         `json:"deleted_files" required:"true" doc:"Files that it deleted, which are gone from the workspace."`
	Refused   []CommandRefusal `json:"refused_files" required:"true" doc:"Files that it wrote or deleted and that the workspace did not take over."`
}

// CommandRefusal is a file that a workspace did not take over.
type CommandRefusal struct {
	_ struct{} `json:"-" name:"WorkspaceCommandRefusal"`

	Path   string `json:"path" required:"true"`
	Reason string `json:"reason" required:"true"`
}

// maxRefused bounds how many refused files a result names.
const maxRefused = 100

// CommandLine is a command that somebody asks for.
type CommandLine struct {
	Line    string
	Dir     string // clean
	Timeout time.Duration
}

// RunCommand runs a command on a copy of a workspace's files and takes over what it
// changed, except where somebody else changed the same file meanwhile. Errors:
// fault.NotFound; FEATURE_DISABLED; fault.Invalid; those of Runner.
func (s *Service) RunCommand(ctx context.Context, who authz.Caller, id string, c CommandLine) (*CommandResult, error) {
	if err := s.Check(ctx, who.TenantID, id); err != nil {
		return nil, err
	}
	policy, argv, err := s.Commands.permitted(c)
	if err != nil {
		return nil, err
	}
	all, err := s.Table.ListFiles(ctx, who.TenantID, id, "", MaxFiles)
	if err != nil {
		return nil, err
	}
	files, err := commandFiles(all, c.Dir)
	if err != nil {
		return nil, err
	}
	release, err := s.Commands.Places.Acquire(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	defer release()
	h := newHarvest(s, who, id, files)
	details, err := json.Marshal(map[string]string{"program": argv[0]}) // its arguments may have secrets
	if err != nil {
		return nil, err
	}
	if err := h.record(ctx, "workspace.command_run", details); err != nil {
		return nil, err
	}
	ended, err := s.Commands.Runner.Run(ctx, &Program{
		Argv: argv, Dir: c.Dir, Timeout: c.Timeout, MemoryMiB: policy.MemoryMiB, MaxOutput: maxCommandOutput, Files: files,
		Open: h.open, Changed: h.take,
	})
	if err != nil {
		return nil, err
	}
	if ended.Failed != "" {
		return nil, fault.BadFields(fault.Field{Field: "command", Message: ended.Failed})
	}
	for _, path := range ended.Deleted {
		if err := h.remove(ctx, path); err != nil {
			return nil, err
		}
	}
	r := h.result
	r.Output, r.ExitCode = strings.ToValidUTF8(string(ended.Output), string(utf8.RuneError)), int64(ended.ExitCode)
	r.TimedOut, r.Truncated = ended.TimedOut, ended.Truncated
	return r, nil
}

// Commands is what running commands needs.
type Commands struct {
	Policy func() CommandPolicy
	Runner Runner
	Places interface {
		Acquire(ctx context.Context, tenant string) (release func(), err error)
	}
}

// permitted returns the words of a command that the operator allows.
func (cs *Commands) permitted(c CommandLine) (policy CommandPolicy, argv []string, err error) {
	if cs != nil {
		policy = cs.Policy()
	}
	if !policy.Enabled {
		return policy, nil, fault.New(fault.Forbidden, "FEATURE_DISABLED",
			"The operator of this service has not switched on commands in workspaces.")
	}
	argv, problem := splitWords(c.Line)
	if problem != "" {
		return policy, nil, fault.BadFields(fault.Field{Field: "command", Message: problem})
	}
	if !policy.allows(argv[0]) {
		return policy, nil, fault.BadFields(fault.Field{Field: "command", Message: fmt.Sprintf(
			"the operator of this service does not allow %s; the programs that may be run are: %s",
			text.Truncate(argv[0], 100), strings.Join(policy.Allowed, ", "))})
	}
	if c.Timeout > policy.MaxTime {
		return policy, nil, fault.BadFields(fault.Field{Field: "timeout_sec", Message: fmt.Sprintf(
			"the operator of this service lets commands run for at most %d seconds", int(policy.MaxTime.Seconds()))})
	}
	return policy, argv, nil
}

// commandFiles returns those of a workspace's files that a command works on, in a
// folder of them.
func commandFiles(all []File, dir string) ([]File, error) {
	all = slices.DeleteFunc(all, func(f File) bool { return inTrash(f.Path) })
	size := int64(0)
	for _, f := range all {
		size += f.SizeBytes
	}
	if len(all) > maxCommandFiles || size > maxCommandBytes {
		return nil, fault.New(fault.Conflict, "WORKSPACE_TOO_LARGE",
			"Commands work on a copy of the workspace, which may have at most %d files and %d MiB; this one has %d files and %d MiB. "+
				"Move some to another workspace.", maxCommandFiles, maxCommandBytes>>20, len(all), size>>20)
	}
	if dir != "" && !slices.ContainsFunc(all, func(f File) bool { return strings.HasPrefix(f.Path, dir+"/") }) {
		return nil, fault.BadFields(fault.Field{Field: "workdir", Message: "is no folder of the workspace"})
	}
	return all, nil
}

// harvest takes over what a command changed.
type harvest struct {
	s      *Service
	who    authz.Caller
	id     string
	before map[string]File
	result *CommandResult
}

func newHarvest(s *Service, who authz.Caller, id string, files []File) *harvest {
	h := &harvest{s: s, who: who, id: id, before: map[string]File{}, result: newResult()}
	for _, f := range files {
		h.before[f.Path] = f
	}
	return h
}

func newResult() *CommandResult {
	return &CommandResult{Changed: []string{}, Deleted: []string{}, Refused: []CommandRefusal{}}
}

// open opens the content of a file.
func (h *harvest) open(ctx context.Context, f File) (io.ReadCloser, error) {
	return h.s.Blobs.Open(ctx, h.who.TenantID, f.ETag)
}

func (h *harvest) refuse(path, reason string) {
	if len(h.result.Refused) < maxRefused {
		h.result.Refused = append(h.result.Refused, CommandRefusal{Path: text.Truncate(strings.ToValidUTF8(path, "?"), maxPath), Reason: reason})
	}
}

// take stores a file that the command wrote, unless its content is as it was.
func (h *harvest) take(ctx context.Context, name string, content io.Reader) error {
	at, problem := clean(name)
	if problem != "" || at != name {
		if problem == "" {
			problem = "it is spelled in a way that workspaces do not store"
		}
		h.refuse(name, problem)
		return nil
	}
	staged, err := h.s.Blobs.Stage(ctx, h.who.TenantID, content)
	if fault.Is(err, fault.TooLarge) {
		h.refuse(name, fault.From(err).Detail)
		return nil
	}
	if err != nil {
		return err
	}
	old, existed := h.before[name]
	if existed && old.ETag == staged.SHA256 {
		return nil // the staged bytes are swept like those of an upload that broke off
	}
	if len(h.result.Changed) >= maxCommandFiles {
		h.refuse(name, fmt.Sprintf("a command may change at most %d files", maxCommandFiles))
		return nil
	}
	c, mimeType := Conditions{NoneMatch: "*"}, media.Of(name)
	if existed {
		c, mimeType = Conditions{Match: `"` + old.ETag + `"`}, old.MimeType
	}
	put, _, err := h.s.Put(ctx, h.who.TenantID, h.id, name, mimeType, staged, c)
	if err == nil {
		h.before[name] = *put // a terminal may hand the file over again
	}
	return h.outcome(name, err, &h.result.Changed)
}

// outcome notes what became of a file; the list is where it belongs if err is nil.
func (h *harvest) outcome(name string, err error, list *[]string) error {
	switch {
	case err == nil:
		*list = append(*list, name)
	case fault.Is(err, fault.Precondition):
		h.refuse(name, "somebody else changed the file while the command ran")
	case fault.Is(err, fault.Conflict) || fault.Is(err, fault.Forbidden):
		h.refuse(name, fault.From(err).Detail)
	default:
		return err
	}
	return nil
}

// remove deletes a file that the command deleted.
func (h *harvest) remove(ctx context.Context, name string) error {
	old, existed := h.before[name]
	if !existed {
		return nil
	}
	delete(h.before, name)
	err := h.removeIf(ctx, name, old.ETag)
	if fault.Is(err, fault.NotFound) { // somebody else was faster
		return nil
	}
	return h.outcome(name, err, &h.result.Deleted)
}

// removeIf deletes a file that has a content. Errors: fault.NotFound,
// fault.Precondition where it has another.
func (h *harvest) removeIf(ctx context.Context, name, etag string) error {
	s, tenant, id := h.s, h.who.TenantID, h.id
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		w, err := s.Table.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		f, err := s.Table.GetFileTx(tx, tenant, id, name)
		if err != nil {
			return err
		}
		if f == nil {
			return fault.NewNotFound("file")
		}
		if err := (Conditions{Match: `"` + etag + `"`}).check(f); err != nil {
			return err
		}
		if err := s.drop(tx, w, f); err != nil {
			return err
		}
		w.UpdatedAt = s.Clock.Now()
		return s.Table.UpdateTx(tx, w)
	})
}
