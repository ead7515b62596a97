package runstream

import (
	"context"
	"strings"
	"testing"

	"agentd/internal/base/fault"
)

// everyAgent knows one agent, and finds it by no name as a filter would.
type everyAgent struct{}

func (everyAgent) Named(_ context.Context, _, name string, _ int) ([]string, error) {
	if name == "" || name == "helper" {
		return []string{"a1"}, nil
	}
	return nil, nil
}

// A variable of a shell that is not set makes an empty model: it is no agent, also
// where the company has only one.
func TestEmptyModelIsNoAgent(t *testing.T) {
	t.Parallel()
	r := &Runner{Names: everyAgent{}}
	if id, err := r.AgentID(t.Context(), "t", "helper"); id != "a1" || err != nil {
		t.Fatalf("%q, %v", id, err)
	}
	for _, model := range []string{"", AgentPrefix} {
		id, err := r.AgentID(t.Context(), "t", model)
		if id != "" || !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "The model is empty") {
			t.Errorf("%q: %q, %v", model, id, err)
		}
	}
}
