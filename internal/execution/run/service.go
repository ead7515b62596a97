package run

import (
	"context"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// SignalCancelled tells the nodes that a run was cancelled: the key is its id.
const SignalCancelled = "run.cancelled"

// Service is what callers can do with runs.
type Service struct {
	Runs    Store
	Writer  txn.Writer
	Queue   work.Queue
	Log     event.Log
	Hub     *event.Hub
	Agents  Agents
	Starter Starter
	Cursors *page.Cursors
	Clock   clock.Clock
	// WorkKind is the kind of the engine's items, which a cancellation removes.
	WorkKind string
	Watchers *Watchers
	Meter    quota.Meter    // nil: nothing is counted
	Sessions SessionGate    // nil: there are none
	Audit    audit.Recorder // told who decided about approvals; nil: nobody
	// Artifacts gives the files that a run made, oldest first; nil: none are kept.
	Artifacts func(ctx context.Context, tenant, id string) ([]Artifact, error)
}

// Request is what a run is made of.
type Request struct {
	RunID        string // empty: a new id
	AgentID      string
	AgentVersion int64 // 0: the newest
	SessionID    *string
	Input        schema.Object
	Limits       Limits
	Metadata     schema.Object
	Options      Options
	Parsed       *Input // Input as a value, if the caller has it
	// Admit, if set, decides whether the run's turn has come; see Admission.
	Admit Admission
	// Parent is the run that starts this one, whose budgets it spends from too.
	Parent string
	// Answer, if set, is what a caller's request is answered that makes the run;
	// see txn.Promise.
	Answer func(*Run) any
}

// Create stores a run and sets it going. It returns the run as it was made,
// queued, however far it is by now. Errors: NotFound for the agent, Conflict
// for a suspended one, and with ALREADY_EXISTS for a Request.RunID that is
// there.
func (s *Service) Create(ctx context.Context, who authz.Caller, req Request) (*Run, error) {
	spec, err := s.Agents.Spec(ctx, who.TenantID, req.AgentID, req.AgentVersion)
	if err != nil {
		return nil, err
	}
	if spec.Suspended {
		return nil, fault.WrongState("agent", "suspended", "starting a run")
	}
	if req.RunID == "" {
		req.RunID = ident.New()
	}
	r := &Record{
		Run: Run{
			RunID: req.RunID, TenantID: who.TenantID, AgentID: spec.ID, AgentVersion: spec.Version,
			SessionID: req.SessionID, Status: Queued, Input: orEmpty(req.Input), Metadata: orEmpty(req.Metadata),
			CreatedAt: s.Clock.Now(), Artifacts: []Artifact{},
			ResourceLimits: req.Limits.Narrow(spec.Limits),
		},
		Options: req.Options, Parsed: req.Parsed, Admit: req.Admit,
	}
	r.Options.KeyID = who.KeyID
	if r.Options.Budgets, err = s.budgets(ctx, r, req.Parent); err != nil {
		return nil, err
	}
	if req.Answer != nil {
		ctx = txn.Promise(ctx, func() any { return req.Answer(&r.Run) })
	}
	if err := s.Starter.Start(ctx, r, spec); err != nil {
		return nil, err
	}
	return &r.Run, nil
}

// budgets are what a run spends from.
func (s *Service) budgets(ctx context.Context, r *Record, parent string) (ids []string, err error) {
	if parent != "" {
		p, err := s.Runs.Get(ctx, r.TenantID, parent)
		if err != nil {
			return nil, err
		}
		ids = slices.Clip(p.Options.Budgets)
	}
	if r.ResourceLimits.MaxCostUSD != nil {
		ids = append(ids, r.RunID)
	}
	return ids, nil
}

func orEmpty(v schema.Object) schema.Object {
	if len(v) == 0 {
		return schema.Object("{}")
	}
	return v
}

// Release sets a run going whose turn has come (see Admission), or that waited
// and can go on, in the caller's transaction.
func (s *Service) Release(tx txn.Tx, tenant, id string) error {
	return s.Queue.EnqueueTx(tx, work.Item{Kind: s.WorkKind, Key: id, TenantID: tenant, Due: s.Clock.Now()})
}
