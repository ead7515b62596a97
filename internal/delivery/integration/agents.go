package integration

import (
	"context"
	"fmt"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

type agentIn struct {
	AgentID string `path:"agentId"`
}

type agentList struct {
	_ struct{} `json:"-" name:"AgentIntegrationList"`

	Integrations []agentView `json:"integrations" required:"true"`
	Total        int         `json:"total" required:"true"`
}

func agentViewOf(agent string, v *Integration) agentView {
	return agentView{AgentID: agent, Common: viewOf(v).Common}
}

// asOf returns the answer of the operations of an agent.
func asOf(agent string) func(*Integration) any {
	return func(v *Integration) any { return agentViewOf(agent, v) }
}

func (s *Integrations) listOfAgent(ctx context.Context, who authz.Caller, in *agentIn) (agentList, error) {
	if err := s.agents.Check(ctx, who.TenantID, in.AgentID); err != nil {
		return agentList{}, err
	}
	all, err := s.store.List(ctx, who.TenantID, resource.Find{Limit: maxIntegrations})
	return listOf(in.AgentID, all), err
}

func listOf(agent string, all []*Integration) agentList {
	out := agentList{Integrations: []agentView{}}
	for _, v := range all {
		if slices.Contains(v.Assigned, agent) {
			out.Integrations = append(out.Integrations, agentViewOf(agent, v))
		}
	}
	out.Total = len(out.Integrations)
	return out
}

type addIn struct {
	AgentID string `path:"agentId"`
	Body    addBody
}

type addBody struct {
	_ struct{} `json:"-" name:"AgentIntegrationAdd"`

	IntegrationID string        `json:"integration_id,omitzero" format:"uuid" doc:"An integration of the company, which is linked. Without it a new one is made of the other fields."`
	ConnectorID   string        `json:"connector_id,omitzero" maxLength:"64" doc:"Connector of a new integration."`
	Name          string        `json:"name,omitzero" maxLength:"200" doc:"Name of a new integration."`
	Config        schema.Object `json:"config,omitzero" doc:"Settings of a new integration."`
}

// addToAgent links an integration to an agent, or makes one for it.
func (s *Integrations) addToAgent(ctx context.Context, who authz.Caller, in *addIn) (agentView, error) {
	if err := s.agents.Check(ctx, who.TenantID, in.AgentID); err != nil {
		return agentView{}, err
	}
	if id := in.Body.IntegrationID; id != "" {
		if _, err := s.store.Get(ctx, who.TenantID, id); err != nil {
			return agentView{}, err
		}
		v, err := s.link(ctx, who, id, in.AgentID, true)
		if err != nil {
			return agentView{}, err
		}
		return agentViewOf(in.AgentID, v), nil
	}
	var missing fieldErrors
	if in.Body.ConnectorID == "" {
		missing.add("connector_id", "required, or integration_id to link an integration")
	}
	if in.Body.Name == "" {
		missing.add("name", "required for a new integration")
	}
	if len(missing) > 0 {
		return agentView{}, fault.BadFields(missing...)
	}
	v, err := s.add(ctx, who, &createBody{
		ConnectorID: in.Body.ConnectorID, Name: in.Body.Name, Config: in.Body.Config, AgentID: in.AgentID,
	}, asOf(in.AgentID))
	if err != nil {
		return agentView{}, err
	}
	return agentViewOf(in.AgentID, v), nil
}

func (s *Integrations) link(ctx context.Context, who authz.Caller, id, agent string, linked bool) (*Integration, error) {
	var v *Integration
	ctx = txn.WithAnswer(ctx, func() any { return agentViewOf(agent, v) })
	err := s.Kernel.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		v, err = s.store.UpdateTx(tx, who, id, func(v *Integration) error { return v.assign(agent, linked) })
		return err
	})
	return v, err
}

// assign links an agent, or takes it away.
func (v *Integration) assign(agent string, linked bool) error {
	v.Assigned = slices.DeleteFunc(slices.Clone(v.Assigned), func(id string) bool { return id == agent })
	if !linked {
		return nil
	}
	if len(v.Assigned) >= maxAssigned {
		return fault.New(fault.Invalid, "limit_reached", "An integration can be linked to at most %d agents.", maxAssigned)
	}
	v.Assigned = append(v.Assigned, agent)
	return nil
}

type agentItemIn struct {
	AgentID string `path:"agentId"`
	ID      string `path:"integrationId"`
}

// ofAgent returns an integration that is linked to an agent. Errors: fault.NotFound.
func (s *Integrations) ofAgent(ctx context.Context, who authz.Caller, agent, id string) (*Integration, error) {
	if err := s.agents.Check(ctx, who.TenantID, agent); err != nil {
		return nil, err
	}
	v, err := s.store.Get(ctx, who.TenantID, id)
	if err == nil && !slices.Contains(v.Assigned, agent) {
		err = fault.NewNotFound("integration")
	}
	return v, err
}

type agentChangeIn struct {
	AgentID string `path:"agentId"`
	ID      string `path:"integrationId"`
	Body    struct {
		_ struct{} `json:"-" name:"AgentIntegrationChange"`

		Name   *string       `json:"name,omitzero" minLength:"1" maxLength:"200" doc:"Name of the integration."`
		Config schema.Object `json:"config,omitzero" doc:"Settings that change: members that are absent keep their value, null removes one, and [stored] keeps a secret."`
	}
}

