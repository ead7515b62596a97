package session

import (
	"context"
	"iter"
	"path/filepath"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
)

// Send sends a text.
func (s *Service) Send(ctx context.Context, who authz.Caller, id, text string) (Accepted, error) {
	return s.messages.send(ctx, who, id, &newMessage{Content: text}, nil)
}

// CreateTodo creates a todo from a request body.
func (s *Service) CreateTodo(ctx context.Context, who authz.Caller, id string, body jsontext.Value) (*Todo, error) {
	return s.todos.create(ctx, who, id, body)
}

// List lists sessions.
func (s *Service) List(ctx context.Context, tenant, agentID, limit, cursor string) (*Page, error) {
	return s.lifecycle.list(ctx, tenant, &listIn{Filter: Filter{AgentID: agentID}, Limit: limit, Cursor: cursor})
}

// Messages lists a page of the messages of a session.
func (s *Service) Messages(ctx context.Context, tenant, id, limit, cursor string) (*MessageList, error) {
	return s.messages.list(ctx, tenant, &messagesIn{SessionID: id, Limit: limit, Cursor: cursor})
}

// Session reads a session with its history.
func (s *Service) Session(ctx context.Context, tenant, id string) (*Session, error) {
	return s.lifecycle.get(ctx, tenant, id)
}

// ListTodos is the list of todos of several sessions.
func (s *Service) ListTodos(ctx context.Context, who authz.Caller, f TodoFilter, limit int) (*TodoList, error) {
	return s.todos.list(ctx, who, f, limit)
}

// Export returns the pieces of an exported conversation.
func (s *Service) Export(ctx context.Context, who authz.Caller, id, format string) (iter.Seq2[[]byte, error], error) {
	reply, err := s.exports.exportRoute(ctx, who, &exportIn{SessionID: id, Format: format})
	if err != nil {
		return nil, err
	}
	return reply.Pieces, nil
}

// Share returns the token of a public link to a conversation.
func (s *Service) Share(ctx context.Context, who authz.Caller, id string) (string, error) {
	view, err := s.shares.create(ctx, who, &shareIn{SessionID: id})
	if err != nil {
		return "", err
	}
	return filepath.Base(*view.URL), nil
}
