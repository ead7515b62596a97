package app

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/execution/run"
	"agentd/internal/governance/ambassador"
	"agentd/internal/governance/court"
	"agentd/internal/governance/inbox"
)

// governanceInbox implements inbox.Sender by notifications.
type governanceInbox struct{ notifications *notification.Service }

// SendTx implements inbox.Sender.
func (i governanceInbox) SendTx(tx txn.Tx, tenant string, item inbox.Item) error {
	n := notification.Notification{
		TenantID: tenant, Type: item.Type, Title: item.Title, Message: item.Message, Priority: notification.Warning,
		ActionURL: item.Path, DedupKey: item.Key,
	}
	if item.AgentID != "" {
		data, err := json.Marshal(map[string]string{"agent_id": item.AgentID})
		if err != nil {
			return err
		}
		n.Data, n.Source = data, &notification.Source{Kind: "agent", ID: item.AgentID}
	}
	return i.notifications.Notify(tx, n)
}

// arbiters implements court.Agents.
type arbiters struct{ agents *agent.Agents }

// GetTx implements court.Agents.
func (a arbiters) GetTx(tx txn.Tx, tenant, id string) (court.Agent, error) {
	found, err := a.agents.Store().GetTx(tx, tenant, id)
	if err != nil {
		return court.Agent{}, err
	}
	return court.Agent{ID: id, ParentID: found.Lineage().ParentID, Active: found.Status == agent.Active}, nil
}

// byArbiter is the status_reason_code of agents that a ruling suspended.
const byArbiter = "arbiter_ruling"

// suspendTx suspends an agent. One that is suspended already stays as it is.
func suspendTx(agents *agent.Agents, tx txn.Tx, who authz.Caller, id, reason, code string) error {
	_, err := agents.Store().UpdateTx(tx, who, id, func(a *agent.Agent) error {
		if a.Status == agent.Active {
			a.Status, a.StatusReason, a.StatusReasonCode = agent.Suspended, reason, code
		}
		return nil
	})
	return err
}

// penalties returns what carries out the penalties of rulings.
func penalties(agents *agent.Agents, permitted *permissions) map[string]court.Executor {
	return map[string]court.Executor{
		court.SuspendAgent: {
			DoTx: func(tx txn.Tx, who authz.Caller, id, reason string) error {
				return suspendTx(agents, tx, who, id, reason, byArbiter)
			},
			UndoTx: func(tx txn.Tx, who authz.Caller, id string) error {
				_, err := agents.Store().UpdateTx(tx, who, id, func(a *agent.Agent) error {
					if a.Status == agent.Suspended && a.StatusReasonCode == byArbiter {
						a.Status = agent.Active
					}
					return nil
				})
				return err
			},
		},
		court.TerminateAgent: {DoTx: func(tx txn.Tx, who authz.Caller, id, _ string) error {
			return agents.Store().DeleteTx(tx, who, id)
		}},
		court.RevokePermissions: {
			DoTx: func(tx txn.Tx, who authz.Caller, id, reason string) error {
				if _, err := agents.Store().GetTx(tx, who.TenantID, id); err != nil {
					return err
				}
				return permitted.sets.RevokeTx(tx, who.TenantID, id, "", ruledSanction+reason)
			},
			UndoTx: permitted.liftRulingTx,
		},
	}
}

// ruledSanction begins the reason of a sanction that a ruling imposed.
const ruledSanction = "By a ruling: "

// liftRulingTx ends the sanction that a ruling imposed on an agent; another one stays.
func (s *permissions) liftRulingTx(tx txn.Tx, who authz.Caller, id string) error {
	set, err := s.sets.Sets().GetTx(tx, who.TenantID, id)
	if err != nil {
		return err
	}
	if sanction := set.Sanction; sanction == nil || !strings.HasPrefix(sanction.Reason, ruledSanction) {
		return nil
	}
	return s.sets.PutTx(tx, who, id, jsontext.Value(`{"sanction":null}`))
}

// vetoed returns what vetoes do to their targets.
func (d *decisions) vetoed(agents *agent.Agents, runs *run.Service) map[string]ambassador.TargetFunc {
	plain := func(do func(tx txn.Tx, who authz.Caller, id, reason string) error) ambassador.TargetFunc {
		return func(_ context.Context, who authz.Caller, id string) (func(txn.Tx, string) error, error) {
			return func(tx txn.Tx, reason string) error { return do(tx, who, id, reason) }, nil
		}
	}
	return map[string]ambassador.TargetFunc{
		"proposal": plain(d.votes.VetoTx),
		"case":     plain(d.court.CloseTx),
		"agent": plain(func(tx txn.Tx, who authz.Caller, id, reason string) error {
			return suspendTx(agents, tx, who, id, reason, "veto")
		}),
		"action": func(ctx context.Context, who authz.Caller, id string) (func(txn.Tx, string) error, error) {
			if !ident.Valid(id) {
				return nil, fault.NewNotFound("approval")
			}
			pending, err := runs.Runs.GetApproval(ctx, who.TenantID, id)
			if err != nil {
				return nil, err
			}
			return func(tx txn.Tx, reason string) error {
				return run.RejectTx(tx, runs, who, pending.RunID, run.RejectRequest{ApprovalID: id, Reason: reason})
			}, nil
		},
	}
}

// agentOfRun returns what answers the agent of a run.
func agentOfRun(runs *run.Service) func(ctx context.Context, tenant, id string) (string, error) {
	return func(ctx context.Context, tenant, id string) (string, error) {
		if !ident.Valid(id) {
			return "", fault.NewNotFound("run")
		}
		found, err := runs.Runs.Get(ctx, tenant, id)
		if err != nil {
			return "", err
		}
		return found.AgentID, nil
	}
}
