//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs a test in the sandbox as this system has it, and in one without
// namespaces.
func each(t *testing.T, test func(t *testing.T, s *Sandbox)) {
	t.Helper()
	for name, bare := range map[string]bool{"namespaces": false, "bare": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := New(Config{noNamespaces: bare})
			if err != nil {
				t.Fatal(err)
			}
			if !bare && !s.namespaces {
				t.Skipf("this system allows no namespaces: %v", s.Missing())
			}
			for _, m := range s.Missing() {
				if m == missingLandlock {
					t.Skip("this kernel has no Landlock")
				}
			}
			test(t, s)
		})
	}
}

// sh is a shell that runs a script with the smallest limits that it takes.
func sh(script string) Spec {
	return Spec{Command: Command{Path: "/bin/bash"}, Args: []string{"-c", script}}
}

// A program has the terminal that it is given, with its size, and can open it by its name.
func TestTerminal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Sandbox) {
		master, tty, err := pty.Open()
		if err != nil {
			t.Skipf("no pseudoterminals: %v", err)
		}
		defer master.Close()
		defer tty.Close()
		if err := pty.Setsize(master, &pty.Winsize{Cols: 91, Rows: 17}); err != nil {
			t.Fatal(err)
		}
		script := "stty size <&5; test -t 5 && echo there; test -e /proc/$$/fd/4 || echo alone"
		if !s.namespaces { // it has no session of its own there
			script += "; echo shown >/dev/tty && echo controlled"
		}
		spec := sh(script)
		spec.Terminal = tty
		got := output(t, s, spec)
		for _, want := range []string{"17 91\n", "there\n", "alone\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q lacks %q", got, want)
			}
		}
		if !s.namespaces && !strings.Contains(got, "controlled") {
			t.Errorf("no controlling terminal: %q", got)
		}
	})
}

// output runs a command to its end and returns what it wrote to both outputs.
func output(t *testing.T, s *Sandbox, spec Spec) string {
	t.Helper()
	var stderr bytes.Buffer
	spec.Stderr = &stderr
	p, err := s.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	p.Stdin.Close()
	text, err := io.ReadAll(p.Stdout)
	err = errors.Join(err, p.Wait())
	return strings.TrimSpace(string(text)) + "\n" + strings.TrimSpace(stderr.String()) + fmt.Sprintf("\nend: %v", err)
}

func TestCommandRuns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Sandbox) {
		spec := sh(`echo "$GREETING $1"; pwd; id -u; echo x >file && cat file; ls -A; env | cut -d= -f1 | sort | tr '\n' ' '`)
		spec.Args = append(spec.Args, "sh", "world")
		spec.Env, spec.Command.Env = map[string]string{"GREETING": "hello", "HOME": "/root"}, map[string]string{"LANG": "C"}
		got := output(t, s, spec)
		if !regexp.MustCompile(`^hello world\n/\S*/agentd-sandbox-\d+\n\d+\nx\nfile\nGREETING HOME LANG OLDPWD PATH PWD SHLVL TMPDIR _ *\n\nend: <nil>$`).
			MatchString(strings.Replace(got, "LANG PATH", "LANG OLDPWD PATH", 1)) {
			t.Errorf("got %s", got)
		}
		if os.Getuid() == 0 && strings.Contains(got, "\n0\n") {
			t.Errorf("it is root:\n%s", got)
		}
	})
}

// What is in the data directory of agentd, in its environment and in its memory
// cannot be had, whatever the script tries.
func TestNothingOfAgentdIsSeen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { // file modes are not what hides it
			break
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret.key"), []byte("hidden-words"), 0o644); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(os.Getpid())
	each(t, func(t *testing.T, s *Sandbox) {
		for name, script := range map[string]string{
			"list":           `ls DIR`,
			"read":           `cat DIR/secret.key`,
			"link":           `ln -s DIR link && cat link/secret.key`,
			"hard link":      `ln DIR/secret.key link && cat link`,
			"write":          `echo >DIR/secret.key`,
			"remove":         `rm -f DIR/secret.key`,
			"by descriptor":  `cat /proc/self/fd/*/secret.key /proc/self/cwd/../*/secret.key`,
			"by process":     `cat /proc/PID/root/DIR/secret.key /proc/PID/cwd/*`,
			"environment":    `cat /proc/PID/environ`,
			"of the parent":  `cat /proc/$PPID/environ`,
			"memory":         `head -c 1 /proc/PID/mem || cat /proc/PID/maps`,
			"descriptors":    `ls -l /proc/PID/fd/`,
			"other temp":     `ls /tmp`,
			"root":           `ls /root || ls /home || ls /var || ls /etc`,
			"shared memory":  `ls /dev/shm || echo x >/dev/shm/x`,
			"kernel":         `head -c 9 /proc/kcore || head -c 9 /dev/mem || head -c 9 /dev/kmsg`,
			"cores":          `echo x >/proc/sys/kernel/core_pattern`,
			"mount":          `mount -t tmpfs x .`,
			"unshare":        `unshare -Ur true`,
			"setuid program": `su -c true </dev/null`,
			"trace":          `strace -p PID`,
			"limits of it":   `prlimit --pid PID --nofile=1`,
			"priority of it": `renice 19 -p PID`,
			"signal":         `kill -0 PID || /bin/kill -9 PID`,
			"other programs": `perl -e 'use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die $!'`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				script = strings.NewReplacer("DIR", dir, "$PPID", "$PPID", "PID", pid).Replace(script)
				got := output(t, s, sh("{ "+script+"; } && echo it-worked"))
				if strings.Contains(got, "hidden-words") || strings.Contains(got, "HOME=/root") || strings.Contains(got, "it-worked") {
					t.Errorf("%s: %s", script, got)
				}
			})
		}
	})
	if text, err := os.ReadFile(filepath.Join(dir, "secret.key")); err != nil || string(text) != "hidden-words" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// A script that is traced by its environment runs what the tracing says, which
