package run

import (
	"context"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
)

// SeqJump separates the seqs that one writer of a run's events assigns from
// those of the next. Chunks are published before they are stored, so a worker
// that dies or is fenced off may have published seqs that the log does not
// have; always fewer than this.
const SeqJump = 1024

// CancelAnswer is the answer of a cancellation.
type CancelAnswer struct {
	_ struct{} `json:"-" name:"Cancelling"`

	Cancelled bool   `json:"cancelled" required:"true"`
	RunID     string `json:"run_id" required:"true"`
	Message   string `json:"message,omitzero" doc:"Why nothing was cancelled."`
}

// reason is why a run is ended by others than its worker.
type reason struct {
	status   Status // if a worker drives the run, or it may move there; cancelled otherwise
	code     string
	sentence string
}

// Cancel ends a run that has not ended, whatever it is doing. The commit that
// ends it fences off the run's worker, which is signalled to stop after it.
func (s *Service) Cancel(ctx context.Context, tenant, id string) (CancelAnswer, error) {
	return s.abort(ctx, tenant, id, reason{Cancelled, CodeCancelled, "The run was cancelled."})
}

// AgentDeleted ends the runs of a deleted agent. It is the handler of the agent's
// change event, and may be called again.
func (s *Service) AgentDeleted(ctx context.Context, tenant, agentID string) error {
	for {
		ids, err := s.Runs.ListUnfinished(ctx, tenant, agentID, 100)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			_, err := s.abort(ctx, tenant, id, reason{Failed, CodeAgentDeleted, "The agent was deleted before the run could end."})
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}
}

func (s *Service) abort(ctx context.Context, tenant, id string, why reason) (CancelAnswer, error) {
	var answer CancelAnswer
	ctx = txn.WithAnswer(ctx, func() any { return answer })
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		// The lease first, the row second: the order in which workers take them.
		if err := s.Queue.DeleteTx(tx, s.WorkKind, id); err != nil {
			return err
		}
		r, err := s.Runs.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		answer = CancelAnswer{Cancelled: true, RunID: id}
		if r.Status.Final() {
			answer = CancelAnswer{RunID: id, Message: "The run had already ended: it is " + string(r.Status) + "."}
			return nil
		}
		status := why.status
		if !r.Status.May(status) || r.Wait.For != "" {
			status = Cancelled
		}
		return s.change(tx, r, func(c *mutation) error {
			c.unstored = r.Status == Running && r.Wait.For == ""
			if r.StartedAt != nil && r.Status == Running && r.Wait.For == "" {
				r.Metrics.DurationMS = max(r.Metrics.DurationMS, float64(c.now.Sub(*r.StartedAt).Microseconds())/1000)
			}
			tx.AfterCommit(func() { s.Hub.Signal(SignalCancelled, id) })
			return c.end(status, why.code, why.sentence)
		})
	})
	return answer, err
}
