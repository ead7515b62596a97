package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

// session is what is shown of a session.
type session struct {
	SessionID    string         `json:"session_id"`
	AgentID      string         `json:"agent_id"`
	Status       string         `json:"status"`
	FirstMessage jsontext.Value `json:"first_user_message"`
	MessageCount int            `json:"message_count"`
	ActiveBranch string         `json:"active_branch"`
	Branches     []fork         `json:"branches"`
	Runs         []string       `json:"runs"`
	CreatedAt    time.Time      `json:"created_at"`
	ExpiresAt    time.Time      `json:"expires_at"`
}

// fork is a branch of a session.
type fork struct {
	BranchID string   `json:"branch_id"`
	Name     string   `json:"name"`
	Parent   string   `json:"parent_branch_id"`
	Status   string   `json:"status"`
	Runs     []string `json:"runs"`
}

// message is an entry of a session's history.
type message struct {
	MessageID string         `json:"message_id"`
	RunID     string         `json:"run_id"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Timestamp time.Time      `json:"timestamp"`
	ToolCalls []struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"tool_calls"`
}

type sessionsListCommand struct {
	listing
	Agent string `placeholder:"AGENT" help:"Only sessions with this agent, by its id or its exact name."`
}

// Run implements the command.
func (cmd *sessionsListCommand) Run(s *server) (err error) {
	agentID := ""
	if cmd.Agent != "" {
		if agentID, err = s.agentID(cmd.Agent); err != nil {
			return err
		}
	}
	return list[session]{
		path: client.SessionsPath, query: query("agent_id", agentID), limit: cmd.Limit,
		empty:   "There are no such sessions. Start one:  " + s.deps.Program + " chat AGENT",
		heading: []string{"SESSION", "~AGENT", "STATUS", "CREATED", "MESSAGES", "~FIRST MESSAGE"},
		row: func(e session) []string {
			return []string{e.SessionID, s.agentName(e.AgentID), e.Status, formatTime(s.now(), e.CreatedAt), strconv.Itoa(e.MessageCount),
				brief(e.FirstMessage)}
		},
	}.show(s)
}

// sessionArgument is what every command has that takes a session.
type sessionArgument struct {
	ID string `arg:"" name:"session" help:"Id of the session."`
}

type sessionsShowCommand struct {
	remote
	sessionArgument
}

// Run implements the command.
func (cmd *sessionsShowCommand) Run(s *server) error {
	doc, err := get[session](s, client.Path(client.SessionsPath, cmd.ID))
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(doc.Raw)
	}
	e := doc.Value
	s.fields("Session", e.SessionID, "Agent", s.agentName(e.AgentID), "Status", e.Status, "Runs", strconv.Itoa(len(e.Runs)),
		"Created", formatMoment(s.now(), e.CreatedAt), "Expires", formatMoment(s.now(), e.ExpiresAt))
	s.note("Continue it:  %s chat --session %s", s.deps.Program, e.SessionID)
	fmt.Fprintln(s.stdout)
	return s.showBranches(e)
}

func (s *server) showBranches(e session) error {
	var rows [][]string
	for _, b := range e.Branches {
		mark := ""
		if b.BranchID == e.ActiveBranch {
			mark = "active"
		}
		rows = append(rows, []string{b.BranchID, b.Name, mark, strconv.Itoa(len(b.Runs))})
	}
	return s.table([]string{"BRANCH", "~NAME", "", "RUNS"}, rows)
}

type sessionsMessagesCommand struct {
	remote
	sessionArgument
}

// Run implements the command.
func (cmd *sessionsMessagesCommand) Run(s *server) error {
	if cmd.JSON {
		docs, err := s.history(cmd.ID)
		if err != nil {
			return err
		}
		raw := make([]jsontext.Value, len(docs))
		for i, d := range docs {
			raw[i] = d.Raw
		}
		return s.printAny(items[jsontext.Value]{Items: raw})
	}
	return s.showHistory(cmd.ID)
}

// history reads the messages of the active branch, oldest first.
func (s *server) history(sessionID string) ([]client.Doc[message], error) {
	var page struct {
		Items    []client.Doc[message] `json:"items"`
		Messages []client.Doc[message] `json:"messages"`
	}
	err := s.Do(s, http.MethodGet, client.Path(client.SessionsPath, sessionID, "messages"), nil, &page)
	if page.Items == nil {
		page.Items = page.Messages
	}
	return page.Items, err
}

func (s *server) showHistory(sessionID string) error {
	docs, err := s.history(sessionID)
	if err != nil {
		return err
	}
	if len(docs) == 0 {
		s.note("Nothing was said yet.")
	}
	for i, doc := range docs {
		m := doc.Value
		s.say("%d  %s, %s", i, m.Role, formatTime(s.now(), m.Timestamp))
		if said := strings.TrimSpace(content(m.Content)); said != "" || len(m.ToolCalls) == 0 {
			s.say("   %s", strings.ReplaceAll(said, "\n", "\n   "))
		}
		for _, call := range m.ToolCalls {
			s.say("   → %s %s", oneLine(call.Name), oneLine(call.Input))
		}
	}
	return nil
}

// content is a message's text, or its JSON where it has none.
func content(v jsontext.Value) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

type sessionsDeleteCommand struct {
	remote
	sessionArgument
}

// Run implements the command.
func (cmd *sessionsDeleteCommand) Run(s *server) error {
	return s.send(http.MethodDelete, client.Path(client.SessionsPath, cmd.ID), nil,
		"Closed session %s; it can still be read.", cmd.ID)
}
