package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// What the documents tell a newcomer to type is typed, in its order and word
// for word, and says what the documents say.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl", "sed"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("the documents use %s: %v", name, err)
		}
	}
	for _, tt := range []struct {
		name, file string
		sim        *modeltest.Server
		stdout     []string // in this order
		stderr     []string
	}{
		{
			name: "readme", file: "README.md",
			stdout: []string{"Created agent calc (", "The calculator answered: 42\n", "RUN  ", "What is 6*7?", `"name":"curly"`,
				`"chat.completion.chunk"`, `"content":"Hello"`, "data: [DONE]\n"},
			stderr: []string{"→ calculator", "← calculator 42"},
		},
		{
			name: "quickstart", file: "docs/quickstart.md",
			stdout: []string{"Created key another (", "Created agent sums (", "sums  builtin/echo  active", "answered: 1024\n", `"event":"run.queued"`, `"output":{"text":"`,
				"What is 17*3?", `"max_duration_ms":60000`, "event: run.queued\n", "event: tool.call\n", "event: done\n", "data: [DONE]\n",
				"id: 6\n", "data: [DONE]\n", `"status":"completed"`, `"type":"tool"`, "The calculator answered: 42", "Created agent slow ("},
		},
		{
			name: "quickstart-slowly", file: "docs/quickstart.md",
			sim:    modeltest.New(t, modeltest.Respond(slow)),
			stdout: []string{"Created agent sums (", "sums  sim-model", "Created agent slow (", "tok0 tok1 ", "tok29", "Cancelled run ", "Status  cancelled"},
		},
		{
			name: "evaluations", file: "docs/evaluations.md", sim: modeltest.New(t, modeltest.Respond(clerk)),
			stdout: []string{"Created agent clerk (", "Created dataset sums.csv with 8 cases (", "exact 0. The answer differs", "0 of 8: 0.000", "not good enough yet",
				"+1.000  0.0078", "Variant 2 (version 2) passes 100.0 % more", "New runs are divided: 1=90, 2=10.", "SHARE", "2=100.", "8 of 8: 1.000"},
			stderr: []string{"--min-pass-rate asks for 0.900"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, m := newMachine(t).serve(tt.sim)
			p := m.start("sh -e -u -c '" + strings.ReplaceAll(script(t, tt.file), "'", `'\''`) + "'")
			code := p.wait()
			inOrder(t, "stdout", p.out.String(), tt.stdout)
			inOrder(t, "stderr", p.errs.String(), tt.stderr)
			if code != 0 || t.Failed() {
				t.Errorf("%s ends with %d:\n%s\n%s", tt.file, code, p.out.String(), p.errs.String())
			}
		})
	}
}

// clerk is a model that multiplies, and talks unless its prompt asks for the number
// alone.
func clerk(r modeltest.Request) modeltest.Answer {
	var a, b int
	if _, err := fmt.Sscanf(r.Chat().Last(model.User), "What is %d times %d?", &a, &b); err != nil {
		return modeltest.Answer{Text: "I only multiply."}
	}
	if strings.Contains(r.Chat().Last(model.System), "number alone") {
		return modeltest.Answer{Text: fmt.Sprint(a * b)}
	}
	return modeltest.Answer{Text: fmt.Sprintf("Gladly! That makes %d, I think.", a*b)}
}

// slow is a model that takes its time, and as long as it likes for the run that
// is cancelled.
func slow(r modeltest.Request) modeltest.Answer {
	answer := modeltest.Answer{Text: modeltest.Tokens(30), Delay: 20 * time.Millisecond}
	answer.HangFirst = r.Chat().Last(model.User) == "Hello"
	return answer
}

func inOrder(t *testing.T, stream, all string, texts []string) {
	t.Helper()
	rest := all
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Errorf("%q is missing on %s", text, stream)
			continue
		}
		rest = after
	}
}

// script returns the shell commands of a document, except for the start of the
// server and its output, which the test has.
func script(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	inside := false
	for line := range strings.Lines(string(text)) {
		switch fence, found := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case found:
			inside = fence == "sh"
		case !inside, strings.HasPrefix(line, "make "), strings.Contains(line, " make run"), strings.HasPrefix(line, "go run ./bench/"),
			strings.HasPrefix(line, "export AGENTD_"):
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}
