// Package workhelper is agentd in the sandbox of a workspace's program: started by
// package workcommand there, it is confined like the program, unpacks the files that it is
// sent, runs the program, and sends back what the program wrote and which files it left.
//
// It imports little, so that it is initialized, and does its work, before the rest of agentd.
package workhelper

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// init turns the process into a helper if package workcommand started it for that. It does
// not wait for main, which takes longer to come than the work of most helpers.
func init() { //nolint:gochecknoinits // see above
	work := map[string]func(io.Reader, io.Writer) error{CommandArg: help, TerminalArg: helpTerminal}
	if len(os.Args) != 2 || work[os.Args[1]] == nil {
		return
	}
	if err := work[os.Args[1]](os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// help does the work of a helper in the current directory.
func help(in io.Reader, out io.Writer) error {
	r, sent, err := unpack(in)
	if err != nil {
		return err
	}
	a := run(r)
	endOthers()
	return handOver(out, sent, a)
}

// handOver sends an answer, and the files that are new or were written to since the
// last time.
func handOver(out io.Writer, sent map[string]fs.FileInfo, a *Answer) error {
	left, err := look(sent, a)
	if err != nil {
		return err
	}
	head, err := json.Marshal(a)
	if err != nil {
		return err
	}
	packed := tar.NewWriter(out)
	if err := WriteEntry(packed, HeadName, int64(len(head)), time.Time{}, bytes.NewReader(head)); err != nil {
		return err
	}
	for _, path := range left {
		info, err := pack(packed, path)
		if err != nil {
			return err
		}
		if info != nil {
			sent[path] = info
		}
	}
	return packed.Close()
}

// unpack puts the files where the program finds them, with the times of the workspace.
func unpack(in io.Reader) (r Request, sent map[string]fs.FileInfo, err error) {
	packed := tar.NewReader(in)
	if _, err := packed.Next(); err != nil {
		return r, nil, err
	}
	head, err := io.ReadAll(packed)
	if err != nil {
		return r, nil, err
	}
	if err := json.Unmarshal(head, &r); err != nil {
		return r, nil, err
	}
	sent = map[string]fs.FileInfo{}
	for {
		entry, err := packed.Next()
		if err == io.EOF {
			return r, sent, nil
		}
		if err != nil {
			return r, nil, err
		}
		path := strings.TrimPrefix(entry.Name, FilePrefix)
		if err := unpackFile(path, packed); err != nil {
			return r, nil, err
		}
		if err := os.Chtimes(path, entry.ModTime, entry.ModTime); err != nil {
			return r, nil, err
		}
		if sent[path], err = os.Lstat(path); err != nil {
			return r, nil, err
		}
	}
}

func unpackFile(path string, content io.Reader) error {
	if !filepath.IsLocal(path) {
		return fmt.Errorf("workhelper: %q leads out", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700) //nolint:gosec // a script may be run
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// run runs the program to its end, or to the end of its time.
func run(r Request) *Answer {
	program, err := exec.LookPath(r.Argv[0])
	if err != nil {
		return &Answer{Failed: fmt.Sprintf("%s is not on the machine of this service", r.Argv[0])}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.TimeoutMS)*time.Millisecond)
	defer cancel()
	output := &Bounded{Limit: max(1, r.MaxOutput)}
	cmd := exec.CommandContext(ctx, program, r.Argv[1:]...)
	cmd.Dir = filepath.FromSlash(filepath.Join(".", r.Dir))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = time.Second // what the program left behind may hold its output open
	cmd.Cancel = func() error {
		endOthers()
		return cmd.Process.Kill()
	}
	restore := reserveThreads()
	err = cmd.Start()
	restore()
	if err == nil {
		err = cmd.Wait()
	}
	a := &Answer{ExitCode: -1, TimedOut: ctx.Err() != nil}
	if cmd.ProcessState == nil {
		a.Failed = fmt.Sprintf("%s cannot be started: %v", r.Argv[0], err)
		return a
	}
	a.ExitCode = cmd.ProcessState.ExitCode()
	a.Output, a.Truncated = output.Kept()
	return a
}

// look returns the files that are new or were written to, and notes those that are as
// they were sent. Only files with bytes of their own count: no links, no devices.
func look(sent map[string]fs.FileInfo, a *Answer) (left []string, err error) {
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if entry != nil && entry.IsDir() {
				return fs.SkipDir // the program took its own rights to it away
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		before, known := sent[path]
		if known && os.SameFile(before, info) && before.Size() == info.Size() && before.ModTime().Equal(info.ModTime()) {
			a.Same = append(a.Same, path)
		} else {
			left = append(left, path)
		}
		return nil
	})
	return left, err
}

// pack sends a file as it is now, and returns how that is; nil if it cannot be read.
func pack(packed *tar.Writer, path string) (fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil // the program took its own rights to it away
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	// It may grow and shrink while a terminal hands it over.
	content := io.LimitReader(io.MultiReader(f, zeros{}), info.Size())
	return info, WriteEntry(packed, FilePrefix+filepath.ToSlash(path), info.Size(), info.ModTime(), content)
}

// zeros are read where a file became shorter.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
