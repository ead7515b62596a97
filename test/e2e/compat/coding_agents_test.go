package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// Coding agents, unchanged, work on a file with a model or an agent of agentd,
// by the commands of their page. `make test-coding-agents` installs them where
// AGENTD_TEST_AGENTS says; without it the test is skipped.
func TestCodingAgents(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("AGENTD_TEST_AGENTS")
	if dir == "" {
		t.Skip("AGENTD_TEST_AGENTS names no directory with the agents; make test-coding-agents does")
	}
	page, err := os.ReadFile("../../../docs/clients/coding-agents.md")
	if err != nil {
		t.Fatal(err)
	}
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(coder)), func(c *config.Config) { c.Models.Model = "sim-model" })
	agent := n.CreateAgent(nil)
	tried := 0
	for section := range strings.SplitSeq(string(page), "\n## ") {
		name, rest, _ := strings.Cut(section, "\n")
		_, block, found := strings.Cut(rest, "```sh\n")
		block, _, _ = strings.Cut(block, "```")
		if !found {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, project := t.TempDir(), t.TempDir()
			env := append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_STATE_HOME="+home,
				"PATH="+filepath.Join(dir, "node_modules", ".bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
				"AGENTD_URL="+n.URL, "AGENTD_KEY="+n.Key, "AGENT="+agent, "MODEL=default/sim-model")
			run := func(script string) string {
				cmd := exec.CommandContext(t.Context(), "bash", "-euc", script)
				cmd.Dir, cmd.Env = project, env
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%v: %s\n%s", err, script, out)
				}
				return string(out)
			}
			run("git init --quiet")
			// Everything up to the first use of the agent sets it up.
			lines := strings.Split(strings.TrimSpace(block), "\n")
			first := len(lines) - 1
			for first > 0 && strings.Contains(lines[first-1], "hello.txt") {
				first--
			}
			setup := strings.Join(lines[:first], "\n")
			for _, use := range lines[first:] {
				out := run(setup + "\n" + use)
				text, err := os.ReadFile(filepath.Join(project, "hello.txt"))
				if err != nil || string(text) != madeByAgent || !strings.Contains(out, codersAnswer) {
					t.Errorf("%s\nmade %q (%v) and said:\n%s", use, text, err, out)
				}
				_ = os.Remove(filepath.Join(project, "hello.txt"))
			}
		})
	}
	if tried != 4 {
		t.Errorf("%d agents", tried)
	}
}

const (
	madeByAgent  = "made by the agent\n"
	codersAnswer = "The file is there now."
)

// coder is a model that has a file made with whatever tool runs commands, and
// says so when that was done.
func coder(r modeltest.Request) modeltest.Answer {
	c := r.Chat()
	const command = "echo made by the agent > hello.txt"
	shells := map[string]object{
		"Bash":         {"command": command, "description": "Makes the file"},
		"bash":         {"command": command, "description": "Makes the file"},
		"exec_command": {"cmd": command},
	}
	done := slices.ContainsFunc(c.Messages, func(m modeltest.ChatMessage) bool { return m.Role == string(model.Tool) })
	for _, tool := range c.Tools {
		if arguments := shells[tool.Function.Name]; arguments != nil && !done {
			call := model.ToolCall{ID: "call_1", Name: tool.Function.Name, Arguments: string(must(json.Marshal(arguments)))}
			return modeltest.Answer{Text: "I make the file. ", Thinking: "They want a file.", ToolCalls: []model.ToolCall{call}}
		}
	}
	return modeltest.Answer{Text: codersAnswer}
}
