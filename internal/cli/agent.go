package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/text"
	"agentd/internal/cli/agentfile"
	"agentd/internal/client"
)

type agentCreateCommand struct {
	remote
	Name        string   `placeholder:"NAME" help:"Name of the agent; needed unless the file has one."`
	Description string   `placeholder:"TEXT" help:"What the agent is for."`
	Model       string   `placeholder:"MODEL" help:"Model as PROVIDER/NAME, or NAME of the default provider. Left out: the server's."`
	System      *string  `xor:"system" placeholder:"PROMPT" help:"System prompt."`
	SystemFile  string   `xor:"system" placeholder:"FILE" help:"File with the system prompt; - is the standard input."`
	Tool        []string `placeholder:"TOOL" help:"Built-in tool, as calculator; several by commas or by repeating the flag."`
	File        string   `placeholder:"FILE" help:"YAML or JSON with any fields of an agent; the flags win over it. - is the standard input."`
	Replace     bool     `help:"Change the agent that has the name already, instead of refusing."`
	ID          bool     `help:"Print the agent's id and nothing else."`
}

// Validate implements a hook of kong.
func (cmd *agentCreateCommand) Validate() error {
	if cmd.ID && cmd.JSON {
		return usageError("--id and --json can't be used together")
	}
	return nil
}

// Run implements the command.
func (cmd *agentCreateCommand) Run(s *server) error {
	body, err := cmd.body(s.invocation)
	if err != nil {
		return err
	}
	var name string
	if err := json.Unmarshal(body["name"], &name); err != nil {
		return usageError("the agent needs a name: --name NAME")
	}
	same, err := s.agentsNamed(name)
	if err != nil {
		return err
	}
	var agent client.Doc[client.Agent]
	verb := "Created"
	switch {
	case len(same) > 0 && !cmd.Replace:
		return fmt.Errorf("there is an agent with the name %q already (%s); choose another --name, or change that one with --replace",
			name, same[0].Value.AgentID)
	case len(same) > 1:
		return s.ambiguous(name, same)
	case len(same) == 1:
		verb = "Replaced"
		agent, err = call[client.Agent](s, http.MethodPatch, client.Path(client.AgentsPath, same[0].Value.AgentID), body)
	default:
		agent, err = call[client.Agent](s, http.MethodPost, client.AgentsPath, body)
	}
	if err != nil {
		return err
	}
	switch {
	case cmd.JSON:
		return s.printJSON(agent.Raw)
	case cmd.ID:
		s.say("%s", agent.Value.AgentID)
		return nil
	}
	s.say("%s agent %s (%s).", verb, oneLine(agent.Value.Name), agent.Value.AgentID)
	s.note("Talk to it:  %s run %s \"Hello\"", s.deps.Program, quote(oneLine(agent.Value.Name)))
	return nil
}

// body is the file's object with the flags written over it.
func (cmd *agentCreateCommand) body(inv *invocation) (map[string]jsontext.Value, error) {
	body := map[string]jsontext.Value{}
	if cmd.File != "" {
		raw, err := inv.readFile(cmd.File)
		if err != nil {
			return nil, err
		}
		file, err := agentfile.ParseOne(raw)
		if err != nil {
			return nil, fmt.Errorf("--file %s: %w", cmd.File, err)
		}
		body = file.Fields
	}
	if cmd.SystemFile != "" {
		raw, err := inv.readFile(cmd.SystemFile)
		if err != nil {
			return nil, err
		}
		prompt := strings.TrimSpace(string(raw))
		cmd.System = &prompt
	}
	set := func(name string, value any) error {
		text, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("--%s is no UTF-8 text", name)
		}
		body[name] = text
		return nil
	}
	var err error
	if cmd.Name != "" {
		err = set("name", cmd.Name)
	}
	if cmd.Description != "" && err == nil {
		err = set("description", cmd.Description)
	}
	if cmd.Model != "" && err == nil {
		err = set("model", agentfile.ModelOf(cmd.Model))
	}
	if cmd.Tool != nil && err == nil {
		err = set("built_in_tools", cmd.Tool)
	}
	if cmd.System != nil && err == nil {
		prompts := map[string]any{}
		if given, ok := body["prompts"]; ok && json.Unmarshal(given, &prompts) != nil {
			return nil, fmt.Errorf("--file %s: prompts must be an object, as {system: …}", cmd.File)
		}
		prompts["system"] = *cmd.System
		err = set("prompts", prompts)
	}
	return body, err
}

type agentListCommand struct {
	listing
	Stats bool `help:"With runs and failures of 24 hours, the last run, and the cost of 30 days."`
}

