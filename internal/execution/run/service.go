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
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// SignalCancelled is the signal to all nodes that a run was cancelled; its key is
// the run's id.
const SignalCancelled = "run.cancelled"

// Service has the operations that callers have on runs.
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
	Audit    audit.Recorder // of decisions about approvals; nil: nothing is recorded
	// Names returns what agents, keys and members are called; nil: nothing has a name.
	Names Names
	// Artifacts returns the files that a run produced, oldest first; nil: none are
	// stored.
	Artifacts func(ctx context.Context, tenant, id string) ([]Artifact, error)
}

// Request describes a run to be created.
type Request struct {
	RunID        string // empty: a new id
	AgentID      string
	AgentVersion int64 // 0: the newest
	SessionID    *string
	Input        schema.Object
	Limits       Limits
	Metadata     schema.Object
	Options      Options
	Settings     []byte // model_settings, which take precedence over the agent's
	Parsed       *Input // Input as a value, if the caller has it
	// Admit, if set, decides whether the run may begin now; see Admission.
	Admit Admission
	// StepSeq is the number of the last step that the run begins with.
	StepSeq int64
	// Parent is the run that starts this one, whose budgets it spends from too, and
	// ParentStep the step of its call. An empty Parent: no run starts it.
	Parent, ParentStep string
	// StartedBy is what starts the run, where it is neither the caller nor Parent.
	StartedBy Initiator
	// Answer, if set, returns the answer to the request that creates the run; see
	// txn.WithAnswer.
	Answer func(*Run) any
}

// Create stores a run and starts it. It returns the run as it was created,
// queued, however far it is by now. Errors: NotFound for the agent; Conflict
// for a suspended agent, and with ALREADY_EXISTS for a Request.RunID that
// exists.
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
			ResourceLimits: req.Limits.Narrow(spec.Limits), StepSeq: req.StepSeq,
		},
		Options: req.Options, Parsed: req.Parsed, Admit: req.Admit,
	}
	r.Options.KeyID = who.KeyID
	r.Options.apply(model.MergeSettings(spec.Settings, req.Settings))
	r.Show()
	var parent *Record
	if req.Parent != "" {
		if parent, err = s.Runs.Get(ctx, who.TenantID, req.Parent); err != nil {
			return nil, err
		}
	}
	r.descend(who, req, parent)
	r.Options.Budgets = budgets(r, parent)
	if req.Answer != nil {
		ctx = txn.WithAnswer(ctx, func() any { return req.Answer(&r.Run) })
	}
	if err := s.Starter.Start(ctx, r, spec); err != nil {
		return nil, err
	}
	return &r.Run, nil
}

// budgets returns the ids of the budgets that a run spends from: its own, and
// those of its parent, or of the parent of the run that it continues.
func budgets(r, parent *Record) (ids []string) {
	if before := r.Options.Inherits; before != "" {
		ids = slices.DeleteFunc(slices.Clone(r.Options.Budgets), func(id string) bool { return id == before })
	}
	if parent != nil {
		ids = slices.Clip(parent.Options.Budgets)
	}
	if r.ResourceLimits.MaxCostUSD != nil {
		ids = append(ids, r.RunID)
	}
	return ids
}

func orEmpty(v schema.Object) schema.Object {
	if len(v) == 0 {
		return schema.Object("{}")
	}
	return v
}

// Release makes the work of a run due that may begin (see Admission) or that can
// continue after a wait, in the caller's transaction.
func (s *Service) Release(tx txn.Tx, tenant, id string) error {
	return s.Queue.EnqueueTx(tx, work.Item{Kind: s.WorkKind, Key: id, TenantID: tenant, Due: s.Clock.Now()})
}
