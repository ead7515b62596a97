package commandline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
)

func TestAgentsAsFiles(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	file := filepath.Join(t.TempDir(), "agents.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`name: sums
built_in_tools: [calculator]
prompts:
  system: |
    You are good at sums.
    Be brief.
resource_limits: {max_steps: 10}
---
name: clock
built_in_tools: [current_time]
memory: {enabled: true}
metadata: {team: time}
`)
	apply := words("agent apply -f " + file)

	// Without a terminal nobody can be asked, and nothing is done unasked.
	s.run(2, apply, "+name: sums", "Change 2 agents? Nobody can be asked here: say --yes")
	s.run(0, append(apply, "--dry-run"), "+name: clock", "Would create agent sums.", "Would create agent clock.")
	s.run(0, words("agent list"), "There are no agents yet.")
	s.run(0, append(apply, "--yes"), "Created agent sums (", "Created agent clock (")
	s.run(0, append(apply, "--yes"), "Unchanged agent sums (", "Unchanged agent clock (")

	// What export writes is what apply reads, and what it says already holds.
	exported := s.run(0, words("agent export sums clock"))
	if !strings.Contains(exported, "  system: |\n    You are good at sums.\n    Be brief.\n") {
		t.Errorf("exported:\n%s", exported)
	}
	s.typing(exported).run(0, words("agent apply -f - --yes"), "Unchanged agent sums (", "Unchanged agent clock (")
	if again := s.run(0, words("agent export sums clock")); again != exported {
		t.Error(cmp.Diff(exported, again))
	}
	s.typing(`{"name": "third", "description": "in JSON"}`).run(0, words("agent apply -f - --yes"), "Created agent third (")
	s.run(0, words("agent apply --json --dry-run -f "+file), `"action": "none"`, `"has_more": false`)

	// A file changes what it names, and nothing else.
	write("name: clock\ndescription: Knows the time.\n")
	s.run(0, append(apply, "--yes"), "+description: Knows the time.", "Changed agent clock (")
	s.run(0, words("agent export clock"), "description: Knows the time.", "team: time", "enabled: true")

	for text, want := range map[string]string{
		"name: clock\ntools: [calculator]\n":          `unknown field "tools"; did you mean built_in_tools?`,
		"name: clock\nprompt: {system: x}\n":          "did you mean prompts?",
		"name: clock\nbuilt_in_tools: [hammer]\n":     "there are",
		"name: clock\nagent_id: nobody\n":             "agent_id nobody is no agent of this company",
		"name: clock\nresource_limits: {max_step: 1}": "did you mean max_steps?",
	} {
		s.typing(text).run(1, words("agent apply -f - --yes"), want)
	}
	s.run(1, words("agent apply --yes -f nowhere.yaml"), "nowhere.yaml")
}

func TestAgentsAreNamedOnce(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	s := newShell(t, n)
	s.run(0, words("agent create --name calc --tool calculator"), "Created agent calc (", `agentd run calc "Hello"`)
	s.run(1, words("agent create --name calc"), `there is an agent with the name "calc" already (`, "--replace")
	s.run(0, words("agent create --name calc --description new --replace"), "Replaced agent calc (")
	s.run(0, words("agent show calc"), "Description new", "Tools       calculator", "Version     2")
	s.run(1, words("agent show clac"), `there is no agent with the name "clac"; did you mean "calc"?`)

	// The API allows two of a name; the commands then ask for the id.
	n.Expect(201, "POST", "/api/v1/agents", apptest.Object{"name": "calc"})
	for _, line := range []string{"agent show calc", "run calc hi", "agent create --name calc --replace"} {
		s.run(1, words(line), `2 agents have the name "calc"; say which by its id:`, "created ")
	}
	s.typing("name: calc\ndescription: x\n").run(1, words("agent apply --yes -f -"), "2 agents have the name", "as agent_id")
}

func TestAgentVersions(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	s.run(0, words("agent create --name poet --system Rhyme."))
	s.run(0, words("agent diff poet"), "one version; there is nothing to compare")
	s.run(0, words("agent create --name poet --system Scan. --replace"))
	s.run(0, words("agent versions poet"), "VERSION", "2 ", "1 ")
	s.run(0, words("agent diff poet"), "--- version 1\n+++ version 2\n", "-  system: Rhyme.\n+  system: Scan.\n")
	s.run(0, words("agent diff poet 2 1"), "-  system: Scan.\n+  system: Rhyme.\n")
	s.run(0, words("agent diff poet --json"), `"changed_fields"`)
	s.run(1, words("agent diff poet 7 8"), "there is no version 7 of the agent; the newest is 2")
	s.run(0, words("agent rollback poet 1"), "Version 3 of the agent is version 1 again.")
	s.run(0, words("agent export poet"), "system: Rhyme.")
	s.run(2, words("agent delete poet"), "Delete agent poet (", "say --yes")
	s.run(0, words("agent delete poet --yes"), "Deleted agent poet.")
	s.run(1, words("agent show poet"), "there is no agent")
}

func TestAgentEdit(t *testing.T) {
	t.Parallel()
	s := newShell(t, apptest.Start(t, nil))
	s.run(0, words("agent create --name poet --description d --tool calculator --system Rhyme."))
	editor := func(script string) shell { return s.with("EDITOR", "sed -i "+script) }
	editor("s/Rhyme/Scan/").run(0, words("agent edit poet"), "-  system: Rhyme.", "+  system: Scan.", "Changed agent poet (")
	editor("s/x/x/").run(0, words("agent edit poet"), "Nothing was changed.")
	editor("/description/d").run(0, words("agent edit poet"), "-description: d")
	editor("/built_in_tools/d").run(0, words("agent edit poet"), "-built_in_tools: [calculator]")
	editor("/prompts/d;/system/d").run(0, words("agent edit poet"), "-prompts:")
	if got := s.run(0, words("agent export poet")); strings.Contains(got, "description") || strings.Contains(got, "Scan") {
		t.Errorf("what was taken out is still there:\n%s", got)
	}
	editor("s/^name/nme/").run(1, words("agent edit poet"), "did you mean name?", "Your text is kept", "agent apply -f ")
	s.with("EDITOR", "no-such-editor").run(1, words("agent edit poet"), "the editor no-such-editor failed", "set EDITOR")
}
