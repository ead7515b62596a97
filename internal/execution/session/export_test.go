package session

import (
	"context"

	"agentd/internal/base/authz"
)

// Say is Send of a text.
func (s *Service) Say(ctx context.Context, who authz.Caller, id, text string) (Accepted, error) {
	return s.Send(ctx, who, id, &newMessage{Content: text})
}
