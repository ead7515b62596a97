//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// Sandbox runs commands. Safe for concurrent use.
type Sandbox struct {
	Config
	uid, gid   int // of all processes; 0: numbered ones
	started    atomic.Int64
	namespaces bool
	missing    []string
}

// order is what the parent tells its child before the child becomes a command.
type order struct {
	Probe      bool // report what is missing, and end
	Path       string
	Argv       []string
	Env        []string
	Dir        string
	Read       []string
	Offline    bool
	Limits     Limits
	UID, GID   int
	SetUser    bool // agentd runs as root: become UID and GID
	Namespaces bool
	Terminal   bool // TerminalFD stays open

	ownProc bool // found out by the child: /proc shows its own processes alone
}

// report is what the child answers: nothing where it became the command.
type report struct {
	Error   string
	Missing []string // the answer to a probe
}

// New returns a sandbox, after a process has tried it out. It fails where
// commands could read what agentd keeps.
func New(c Config) (*Sandbox, error) {
	s := &Sandbox{Config: c}
	if err := s.setUser(); err != nil {
		return nil, err
	}
	for _, dir := range slices.Concat(systemDirs, systemFiles) {
		if secret := s.holds(dir); secret != "" {
			return nil, fmt.Errorf("%s is within %s, which sandboxed commands may read; move it elsewhere, as to /var/lib/agentd",
				secret, dir)
		}
	}
	var err error
	if !c.noNamespaces {
		s.namespaces = true
		if s.missing, err = s.probe(); err == nil {
			return s, s.check()
		}
	}
	s.namespaces = false
	why := err
	if s.missing, err = s.probe(); err != nil {
		return nil, fmt.Errorf("the sandbox does not work here: %w", err)
	}
	if why != nil {
		s.missing = append(s.missing, "namespaces ("+why.Error()+"): what a command writes is bounded for each file only, "+
			"and what it started may outlive a kill -9 of agentd")
	}
	return s, s.check()
}

// startTimeout bounds how long a child may take to become the command.
const startTimeout = 10 * time.Second

// errNoLandlock is why nothing runs without Landlock and another user.
var errNoLandlock = errors.New("the kernel has no Landlock (Linux 5.13, with landlock among its security modules), so that commands " +
	"could read what agentd stores; enable it, or start agentd as root, so that commands run as another user")

func (s *Sandbox) check() error {
	for _, m := range s.missing {
		if m == missingLandlock && s.UID() == os.Getuid() {
			return errNoLandlock
		}
	}
	return nil
}

// Missing returns what the system does not provide, each in a sentence's part.
func (s *Sandbox) Missing() []string { return s.missing }

// UID returns the user of the next process.
func (s *Sandbox) UID() int {
	switch {
	case os.Getuid() != 0:
		return os.Getuid()
	case s.uid >= 0:
		return s.uid
	}
	return firstUser + int(s.started.Add(1)%users)
}

// setUser looks the configured user up. Where agentd does not run as root, all
// commands run as its own user.
func (s *Sandbox) setUser() error {
	s.uid = -1
	if s.User == "" || os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(s.User)
	if err != nil {
		if u, err = user.LookupId(s.User); err != nil {
			n, err := strconv.ParseUint(s.User, 10, 31)
			if err != nil {
				return fmt.Errorf("AGENTD_SANDBOX_USER: there is no user %q", s.User)
			}
			s.uid, s.gid = int(n), int(n)
			return nil
		}
	}
	if s.uid, err = strconv.Atoi(u.Uid); err != nil {
		return err
	}
	s.gid, err = strconv.Atoi(u.Gid)
	return err
}

// holds returns a hidden path that a directory holds, "" for none.
func (s *Sandbox) holds(dir string) string {
	for _, secret := range s.Hidden {
		if path, err := filepath.Abs(secret); err == nil && within(resolved(path), resolved(dir)) {
			return secret
		}
	}
	return ""
}

// resolved follows symbolic links as far as the path exists.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	dir, name := filepath.Split(filepath.Clean(path))
	if name == "" || dir == path {
		return path
	}
	return filepath.Join(resolved(filepath.Clean(dir)), name)
}

