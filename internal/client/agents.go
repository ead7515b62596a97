package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Agent is what the command line shows of an agent.
type Agent struct {
	AgentID   string    `json:"agent_id"`
	Name      string    `json:"name"`
	Status    string    `json:"status"`
	Model     Model     `json:"model"`
	CreatedAt time.Time `json:"created_at"`
}

// Model names a model and who serves it.
type Model struct {
	Provider string `json:"provider"`
	ModelRef string `json:"model_ref"`
}

// CreateAgent makes an agent. body has any fields of an agent.
func (c *Client) CreateAgent(ctx context.Context, body map[string]jsontext.Value) (Doc[Agent], error) {
	return call[Doc[Agent]](ctx, c, "POST", "/api/v1/agents", nil, body)
}

// Agent reads one agent.
func (c *Client) Agent(ctx context.Context, id string) (Doc[Agent], error) {
	return call[Doc[Agent]](ctx, c, "GET", "/api/v1/agents/"+url.PathEscape(id), nil, nil)
}

// Agents returns every agent; it fetches pages as they are needed.
func (c *Client) Agents(ctx context.Context) iter.Seq2[Doc[Agent], error] {
	return list[Doc[Agent]](ctx, c, "/api/v1/agents", url.Values{})
}

// pageSize is the maximum size of a page.
const pageSize = 100

// list returns the items of all pages of a list. An error ends the sequence.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	type page struct {
		Items   []T    `json:"items"`
		Cursor  string `json:"cursor"`
		HasMore bool   `json:"has_more"`
	}
	if !query.Has("limit") {
		query.Set("limit", strconv.Itoa(pageSize))
	}
	return func(yield func(T, error) bool) {
		for {
			p, err := call[page](ctx, c, "GET", path, query, nil)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if !p.HasMore || p.Cursor == "" {
				return
			}
			query.Set("cursor", p.Cursor)
		}
	}
}
