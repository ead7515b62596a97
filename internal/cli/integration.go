package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

const integrationsPath = "/api/v1/integrations"

// connection is what is shown of an integration.
type connection struct {
	ID           string         `json:"id"`
	ConnectorID  string         `json:"connector_id"`
	Name         string         `json:"name"`
	Status       string         `json:"status"`
	Config       jsontext.Value `json:"config"`
	ConnectError string         `json:"connect_error"`
	Agents       []string       `json:"assigned_agent_ids"`
	Tools        int            `json:"tool_count"`
}

// show prints an integration.
func (c *connection) show(s *server) {
	agents := make([]string, len(c.Agents))
	for i, id := range c.Agents {
		agents[i] = s.agentName(id)
	}
	s.fields("Integration", c.ID, "Name", c.Name, "Connector", c.ConnectorID, "Status", c.Status, "Tools", strconv.Itoa(c.Tools),
		"Agents", strings.Join(agents, ", "), "Config", string(c.Config), "Problem", c.ConnectError)
}

type integrationConnectorsCommand struct{ listing }

// Run implements the command.
func (cmd *integrationConnectorsCommand) Run(s *server) error {
	type connector struct {
		ID          string           `json:"id"`
		Name        string           `json:"name"`
		AuthType    string           `json:"auth_type"`
		Description string           `json:"description"`
		Tools       []jsontext.Value `json:"tools"`
	}
	return list[connector]{
		path: integrationsPath + "/catalog", limit: cmd.Limit, empty: "The operator switched all connectors off.",
		heading: []string{"CONNECTOR", "NAME", "AUTH", "TOOLS", "~DESCRIPTION"},
		row: func(c connector) []string {
			return []string{c.ID, c.Name, c.AuthType, strconv.Itoa(len(c.Tools)), c.Description}
		},
	}.show(s)
}

type integrationListCommand struct{ listing }

// Run implements the command.
func (cmd *integrationListCommand) Run(s *server) error {
	return list[connection]{
		path: integrationsPath, limit: cmd.Limit,
		empty:   "There are no integrations. Make one:  " + s.deps.Program + " integration create CONNECTOR NAME --agent AGENT",
		heading: []string{"~NAME", "CONNECTOR", "STATUS", "TOOLS", "AGENTS", "INTEGRATION"},
		row: func(c connection) []string {
			return []string{c.Name, c.ConnectorID, c.Status, strconv.Itoa(c.Tools), strconv.Itoa(len(c.Agents)), c.ID}
		},
	}.show(s)
}

// configFlags are the settings of an integration.
type configFlags struct {
	Set  map[string]string `placeholder:"NAME=VALUE" help:"A setting of the connector; several by repeating the flag. Lists and objects are JSON."`
	File map[string]string `placeholder:"NAME=FILE" help:"A setting that is read from a file, as a secret or an OpenAPI document; - is the standard input."`
}

// config returns the settings as the API takes them.
func (f *configFlags) config(s *server) (map[string]any, error) {
	all := map[string]any{}
	for name, text := range f.Set {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			value = text // no JSON: a text
		}
		if _, number := value.(float64); number && name != "port" {
			value = text // a token of digits is a text
		}
		all[name] = value
	}
	for name, file := range f.File {
		text, err := s.readFile(file)
		if err != nil {
			return nil, err
		}
		all[name] = strings.TrimRight(string(text), "\r\n")
	}
	return all, nil
}

type integrationCreateCommand struct {
	remote
	configFlags
	Connector string `arg:"" help:"Connector, as integration connectors lists it."`
	Name      string `arg:"" help:"Name of the integration."`
	Agent     string `placeholder:"AGENT" help:"Agent that gets its tools, by its id or its exact name."`
}

// Run implements the command.
func (cmd *integrationCreateCommand) Run(s *server) error {
	config, err := cmd.config(s)
	if err != nil {
		return err
	}
	body := map[string]any{"connector_id": cmd.Connector, "name": cmd.Name, "config": config}
	if cmd.Agent != "" {
		if body["agent_id"], err = s.agentID(cmd.Agent); err != nil {
			return err
		}
	}
	made, err := call[connection](s, http.MethodPost, integrationsPath, body)
	return s.shownConnection(made, err)
}

func (s *server) shownConnection(c client.Doc[connection], err error) error {
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(c.Raw)
	}
	c.Value.show(s)
	return nil
}

// integrationArgument is what every command has that takes an integration.
type integrationArgument struct {
	Integration string `arg:"" help:"Integration, by its id or its exact name."`
}

// path returns the path of the integration in the API, or of what is below it.
func (a integrationArgument) path(s *server, below ...string) (string, error) {
	return lookup[connection]{
		path: integrationsPath, noun: "integration", list: "integration list",
		key: func(one connection) (id, name string) { return one.ID, one.Name },
	}.find(s, a.Integration, below...)
}

type integrationShowCommand struct {
	remote
	integrationArgument
}

// Run implements the command.
func (cmd *integrationShowCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	c, err := get[connection](s, path)
	return s.shownConnection(c, err)
}

type integrationSetCommand struct {
	remote
	integrationArgument
	configFlags
}

