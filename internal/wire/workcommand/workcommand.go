// Package workcommand runs programs on copies of files, in the sandbox.
//
// The sandbox gives a program a directory that nobody outside can look into. So
// agentd starts itself there as a helper (package workhelper), which is confined like the
// program. All that it sends back is the program's word; nothing is believed of it but bytes.
package workcommand

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/content/workspace"
	"agentd/internal/wire/sandbox"
	"agentd/internal/wire/workhelper"
)

// Bounds of a program beside its Limits.
const (
	diskMiB   = 256
	processes = 64
	openFiles = 256
	// grace is how long the helper may take for packing and unpacking beside the
	// time of the program.
	grace = 20 * time.Second
)

// Runner implements workspace.Runner.
type Runner struct {
	// New returns the sandbox; it is called when a command is run for the first time.
	New func() (*sandbox.Sandbox, error)

	mu  sync.Mutex
	box *sandbox.Sandbox
}

func (r *Runner) sandbox() (*sandbox.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.box == nil {
		box, err := r.New()
		if err != nil {
			return nil, fault.New(fault.Unsupported, "SANDBOX_UNAVAILABLE",
				"The machine of this service cannot confine programs, so that none are run; its log says what is missing.").Because(err)
		}
		r.box = box
	}
	return r.box, nil
}

// Run implements workspace.Runner.
func (r *Runner) Run(ctx context.Context, p *workspace.Program) (*workspace.Ended, error) {
	box, err := r.sandbox()
	if err != nil {
		return nil, err
	}
	var stderr workhelper.Bounded
	process, err := box.Start(sandbox.Spec{
		Command: sandbox.Command{Self: true, Offline: true, Limits: sandbox.Limits{
			MemoryMiB: p.MemoryMiB, CPUSeconds: int(p.Timeout.Seconds()) + int(grace.Seconds()), Processes: processes,
			Files: openFiles, DiskMiB: diskMiB,
		}},
		Args: []string{workhelper.CommandArg}, Stderr: &stderr,
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "", "The program could not be started; try again.").Because(err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout+grace)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { process.Signal(syscall.SIGKILL) })
	ended, err := converse(ctx, process.Stdin, process.Stdout, p)
	stop()
	process.Signal(syscall.SIGKILL)
	wait := process.Wait()
	if err == nil || fault.From(err).Kind != fault.Internal {
		return ended, err
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	said, _ := stderr.Kept()
	return nil, fault.New(fault.Unavailable, "",
		"The program was ended before its files could be read; it may have used more memory than it may.").
		Because(fmt.Errorf("%w (%w) %s", err, errors.Join(wait), said))
}

// converse sends a program and its files to the helper, and reads how it ended.
func converse(ctx context.Context, to io.WriteCloser, from io.Reader, p *workspace.Program) (*workspace.Ended, error) {
	if err := send(ctx, to, p); err != nil {
		return nil, err
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	return receive(ctx, from, p)
}

func send(ctx context.Context, w io.Writer, p *workspace.Program) error {
	out := tar.NewWriter(w)
	head, err := json.Marshal(workhelper.Request{Argv: p.Argv, Dir: p.Dir, TimeoutMS: p.Timeout.Milliseconds(), MaxOutput: p.MaxOutput})
	if err != nil {
		return err
	}
	if err := workhelper.WriteEntry(out, workhelper.HeadName, int64(len(head)), time.Time{}, bytes.NewReader(head)); err != nil {
		return err
	}
	for _, f := range p.Files {
		if err := sendFile(ctx, out, p, f); err != nil {
			return err
		}
	}
	return out.Close()
}

func sendFile(ctx context.Context, out *tar.Writer, p *workspace.Program, f workspace.File) error {
	content, err := p.Open(ctx, f)
	if err != nil {
		return err
	}
	defer content.Close()
	return workhelper.WriteEntry(out, workhelper.FilePrefix+f.Path, f.SizeBytes, f.UpdatedAt, content)
}

// receive reads what the helper sends. All of it may be made up.
func receive(ctx context.Context, from io.Reader, p *workspace.Program) (*workspace.Ended, error) {
	a, there, err := receiveFiles(ctx, from, p.Changed, func() {})
	if err != nil {
		return nil, err
	}
	ended := &workspace.Ended{
		Output: a.Output[:min(len(a.Output), p.MaxOutput)], Truncated: a.Truncated, ExitCode: a.ExitCode, TimedOut: a.TimedOut, Failed: a.Failed,
	}
	for _, f := range p.Files {
		if !there[f.Path] && a.Failed == "" {
			ended.Deleted = append(ended.Deleted, f.Path)
		}
	}
	return ended, nil
}

// receiveFiles reads an answer with its files, and returns which files there are. It calls
// begun when the answer begins.
func receiveFiles(
	ctx context.Context, from io.Reader, changed func(context.Context, string, io.Reader) error, begun func(),
) (a workhelper.Answer, there map[string]bool, err error) {
	in := tar.NewReader(io.LimitReader(from, (2*diskMiB)<<20))
	first, err := in.Next()
	if err != nil {
		return a, nil, err
	}
	begun()
	if first.Name != workhelper.HeadName {
		return a, nil, fmt.Errorf("workcommand: the answer begins with %.100q", first.Name)
	}
	head, err := io.ReadAll(io.LimitReader(in, 32<<20))
	if err != nil {
		return a, nil, err
	}
	if err := json.Unmarshal(head, &a); err != nil {
		return a, nil, err
	}
	there = map[string]bool{}
	for _, path := range a.Same {
		there[path] = true
	}
	for {
		entry, err := in.Next()
		if err == io.EOF {
			return a, there, nil
		}
		if err != nil {
			return a, nil, err
		}
		path := entry.Name[min(len(workhelper.FilePrefix), len(entry.Name)):]
		there[path] = true
		if err := changed(ctx, path, in); err != nil {
			return a, nil, err
		}
	}
}