func (s *Integrations) changeOfAgent(ctx context.Context, who authz.Caller, in *agentChangeIn) (agentView, error) {
	if _, err := s.ofAgent(ctx, who, in.AgentID, in.ID); err != nil {
		return agentView{}, err
	}
	v, err := s.alter(ctx, who, in.ID, &changeBody{Name: in.Body.Name, Config: in.Body.Config}, asOf(in.AgentID))
	if err != nil {
		return agentView{}, err
	}
	return agentViewOf(in.AgentID, v), nil
}

type removal struct {
	_ struct{} `json:"-" name:"AgentIntegrationRemoval"`

	Removed       bool   `json:"removed" required:"true"`
	Deleted       bool   `json:"deleted" required:"true" doc:"No other agent had it, so it was deleted with its credential."`
	IntegrationID string `json:"integration_id" required:"true" format:"uuid"`
}

// removeFromAgent takes an integration from an agent. One that no other agent has is
// deleted, so that no unused credential is kept.
func (s *Integrations) removeFromAgent(ctx context.Context, who authz.Caller, in *agentItemIn) (out removal, err error) {
	if _, err := s.ofAgent(ctx, who, in.AgentID, in.ID); err != nil {
		return out, err
	}
	err = s.Kernel.Writer.Write(ctx, func(tx txn.Tx) error {
		out = removal{Removed: true, IntegrationID: in.ID}
		v, err := s.store.GetTx(tx, who.TenantID, in.ID)
		if err != nil {
			return err
		}
		if out.Deleted = len(v.Assigned) == 1 && v.Assigned[0] == in.AgentID; out.Deleted {
			return s.store.DeleteTx(tx, who, in.ID)
		}
		_, err = s.store.UpdateTx(tx, who, in.ID, func(v *Integration) error { return v.assign(in.AgentID, false) })
		return err
	})
	return out, err
}

func (s *Integrations) testOfAgent(ctx context.Context, who authz.Caller, in *agentItemIn) (testResult, error) {
	v, err := s.ofAgent(ctx, who, in.AgentID, in.ID)
	if err != nil {
		return testResult{}, err
	}
	return s.tried(ctx, v), nil
}

type setIn struct {
	AgentID string `path:"agentId"`
	Body    struct {
		_ struct{} `json:"-" name:"AgentIntegrationsSet"`

		IntegrationIDs []string `json:"integration_ids" required:"true" maxItems:"200" doc:"The complete list; integrations that are not in it are unlinked."`
	}
}

type setResult struct {
	_ struct{} `json:"-" name:"AgentIntegrationsSetResult"`

	Integrations []agentView `json:"integrations" required:"true"`
	Total        int         `json:"total" required:"true"`
	Diff         diff        `json:"diff" required:"true"`
}

type diff struct {
	_ struct{} `json:"-" name:"AgentIntegrationsDiff"`

	Assigned   []string `json:"assigned" required:"true" doc:"Integrations that were newly linked."`
	Unassigned []string `json:"unassigned" required:"true" doc:"Integrations that were unlinked."`
}

// set replaces the integrations of an agent, in one transaction.
func (s *Integrations) set(ctx context.Context, who authz.Caller, in *setIn) (out setResult, err error) {
	if err := s.agents.Check(ctx, who.TenantID, in.AgentID); err != nil {
		return out, err
	}
	err = s.Kernel.Writer.Write(ctx, func(tx txn.Tx) error {
		out = setResult{Diff: diff{Assigned: []string{}, Unassigned: []string{}}}
		all, err := s.store.ListTx(tx, who.TenantID, resource.Find{Asc: true, Limit: maxIntegrations})
		if err != nil {
			return err
		}
		var unknown fieldErrors
		for i, id := range in.Body.IntegrationIDs {
			if !slices.ContainsFunc(all, func(v *Integration) bool { return v.ID == id }) {
				unknown.add(fmt.Sprintf("integration_ids[%d]", i), "no such integration exists in this company")
			}
		}
		if len(unknown) > 0 {
			return fault.BadFields(unknown...)
		}
		for i, v := range all {
			has, wanted := slices.Contains(v.Assigned, in.AgentID), slices.Contains(in.Body.IntegrationIDs, v.ID)
			if has == wanted {
				continue
			}
			if all[i], err = s.store.UpdateTx(tx, who, v.ID, func(v *Integration) error { return v.assign(in.AgentID, wanted) }); err != nil {
				return err
			}
			if wanted {
				out.Diff.Assigned = append(out.Diff.Assigned, v.ID)
			} else {
				out.Diff.Unassigned = append(out.Diff.Unassigned, v.ID)
			}
		}
		l := listOf(in.AgentID, all)
		out.Integrations, out.Total = l.Integrations, l.Total
		return txn.Answer(tx, out)
	})
	return out, err
}

// AgentDeleted unlinks a deleted agent from every integration. It is idempotent.
func (s *Integrations) AgentDeleted(ctx context.Context, tenant, agent string) error {
	return s.Kernel.Writer.Write(ctx, func(tx txn.Tx) error {
		all, err := s.store.ListTx(tx, tenant, resource.Find{Limit: maxIntegrations})
		if err != nil {
			return err
		}
		for _, v := range all {
			if !slices.Contains(v.Assigned, agent) {
				continue
			}
			if _, err := s.store.UpdateTx(tx, authz.Caller{TenantID: tenant}, v.ID, func(v *Integration) error {
				return v.assign(agent, false)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

var _ route.Editable = view{}
