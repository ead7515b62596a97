package workspace_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/base/share"
	"agentd/internal/content/workspace"
)

// runnerFunc is a runner whose programs are functions.
type runnerFunc func(ctx context.Context, p *workspace.Program) (*workspace.Ended, error)

func (f runnerFunc) Run(ctx context.Context, p *workspace.Program) (*workspace.Ended, error) {
	return f(ctx, p)
}

func (w *world) allow(run runnerFunc) {
	w.Commands = &workspace.Commands{
		Runner: run, Places: share.New(1, 1, time.Second),
		Policy: func() workspace.CommandPolicy {
			return workspace.CommandPolicy{Enabled: true, Allowed: []string{"make"}, MaxTime: time.Minute, MemoryMiB: 512}
		},
	}
}

// What a command changed is taken over, except where somebody else was faster or the
// workspace would not store it.
func TestRunCommand(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ctx, id := t.Context(), w.made(who)
		for _, path := range []string{"same", "written", "gone", "raced", "raced-gone", "docs/deep"} {
			w.put(id, path, "was "+path)
		}
		w.put(id, "hidden", "trash")
		_, err := w.Discard(ctx, "tenant", id, "hidden")
		w.ok(err)
		w.allow(func(ctx context.Context, p *workspace.Program) (*workspace.Ended, error) {
			if diff := cmp.Diff([]string{"make", "all things"}, p.Argv); diff != "" || p.Dir != "docs" || p.Timeout != time.Minute || p.MemoryMiB != 512 {
				t.Errorf("%+v", p)
			}
			var names []string
			for _, f := range p.Files {
				names = append(names, f.Path)
				r, err := p.Open(ctx, f)
				w.ok(err)
				if text, err := io.ReadAll(r); string(text) != "was "+f.Path || err != nil {
					t.Errorf("%s is %q", f.Path, text)
				}
				r.Close()
			}
			if diff := cmp.Diff([]string{"docs/deep", "gone", "raced", "raced-gone", "same", "written"}, names); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			w.put(id, "raced", "faster")
			w.put(id, "raced-gone", "faster")
			for _, path := range []string{"written", "raced", "new/file", "../out", ".trash/console/x", "docs//deep"} {
				w.ok(p.Changed(ctx, path, strings.NewReader("now "+path)))
			}
			w.ok(p.Changed(ctx, "same", strings.NewReader("was same")))
			return &workspace.Ended{Output: []byte("done \xff"), ExitCode: 2, Truncated: true, Deleted: []string{"gone", "raced-gone", "never"}}, nil
		})
		got, err := w.RunCommand(ctx, who, id, workspace.CommandLine{Line: "make 'all things'", Dir: "docs", Timeout: time.Minute})
		w.ok(err)
		var refused []string
		for _, r := range got.Refused {
			refused = append(refused, r.Path)
		}
		if diff := cmp.Diff([]string{"raced", "../out", ".trash/console/x", "docs//deep", "raced-gone"}, refused); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
		got.Refused = nil
		want := &workspace.CommandResult{
			Output: "done \ufffd", ExitCode: 2, Truncated: true, Changed: []string{"written", "new/file"}, Deleted: []string{"gone"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for path, text := range map[string]string{"written": "now written", "raced": "faster", "raced-gone": "faster", "new/file": "now new/file", "same": "was same"} {
			if w.text(id, path) != text {
				t.Errorf("%s is %q", path, w.text(id, path))
			}
		}
	})
}

func TestRunCommandRefused(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) { refusedCommands(t, w) })
}

func refusedCommands(t *testing.T, w *world) {
	t.Helper()
	ctx, id := t.Context(), w.made(who)
	line := workspace.CommandLine{Line: "make", Timeout: time.Second}
	_, err := w.RunCommand(ctx, who, id, line)
	w.refused(err, fault.Forbidden, "FEATURE_DISABLED")
	ran := 0
	w.allow(func(context.Context, *workspace.Program) (*workspace.Ended, error) {
		ran++
		return &workspace.Ended{Failed: "make is not here"}, nil
	})
	_, err = w.RunCommand(ctx, other, id, line)
	w.refused(err, fault.NotFound, "NOT_FOUND")
	for name, c := range map[string]struct {
		line  workspace.CommandLine
		field string
	}{
		"a program that is not allowed": {workspace.CommandLine{Line: "sh -c make", Timeout: time.Second}, "command"},
		"a path of one that is":         {workspace.CommandLine{Line: "./make", Timeout: time.Second}, "command"},
		"a shell's syntax":              {workspace.CommandLine{Line: "make | sh", Timeout: time.Second}, "command"},
		"too long":                      {workspace.CommandLine{Line: "make", Timeout: time.Hour}, "timeout_sec"},
		"no folder":                     {workspace.CommandLine{Line: "make", Timeout: time.Second, Dir: "none"}, "workdir"},
	} {
		_, err := w.RunCommand(ctx, who, id, c.line)
		if f := fault.From(err); f.Kind != fault.Invalid || len(f.Fields) != 1 || f.Fields[0].Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ran != 0 {
		t.Errorf("%d programs ran", ran)
	}
	_, err = w.RunCommand(ctx, who, id, line)
	if f := fault.From(err); f.Kind != fault.Invalid || f.Fields[0].Message != "make is not here" {
		t.Errorf("%v", err)
	}
}
