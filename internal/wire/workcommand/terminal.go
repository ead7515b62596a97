package workcommand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"

	"agentd/internal/base/fault"
	"agentd/internal/content/workspace"
	"agentd/internal/wire/sandbox"
	"agentd/internal/wire/workhelper"
)

// typeTime is how long a program may leave what was typed unread before it is dropped.
const typeTime = 5 * time.Second

// Ready implements workspace.TerminalOpener.
func (r *Runner) Ready() error {
	_, err := r.sandbox()
	return err
}

// OpenTerminal implements workspace.TerminalOpener. The pseudoterminal is agentd's: in the
// sandbox none can be made.
func (r *Runner) OpenTerminal(ctx context.Context, p *workspace.Shell) (workspace.Screen, error) {
	box, err := r.sandbox()
	if err != nil {
		return nil, err
	}
	master, tty, err := pty.Open()
	if err != nil {
		return nil, fault.New(fault.Unavailable, "", "The terminal could not be opened; try again.").Because(err)
	}
	s := &screen{master: master, p: p, ended: make(chan struct{}), code: -1}
	err = s.Resize(p.Cols, p.Rows)
	if err == nil {
		s.process, err = box.Start(sandbox.Spec{
			Command: sandbox.Command{Self: true, Offline: true, Limits: sandbox.Limits{
				MemoryMiB: p.MemoryMiB, CPUSeconds: int((p.CPU + grace).Seconds()), Processes: processes, Files: openFiles, DiskMiB: diskMiB,
			}},
			Args: []string{workhelper.TerminalArg}, Stderr: &s.stderr, Terminal: tty,
		})
	}
	tty.Close()
	if err != nil {
		master.Close()
		return nil, fault.New(fault.Unavailable, "", "The shell could not be started; try again.").Because(err)
	}
	sending, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	stop := context.AfterFunc(sending, s.kill)
	err = send(sending, s.process.Stdin, &workspace.Program{Dir: p.Dir, Files: p.Files, Open: p.Open})
	stop()
	if err != nil {
		s.kill()
		_ = s.process.Wait() // err says more
		master.Close()
		return nil, fault.New(fault.Unavailable, "", "The files could not be copied for the shell; try again.").Because(err)
	}
	go s.collect(context.WithoutCancel(ctx))
	return s, nil
}

// screen implements workspace.Screen.
type screen struct {
	master  *os.File
	process *sandbox.Process
	p       *workspace.Shell
	stderr  workhelper.Bounded
	asked   atomic.Bool // the helper was asked to hand over the files

	mu   sync.Mutex
	over bool // the process was waited for: its number may be another's

	ended chan struct{}
	code  int // once ended is closed, as is err
	err   error
}

// Read implements workspace.Screen.
func (s *screen) Read(p []byte) (int, error) {
	n, err := s.master.Read(p)
	if err != nil { // EIO: no program has the terminal any more
		err = io.EOF
	}
	return n, err
}

// Write implements workspace.Screen.
func (s *screen) Write(p []byte) (int, error) {
	if err := s.master.SetWriteDeadline(time.Now().Add(typeTime)); err != nil {
		return 0, err
	}
	return s.master.Write(p)
}

// Resize implements workspace.Screen.
func (s *screen) Resize(cols, rows uint16) error {
	return pty.Setsize(s.master, &pty.Winsize{Cols: cols, Rows: rows})
}

// Save implements workspace.Screen.
func (s *screen) Save() bool {
	if !s.asked.CompareAndSwap(false, true) {
		return false
	}
	_, err := s.process.Stdin.Write([]byte{workhelper.SaveOrder})
	return err == nil
}

// HangUp implements workspace.Screen.
func (s *screen) HangUp() {
	_ = s.process.Stdin.Close() // it may have ended
	late := time.AfterFunc(grace, s.kill)
	go func() {
		<-s.ended
		late.Stop()
	}()
}

// Ended implements workspace.Screen.
func (s *screen) Ended() <-chan struct{} { return s.ended }

// ExitCode implements workspace.Screen.
func (s *screen) ExitCode() (int, error) { return s.code, s.err }

// Close implements workspace.Screen.
func (s *screen) Close() error { return s.master.Close() }

// kill ends everything in the sandbox.
func (s *screen) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.process.Signal(syscall.SIGKILL)
	}
}

// collect takes over files until the shell has ended. It is a goroutine.
func (s *screen) collect(ctx context.Context) {
	defer close(s.ended)
	code, err := s.takeOver(ctx)
	s.kill()
	s.mu.Lock()
	wait := s.process.Wait()
	s.over = true
	s.mu.Unlock()
	if s.code, s.err = code, err; err != nil {
		s.code = -1
		said, _ := s.stderr.Kept()
		s.err = fmt.Errorf("%w (%w) %s", err, errors.Join(wait), said)
	}
}

var errUnasked = errors.New("workcommand: files were handed over without a request")

func (s *screen) takeOver(ctx context.Context) (code int, err error) {
	known := map[string]bool{}
	for _, f := range s.p.Files {
		known[f.Path] = true
	}
	for {
		var late *time.Timer
		a, there, err := receiveFiles(ctx, s.process.Stdout, s.p.Changed, func() { late = time.AfterFunc(grace, s.kill) })
		if late != nil {
			late.Stop()
		}
		switch {
		case err != nil:
			return -1, err
		case a.Failed != "":
			return -1, errors.New(a.Failed)
		case a.More && !s.asked.CompareAndSwap(true, false):
			return -1, errUnasked
		}
		for path := range known {
			if there[path] {
				continue
			}
			if err := s.p.Deleted(ctx, path); err != nil {
				return -1, err
			}
		}
		if !a.More {
			return a.ExitCode, nil
		}
		known = there
		s.p.Saved()
	}
}
