package engine

import (
	"context"
	"errors"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/quota"
)

// mayAsk refuses a model call of a tenant who has used up what its plan or
// its budget allows.
func (a *attempt) mayAsk(ctx context.Context) error {
	if a.e.Meter == nil {
		return nil
	}
	return a.e.Meter.MayAsk(ctx, a.rec.TenantID)
}

// counting adds to a commit that what it makes known is counted. It comes last:
// see quota.Meter.
func (a *attempt) counting(ops []txn.Op) []txn.Op {
	if a.e.Meter == nil || len(a.used) == 0 {
		return ops
	}
	source := a.rec.Source()
	for i := range a.used {
		a.used[i].AgentID, a.used[i].Source, a.used[i].KeyID = a.rec.AgentID, source, a.rec.Options.KeyID
	}
	return append(ops, a.e.Meter.Count(a.rec.TenantID, a.used...))
}

// refusedBy is the error code of a run that a plan or a tenant's budget stops;
// "" for other errors.
func refusedBy(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return ""
	}
	switch f.Code {
	case quota.CodeExceeded, quota.CodeReached:
		return run.CodeQuotaExceeded
	case quota.CodeBudget:
		return run.CodeBudgetExceeded
	}
	return ""
}
