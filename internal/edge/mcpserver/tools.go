package mcpserver

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/authz"
)

// toolInfo is a tool as tools/list returns it.
type toolInfo struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

var inputSchema = jsontext.Value(`{"type":"object","properties":{"message":{"type":"string","minLength":1,` +
	`"description":"What the agent is asked."}},"required":["message"]}`)

// agentTool is an agent with the name of its tool.
type agentTool struct {
	Agent
	tool string
}

// namedAgents names the agents of a scope. Agents of one name get the ends of
// their ids appended, so that no name depends on the order.
func (s *Server) namedAgents(ctx context.Context, tenant string, scope agentScope) ([]agentTool, error) {
	if scope.one != nil {
		return []agentTool{{*scope.one, mcp.ToolName(scope.one.Name)}}, nil
	}
	all, err := s.Agents.List(ctx, tenant)
	if err != nil {
		return nil, err
	}
	wanted := map[string]int{}
	for _, g := range all {
		wanted[mcp.ToolName(g.Name)]++
	}
	list := make([]agentTool, 0, len(all))
	for _, g := range all {
		name := mcp.ToolName(g.Name)
		if wanted[name] > 1 {
			suffix := "_" + g.ID[len(g.ID)-8:]
			name = name[:min(len(name), 64-len(suffix))] + suffix
		}
		list = append(list, agentTool{g, name})
	}
	return list, nil
}

func (s *Server) listTools(ctx context.Context, who authz.Caller, scope agentScope) (any, error) {
	all, err := s.namedAgents(ctx, who.TenantID, scope)
	if err != nil {
		return nil, err
	}
	list := struct {
		Tools []toolInfo `json:"tools"`
	}{make([]toolInfo, 0, len(all))}
	for _, g := range all {
		description := g.Description
		if description == "" {
			description = "The agent " + g.Name + "."
		}
		list.Tools = append(list.Tools, toolInfo{g.tool, g.Name, description, inputSchema})
	}
	return list, nil
}
