package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/base/text"
	"agentd/internal/client"
)

type agentCreateCommand struct {
	Server      config.Client `embed:"" group:"Server"`
	Name        string        `placeholder:"NAME" help:"Name of the agent; needed unless the file has one."`
	Description string        `placeholder:"TEXT" help:"What the agent is for."`
	Model       string        `placeholder:"MODEL" help:"Model as PROVIDER/NAME, or NAME of the default provider. Default: the server's."`
	System      *string       `xor:"system" placeholder:"PROMPT" help:"System prompt."`
	SystemFile  string        `xor:"system" placeholder:"FILE" help:"File with the system prompt."`
	Tool        []string      `placeholder:"TOOL" help:"Built-in tool, as calculator; several by commas or by repeating the flag."`
	File        string        `placeholder:"FILE" help:"JSON file with any fields of an agent; the flags win over it."`
	ID          bool          `xor:"print" help:"Print the agent's id and nothing else."`
	JSON        bool          `xor:"print" help:"Print the agent as JSON."`
}

// Run implements the command.
func (cmd *agentCreateCommand) Run(inv *invocation) error {
	body, err := cmd.body()
	if err != nil {
		return err
	}
	c, err := inv.connect(cmd.Server)
	if err != nil {
		return err
	}
	agent, err := c.CreateAgent(inv, body)
	if err != nil {
		return err
	}
	switch {
	case cmd.JSON:
		return inv.printJSON(agent.Raw)
	case cmd.ID:
		_, err := fmt.Fprintln(inv.stdout, agent.Value.AgentID)
		return err
	}
	fmt.Fprintf(inv.stdout, "Created agent %s (%s).\n", oneLine(agent.Value.Name), agent.Value.AgentID)
	inv.note("Talk to it:  %s run %s \"Hello\"", inv.deps.Program, quote(oneLine(agent.Value.Name)))
	return nil
}

// body is the file's object with the flags written over it.
func (cmd *agentCreateCommand) body() (map[string]jsontext.Value, error) {
	body := map[string]jsontext.Value{}
	if cmd.File != "" {
		text, err := os.ReadFile(cmd.File)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &body); err != nil {
			return nil, fmt.Errorf("%s must hold one JSON object: %w", cmd.File, err)
		}
	}
	set := func(name string, value any) {
		text, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			panic(err) // strings, and lists and maps of them
		}
		body[name] = text
	}
	if cmd.Name != "" {
		set("name", cmd.Name)
	}
	if cmd.Description != "" {
		set("description", cmd.Description)
	}
	if cmd.Model != "" {
		provider := "openai_compat"
		if strings.HasPrefix(cmd.Model, "builtin/") {
			provider = "custom"
		}
		set("model", map[string]any{"provider": provider, "model_ref": cmd.Model, "capabilities": map[string]any{}})
	}
	if cmd.SystemFile != "" {
		text, err := os.ReadFile(cmd.SystemFile)
		if err != nil {
			return nil, err
		}
		prompt := strings.TrimSpace(string(text))
		cmd.System = &prompt
	}
	if cmd.System != nil {
		prompts := map[string]jsontext.Value{}
		if given, ok := body["prompts"]; ok {
			if err := json.Unmarshal(given, &prompts); err != nil {
				return nil, fmt.Errorf("prompts in %s must be an object: %w", cmd.File, err)
			}
		}
		text, err := jsontext.AppendQuote(nil, *cmd.System)
		if err != nil {
			return nil, fmt.Errorf("the system prompt is no UTF-8 text: %w", err)
		}
		prompts["system"] = text
		set("prompts", prompts)
	}
	if cmd.Tool != nil {
		set("built_in_tools", cmd.Tool)
	}
	if _, ok := body["name"]; !ok {
		return nil, fmt.Errorf("the agent needs a name: --name NAME")
	}
	return body, nil
}

type agentListCommand struct {
	Server config.Client `embed:"" group:"Server"`
	JSON   bool          `help:"Print the agents as a JSON array."`
}

// Run implements the command.
func (cmd *agentListCommand) Run(inv *invocation) error {
	c, err := inv.connect(cmd.Server)
	if err != nil {
		return err
	}
	agents := []jsontext.Value{}
	var rows [][]string
	for a, err := range c.Agents(inv) {
		if err != nil {
			return err
		}
		agents = append(agents, a.Raw)
		rows = append(rows, []string{text.Truncate(a.Value.Name, 40), a.Value.Model.ModelRef, a.Value.Status,
			formatTime(inv.now(), a.Value.CreatedAt), a.Value.AgentID})
	}
	if cmd.JSON {
		return inv.printArray(agents)
	}
	if len(rows) == 0 {
		inv.note("There are no agents yet. Make one:  %s agent create --name NAME", inv.deps.Program)
		return nil
	}
	return inv.table([]string{"NAME", "MODEL", "STATUS", "CREATED", "ID"}, rows)
}

// findAgent returns the id of the agent with the given id or exact name.
func (inv *invocation) findAgent(c *client.Client, meant string) (string, error) {
	if ident.Valid(meant) {
		return meant, nil
	}
	var ids []string
	for a, err := range c.Agents(inv) {
		if err != nil {
			return "", err
		}
		if a.Value.Name == meant {
			ids = append(ids, a.Value.AgentID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("there is no agent with the name %q; they are listed by:  %s agent list", meant, inv.deps.Program)
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%d agents have the name %q; say which by its id:\n  %s", len(ids), meant, strings.Join(ids, "\n  "))
}

// quote writes a word so that a shell reads it as one.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
