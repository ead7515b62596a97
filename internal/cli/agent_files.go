package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/cli/agentfile"
	"agentd/internal/client"
)

type agentExportCommand struct {
	remote
	Agents []string `arg:"" optional:"" name:"agent" help:"Agents, by their ids or exact names. Left out: all."`
}

// Run implements the command.
func (cmd *agentExportCommand) Run(s *server) error {
	agents, err := cmd.read(s)
	if err != nil {
		return err
	}
	all := make([]map[string]jsontext.Value, len(agents))
	for i, agent := range agents {
		if all[i], err = agentfile.Export(agent.Raw); err != nil {
			return err
		}
	}
	if cmd.JSON {
		return s.printAny(items[map[string]jsontext.Value]{Items: all})
	}
	text, err := agentfile.Render(all...)
	if err != nil {
		return err
	}
	_, err = s.stdout.Write(text)
	return err
}

func (cmd *agentExportCommand) read(s *server) (agents []client.Doc[client.Agent], err error) {
	if len(cmd.Agents) == 0 {
		agents, _, err = list[client.Agent]{path: client.AgentsPath}.read(s)
		return agents, err
	}
	for _, meant := range cmd.Agents {
		agent, err := s.agent(meant)
		if err != nil {
			return nil, err
		}
		agents = append(agents, agent)
	}
	return agents, nil
}

type agentApplyCommand struct {
	remote
	File   []string `short:"f" required:"" placeholder:"FILE" help:"File with agents as YAML or JSON, also several; - is the standard input. Repeat the flag for more files."`
	DryRun bool     `help:"Only show what would change."`
	Yes    bool     `short:"y" help:"Do not ask."`
}

// change is what applying a file does to one agent.
type change struct {
	Name    string                    `json:"name"`
	AgentID string                    `json:"agent_id,omitzero"`
	Action  string                    `json:"action"` // create, update or none
	Fields  map[string]jsontext.Value `json:"fields,omitzero"`
	Diff    string                    `json:"-"`
}

// Run implements the command.
func (cmd *agentApplyCommand) Run(s *server) error {
	var files []agentfile.File
	for _, name := range cmd.File {
		raw, err := s.readFile(name)
		if err != nil {
			return err
		}
		more, err := agentfile.Parse(raw)
		if err != nil {
			return fmt.Errorf("--file %s: %w", name, err)
		}
		files = append(files, more...)
	}
	changes, err := s.plan(files)
	if err != nil {
		return err
	}
	pending := 0
	for _, c := range changes {
		if c.Action != "none" {
			pending++
			s.printDiff(c.Diff)
		}
	}
	if pending > 0 && !cmd.DryRun {
		if err := s.confirm(cmd.Yes, "Change %s?", plural(pending, "agent")); err != nil {
			return err
		}
		for i := range changes {
			if err := s.carryOut(&changes[i]); err != nil {
				return fmt.Errorf("agent %s: %w", changes[i].Name, err)
			}
		}
	}
	if cmd.JSON {
		return s.printAny(items[change]{Items: changes})
	}
	verbs := map[string]string{"create": "Created", "update": "Changed", "none": "Unchanged"}
	if cmd.DryRun {
		verbs = map[string]string{"create": "Would create", "update": "Would change", "none": "Unchanged"}
	}
	for _, c := range changes {
		s.say("%s agent %s%s.", verbs[c.Action], oneLine(c.Name), strings.TrimSuffix(" ("+c.AgentID+")", " ()"))
	}
	return nil
}

