// Package errand has agents of other systems do tasks of teams, by the Agent2Agent
// protocol. An errand is a row, and its work sends the task, asks how far it is, and wakes
// the team when it has ended. A worker that takes over from one that was killed asks the
// peer for the task instead of sending it twice.
package errand

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
	"agentd/internal/teams/a2a"
	"agentd/internal/teams/team"
	"agentd/internal/teams/teamrun"
)

// WorkKind is the kind of work that does errands; the key is the id of the task.
const WorkKind = "a2a.errand"

// Errand is a task of a team that an agent of another system does.
type Errand struct {
	TenantID  string    `json:"-"`
	TaskID    string    `json:"-"` // in the place of a run's id
	TeamRunID string    `json:"-"`
	Cancel    bool      `json:"-"` // its end was requested
	CreatedAt time.Time `json:"-"`

	Worker  team.External `json:"worker"`
	Message string        `json:"message,omitzero"` // until it has ended
	Until   time.Time     `json:"until,omitzero"`
	// Begun is stored before the message is sent: afterwards the peer may have it.
	Begun    bool       `json:"begun,omitzero"`
	PeerTask string     `json:"peer_task,omitzero"` // the peer's id of the task, once it is known
	Failures int        `json:"failures,omitzero"`  // of calls, one after another
	Polls    int        `json:"polls,omitzero"`
	Status   run.Status `json:"status,omitzero"` // once it has ended
	Text     string     `json:"text,omitzero"`
	Error    string     `json:"error,omitzero"`
}

// Store keeps errands.
type Store interface {
	// CreateTx stores an errand, and reports whether there was none.
	CreateTx(tx txn.Tx, e *Errand) (bool, error)
	// UpdateTx stores how far an errand is; only the worker that holds it changes that.
	UpdateTx(tx txn.Tx, e *Errand) error
	RequestCancelTx(tx txn.Tx, tenant, taskID string) error
	// Get returns an errand. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, taskID string) (*Errand, error)
	DeleteTx(tx txn.Tx, tenant, taskID string) error
}

// Service does errands. It implements teamrun.External.
type Service struct {
	Store       Store
	Peers       a2a.Peers
	Credentials *a2a.Credentials
	Writer      txn.Writer
	Queue       work.Queue
	Clock       clock.Clock
	// Over reports whether the run of a team has ended or is gone.
	Over func(ctx context.Context, tenant, teamRunID string) (bool, error)
}

var _ teamrun.External = (*Service)(nil)

// Bounds of an errand.
const (
	maxMessage = 200_000 // bytes
	callTime   = time.Minute
	// startTime bounds the call that sends the message: a peer may do the task before it
	// answers.
	startTime   = 5 * time.Minute
	maxFailures = 8
	firstWait   = time.Second
	longestWait = 30 * time.Second
	// defaultTime is how long a peer may take where the team sets no limit.
	defaultTime = 24 * time.Hour
	// kept is how long an errand that has ended is kept for its team.
	kept = time.Hour
)

// Start implements teamrun.External.
func (s *Service) Start(ctx context.Context, t teamrun.ExternalTask) error {
	e := &Errand{
		TenantID: t.TenantID, TaskID: t.ID, TeamRunID: t.TeamRunID, CreatedAt: s.Clock.Now(), Until: t.Until, Message: messageOf(&t.Input),
	}
	if err := json.Unmarshal(t.Worker, &e.Worker); err != nil {
		return err
	}
	if e.Until.IsZero() {
		e.Until = e.CreatedAt.Add(defaultTime)
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		created, err := s.Store.CreateTx(tx, e)
		if err != nil || !created {
			return err
		}
		return s.Queue.EnqueueTx(tx, s.item(e))
	})
}

func (s *Service) item(e *Errand) work.Item {
	return work.Item{Kind: WorkKind, Key: e.TaskID, TenantID: e.TenantID, Due: s.Clock.Now()}
}