// is refused before it comes to that; here it finds nothing.
func TestTracedScript(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "agentd.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, s *Sandbox) {
		spec := sh("read line; echo read $line")
		spec.Env = map[string]string{
			"SHELLOPTS": "xtrace",
			"PS4":       "+$(id -u; tr '\\0' '\\n' </proc/$PPID/environ; ls -a " + data + "; cat /proc/*/environ | tr '\\0' '\\n')",
		}
		got := output(t, s, spec)
		if !strings.Contains(got, "read line") {
			t.Fatalf("it is not traced: %s", got)
		}
		if strings.Contains(got, "agentd.db") || strings.Contains(got, "PATH="+os.Getenv("PATH")+"\n") {
			t.Errorf("it found %s", got)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	small := Limits{MemoryMiB: 64, CPUSeconds: 1, Processes: 20, Files: 16, DiskMiB: 1}
	each(t, func(t *testing.T, s *Sandbox) {
		for name, tt := range map[string]struct{ script, want string }{
			"memory":    {`tail /dev/zero`, "memory exhausted|Cannot allocate|Killed|signal"},
			"cpu":       {`while :; do :; done`, "end: signal: killed"},
			"fork bomb": {`dash -c 'b() { b | b & }; b; sleep 0.3'`, "Cannot fork"},
			"files":     {`for i in $(seq 40); do eval "exec $((i+10))</dev/null" || exit 1; done`, "Bad file|open files|end: exit"},
			"file":      {`head -c 2000000 /dev/zero >big; [ $(stat -c %s big) -le 1048576 ] && echo bounded; exit 3`, "bounded"},
			"core":      {`ulimit -c`, "^0\n"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				spec := sh(tt.script)
				spec.Command.Limits = small
				if got := output(t, s, spec); !regexp.MustCompile(tt.want).MatchString(got) {
					t.Errorf("%s: %s", tt.script, got)
				}
			})
		}
		if !s.namespaces {
			return
		}
		t.Run("disk", func(t *testing.T) {
			t.Parallel()
			spec := sh(`for i in $(seq 8); do head -c 400000 /dev/zero >$i; done; du -sk . | cut -f1`)
			spec.Command.Limits = small
			if got := output(t, s, spec); !strings.Contains(got, "No space left") {
				t.Errorf("all files together: %s", got)
			}
		})
	})
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Sandbox) {
		spec := sh(`exec 3<>/dev/udp/127.0.0.1/9 && echo open`)
		if got := output(t, s, spec); !strings.Contains(got, "open") {
			t.Errorf("with a network: %s", got)
		}
		spec.Command.Offline = true
		if got := output(t, s, spec); strings.Contains(got, "open") {
			t.Errorf("without: %s", got)
		}
	})
}

// What a command starts ends with it, whatever it does to live on.
func TestEverythingEndsTogether(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *Sandbox) {
		marker := fmt.Sprintf("%d.%d", 1000+os.Getpid(), time.Now().UnixNano()%1e9)
		p, err := s.Start(sh(`trap "" HUP TERM INT
			(trap "" HUP TERM; sleep ` + marker + `) &
			(setsid sleep ` + marker + ` &) 2>/dev/null
			nohup sleep ` + marker + ` >/dev/null 2>&1 &
			echo started; sleep ` + marker))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(p.Stdout, make([]byte, 7)); err != nil {
			t.Fatal(err)
		}
		until(t, func() bool { return running(t, marker) >= 3 })
		dir := p.Dir()
		p.Signal(syscall.SIGKILL)
		if err := p.Wait(); err == nil {
			t.Error("it ended by itself")
		}
		until(t, func() bool { return running(t, marker) == 0 })
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its directory is left: %v", err)
		}
	})
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come about")
		}
	}
}

// running counts the processes whose arguments hold a text.
func running(t *testing.T, text string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		if args, err := os.ReadFile(f); err == nil && bytes.HasPrefix(args, []byte("sleep\x00")) && bytes.Contains(args, []byte(text)) {
			n++
		}
	}
	return n
}

func TestCommandsThatCannotStart(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(Spec{Command: Command{Path: "/does/not/exist"}}); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("error = %v", err)
	}
	dir := t.TempDir()
	hiding, err := New(Config{Hidden: []string{filepath.Join(dir, "data")}})
	if err != nil {
		t.Fatal(err)
	}
	spec := sh("true")
	spec.Command.Read = []string{dir}
	if _, err := hiding.Start(spec); err == nil || !strings.Contains(err.Error(), "would let a command read") {
		t.Errorf("error = %v", err)
	}
	if _, err := New(Config{Hidden: []string{"/usr/share/agentd/not/there"}}); err == nil || !strings.Contains(err.Error(), "move it") {
		t.Errorf("error = %v", err)
	}
	if os.Getuid() == 0 {
		if _, err := New(Config{User: "no such user"}); err == nil || !strings.Contains(err.Error(), "AGENTD_SANDBOX_USER") {
			t.Errorf("error = %v", err)
		}
	}
}

// The name of the mode is nothing that a person could use.
func TestTheChildIsForAgentdOnly(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.CommandContext(t.Context(), self, childArg).Run(); err == nil {
		t.Error("it ran without an order")
	}
}
