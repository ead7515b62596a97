package review

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
	"agentd/internal/execution/run"
)

// maxAhead is how many runs are counted.
const maxAhead = 10_000

// QueuePosition is a run's place in the queue.
type QueuePosition struct {
	_ struct{} `json:"-" name:"RunQueuePosition"`

	RunID    string `json:"run_id" format:"uuid" required:"true"`
	Position int    `json:"queue_position" required:"true" doc:"1 for the next one; 0 for a run that is not queued. At most 10001."`
}

func (s *Service) queuePosition(ctx context.Context, who authz.Caller, in *runIn) (*QueuePosition, error) {
	r, err := s.Runs.Get(ctx, who.TenantID, in.RunID)
	if err != nil {
		return nil, err
	}
	at := &QueuePosition{RunID: r.RunID}
	if r.Status != run.Queued {
		return at, nil
	}
	ahead, waits, err := s.Store.CountAhead(ctx, s.WorkKind, r.RunID, maxAhead)
	switch {
	case err != nil:
		return nil, err
	case waits:
		at.Position = ahead + 1
	case r.SessionID != nil:
		at.Position, err = s.turnsAhead(ctx, r)
	}
	return at, err
}

// turnsAhead returns the place of a run that waits for earlier turns of its session.
func (s *Service) turnsAhead(ctx context.Context, r *run.Record) (int, error) {
	before, err := s.Runs.ListSummaries(ctx, r.TenantID, run.Filter{
		SessionID: *r.SessionID, Created: page.Created{CreatedBefore: r.CreatedAt},
		Status: []run.Status{run.Queued, run.Running, run.Paused, run.AwaitingApproval, run.AuthRequired},
	}, page.Window{Limit: 100})
	return len(before) + 1, err
}
