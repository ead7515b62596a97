package app

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/governance/improvement"
)

// trialRuns implements improvement.Sandbox.
type trialRuns struct{ runs *run.Service }

// Start implements improvement.Sandbox. The run has the input, the limits and the
// workspace of the failed run; it is in no session, and has no tools of a caller.
func (s trialRuns) Start(ctx context.Context, who authz.Caller, start improvement.Start) error {
	if _, err := s.runs.Runs.Get(ctx, who.TenantID, start.RunID); !fault.Is(err, fault.NotFound) {
		return err
	}
	failed, err := s.runs.Runs.Get(ctx, who.TenantID, start.FailedRunID)
	if err != nil {
		return err
	}
	metadata, err := json.Marshal(struct {
		Source      string `json:"source"`
		ProposalID  string `json:"improvement_proposal_id"`
		FailedRunID string `json:"failed_run_id"`
	}{"improvement_sandbox", start.ProposalID, start.FailedRunID})
	if err != nil {
		return err
	}
	_, err = s.runs.Create(ctx, who, run.Request{
		RunID: start.RunID, AgentID: failed.AgentID, Input: failed.Input, Limits: failed.ResourceLimits, Metadata: schema.Object(metadata),
		StartedBy: run.Initiator{Type: run.ByImprovement, ID: start.ProposalID},
		Wakes:     run.Wakes{Kind: improvement.WorkKind, Key: start.ProposalID},
		Options: run.Options{
			WorkspaceID: failed.Options.WorkspaceID, Sources: failed.Options.Sources, Sandbox: &run.Sandbox{Patch: start.Patch},
		},
	})
	if f := fault.From(err); err != nil && f.Kind == fault.Conflict && f.Code == "ALREADY_EXISTS" {
		return nil // another worker was faster
	}
	return err
}

// Result implements improvement.Sandbox.
func (s trialRuns) Result(ctx context.Context, tenant, id string) (status, reason string, err error) {
	r, err := s.runs.Runs.Get(ctx, tenant, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return "rejected", "The run was deleted.", nil
	case err != nil || !r.Status.Final():
		return "", "", err
	case r.Error != nil:
		reason = *r.Error
	}
	return string(r.Status), reason, nil
}

// Cancel implements improvement.Sandbox.
func (s trialRuns) Cancel(ctx context.Context, tenant, id string) error {
	if _, err := s.runs.Cancel(ctx, tenant, id); !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// CountUnfinishedTx implements improvement.Sandbox.
func (s trialRuns) CountUnfinishedTx(tx txn.Tx, tenant string, ids []string) (int, error) {
	return s.runs.Runs.CountUnfinishedTx(tx, tenant, ids)
}

// patchTx is improvement.Options.PatchTx.
func patchTx(agents *agent.Agents) func(tx txn.Tx, who authz.Caller, id string, patch jsontext.Value) (string, error) {
	return func(tx txn.Tx, who authz.Caller, id string, patch jsontext.Value) (string, error) {
		changed, err := agents.Store().PatchTx(tx, who, id, patch)
		if err != nil {
			return "", err
		}
		return changed.VersionNo, nil
	}
}
