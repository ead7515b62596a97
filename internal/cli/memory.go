package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/text"
	"agentd/internal/client"
)

// memoryEntry is what is shown of an entry of an agent's memory.
type memoryEntry struct {
	EntryID   string    `json:"entry_id"`
	Type      string    `json:"type"`
	Content   string    `json:"content"`
	Tags      []string  `json:"tags"`
	About     string    `json:"entity_name"`
	Score     float64   `json:"score"`
	CreatedAt time.Time `json:"created_at"`
}

func (s *server) memoryPath(agent string) (string, error) {
	id, err := s.agentID(agent)
	return client.Path(client.AgentsPath, id, "memory"), err
}

type memoryListCommand struct {
	listing
	agentArgument
}

// Run implements the command.
func (cmd *memoryListCommand) Run(s *server) error {
	path, err := s.memoryPath(cmd.Agent)
	if err != nil {
		return err
	}
	return list[memoryEntry]{
		path: path, limit: cmd.Limit,
		empty:   "The agent remembers nothing. Add an entry:  " + s.deps.Program + " memory add " + quote(cmd.Agent) + " TEXT",
		heading: []string{"ENTRY", "TYPE", "CREATED", "~ABOUT", "~CONTENT"},
		row: func(e memoryEntry) []string {
			return []string{e.EntryID, e.Type, formatTime(s.now(), e.CreatedAt), e.About, text.Truncate(oneLine(e.Content), 100)}
		},
	}.show(s)
}

type memoryAddCommand struct {
	remote
	agentArgument
	Text  []string `arg:"" optional:"" help:"What to remember; - is the standard input."`
	File  string   `placeholder:"FILE" help:"File with the text; - is the standard input."`
	Type  string   `default:"note" enum:"episodic,semantic,procedural,note" placeholder:"TYPE" help:"Kind of entry: ${enum}."`
	Tag   []string `placeholder:"TAG" help:"Tags; several by commas or by repeating the flag."`
	About string   `placeholder:"NAME" help:"Person or thing that it is about."`
}

// Run implements the command.
func (cmd *memoryAddCommand) Run(s *server) error {
	content, err := s.text("<text>", cmd.Text, cmd.File)
	if err != nil {
		return err
	}
	path, err := s.memoryPath(cmd.Agent)
	if err != nil {
		return err
	}
	body := map[string]any{"content": content, "type": cmd.Type}
	if cmd.Tag != nil {
		body["tags"] = cmd.Tag
	}
	if cmd.About != "" {
		body["entity_name"] = cmd.About
	}
	made, err := call[memoryEntry](s, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	s.say("Added entry %s.", made.Value.EntryID)
	return nil
}

type memorySearchCommand struct {
	listing
	agentArgument
	Query []string `arg:"" help:"What to look for."`
}

// Run implements the command.
func (cmd *memorySearchCommand) Run(s *server) error {
	path, err := s.memoryPath(cmd.Agent)
	if err != nil {
		return err
	}
	var found struct {
		Memories []client.Doc[memoryEntry] `json:"memories"`
	}
	body := map[string]any{"text": strings.Join(cmd.Query, " ")}
	if cmd.Limit > 0 {
		body["limit"] = cmd.Limit
	}
	if err := s.Do(s, http.MethodPost, path+"/search", body, &found); err != nil {
		return err
	}
	return printFound(s, found.Memories, []string{"SCORE", "ENTRY", "TYPE", "~CONTENT"}, func(e memoryEntry) []string {
		return []string{fmt.Sprintf("%.2f", e.Score), e.EntryID, e.Type, text.Truncate(oneLine(e.Content), 100)}
	})
}

// printFound prints what a search found.
func printFound[T any](s *server, found []client.Doc[T], heading []string, row func(T) []string) error {
	if s.json {
		raw := make([]jsontext.Value, len(found))
		for i, d := range found {
			raw[i] = d.Raw
		}
		return s.printAny(items[jsontext.Value]{Items: raw})
	}
	if len(found) == 0 {
		s.note("Nothing was found.")
		return nil
	}
	rows := make([][]string, len(found))
	for i, d := range found {
		rows[i] = row(d.Value)
	}
	return s.table(heading, rows)
}

type memoryDeleteCommand struct {
	remote
	agentArgument
	Entry string `arg:"" help:"Id of the entry, as memory list shows it."`
}

// Run implements the command.
func (cmd *memoryDeleteCommand) Run(s *server) error {
	path, err := s.memoryPath(cmd.Agent)
	if err != nil {
		return err
	}
	return s.send(http.MethodDelete, client.Path(path, cmd.Entry), nil, "Deleted entry %s.", cmd.Entry)
}
