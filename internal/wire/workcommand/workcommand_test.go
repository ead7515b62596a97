//go:build linux && (amd64 || arm64)

package workcommand

import (
	"archive/tar"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/fault"
	"agentd/internal/content/workspace"
	"agentd/internal/wire/sandbox"
	"agentd/internal/wire/workhelper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newRunner returns a runner, and skips the test where nothing can be confined.
func newRunner(t *testing.T) *Runner {
	t.Helper()
	r := &Runner{New: func() (*sandbox.Sandbox, error) { return sandbox.New(sandbox.Config{}) }}
	if _, err := r.sandbox(); err != nil {
		t.Skipf("no sandbox: %v", err)
	}
	return r
}

// program is a shell that runs a script on files.
func program(script string, files map[string]string) (p *workspace.Program, changed map[string]string) {
	changed = map[string]string{}
	p = &workspace.Program{
		Argv: []string{"sh", "-c", script}, Timeout: 10 * time.Second, MemoryMiB: 512, MaxOutput: 1000,
		Open: func(_ context.Context, f workspace.File) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(files[f.Path])), nil
		},
		Changed: func(_ context.Context, path string, content io.Reader) error {
			b, err := io.ReadAll(content)
			changed[path] = string(b)
			return err
		},
	}
	for path, text := range files {
		p.Files = append(p.Files, workspace.File{Path: path, SizeBytes: int64(len(text)), UpdatedAt: time.Unix(1e9, 1000)})
	}
	return p, changed
}