// messageOf returns what a peer receives: it knows nothing of the team.
func messageOf(in *run.Input) string {
	var b strings.Builder
	b.WriteString(in.Instructions)
	for i := range in.History {
		b.WriteString("\n\n[" + string(in.History[i].Role) + "]\n" + in.History[i].Text)
	}
	b.WriteString("\n\n" + in.Message)
	return text.Truncate(strings.TrimSpace(b.String()), maxMessage)
}

// Poll implements teamrun.External.
func (s *Service) Poll(ctx context.Context, tenant, id string) (teamrun.ExternalState, error) {
	e, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return teamrun.ExternalState{}, err
	}
	return teamrun.ExternalState{Status: e.Status, Text: e.Text, Error: e.Error}, nil
}

// Cancel implements teamrun.External.
func (s *Service) Cancel(ctx context.Context, tenant, id string) error {
	e, err := s.Store.Get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) || err == nil && e.Status != "" {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Queue.EnqueueTx(tx, s.item(e)); err != nil {
			return err
		}
		return s.Store.RequestCancelTx(tx, tenant, id)
	})
}

// Handle is the work.Handler of WorkKind.
func (s *Service) Handle(ctx context.Context, lease work.Lease) error {
	e, err := s.Store.Get(ctx, lease.TenantID, lease.Key)
	switch {
	case fault.Is(err, fault.NotFound):
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, lease) })
	case err != nil:
		return err
	case e.Status != "": // its team has read it by now
		return s.Writer.Write(ctx, func(tx txn.Tx) error {
			if err := s.Queue.FinishTx(tx, lease); err != nil {
				return err
			}
			return s.Store.DeleteTx(tx, e.TenantID, e.TaskID)
		})
	}
	d := &doing{Service: s, Errand: e, lease: lease}
	over, err := s.Over(ctx, e.TenantID, e.TeamRunID)
	if err != nil {
		return err
	}
	switch {
	case e.Cancel || over:
		d.giveUp(ctx)
		return d.end(ctx, run.Cancelled, "", "The run of the team ended.")
	case !s.Clock.Now().Before(e.Until):
		d.giveUp(ctx)
		return d.end(ctx, run.TimedOut, "", "The agent of the other system did not end the task in time.")
	}
	return d.step(ctx)
}

// doing is one worker's holding of an errand.
type doing struct {
	*Service
	*Errand
	lease work.Lease
}

// step sends the task, or asks how far it is.
func (d *doing) step(ctx context.Context) error {
	patience := startTime
	if d.PeerTask != "" {
		patience = callTime
	}
	limited, stop := context.WithTimeout(ctx, patience)
	defer stop()
	peer, err := d.connect(limited)
	if err != nil {
		return d.failed(ctx, err)
	}
	switch {
	case d.PeerTask != "":
		r, err := peer.Get(limited, d.PeerTask)
		return d.answered(ctx, r, err)
	case d.Begun:
		return d.again(ctx, limited, peer)
	}
	d.Begun = true
	if err := d.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := d.Queue.HoldTx(tx, d.lease, patience+callTime); err != nil {
			return err
		}
		return d.Store.UpdateTx(tx, d.Errand)
	}); err != nil {
		return err
	}
	return d.send(ctx, limited, peer)
}

// again goes on where it is not known whether the peer has the message.
func (d *doing) again(ctx, limited context.Context, peer a2a.Peer) error {
	r, err := peer.Find(limited, d.TaskID)
	switch {
	case errors.Is(err, a2a.ErrUnlisted):
		return d.end(ctx, run.Failed, "", "The connection was lost while the task was sent. "+
			"The other system does not say which tasks it has, and it is not sent twice.")
	case err != nil || r != nil:
		return d.answered(ctx, r, err)
	}
	return d.send(ctx, limited, peer)
}

