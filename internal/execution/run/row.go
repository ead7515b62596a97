package run

import (
	"context"

	"agentd/internal/base/page"
)

// Rows reads runs and approvals as pages show them.
type Rows struct{ *Service }

// Row returns a run as a list with fields=summary shows it.
func (s Rows) Row(ctx context.Context, tenant, id string) (*Run, error) {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	rows := []Run{r.Run}
	rows[0].Summarize()
	return &rows[0], families(s).addNames(ctx, tenant, rows)
}

// ApprovalRow returns an approval with what its agent is called, and its arguments: a
// person can decide it as it is shown.
func (s Rows) ApprovalRow(ctx context.Context, tenant, id string) (*Approval, error) {
	a, err := s.Runs.GetApproval(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	a.AgentName, err = families(s).agentName(ctx, tenant, a.AgentID, map[string]string{})
	return a, err
}

// PendingApprovals returns the ids of the approvals that a run waits for.
func (s Rows) PendingApprovals(ctx context.Context, tenant, runID string) (ids []string, err error) {
	all, err := s.Runs.ListApprovalsByRun(ctx, nil, tenant, runID)
	for _, a := range all {
		if a.Status == ApprovalPending {
			ids = append(ids, a.ApprovalID)
		}
	}
	return ids, err
}

// maxFollowedChildren bounds Children.
const maxFollowedChildren = 20

// Children returns the runs that a run started and that have not ended, the newest
// maxFollowedChildren of them.
func (s Rows) Children(ctx context.Context, tenant, id string) (ids []string, err error) {
	found, err := s.Runs.ListSummaries(ctx, tenant, Filter{ParentRunID: id}, page.Window{Limit: maxFollowedChildren})
	for i := range found {
		if !found[i].Status.Final() {
			ids = append(ids, found[i].RunID)
		}
	}
	return ids, err
}

// Counts are how many runs are in each state in which they have not ended.
type Counts map[Status]Count

// Count is a number up to page.MaxCount.
type Count struct {
	Count             int  `json:"count"`
	TotalIsLowerBound bool `json:"total_is_lower_bound,omitzero"`
}

// CountUnended counts the runs that have not ended.
func (s Rows) CountUnended(ctx context.Context, tenant string) (Counts, error) {
	counts := Counts{}
	for _, status := range Statuses {
		if status.Final() {
			continue
		}
		n, err := s.Runs.CountStatus(ctx, tenant, status, page.MaxCount+1)
		if err != nil {
			return nil, err
		}
		counts[status] = Count{min(n, page.MaxCount), n > page.MaxCount}
	}
	return counts, nil
}
