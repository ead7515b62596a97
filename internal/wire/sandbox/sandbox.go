// Package sandbox runs programs that the operator allowed and that agentd does
// not trust, such as the MCP servers of tenants.
//
// A program has a directory of its own and sees of the rest what it needs to
// run: the system's programs and libraries, and what the operator named. It sees
// nothing of agentd: no data directory, no environment, no memory, no
// processes. It cannot gain privileges, its memory, time, processes, files and
// disk are bounded, and everything that it started ends with it, and with
// agentd.
//
// Linux alone has what this takes: Landlock for files and signals, seccomp for
// calls to the kernel, namespaces, rlimits. They must be applied to a process
// between fork and exec, where Go cannot run code. So agentd starts itself with
// the argument of a child (init), which gives its rights away and then becomes
// the program.
package sandbox

import (
	"cmp"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// Command is a program and what it may use.
type Command struct {
	Path    string
	Self    bool              // the program is agentd itself, in place of Path
	Args    []string          // the operator's, before those of Spec
	Env     map[string]string // the operator's
	Read    []string          // files and directories that it may read, beside the system's
	Offline bool              // it has no network
	Limits  Limits
}

// Limits bound what a command uses. Zero values mean the defaults in brackets.
type Limits struct {
	MemoryMiB  int // of one process [1024]
	CPUSeconds int // of one process, in its life [300]
	Processes  int // threads included [128]
	Files      int // open in one process [512]
	DiskMiB    int // of its directory, and of one file [64]
}

func (l Limits) withDefaults() Limits {
	return Limits{
		MemoryMiB: cmp.Or(l.MemoryMiB, 1024), CPUSeconds: cmp.Or(l.CPUSeconds, 300), Processes: cmp.Or(l.Processes, 128),
		Files: cmp.Or(l.Files, 512), DiskMiB: cmp.Or(l.DiskMiB, 64),
	}
}

// Config of a sandbox.
type Config struct {
	// User is whom commands run as where agentd runs as root: a name or a number.
	// Empty: a number for each process, from firstUser on.
	User string
	// Hidden are files and directories that no command may read, even where it
	// may read the directory around them: New fails if the system's directories
	// hold one, Start if a command's do.
	Hidden []string

	// noNamespaces does without namespaces, as on systems that allow none.
	noNamespaces bool
}

// Spec is one start of a command.
type Spec struct {
	Command Command
	Args    []string
	Env     map[string]string
	Stderr  io.Writer
	// Terminal is the end of a pseudoterminal that the program gets as TerminalFD,
	// beside its pipes. Where there are no namespaces it is the program's controlling
	// terminal, because the program cannot make a session.
	Terminal *os.File
}

// TerminalFD is where a program finds its terminal.
const TerminalFD = 5

// The users of processes are numbered from firstUser on, where agentd runs as
// root; distributions leave this range alone.
const (
	firstUser = 64000
	users     = 1000
)

// searchPath is the PATH of a command; agentd's own is not inherited.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environ returns the environment of a command that works in dir.
func (s *Spec) environ(dir string) []string {
	env := map[string]string{"PATH": searchPath, "LANG": "C.UTF-8"}
	maps.Copy(env, s.Env)
	maps.Copy(env, s.Command.Env)
	env["HOME"], env["TMPDIR"] = dir, dir
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

// within reports whether path is dir or beneath it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
