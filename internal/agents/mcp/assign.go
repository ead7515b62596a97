package mcp

import (
	"context"
	"fmt"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

type agentIn struct {
	AgentID string `path:"agentId"`
}

func (s *Servers) listAssigned(ctx context.Context, who authz.Caller, in *agentIn) (serverList, error) {
	if err := s.agents.Check(ctx, who.TenantID, in.AgentID); err != nil {
		return serverList{}, err
	}
	all, err := listServers(ctx, s.store, who.TenantID)
	if err != nil {
		return serverList{}, err
	}
	return viewAll(slices.DeleteFunc(all, func(v *Server) bool { return !slices.Contains(v.Assigned, in.AgentID) })), nil
}

type assignIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"AgentMcpServersSet"`

		ServerIDs []string `json:"server_ids" required:"true" maxItems:"200" doc:"The complete list; servers that are not in it are unassigned."`
	}
}

type assignment struct {
	_ struct{} `json:"-" name:"AgentMcpServers"`

	AgentID      string   `json:"agent_id" required:"true" format:"uuid"`
	Connected    []string `json:"connected" required:"true" doc:"Servers that were newly assigned."`
	Disconnected []string `json:"disconnected" required:"true" doc:"Servers that were unassigned."`
}

// assign replaces the servers that are assigned to an agent, in one transaction.
func (s *Servers) assign(ctx context.Context, who authz.Caller, in *assignIn) (assignment, error) {
	if err := s.agents.Check(ctx, who.TenantID, in.AgentID); err != nil {
		return assignment{}, err
	}
	var out assignment
	err := s.writer.Write(ctx, func(tx txn.Tx) error {
		out = assignment{AgentID: in.AgentID, Connected: []string{}, Disconnected: []string{}}
		all, err := s.store.ListTx(tx, who.TenantID, resource.Find{Asc: true, Limit: maxServers})
		if err != nil {
			return err
		}
		if err := checkKnown(in.Body.ServerIDs, all); err != nil {
			return err
		}
		for _, v := range all {
			has, wanted := slices.Contains(v.Assigned, in.AgentID), slices.Contains(in.Body.ServerIDs, v.ID)
			if has == wanted {
				continue
			}
			if err := s.reassign(tx, who, v.ID, in.AgentID, wanted); err != nil {
				return err
			}
			if wanted {
				out.Connected = append(out.Connected, v.ID)
			} else {
				out.Disconnected = append(out.Disconnected, v.ID)
			}
		}
		return nil
	})
	return out, err
}

func checkKnown(ids []string, all []*Server) error {
	var unknown []fault.Field
	for i, id := range ids {
		if !slices.ContainsFunc(all, func(v *Server) bool { return v.ID == id }) {
			unknown = append(unknown, fault.Field{Field: fmt.Sprintf("server_ids[%d]", i), Message: "no such MCP server exists in this company"})
		}
	}
	if len(unknown) > 0 {
		return fault.BadFields(unknown...)
	}
	return nil
}

func (s *Servers) reassign(tx txn.Tx, who authz.Caller, server, agent string, wanted bool) error {
	_, err := s.store.UpdateTx(tx, who, server, func(v *Server) error {
		v.Assigned = slices.DeleteFunc(v.Assigned, func(id string) bool { return id == agent })
		if wanted {
			v.Assigned = append(v.Assigned, agent)
		}
		return nil
	})
	return err
}

// AgentDeleted unassigns a deleted agent from every server. It is idempotent.
func (s *Servers) AgentDeleted(ctx context.Context, tenant, agent string) error {
	return s.writer.Write(ctx, func(tx txn.Tx) error {
		all, err := s.store.ListTx(tx, tenant, resource.Find{Limit: maxServers})
		if err != nil {
			return err
		}
		for _, v := range all {
			if !slices.Contains(v.Assigned, agent) {
				continue
			}
			if err := s.reassign(tx, authz.Caller{TenantID: tenant}, v.ID, agent, false); err != nil {
				return err
			}
		}
		return nil
	})
}