func (s *Sandbox) probe() ([]string, error) {
	dir, err := os.MkdirTemp("", "agentd-sandbox-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system cleans up temporary files too
	o := s.order(dir)
	o.Probe = true
	_, answer, err := s.spawn(o, nil, nil)
	return answer.Missing, err
}

func (s *Sandbox) order(dir string) order {
	o := order{Dir: dir, Limits: Limits{}.withDefaults(), UID: s.UID(), GID: os.Getgid(), SetUser: os.Getuid() == 0, Namespaces: s.namespaces}
	if o.SetUser {
		o.GID = o.UID
		if s.uid >= 0 {
			o.GID = s.gid
		}
	}
	return o
}

// readable returns what a command may read beside the system's directories: its
// program, with the directory that it is in, and what the operator named.
func (s *Sandbox) readable(c Command) ([]string, error) {
	if c.Self {
		return []string{c.Path}, nil
	}
	all := []string{c.Path}
	for _, dir := range []string{filepath.Dir(c.Path), filepath.Dir(resolved(c.Path))} {
		// Beside a program that stands in the data directory's own there may be
		// much that is not for it; it can run alone.
		if s.holds(dir) == "" && dir != "/" && dir != resolved(os.TempDir()) {
			all = append(all, dir)
		}
	}
	for _, path := range append([]string{resolved(c.Path)}, c.Read...) {
		if secret := s.holds(path); secret != "" {
			return nil, fmt.Errorf("%s would let a command read %s", path, secret)
		}
		all = append(all, path)
	}
	return all, nil
}

// Start starts a command. It runs until it ends by itself or is killed; Wait must
// be called in either case.
//
// The kernel ends the command with the thread that started it. Threads of a Go
// program last as long as it does, unless a goroutine ends that was locked to
// one; agentd has none of these.
func (s *Sandbox) Start(spec Spec) (*Process, error) {
	if spec.Command.Self {
		// The link leads there for every user, whatever directories are above it.
		spec.Command.Path = "/proc/self/exe"
	}
	readable, err := s.readable(spec.Command)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agentd-sandbox-")
	if err != nil {
		return nil, err
	}
	o := s.order(dir)
	o.Path, o.Argv, o.Env = spec.Command.Path, append([]string{spec.Command.Path}, spec.Command.Args...), spec.environ(dir)
	o.Argv = append(o.Argv, spec.Args...)
	o.Read, o.Offline, o.Limits = readable, spec.Command.Offline, spec.Command.Limits.withDefaults()
	o.Terminal = spec.Terminal != nil
	if o.SetUser {
		err = os.Chown(dir, o.UID, o.GID)
	}
	var p *Process
	if err == nil {
		p, _, err = s.spawn(o, spec.Stderr, spec.Terminal)
	}
	if err != nil {
		_ = os.RemoveAll(dir) // the system cleans up temporary files too
		return nil, err
	}
	p.dir = dir
	return p, nil
}

// spawn starts a child, gives it the order, and waits until it has become the
// command or failed to.
func (s *Sandbox) spawn(o order, stderr io.Writer, terminal *os.File) (*Process, report, error) {
	orders, giveOrder, err := os.Pipe()
	if err != nil {
		return nil, report{}, err
	}
	defer orders.Close()
	defer giveOrder.Close()
	answers, answer, err := os.Pipe()
	if err != nil {
		return nil, report{}, err
	}
	defer answers.Close()
	defer answer.Close()

	cmd := exec.Command("/proc/self/exe") //nolint:noctx // it outlives the request that starts it; Process ends it
	cmd.Args = []string{"agentd", childArg}
	cmd.Env = []string{} // nothing of ours
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{orders, answer}
	if terminal != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, terminal) // TerminalFD
	}
	cmd.SysProcAttr = s.attributes(o)
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second // Wait must not wait for error output that a grandchild holds open
	p := &Process{cmd: cmd}
	if p.Stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, report{}, err
	}
	if p.Stdin, err = cmd.StdinPipe(); err != nil {
		return nil, report{}, err
	}
	if err := cmd.Start(); err != nil {
		return nil, report{}, err
	}
	orders.Close()
	answer.Close()
	text, err := json.Marshal(o)
	if err == nil {
		_, err = giveOrder.Write(text)
	}
	giveOrder.Close()
	if err == nil {
		err = answers.SetReadDeadline(time.Now().Add(startTimeout))
	}
	if err == nil {
		text, err = io.ReadAll(answers)
	}
	if err == nil && len(text) == 0 && !o.Probe { // it became the command
		return p, report{}, nil
	}
	var r report
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err == nil && o.Probe {
		err = p.Wait()
		return nil, r, err
	}
	p.Signal(syscall.SIGKILL)
	_ = p.Wait() // the answer says more
	return nil, r, err
}

func (s *Sandbox) attributes(o order) *syscall.SysProcAttr {
	if o.Terminal && !o.Namespaces {
		return &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: TerminalFD} // a session is a group too
	}
	a := &syscall.SysProcAttr{Setpgid: true}
	if !o.Namespaces {
		return a
	}
	a.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	if o.Offline {
		a.Cloneflags |= unix.CLONE_NEWNET
	}
	if !o.SetUser {
		a.Cloneflags |= unix.CLONE_NEWUSER
		// The child writes its own mapping of users, because agentd's children
		// are not agentd's to write to until they are another program: it cannot
		// be dumped (Protect).
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE}
	}
	return a
}

// Process is a command that runs.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.Reader

	cmd *exec.Cmd
	dir string
}

// Dir returns the directory of the command.
func (p *Process) Dir() string { return p.dir }

// Signal sends a signal to the command and everything that it started.
func (p *Process) Signal(signal syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, signal) // it may have exited already
}

// Wait kills the command with everything that it started, and removes its
// directory. Call it once, after the end of Stdout, or after Signal.
func (p *Process) Wait() error {
	p.Signal(syscall.SIGKILL)
	err := p.cmd.Wait()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir) // the system cleans up temporary files too
	}
	return err
}