// Run implements the command.
func (cmd *agentListCommand) Run(s *server) error {
	all := list[client.Agent]{
		path: client.AgentsPath, limit: cmd.Limit,
		empty:   "There are no agents yet. Make one:  " + s.deps.Program + " agent create --name NAME",
		heading: []string{"~NAME", "~MODEL", "STATUS", "CREATED", "ID"},
		row: func(a client.Agent) []string {
			return []string{text.Truncate(a.Name, 40), a.Model.ModelRef, a.Status, formatTime(s.now(), a.CreatedAt), a.AgentID}
		},
	}
	if cmd.Stats {
		all.query = query("include", "stats", "fields", "summary")
		all.heading = []string{"~NAME", "STATUS", "RUNS 24H", "FAILED 24H", "LAST RUN", "COST 30D", "ID"}
		all.row = func(a client.Agent) []string { return cmd.statsRow(s, a) }
	}
	return all.show(s)
}

func (*agentListCommand) statsRow(s *server, a client.Agent) []string {
	n := a.Stats
	count := func(n int64) string {
		if text := strconv.FormatInt(n, 10); n < client.MaxCount {
			return text
		}
		return "1000+"
	}
	last := "-"
	if n.LastRunAt != nil {
		last = formatTime(s.now(), *n.LastRunAt) + " " + n.LastStatus
	}
	return []string{
		text.Truncate(a.Name, 40), a.Status, count(n.Runs24h), count(n.Failures24h), last, formatUSD(n.Cost30d), a.AgentID,
	}
}

// agentArgument is what every command has that takes an agent.
type agentArgument struct {
	Agent string `arg:"" help:"Agent, by its id or its exact name."`
}

type agentShowCommand struct {
	remote
	agentArgument
}

// Run implements the command.
func (cmd *agentShowCommand) Run(s *server) error {
	agent, err := s.agent(cmd.Agent)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(agent.Raw)
	}
	a := agent.Value
	s.fields("Agent", a.AgentID, "Name", a.Name, "Description", a.Description, "Status", a.Status, "Model", a.Model.ModelRef,
		"Tools", strings.Join(a.Tools, ", "), "Version", a.Version,
		"Created", formatMoment(s.now(), a.CreatedAt), "Changed", formatMoment(s.now(), a.UpdatedAt))
	if a.Prompts.System != "" {
		s.say("\n%s", strings.TrimSpace(a.Prompts.System))
	}
	s.note("Everything that is configured:  %s agent export %s", s.deps.Program, quote(cmd.Agent))
	return nil
}

type agentDeleteCommand struct {
	remote
	agentArgument
	Yes bool `help:"Do not ask."`
}

// Run implements the command.
func (cmd *agentDeleteCommand) Run(s *server) error {
	agent, err := s.agent(cmd.Agent)
	if err != nil {
		return err
	}
	if err := s.confirm(cmd.Yes, "Delete agent %s (%s)?", agent.Value.Name, agent.Value.AgentID); err != nil {
		return err
	}
	return s.send(http.MethodDelete, client.Path(client.AgentsPath, agent.Value.AgentID), nil, "Deleted agent %s.", agent.Value.Name)
}

// agent reads the agent with an id or an exact name.
func (s *server) agent(name string) (client.Doc[client.Agent], error) {
	id, err := s.agentID(name)
	if err != nil {
		return client.Doc[client.Agent]{}, err
	}
	return get[client.Agent](s, client.Path(client.AgentsPath, id))
}

// agentID returns the id of the agent with an id or an exact name.
func (s *server) agentID(name string) (string, error) {
	if ident.Valid(name) {
		return name, nil
	}
	var names []string
	var same []client.Doc[client.Agent]
	for a, err := range client.List[client.Agent](s, s.Client, client.AgentsPath, nil, 0) {
		if err != nil {
			return "", err
		}
		names = append(names, a.Value.Name)
		if a.Value.Name == name {
			same = append(same, a)
		}
	}
	switch len(same) {
	case 1:
		return same[0].Value.AgentID, nil
	case 0:
		return "", fmt.Errorf("there is no agent with the name %q%s\nThey are listed by:  %s agent list",
			name, meant(name, names), s.deps.Program)
	}
	return "", s.ambiguous(name, same)
}

// agentsNamed returns the agents that have a name, newest first.
func (s *server) agentsNamed(name string) (same []client.Doc[client.Agent], err error) {
	for a, err := range client.List[client.Agent](s, s.Client, client.AgentsPath, nil, 0) {
		if err != nil {
			return nil, err
		}
		if a.Value.Name == name {
			same = append(same, a)
		}
	}
	return same, nil
}

func (s *server) ambiguous(name string, same []client.Doc[client.Agent]) error {
	ids := make([]string, len(same))
	for i, a := range same {
		ids[i] = a.Value.AgentID + "  created " + formatTime(s.now(), a.Value.CreatedAt)
	}
	return fmt.Errorf("%d agents have the name %q; say which by its id:\n  %s", len(ids), name, strings.Join(ids, "\n  "))
}

// agentName returns what an agent is called, or its id where it cannot be read.
func (s *server) agentName(id string) string {
	if s.names == nil {
		s.names = map[string]string{}
	}
	if _, known := s.names[id]; !known && id != "" {
		s.names[id] = id
		if agent, err := get[client.Agent](s, client.Path(client.AgentsPath, id)); err == nil {
			s.names[id] = agent.Value.Name
		}
	}
	return text.Truncate(s.names[id], 36)
}