func (d *doing) send(ctx, limited context.Context, peer a2a.Peer) error {
	r, err := peer.Start(limited, d.TaskID, d.Message)
	return d.answered(ctx, r, err)
}

func (d *doing) connect(ctx context.Context) (a2a.Peer, error) {
	to := a2a.Target{TenantID: d.TenantID, URL: d.Worker.CardURL, Endpoint: d.Worker.Endpoint}
	if a := d.Worker.Auth; a != nil && a.TokenRef != "" {
		var err error
		if to.Auth, err = d.Credentials.Get(ctx, d.TenantID, a.TokenRef); err != nil {
			return nil, err
		}
	}
	return d.Peers.Connect(ctx, to)
}

// giveUp has the peer end the task, as far as it does.
func (d *doing) giveUp(ctx context.Context) {
	if !d.Begun {
		return
	}
	limited, stop := context.WithTimeout(ctx, callTime)
	defer stop()
	peer, err := d.connect(limited)
	if err != nil {
		return
	}
	id := d.PeerTask
	if id == "" {
		if r, err := peer.Find(limited, d.TaskID); err == nil && r != nil {
			id = r.TaskID
		}
	}
	if id != "" {
		_ = peer.Cancel(limited, id) // whatever it answers, the team has gone on
	}
}

// answered stores what a peer said of the task.
func (d *doing) answered(ctx context.Context, r *a2a.Reply, err error) error {
	if err != nil {
		return d.failed(ctx, err)
	}
	d.Failures = 0
	if d.PeerTask == "" {
		d.PeerTask = r.TaskID
	}
	switch state := a2a.State(r.State); state {
	case a2a.Completed:
		return d.end(ctx, run.Completed, r.Text, "")
	case a2a.Submitted, a2a.Working:
		if d.PeerTask == "" {
			return d.end(ctx, run.Failed, "", "The agent of the other system works on a task without an id.")
		}
		d.Polls++
		return d.wait(ctx, min(firstWait<<min(d.Polls-1, 10), longestWait))
	case a2a.Canceled:
		return d.end(ctx, run.Cancelled, "", "The other system cancelled the task. "+r.Text)
	default:
		return d.end(ctx, run.Failed, "", "The agent of the other system ended the task as "+string(state)+". "+r.Text)
	}
}

// failed tries a call again later, unless the peer refused it or it failed too often.
func (d *doing) failed(ctx context.Context, err error) error {
	f := fault.From(err)
	if f.Kind == fault.Internal && !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err // of this system
	}
	d.Failures++
	gone := fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Invalid)
	if gone || errors.Is(err, a2a.ErrRefused) || d.Failures >= maxFailures {
		return d.end(ctx, run.Failed, "", f.Detail)
	}
	return d.wait(ctx, min(firstWait<<min(d.Failures-1, 10), longestWait))
}

func (d *doing) wait(ctx context.Context, wait time.Duration) error {
	due := d.Clock.Now().Add(wait)
	if d.Until.Before(due) {
		due = d.Until
	}
	return d.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := d.Queue.RescheduleTx(tx, d.lease, due, nil); err != nil {
			return err
		}
		return d.Store.UpdateTx(tx, d.Errand)
	})
}

// end ends the errand, and wakes its team.
func (d *doing) end(ctx context.Context, status run.Status, said, reason string) error {
	d.Status, d.Text, d.Error, d.Message = status, said, text.Truncate(strings.TrimSpace(reason), maxReason), ""
	return d.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := d.Queue.RescheduleTx(tx, d.lease, d.Clock.Now().Add(kept), nil); err != nil {
			return err
		}
		if err := d.Store.UpdateTx(tx, d.Errand); err != nil {
			return err
		}
		return d.Queue.EnqueueTx(tx, work.Item{Kind: teamrun.WorkKind, Key: d.TeamRunID, TenantID: d.TenantID, Due: d.Clock.Now()})
	})
}

// maxReason bounds the characters of why an errand failed.
const maxReason = 2000
