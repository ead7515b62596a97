package session

import (
	"context"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
)

// Shared is a conversation as a public link shows it: its messages, and only
// names and outcomes of everything else.
type Shared struct {
	_ struct{} `json:"-" name:"SharedSession"`

	SessionID string           `json:"session_id" required:"true"`
	AgentName string           `json:"agent_name" required:"true"`
	Role      string           `json:"role" enum:"viewer,editor" required:"true"`
	Status    Status           `json:"status" required:"true"`
	CreatedAt time.Time        `json:"created_at" required:"true"`
	UpdatedAt time.Time        `json:"updated_at" required:"true"`
	Messages  []SharedMessage  `json:"messages" required:"true" doc:"The newest 500, oldest first."`
	Truncated bool             `json:"messages_truncated,omitzero" doc:"There are older messages."`
	Todos     []SharedTodo     `json:"todos" required:"true"`
	Runs      []SharedRun      `json:"runs" required:"true" doc:"The last 20."`
	Artifacts []SharedArtifact `json:"artifacts" required:"true"`
}

type (
	// SharedMessage is a message of a shared conversation.
	SharedMessage struct {
		Role      string    `json:"role" required:"true"`
		Content   string    `json:"content" required:"true"`
		Timestamp time.Time `json:"timestamp"`
	}
	// SharedTodo is the summary of a todo.
	SharedTodo struct {
		Title  string     `json:"title"`
		Status TodoStatus `json:"status"`
	}
	// SharedRun is the summary of a run.
	SharedRun struct {
		Status     run.Status       `json:"status"`
		DurationMS float64          `json:"duration_ms"`
		Tools      []SharedToolCall `json:"tools"`
	}
	// SharedToolCall is the summary of a tool call.
	SharedToolCall struct {
		Name       string `json:"name"`
		Status     string `json:"status"`
		DurationMS int64  `json:"duration_ms"`
	}
	// SharedArtifact is the summary of a file.
	SharedArtifact struct {
		Name      string `json:"name"`
		MimeType  string `json:"mime_type"`
		SizeBytes int64  `json:"size_bytes"`
	}
)

// What a shared conversation shows of its end.
const (
	sharedRuns    = 20
	sharedEntries = 500
)

// shared serves the conversation of a link. It is public: the link gives access.
func (s *shareService) shared(ctx context.Context, _ authz.Caller, in *sharedIn) (*Shared, error) {
	sh, err := s.store.GetShareByHash(ctx, hashOf(in.ShareID))
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, invalidLink()
	case err != nil:
		return nil, err
	case sh.expired(s.clock.Now()):
		return nil, invalidLink().Because(&audit.Refusal{TenantID: sh.TenantID, TargetID: sh.SessionID})
	}
	rec, err := s.sessions.Get(ctx, sh.TenantID, sh.SessionID)
	if err != nil {
		return nil, err
	}
	out := &Shared{
		SessionID: rec.SessionID, Role: sh.Role, Status: rec.status(s.clock.Now()), CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt,
		Messages: []SharedMessage{}, Todos: []SharedTodo{}, Runs: []SharedRun{}, Artifacts: []SharedArtifact{},
	}
	if out.AgentName, err = s.reader.agentName(ctx, sh.TenantID, rec.AgentID); err != nil {
		return nil, err
	}
	p, err := s.reader.path(ctx, rec.TenantID, rec.SessionID, rec.ActiveBranch)
	if err != nil {
		return nil, err
	}
	newest, err := p.page(ctx, "", sharedEntries)
	if err != nil {
		return nil, err
	}
	out.Truncated = newest.next != ""
	out.addMessages(newest.entries())
	if err := s.addRuns(ctx, rec.TenantID, newest, out); err != nil {
		return nil, err
	}
	if err := s.addTodos(ctx, rec, out); err != nil {
		return nil, err
	}
	return out, s.addArtifacts(ctx, rec, out)
}

// ReadShared returns the conversation of a public link. Errors: fault.NotFound.
func (s *Service) ReadShared(ctx context.Context, link string) (*Shared, error) {
	return s.shares.shared(ctx, authz.Caller{}, &sharedIn{ShareID: link})
}

func invalidLink() *fault.Error {
	return fault.New(fault.NotFound, "", "This link is not valid: it was revoked or replaced, or it has expired.")
}

// addMessages adds what was said. Tool results and what a summary replaced are
// left out.
func (out *Shared) addMessages(entries []Entry) {
	for _, e := range entries {
		if !e.Compacted && e.Role != roleTool && strings.TrimSpace(e.Content) != "" {
			out.Messages = append(out.Messages, SharedMessage{e.Role, e.Content, e.Timestamp})
		}
	}
}

// addRuns adds the last runs with their tool calls.
func (s *shareService) addRuns(ctx context.Context, tenant string, newest *entryPage, out *Shared) error {
	for i := range slices.Backward(newest.parts[:min(len(newest.parts), sharedRuns)]) {
		id, tools := newest.parts[i].RunID, []SharedToolCall{}
		for _, e := range newest.parts[i].entries {
			for _, call := range e.ToolCalls {
				tools = append(tools, SharedToolCall{call.Name, call.Status, call.DurationMS})
			}
		}
		r, err := s.runs.Get(ctx, tenant, id)
		if fault.Is(err, fault.NotFound) {
			continue // the run was deleted
		}
		if err != nil {
			return err
		}
		out.Runs = append(out.Runs, SharedRun{r.Status, r.Metrics.DurationMS, tools})
	}
	return nil
}

func (s *shareService) addTodos(ctx context.Context, rec *Record, out *Shared) error {
	todos, _, err := s.todos.ListTodos(ctx, rec.TenantID, TodoFilter{ListedTodos: ListedTodos{SessionID: rec.SessionID}}, maxTodos)
	for _, t := range todos {
		out.Todos = append(out.Todos, SharedTodo{t.Title, t.Status})
	}
	return err
}

func (s *shareService) addArtifacts(ctx context.Context, rec *Record, out *Shared) error {
	g, err := s.reader.graph(ctx, rec)
	if err != nil {
		return err
	}
	files, err := s.artifactsOf(ctx, rec.TenantID, g.turns[max(0, len(g.turns)-maxScannedRuns):])
	for _, a := range files {
		out.Artifacts = append(out.Artifacts, SharedArtifact{a.Name, a.MimeType, a.SizeBytes})
	}
	return err
}
