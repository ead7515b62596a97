package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"agentd/internal/base/text"
	"agentd/internal/cli/agentfile"
	"agentd/internal/client"
)

// chatWord is what can be typed instead of a message.
type chatWord struct {
	name, arguments, help string
	run                   func(c *chat, rest string) error
}

func chatWords() []chatWord {
	return []chatWord{
		{"/help", "", "list these commands", func(c *chat, _ string) error { return c.help() }},
		{"/history", "", "show the conversation with its numbers", func(c *chat, _ string) error { return c.showHistory(c.session) }},
		{"/branch", "[N] [NAME]", "go on from entry N, or from here, on a branch of its own", (*chat).fork},
		{"/branches", "", "list the branches", func(c *chat, _ string) error { return c.branches() }},
		{"/switch", "BRANCH", "go to a branch, by its id or its name", (*chat).change},
		{"/model", "[MODEL]", "show the model, or use another one from now on; default: that of the agent", (*chat).model},
		{"/new", "", "begin a new session with the agent", func(c *chat, _ string) error { return c.again() }},
		{"/session", "", "show the session's id", func(c *chat, _ string) error { c.say("%s", c.session); return nil }},
		{"/exit", "", "end; the conversation is kept", func(*chat, string) error { return errLeave }},
	}
}

func (c *chat) command(name, rest string) error {
	if name == "/quit" {
		name = "/exit"
	}
	var names []string
	for _, known := range chatWords() {
		if known.name == name {
			if rest != "" && known.arguments == "" {
				return fmt.Errorf("%s takes nothing behind it; a message that begins with / is written with //", name)
			}
			return known.run(c, rest)
		}
		names = append(names, known.name)
	}
	if near := text.Nearest(name, names); near != "" {
		return fmt.Errorf("there is no command %s; did you mean %s? A message that begins with / is written with //", name, near)
	}
	return fmt.Errorf("there is no command %s; /help lists them. A message that begins with / is written with //", name)
}

func (c *chat) help() error {
	for _, known := range chatWords() {
		c.say("%-22s %s", strings.TrimSpace(known.name+" "+known.arguments), known.help)
	}
	c.say("%-22s %s", "//TEXT", "send a message that begins with /")
	return nil
}

// fork makes a branch and goes to it.
func (c *chat) fork(rest string) error {
	body := map[string]any{}
	number, name, _ := strings.Cut(rest, " ")
	if n, err := strconv.Atoi(number); err == nil {
		body["fork_point"] = n
	} else {
		name = rest
	}
	if name = strings.TrimSpace(name); name != "" {
		body["name"] = name
	}
	made, err := call[fork](c.server, http.MethodPost, client.Path(client.SessionsPath, c.session, "branch"), body)
	if err != nil {
		return err
	}
	return c.activate(made.Value)
}

func (c *chat) activate(b fork) error {
	path := client.Path(client.SessionsPath, c.session, "branches", b.BranchID, "activate")
	if err := c.Do(c, http.MethodPut, path, nil, nil); err != nil {
		return err
	}
	c.note("Now on branch %s (%s).", cmp.Or(b.Name, b.BranchID), b.BranchID)
	return nil
}

func (c *chat) branches() error {
	doc, err := get[session](c.server, client.Path(client.SessionsPath, c.session))
	if err != nil {
		return err
	}
	return c.showBranches(doc.Value)
}

// change goes to another branch.
func (c *chat) change(rest string) error {
	if rest == "" {
		return errors.New("/switch needs a branch, by its id or its name; /branches lists them")
	}
	doc, err := get[session](c.server, client.Path(client.SessionsPath, c.session))
	if err != nil {
		return err
	}
	for _, b := range doc.Value.Branches {
		if b.BranchID == rest || b.Name == rest {
			return c.activate(b)
		}
	}
	return fmt.Errorf("there is no branch %q; /branches lists them", rest)
}

// model shows or changes the model of the session.
func (c *chat) model(rest string) error {
	path := client.Path(client.SessionsPath, c.session)
	type override struct {
		Model *client.Model `json:"model_override"`
	}
	switch rest {
	case "":
		doc, err := get[override](c.server, path)
		if err != nil {
			return err
		}
		if m := doc.Value.Model; m != nil {
			c.say("%s, in this session", m.ModelRef)
			return nil
		}
		agent, err := get[client.Agent](c.server, client.Path(client.AgentsPath, c.agent))
		if err != nil {
			return err
		}
		c.say("%s, the agent's", agent.Value.Model.ModelRef)
		return nil
	case "default":
		if err := c.Do(c, http.MethodPut, path, map[string]any{"model_override": nil}, nil); err != nil {
			return err
		}
		c.note("From the next message on the agent's own model answers.")
		return nil
	}
	model := agentfile.ModelOf(rest)
	delete(model, "capabilities")
	if err := c.Do(c, http.MethodPut, path, map[string]any{"model_override": model}, nil); err != nil {
		return err
	}
	c.note("From the next message on %s answers.", rest)
	return nil
}

// again begins another session with the agent.
func (c *chat) again() error {
	if err := c.begin(); err != nil {
		return err
	}
	c.note("New session %s.", c.session)
	return nil
}
