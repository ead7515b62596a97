package cli

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"agentd/internal/goldentest"
)

func modelOfCommands(t *testing.T) *kong.Application {
	t.Helper()
	lookup := func(string) (string, bool) { return "", false }
	return newParser(newInvocation(context.Background(), Deps{Stdout: io.Discard, Stderr: io.Discard, LookupEnv: lookup})).Model
}

func TestReferenceIsFresh(t *testing.T) {
	t.Parallel()
	goldentest.CheckPart(t, "../../docs/cli.md", "<!-- commands: made by the tests -->", "<!-- end of commands -->", []byte("\n"+Reference()+"\n"))
}

func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, node := range modelOfCommands(t).Leaves(true) {
		path := commandPath(node)
		known[path] = true
		if !strings.Contains(examples[path], "agentd "+path) {
			t.Errorf("%s has no example in examples.go", path)
		}
		if node.Help == "" || !strings.HasSuffix(node.Help, ".") {
			t.Errorf("%s has no sentence of help", path)
		}
	}
	for path := range examples {
		if !known[path] {
			t.Errorf("the example of %q is of no command", path)
		}
	}
}

// Every refusal of the parser names the flag or the argument, and the whole
// command whose help says more.
func TestRefusalsOfEveryCommand(t *testing.T) {
	t.Parallel()
	s := shell{env: map[string]string{"AGENTD_KEY": "k", "AGENTD_URL": "http://127.0.0.1:1"}}
	for _, node := range modelOfCommands(t).Leaves(true) {
		path := strings.Fields(commandPath(node))
		refused := func(says string, args ...string) {
			t.Helper()
			r := s.run(append(slices.Clip(path), args...)...)
			r.want(t, exitUsage, says, "\nTry: "+node.FullPath()+" --help\n")
			if r.stdout != "" || t.Failed() {
				t.Fatalf("%s %s: %s", path, args, r.stdout)
			}
		}
		if path[0] != "help" {
			refused("unknown flag --nonsense", "--nonsense")
		}
		for _, flags := range node.AllFlags(true) {
			for _, flag := range flags {
				switch {
				case needsFlags(node): // which are missed first
				case flag.Enum != "":
					refused("--"+flag.Name, "--"+flag.Name+"=nonsense")
				case flag.IsBool():
				case flag.Target.CanInt():
					refused("--"+flag.Name, "--"+flag.Name+"=nonsense")
				}
			}
		}
		for _, arg := range node.Positional {
			if arg.Required && !needsFlags(node) {
				refused("the argument <" + arg.Name + "> is missing: ")
				break
			}
		}
	}
}

// needsFlags reports whether a command refuses a missing flag first.
func needsFlags(node *kong.Node) bool {
	for _, flag := range node.Flags {
		if flag.Required {
			return true
		}
	}
	return false
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                "admin agent api approvals audit backup bridge",
		"ag":                              "agent",
		"agent ":                          "apply create delete diff edit export list rollback show skill traffic versions",
		"agent show --j":                  "--json",
		"memory add calc --type ":         "episodic semantic procedural note",
		"memory add calc --type=no":       "--type=note",
		"memory add calc x --tag --type ": "",
		"completion ":                     "bash zsh fish",
		"completion z":                    "zsh",
		"agent show calc ":                "",
		"nonsense ":                       "admin agent api",
	} {
		r := shell{}.run(append([]string{completeWord, "--"}, strings.Split(line, " ")...)...)
		r.want(t, exitOK)
		var words []string
		for l := range strings.Lines(r.stdout) {
			word, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			words = append(words, word)
		}
		if got := strings.Join(words, " "); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%q is completed by %q, want %q", line, got, want)
		}
	}
	for _, name := range []string{"bash", "zsh", "fish"} {
		shell{}.run("completion", name).want(t, exitOK, completeWord)
	}
	shell{}.run("completion", "csh").want(t, exitUsage, "bash", "csh")
}

func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	var out buffer
	inv := &invocation{stdout: &out, width: 60}
	id := "01990000-0000-7000-8000-00000000000a"
	if err := inv.table([]string{"~NAME", "ID", "~MESSAGE"}, [][]string{
		{"helper", id, "a message of many words that does not fit"}, {"日本語の名前です", id, "x"},
	}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if w := displayWidth(strings.TrimSuffix(line, "\n")); w > 60 {
			t.Errorf("%d columns: %s", w, line)
		}
	}
	if got := out.String(); strings.Count(got, id) != 2 || !strings.Contains(got, "…") {
		t.Errorf("table:\n%s", got)
	}
}

func TestVerifySignature(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":1}`)
	// printf '1789041600000.{"a":1}' | openssl dgst -sha256 -hmac whsec_x
	const stamp = "t=1789041600000"
	at := now
	for header, want := range map[string]string{"": "missing", stamp: "missing", "t=x,v1=sha256=00": "missing", stamp + ",v1=sha256=00": "wrong"} {
		if got := verifySignature("whsec_x", header, body, at); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"90m": "2026-09-10T10:30:00Z", "2026-09-01": "2026-09-01T00:00:00Z", "2026-09-01T02:00:00+02:00": "2026-09-01T00:00:00Z"} {
		got, err := since(now, value)
		if err != nil || got.UTC().Format("2006-01-02T15:04:05Z07:00") != want {
			t.Errorf("%s: %v, %v", value, got, err)
		}
	}
	for _, value := range []string{"yesterday", "-1h", ""} {
		if _, err := since(now, value); err == nil || !strings.Contains(err.Error(), "--since is ") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// A server that dies begins the step again: what was not stored is shown once.
func TestTextOfAStepIsShownOnce(t *testing.T) {
	t.Parallel()
	for name, void := range map[string]string{"resumed": `run.resumed {"status":"running","attempt":2}`, "void": `step.draft_void {"step_id":"s"}`} {
		a := newAPI(t)
		a.run(stream(1, `llm.chunk {"text":"It "}`, `llm.chunk {"text":"is"}`, void,
			`llm.chunk {"text":"It is "}`, `llm.chunk {"text":"4."}`, `step.completed {"type":"llm"}`, completed))
		if r := a.shell.run("run", "helper", "hi"); r.code != exitOK || r.stdout != "It is 4.\n" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	var out, errs buffer
	f := shower{inv: &invocation{stdout: &out, stderr: &errs, stdoutTerminal: true}}
	f.text("It is")
	f.void()
	f.text("It is 4.")
	f.committed()
	f.void() // nothing to take back
	if out.String() != "It is\nIt is 4." || strings.Count(errs.String(), "the answer starts again") != 1 {
		t.Errorf("on a terminal: %q, %q", out.String(), errs.String())
	}
}

// Every error that the commands make is a sentence that names what is wrong.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		for _, text := range errorTexts(t, e.Name()) {
			n++
			if !namesSomething(text) {
				t.Errorf("%s: %q names no flag, argument, setting, file, command or thing; say what is wrong and what would be right", e.Name(), text)
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d texts were found", n)
	}
}

func TestManPage(t *testing.T) {
	t.Parallel()
	page := manPage()
	for _, want := range []string{".TH AGENTD 1", "agent create", "runs AI agents", "AGENTD_KEY", "admin tenant purge"} {
		if !strings.Contains(page, want) {
			t.Errorf("the manual lacks %q", want)
		}
	}
}
