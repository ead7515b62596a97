package compat

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// The official clients, unchanged, do against agentd what they do against their
// own services. `make test-clients` installs them where
// AGENTD_TEST_CLIENTS says; without it the test is skipped.
func TestOfficialClients(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("AGENTD_TEST_CLIENTS")
	if dir == "" {
		t.Skip("AGENTD_TEST_CLIENTS names no directory with the clients; make test-clients does")
	}
	tests := filepath.Join(dir, "tests")
	if err := os.RemoveAll(tests); err != nil {
		t.Fatal(err)
	}
	// Modules are looked for beside and above the file that wants them.
	for _, from := range []string{"../../../test/clients", "../../../docs/examples/clients"} {
		if err := os.CopyFS(filepath.Join(tests, filepath.Base(filepath.Dir(from))), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(tests, "*", "*.test.mjs"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(obliging)), apptest.Embedding, func(c *config.Config) { c.Models.Model = "sim-model" })
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--test"}, files...)...)
	cmd.Env = append(os.Environ(), "AGENTD_URL="+n.URL, "AGENTD_KEY="+n.Key, "AGENT="+n.CreateAgent(object{"name": "helper"}),
		"CAREFUL="+n.CreateAgent(object{"name": "careful", "built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}}),
		"EXAMPLES="+filepath.Join(tests, "examples"), "LANGCHAIN_TRACING_V2=false")
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(string(version), "v18.") { // LangChain wants what later ones have unasked
		cmd.Env = append(cmd.Env, "NODE_OPTIONS=--experimental-global-webcrypto")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}

	// The example in Go, which needs nothing else.
	goClient := exec.CommandContext(t.Context(), "go", "run", "../../../docs/examples/goclient")
	goClient.Env = cmd.Env
	out, err := goClient.Output()
	const greeting = "Hello from the model.\n"
	if want := greeting + greeting + "It is sunny in Bern.\n" + greeting; err != nil || string(out) != want {
		t.Errorf("the example in Go prints %q: %v", out, err)
	}
}

// obliging is a model that does what the clients' tests expect, by rule: it
// calls the tool that it must call, or once the one that it may; it fills in
// the schema that it is given; it says what a tool told it; else it greets.
func obliging(r modeltest.Request) modeltest.Answer {
	c := r.Chat()
	var rest struct {
		Format struct {
			Type string `json:"type"`
		} `json:"response_format"`
		Choice any `json:"tool_choice"`
	}
	_ = json.Unmarshal(r.Body, &rest)
	usage := &model.Usage{InputTokens: 12, OutputTokens: 7}
	say := func(text string) modeltest.Answer { return modeltest.Answer{Text: text, Usage: usage} }
	const city = `{"city":"Bern","degrees":21}`
	last := c.Messages[len(c.Messages)-1]
	switch {
	case strings.Contains(string(last.Content), "image_url"):
		return say("It is a picture.")
	case strings.Contains(last.Text(), "fail"):
		return modeltest.Answer{Status: 400, Error: "this model does not like that"}
	case last.Role == "tool":
		return say("It is " + last.Text() + ".")
	case strings.HasSuffix(last.Text(), "Set the city to Bern."):
		patch := `{"patch":[{"op":"replace","path":"/city","value":"Bern"}]}`
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "state_1", Name: "set_state", Arguments: patch}}, Usage: usage}
	case strings.HasSuffix(last.Text(), "Reckon."):
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "sum_1", Name: "calculator", Arguments: `{"expression":"6*7"}`}}, Usage: usage}
	case rest.Format.Type == "json_schema" || rest.Format.Type == "json_object":
		return say(city)
	case len(c.Tools) > 0 && rest.Choice != "none":
		name := c.Tools[0].Function.Name
		if named, ok := rest.Choice.(object); ok {
			name = named["function"].(object)["name"].(string)
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: name, Arguments: city}}, Usage: usage}
	}
	return say("Hello from the model.")
}

// The pages show the examples as they are run.
func TestPagesShowTheClients(t *testing.T) {
	t.Parallel()
	var pages []byte
	list, err := filepath.Glob("../../../docs/clients/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range list {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, text...)
	}
	for pattern, language := range map[string]string{"clients/*.mjs": "js", "goclient/main.go": "go"} {
		files, err := filepath.Glob(filepath.Join("../../../docs/examples", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d examples: %v", len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(pages, []byte("```"+language+"\n"+string(text)+"```\n")) {
				t.Errorf("no page of docs/clients shows %s as it is", file)
			}
		}
	}
}

// The commands of the page for curl, one after the other.
func TestCurl(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	page, err := os.ReadFile("../../../docs/clients/curl.md")
	if err != nil {
		t.Fatal(err)
	}
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(obliging)), apptest.Embedding)
	agent := n.CreateAgent(nil)
	commands := 0
	for block := range strings.SplitSeq(string(page), "```sh\n") {
		block, _, isBlock := strings.Cut(block, "```")
		if !isBlock {
			continue
		}
		for command := range strings.SplitSeq(block, "\n\n") {
			commands++
			if name, _, sets := strings.Cut(command, "=$("); sets { // an assignment prints nothing
				command += "\necho \"{$" + name + "}\" | grep -x '{default/sim-model}'"
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-euc", strings.Replace(command, "curl -s", "curl --fail-with-body -s", 1))
			cmd.Env = append(os.Environ(), "AGENTD_URL="+n.URL, "AGENTD_KEY="+n.Key, "AGENT="+agent, "MODEL=default/sim-model")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "{") {
				t.Errorf("%v: %s\n%s", err, command, out)
			}
		}
	}
	if commands != 10 {
		t.Errorf("%d commands", commands)
	}
}