func TestProgramsWorkOnCopies(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	for name, c := range map[string]struct {
		script  string
		dir     string
		output  string
		code    int
		changed map[string]string
		deleted []string
	}{
		"reads":           {script: `cat a.txt docs/b.txt`, output: "onetwo"},
		"both outputs":    {script: `echo out; echo err >&2; exit 3`, output: "out\nerr\n", code: 3},
		"writes":          {script: `echo x >new; echo y >>docs/b.txt`, changed: map[string]string{"new": "x\n", "docs/b.txt": "twoy\n"}},
		"same size":       {script: `printf eno >a.txt`, changed: map[string]string{"a.txt": "eno"}},
		"in place":        {script: `sed -i s/o/0/ a.txt`, changed: map[string]string{"a.txt": "0ne"}},
		"deletes":         {script: `rm a.txt; mkdir empty`, deleted: []string{"a.txt"}},
		"moves":           {script: `mv a.txt z.txt`, changed: map[string]string{"z.txt": "one"}, deleted: []string{"a.txt"}},
		"in a folder":     {script: `pwd | sed 's/.*sandbox-[0-9]*//'; cat b.txt`, dir: "docs", output: "/docs\ntwo"},
		"links":           {script: `ln -s /etc/passwd link; mkfifo pipe; ln -sf /etc/passwd a.txt`, deleted: []string{"a.txt"}},
		"a folder closed": {script: `chmod 0 docs`, deleted: []string{"docs/b.txt"}},
		"runs a file":     {script: `printf '#!/bin/sh\necho hi\n' >s; chmod +x s; ./s; rm s`, output: "hi\n"},
		"environment":     {script: `env | cut -d= -f1 | sort | tr '\n' ' '`, output: "HOME LANG PATH PWD TMPDIR "},
		"no other files":  {script: `cat /etc/shadow /root/.profile /tmp/* 2>/dev/null; ls -A ..  2>/dev/null; true`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, changed := program(c.script, map[string]string{"a.txt": "one", "docs/b.txt": "two"})
			p.Dir = c.dir
			got, err := r.Run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			want := &workspace.Ended{Output: []byte(c.output), ExitCode: c.code, Deleted: c.deleted}
			if len(got.Output) == 0 {
				got.Output = []byte{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if c.changed == nil {
				c.changed = map[string]string{}
			}
			if diff := cmp.Diff(c.changed, changed); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
		})
	}
}

// A program that does not end, prints or writes for ever, forks or takes memory ends
// within its bounds, and the program beside it does not notice.
func TestProgramsAreBounded(t *testing.T) {
	t.Parallel()
	if underRace {
		t.Skip("the race detector takes more memory than programs may")
	}
	r := newRunner(t)
	for name, c := range map[string]struct {
		script string
		check  func(*workspace.Ended) bool
	}{
		"does not end":      {`echo begun >f; sleep 1000`, func(e *workspace.Ended) bool { return e.TimedOut && e.ExitCode == -1 }},
		"prints for ever":   {`yes`, func(e *workspace.Ended) bool { return e.TimedOut && e.Truncated && len(e.Output) == 1000 }},
		"fills the disk":    {`cat /dev/zero >f; rm f; echo after`, func(e *workspace.Ended) bool { return strings.Contains(string(e.Output), "after") }},
		"forks":             {`f() { f | f & }; f; sleep 1000`, func(e *workspace.Ended) bool { return e.TimedOut || e.ExitCode != 0 }},
		"takes memory":      {`tail /dev/zero; echo $?`, func(e *workspace.Ended) bool { return !e.TimedOut && !strings.HasSuffix(string(e.Output), "\n0\n") }},
		"leaves another":    {`sleep 1000 & echo started`, func(e *workspace.Ended) bool { return string(e.Output) == "started\n" }},
		"calls the network": {`exec 3<>/dev/tcp/127.0.0.1/80 || echo no`, func(e *workspace.Ended) bool { return strings.Contains(string(e.Output), "no") }},
		"ends its helper":   {`kill -9 1; kill -9 $PPID; echo here`, func(e *workspace.Ended) bool { return strings.Contains(string(e.Output), "here") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := program(c.script, nil)
			p.Timeout = 2 * time.Second
			if name == "takes memory" || name == "fills the disk" {
				p.Timeout = 20 * time.Second
			}
			if strings.Contains(c.script, "/dev/tcp") {
				p.Argv[0] = "bash"
			}
			p.MemoryMiB = 256
			before := time.Now()
			got, err := r.Run(t.Context(), p)
			if name == "ends its helper" && fault.Is(err, fault.Unavailable) {
				return // without namespaces it can, and harms itself alone
			}
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(got) {
				t.Errorf("got %+v %.200s", got, got.Output)
			}
			if took := time.Since(before); took > p.Timeout+grace {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestProgramsThatCannotStart(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	p, _ := program("", map[string]string{"a": "x"})
	p.Argv = []string{"no-such-program"}
	got, err := r.Run(t.Context(), p)
	if err != nil || got.Failed != "no-such-program is not on the machine of this service" || got.Deleted != nil {
		t.Errorf("%+v %v", got, err)
	}
	none := &Runner{New: func() (*sandbox.Sandbox, error) { return nil, io.ErrUnexpectedEOF }}
	if _, err := none.Run(t.Context(), p); !fault.Is(err, fault.Unsupported) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	p, _ = program("sleep 1000", nil)
	if _, err := r.Run(ctx, p); !fault.Is(err, fault.Unavailable) {
		t.Errorf("cancelled: %v", err)
	}
}

// A helper that makes up its answer is not believed.
func TestMadeUpAnswers(t *testing.T) {
	t.Parallel()
	p, _ := program("", nil)
	for name, text := range map[string]string{"nothing": "", "no archive": strings.Repeat("x", 2000), "zeros": strings.Repeat("\x00", 4096)} {
		if _, err := receive(t.Context(), strings.NewReader(text), p); err == nil {
			t.Errorf("%s is believed", name)
		}
	}
}

// FuzzReceive feeds answers that no helper makes.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("head"), true)
	f.Add([]byte(`{"failed":"x","same":["a"],"exit_code":1}`), false)
	f.Fuzz(func(t *testing.T, text []byte, raw bool) {
		p, _ := program("", map[string]string{"a": "x"})
		in := string(text)
		if !raw {
			var b strings.Builder
			packed := tar.NewWriter(&b)
			if err := workhelper.WriteEntry(packed, workhelper.HeadName, int64(len(text)), time.Time{}, strings.NewReader(string(text))); err != nil {
				t.Fatal(err)
			}
			packed.Close()
			in = b.String()
		}
		if e, err := receive(t.Context(), strings.NewReader(in), p); err == nil && len(e.Output) > p.MaxOutput {
			t.Errorf("%d bytes of output", len(e.Output))
		}
	})
}
