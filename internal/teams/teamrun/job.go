package teamrun

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	kernelwork "agentd/internal/kernel/work"
	"agentd/internal/teams/group"
)

// applyJob puts what a job says into a run. A nil job says nothing.
func applyJob(o *group.TeamJob, r *Record) {
	if o == nil {
		return
	}
	r.TeamRunID, r.Spec.Wakes, r.Spec.Budgets = o.ID, o.Wakes, o.Budgets
	r.Spec.Sources = model.JoinSources(r.Spec.Sources, o.Sources)
}

// errStarted is the error of a job whose run exists.
var errStarted = fault.New(fault.Conflict, "ALREADY_EXISTS", "The run of the team was started before.")

// admitTx lets a job begin unless an earlier worker has begun it.
func (s *Service) admitTx(tx txn.Tx, o *group.TeamJob, r *Record) error {
	if o == nil {
		return nil
	}
	if err := o.Admit(tx); err != nil {
		return err
	}
	_, err := s.Store.HasCancelRequestTx(tx, r.TenantID, r.TeamRunID)
	switch {
	case err == nil:
		return errStarted
	case fault.Is(err, fault.NotFound):
		return nil
	}
	return err
}

// Jobs has teams do parts of missions and initiatives; it implements group.Teams.
type Jobs struct{ Service *Service }

// Start implements group.Teams.
func (o Jobs) Start(ctx context.Context, who authz.Caller, job group.TeamJob) error {
	_, err := o.Service.create(ctx, who, job.TeamID, request{
		message: job.Message, instructions: job.Instructions, metadata: job.Metadata, job: &job,
	})
	if f := fault.From(err); f != nil && f.Kind == fault.Conflict && f.Code == "ALREADY_EXISTS" {
		return nil
	}
	return err
}

// Get implements group.Teams.
func (o Jobs) Get(ctx context.Context, tenant, id string) (*run.Run, []string, error) {
	r, err := o.Service.Store.Get(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	tasks, err := o.Service.Store.ListTasks(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	out, sources, usd := asRun(r, tasks), r.Spec.Sources, 0.0
	for i := range tasks {
		sources = model.JoinSources(sources, tasks[i].Sources)
		usd += tasks[i].CostUSD
	}
	out.Metrics.TotalCostUSD, out.Metrics.LLMCallsCount = &usd, int64(len(tasks))
	return out, sources, nil
}

// CancelTx implements group.Teams.
func (o Jobs) CancelTx(tx txn.Tx, tenant, id string) error {
	item := kernelwork.Item{Kind: WorkKind, Key: id, TenantID: tenant, Due: o.Service.Clock.Now()}
	if err := o.Service.Queue.EnqueueTx(tx, item); err != nil {
		return err
	}
	return o.Service.Store.RequestCancelTx(tx, tenant, id)
}
