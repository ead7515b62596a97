package mcpclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/text"
)

const (
	maxPages       = 50
	maxTools       = 512
	maxDescription = 8 << 10
	maxSchema      = 64 << 10
)

// list returns what the server offers, from the cache while it is fresh.
func (c *conn) list(ctx context.Context) (*mcp.Listing, error) {
	if err := c.listing.lock(ctx); err != nil {
		return nil, err
	}
	defer c.listing.unlock()
	c.mu.Lock()
	l, asked := c.listed, c.listedAt
	c.mu.Unlock()
	if l != nil && !c.stale.Load() && time.Since(asked) < c.m.FreshFor {
		return l, nil
	}
	c.stale.Store(false) // a change during the request marks it stale again
	l = &mcp.Listing{Version: c.m.versions.Add(1)}
	err := c.do(ctx, c.m.ConnectTimeout, func(ctx context.Context, s *session) error { return c.fetchListing(ctx, s, l) })
	if sentence, ok := serverMessage(err); ok {
		err = unusable(c.target.Name, "it does not list its tools: "+sentence, err)
	}
	if err != nil {
		c.stale.Store(true)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed, c.listedAt = l, time.Now()
	return l, nil
}

var errEndlessList = errors.New("mcpclient: the list of tools has no end")

func (c *conn) fetchListing(ctx context.Context, s *session, l *mcp.Listing) error {
	l.Tools, l.Capabilities = nil, capabilities(s.InitializeResult().Capabilities)
	if !slices.Contains(l.Capabilities, "tools") {
		return nil
	}
	cursor := ""
	for range maxPages {
		page, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return err
		}
		for _, t := range page.Tools {
			c.addTool(l, t)
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
	return errEndlessList
}

// addTool adds a tool to a listing, unless it is invalid.
func (c *conn) addTool(l *mcp.Listing, t *sdk.Tool) {
	skip := func(why string) {
		c.m.Logger.Warn("a tool of an MCP server is left out", "tenant", c.target.TenantID, "server", c.target.ServerID, "tool", t.Name,
			"why", why)
	}
	schema, err := schemaOf(t.InputSchema)
	switch {
	case t.Name == "" || len(t.Name) > 256:
		skip("its name is empty or too long")
		return
	case err != nil:
		skip(err.Error())
		return
	case len(l.Tools) == maxTools:
		skip("the server has too many tools")
		return
	case slices.ContainsFunc(l.Tools, func(other mcp.RemoteTool) bool { return other.Name == t.Name }):
		skip("the server has two tools of that name")
		return
	}
	description := t.Description
	if description == "" {
		description = t.Title
	}
	tool := mcp.RemoteTool{Name: t.Name, Description: text.PrefixBytes(description, maxDescription), Schema: schema}
	if t.Annotations != nil {
		tool.ReadOnly, tool.Idempotent = t.Annotations.ReadOnlyHint, t.Annotations.IdempotentHint
	}
	l.Tools = append(l.Tools, tool)
}

var errSchema = errors.New("the schema of its arguments is not an object, or too long")

// schemaOf returns a schema as text. A schema without a type gets that of all
// arguments: object.
func schemaOf(schema any) (jsontext.Value, error) {
	if schema == nil {
		schema = map[string]any{}
	}
	object, ok := schema.(map[string]any)
	if !ok {
		return nil, errSchema
	}
	if _, typed := object["type"]; !typed {
		object["type"] = "object"
	}
	text, err := json.Marshal(object, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSchema {
		return nil, errSchema
	}
	return text, nil
}

func capabilities(c *sdk.ServerCapabilities) []string {
	names := []string{}
	if c == nil {
		return names
	}
	for name, has := range map[string]bool{
		"completions": c.Completions != nil, "logging": c.Logging != nil, //nolint:staticcheck // servers still declare it
		"prompts": c.Prompts != nil, "resources": c.Resources != nil, "tools": c.Tools != nil,
	} {
		if has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
