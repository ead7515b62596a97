package agent

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

type terminateIn struct {
	AgentID string `path:"agentId"`
}

// Terminated is the answer to the end of an agent.
type Terminated struct {
	_ struct{} `json:"-" name:"AgentTermination"`

	Deleted bool   `json:"deleted" required:"true"`
	AgentID string `json:"agent_id" required:"true"`
}

func (a *Agents) terminateRoute() route.Route {
	return route.Action(route.Row{
		Method: "POST", Path: "/api/v1/agents/{agentId}/terminate", ID: "terminateAgent", Tag: "Agents", Summary: "Terminate an agent",
		Doc:    "Deletes it, and cancels its runs, as DELETE does.",
		Scopes: []authz.Scope{"agents:write"}, Role: authz.Developer, Destroys: true,
	}, a.terminate)
}

func (a *Agents) terminate(ctx context.Context, who authz.Caller, in *terminateIn) (*Terminated, error) {
	done := &Terminated{Deleted: true, AgentID: in.AgentID}
	err := a.deps.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := a.Store().DeleteTx(tx, who, in.AgentID); err != nil {
			return err
		}
		return txn.Answer(tx, done)
	})
	return done, err
}
