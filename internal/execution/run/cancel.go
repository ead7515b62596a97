package run

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
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

// Ending is why others than its worker end a run.
type Ending struct {
	Signal   string // to all nodes; its key is the run's id. It asks the worker to end the run
	Status   Status // if a worker drives the run, or it may move there; cancelled otherwise
	Code     string
	Sentence string
}

// Endings returns all reasons for which others end a run.
func Endings() []Ending { return []Ending{cancelling(), agentDeleted()} }

func cancelling() Ending {
	return Ending{"run.cancelling", Cancelled, CodeCancelled, "The run was cancelled."}
}

func agentDeleted() Ending {
	return Ending{"run.agent_deleted", Failed, CodeAgentDeleted, "The agent was deleted before the run could end."}
}

// endingPatience is how long a run's worker may take to end it, so that the text
// that it streamed is kept whole. A worker that does not is fenced off.
const endingPatience = time.Second

// Cancel ends a run that has not ended, whatever it is doing. A worker that drives
// it is asked to, and stores what the model had streamed. One that does not answer in
// time is fenced off by the commit that ends the run.
func (s *Service) Cancel(ctx context.Context, tenant, id string) (CancelAnswer, error) {
	return s.abort(ctx, tenant, id, cancelling(), nil)
}

// cancelBy is Cancel, and records in the audit log who cancelled a run.
func cancelBy(ctx context.Context, s *Service, who authz.Caller, id string) (CancelAnswer, error) {
	return s.abort(ctx, who.TenantID, id, cancelling(), func(tx txn.Tx) error {
		return audit.Write(s.Audit, tx, who, audit.Entry{Action: "run.cancelled", TargetType: "run", TargetID: id})
	})
}

// AgentDeleted ends the runs of a deleted agent. It is the handler of the agent's
// change event, and may be called again.
func (s *Service) AgentDeleted(ctx context.Context, tenant, agentID string) error {
	for {
		ids, err := s.Runs.ListUnfinished(ctx, tenant, agentID, 100)
		if err != nil || len(ids) == 0 {
			return err
		}
		// Those that wait come first: otherwise they would take the places of those that end.
		for _, running := range []bool{false, true} {
			for _, id := range ids {
				r, err := s.Runs.Get(ctx, tenant, id)
				if err == nil && (r.Status == Running) == running {
					_, err = s.abort(ctx, tenant, id, agentDeleted(), nil)
				}
				if err != nil && !fault.Is(err, fault.NotFound) {
					return err
				}
			}
		}
	}
}

// abort ends a run. record, if it is not nil, is called in the transaction that ends it,
// also where its worker did that when it was asked.
func (s *Service) abort(
	ctx context.Context, tenant, id string, why Ending, record func(txn.Tx) error,
) (CancelAnswer, error) {
	asked, err := s.askWorker(ctx, tenant, id, why)
	if err != nil {
		return CancelAnswer{}, err
	}
	streamed, err := s.streamed(ctx, tenant, id)
	if err != nil {
		return CancelAnswer{}, err
	}
	var answer CancelAnswer
	ctx = txn.WithAnswer(ctx, func() any { return answer })
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
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
			if asked && r.ErrorCode == why.Code {
				return recordBy(tx, record)
			}
			answer = CancelAnswer{RunID: id, Message: "The run had already ended: it is " + string(r.Status) + "."}
			return nil
		}
		status := why.Status
		if !r.Status.May(status) || r.Wait.For != "" {
			status = Cancelled
		}
		if err := recordBy(tx, record); err != nil {
			return err
		}
		return s.change(tx, r, func(c *mutation) error {
			c.unstored = r.Status == Running && r.Wait.For == ""
			if r.StartedAt != nil && r.Status == Running && r.Wait.For == "" {
				r.Metrics.DurationMS = max(r.Metrics.DurationMS, float64(c.now.Sub(*r.StartedAt).Microseconds())/1000)
			}
			if err := c.keep(streamed); err != nil {
				return err
			}
			tx.AfterCommit(func() { s.Hub.Signal(SignalCancelled, id) })
			return c.end(status, why.Code, why.Sentence)
		})
	})
	return answer, err
}

func recordBy(tx txn.Tx, record func(txn.Tx) error) error {
	if record == nil {
		return nil
	}
	return record(tx)
}

// askWorker asks the worker of a running run to end it, waits for that, and reports
// whether it asked.
func (s *Service) askWorker(ctx context.Context, tenant, id string, why Ending) (bool, error) {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil || r.Status != Running || r.Wait.For != "" {
		return false, err
	}
	s.Hub.Signal(why.Signal, id)
	_, err = s.Wait(ctx, tenant, id, endingPatience)
	return true, err
}