// Run implements the command.
func (cmd *integrationSetCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	config, err := cmd.config(s)
	if err != nil {
		return err
	}
	c, err := call[connection](s, http.MethodPatch, path, map[string]any{"config": config})
	return s.shownConnection(c, err)
}

type integrationToolsCommand struct {
	listing
	integrationArgument
}

// Run implements the command.
func (cmd *integrationToolsCommand) Run(s *server) error {
	path, err := cmd.path(s, "tools")
	if err != nil {
		return err
	}
	type operation struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		ReadOnly    bool   `json:"read_only"`
	}
	return list[operation]{
		path: path, limit: cmd.Limit, empty: "It offers no tools yet.",
		heading: []string{"TOOL", "READ-ONLY", "~DESCRIPTION"},
		row: func(o operation) []string {
			first, _, _ := strings.Cut(o.Description, "\n")
			return []string{o.Name, strconv.FormatBool(o.ReadOnly), first}
		},
	}.show(s)
}

type integrationTestCommand struct {
	remote
	integrationArgument
}

// Run implements the command.
func (cmd *integrationTestCommand) Run(s *server) error {
	path, err := cmd.path(s, "test")
	if err != nil {
		return err
	}
	type verdict struct {
		Success bool   `json:"success"`
		Message string `json:"message"`
	}
	v, err := call[verdict](s, http.MethodPost, path, nil)
	if err != nil {
		return err
	}
	if cmd.JSON {
		if err := s.printJSON(v.Raw); err != nil {
			return err
		}
	}
	if !v.Value.Success {
		return fmt.Errorf("the test failed: %s", v.Value.Message)
	}
	if !cmd.JSON {
		s.say("%s", v.Value.Message)
	}
	return nil
}

type integrationSyncCommand struct {
	remote
	integrationArgument
}

// Run implements the command.
func (cmd *integrationSyncCommand) Run(s *server) error {
	path, err := cmd.path(s, "sync")
	if err != nil {
		return err
	}
	c, err := call[connection](s, http.MethodPost, path, nil)
	return s.shownConnection(c, err)
}

type integrationLinkCommand struct {
	remote
	integrationArgument
	Agent  string `arg:"" help:"Agent, by its id or its exact name."`
	Remove bool   `help:"Unlink it instead."`
}

// Run implements the command.
func (cmd *integrationLinkCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	id := path[strings.LastIndexByte(path, '/')+1:]
	agent, err := s.agentID(cmd.Agent)
	if err != nil {
		return err
	}
	if !cmd.Remove {
		links := client.Path("/api/v1/agents", agent, "integrations")
		return s.send(http.MethodPost, links, map[string]any{"integration_id": id}, "Linked %s to %s.", cmd.Integration, cmd.Agent)
	}
	c, err := get[connection](s, path)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(c.Value.Agents, func(id string) bool { return id == agent })
	return s.send(http.MethodPatch, path, map[string]any{"assigned_agent_ids": kept}, "Unlinked %s from %s.", cmd.Integration, cmd.Agent)
}

type integrationConnectCommand struct {
	remote
	Provider  string `arg:"" help:"Provider that you authorize it at, as github or google."`
	Connector string `placeholder:"CONNECTOR" help:"Connector, where the provider has several."`
	Name      string `placeholder:"NAME" help:"Name of the integration. Default: that of the connector."`
	Agent     string `placeholder:"AGENT" help:"Agent that gets its tools, by its id or its exact name."`
}

// Run implements the command.
func (cmd *integrationConnectCommand) Run(s *server) error {
	body := map[string]any{"connector_id": cmd.Connector, "name": cmd.Name}
	if cmd.Agent != "" {
		var err error
		if body["agent_id"], err = s.agentID(cmd.Agent); err != nil {
			return err
		}
	}
	type start struct {
		URL string `json:"auth_url"`
	}
	begun, err := call[start](s, http.MethodPost, client.Path(integrationsPath, cmd.Provider, "oauth", "start"), body)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(begun.Raw)
	}
	s.say("%s", begun.Value.URL)
	s.note("Open it in a browser. The page that you come back to completes the connection, or has the command that does.")
	return nil
}

type integrationCompleteCommand struct {
	remote
	Provider string `arg:"" help:"Provider, as in integration connect."`
	State    string `required:"" placeholder:"TEXT" help:"State, as the page shows it."`
	Code     string `required:"" placeholder:"TEXT" help:"Code, as the page shows it."`
}

// Run implements the command.
func (cmd *integrationCompleteCommand) Run(s *server) error {
	path := client.Path(integrationsPath, cmd.Provider, "oauth", "complete")
	c, err := call[connection](s, http.MethodPost, path, map[string]any{"state": cmd.State, "code": cmd.Code})
	return s.shownConnection(c, err)
}

type integrationDeleteCommand struct {
	remote
	integrationArgument
}

// Run implements the command.
func (cmd *integrationDeleteCommand) Run(s *server) error {
	path, err := cmd.path(s)
	if err != nil {
		return err
	}
	return s.send(http.MethodDelete, path, nil, "Deleted integration %s with its credential.", cmd.Integration)
}