// plan compares files with the agents that there are.
func (s *server) plan(files []agentfile.File) ([]change, error) {
	byName := map[string][]client.Doc[client.Agent]{}
	byID := map[string]client.Doc[client.Agent]{}
	for a, err := range client.List[client.Agent](s, s.Client, client.AgentsPath, nil, 0) {
		if err != nil {
			return nil, err
		}
		byName[a.Value.Name] = append(byName[a.Value.Name], a)
		byID[a.Value.AgentID] = a
	}
	changes := make([]change, 0, len(files))
	for _, f := range files {
		same := byName[f.Name]
		if f.ID != "" {
			agent, ok := byID[f.ID]
			if !ok {
				return nil, fmt.Errorf("agent_id %s is no agent of this company; leave it out to create one", f.ID)
			}
			same = []client.Doc[client.Agent]{agent}
		}
		if len(same) > 1 {
			return nil, fmt.Errorf("%w\nWrite it into the file as agent_id", s.ambiguous(f.Name, same))
		}
		c, err := compare(f, same)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// compare returns what a file changes in the agent that there is, if any.
func compare(f agentfile.File, same []client.Doc[client.Agent]) (c change, err error) {
	if len(same) == 0 {
		c = change{Name: f.Name, Action: "create", Fields: f.Fields}
		c.Diff, err = agentfile.Diff(nil, f.Fields, "none", f.Name)
		return c, err
	}
	agent := same[0]
	c = change{Name: agent.Value.Name, AgentID: agent.Value.AgentID, Action: "none"}
	if c.Fields, err = f.Changes(agent.Raw); err != nil || len(c.Fields) == 0 {
		return c, err
	}
	c.Action = "update"
	before, err := agentfile.Export(agent.Raw)
	if err != nil {
		return c, err
	}
	c.Diff, err = agentfile.Diff(before, agentfile.Merged(before, c.Fields), c.Name+" on the server", c.Name+" in the file")
	return c, err
}

func (s *server) carryOut(c *change) error {
	switch c.Action {
	case "create":
		agent, err := call[client.Agent](s, http.MethodPost, client.AgentsPath, c.Fields)
		c.AgentID = agent.Value.AgentID
		return err
	case "update":
		return s.Do(s, http.MethodPatch, client.Path(client.AgentsPath, c.AgentID), c.Fields, nil)
	}
	return nil
}

// printDiff shows a diff to a person, beside the result.
func (inv *invocation) printDiff(diff string) {
	for line := range strings.Lines(clean(diff)) {
		color := ""
		switch line[0] {
		case '+':
			color = "\x1b[32m"
		case '-':
			color = "\x1b[31m"
		}
		if color != "" && inv.dim {
			line = color + strings.TrimSuffix(line, "\n") + "\x1b[0m\n"
		}
		fmt.Fprint(inv.stderr, line)
	}
}

type agentEditCommand struct {
	remote
	agentArgument
}

// Run implements the command.
func (cmd *agentEditCommand) Run(s *server) error {
	agent, err := s.agent(cmd.Agent)
	if err != nil {
		return err
	}
	before, err := agentfile.Export(agent.Raw)
	if err != nil {
		return err
	}
	text, err := agentfile.Render(before)
	if err != nil {
		return err
	}
	edited, path, err := s.edit(text)
	if err != nil {
		return err
	}
	c, err := edition(agent, before, edited)
	switch {
	case err != nil:
		return fmt.Errorf("%w\nYour text is kept; correct it and apply it:  %s agent apply -f %s", err, s.deps.Program, quote(path))
	case c.Action == "none":
		s.note("Nothing was changed.")
		return os.Remove(path)
	}
	if err := s.carryOut(&c); err != nil {
		return fmt.Errorf("%w\nYour text is kept; correct it and apply it:  %s agent apply -f %s", err, s.deps.Program, quote(path))
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	if cmd.JSON {
		return s.printAny(c)
	}
	s.printDiff(c.Diff)
	s.say("Changed agent %s (%s).", oneLine(c.Name), c.AgentID)
	return nil
}

// edition is the change that an edited text makes. A field that was taken out is
// set to what it is in a new agent.
func edition(agent client.Doc[client.Agent], before map[string]jsontext.Value, edited []byte) (change, error) {
	f, err := agentfile.ParseOne(edited)
	if err != nil {
		return change{}, err
	}
	for name, value := range before {
		if _, kept := f.Fields[name]; !kept {
			f.Fields[name] = agentfile.Empty(value)
		}
	}
	var name string
	if json.Unmarshal(f.Fields["name"], &name) != nil || name == "" {
		return change{}, errors.New("name was taken out, and an agent needs one")
	}
	return compare(f, []client.Doc[client.Agent]{agent})
}

// edit opens a text in the person's editor and returns what became of it, and
// the file.
func (inv *invocation) edit(text []byte) (edited []byte, path string, err error) {
	editor := ""
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if value, _ := inv.deps.LookupEnv(name); value != "" && editor == "" {
			editor = value
		}
	}
	if editor == "" {
		editor = "vi"
	}
	file, err := os.CreateTemp("", "agentd-*.yaml")
	if err != nil {
		return nil, "", err
	}
	path = file.Name()
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, path, err
	}
	// The variable may have arguments, as in: code --wait.
	words := append(strings.Fields(editor), path)
	editing := exec.CommandContext(inv, words[0], words[1:]...)
	editing.Stdin, editing.Stdout, editing.Stderr = inv.deps.Stdin, inv.deps.Stdout, inv.deps.Stderr
	if err := editing.Run(); err != nil {
		return nil, path, fmt.Errorf("the editor %s failed (%w); set EDITOR to one that is installed", words[0], err)
	}
	edited, err = inv.readFile(path)
	return edited, path, err
}
