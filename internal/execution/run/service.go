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
	// OnApproval is called in the transaction that decides or closes an approval; nil:
	// not called. Watchers are not: the run may go on waiting for others.
	OnApproval func(tx txn.Tx, tenant, approvalID string)
	Meter      quota.Meter    // nil: nothing is counted
	Sessions   SessionGate    // nil: there are none
	Audit      audit.Recorder // of decisions about approvals; nil: nothing is recorded
	// Names returns what agents, keys and members are called; nil: nothing has a name.
	Names   Names
	CostCap CostCap // nil: no agent has permissions
	Files   Files   // that runs may be given; nil: there are none
	Models  Models  // nil: nothing is known of what models take
	// Redaction returns what replaces data that tenants do not store; nil: all of it is stored.
	Redaction Redaction
	// Closed returns why no runs are taken at the moment, nil if they are; nil: they
	// always are. Runs that others start are taken all the same.
	Closed func() error
	// Artifacts returns the files that a run produced, oldest first; nil: none are
	// stored.
	Artifacts func(ctx context.Context, tenant, id string) ([]Artifact, error)
}

// CostCap returns what the permissions of an agent let its runs spend on models, in US
// dollars; not bounded where they set no cap, lenient where nobody asked for it.
type CostCap func(ctx context.Context, tenant, agent string) (usd float64, bounded, lenient bool, err error)

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
	// MediaField is the field of the caller's request that Input's files and images come
	// from; "": input.
	MediaField string
	// Admit, if set, decides whether the run may begin now; see Admission.
	Admit Admission
	// StepSeq is the number of the last step that the run begins with.
	StepSeq int64
	// Parent is the run that starts this one, whose budgets it spends from too, and
	// ParentStep the step of its call. An empty Parent: no run starts it. The end of
	// a run with a ParentStep wakes its parent, and it is refused if the parent has
	// ended.
	Parent, ParentStep string
	// Wakes is the work that the run's end makes due, where no step started it.
	Wakes Wakes
	// TeamRunID is the run of a team that the run is part of; "": none.
	TeamRunID string
	// Budgets are further budgets that the run spends from, as what starts it says. They
	// do not bind a model without a price.
	Budgets []string
	// StartedBy is what starts the run, where it is neither the caller nor Parent.
	StartedBy Initiator
	// Answer, if set, returns the answer to the request that creates the run; see
	// txn.WithAnswer.
	Answer func(*Run) any
}

// Create stores a run and starts it. It returns the run as it was created,
// queued, however far it is by now. Errors: NotFound for the agent; Conflict
// for a suspended agent, what Closed returns, and with ALREADY_EXISTS for a Request.RunID that
// exists.
func (s *Service) Create(ctx context.Context, who authz.Caller, req Request) (*Run, error) {
	if s.Closed != nil && req.Parent == "" {
		if err := s.Closed(); err != nil {
			return nil, err
		}
	}
	spec, err := specOfRequest(ctx, s.Agents, who.TenantID, &req)
	if err != nil {
		return nil, err
	}
	if spec.Suspended {
		return nil, fault.WrongState("agent", "suspended", "starting a run")
	}
	if spec.OnMachine && req.Options.Visitor {
		return nil, fault.New(fault.Conflict, "RUNS_ON_MACHINE", "The agent's runs are carried by a machine, which works for no strangers.")
	}
	if spec.OnMachine && req.Options.Sandbox != nil {
		return nil, fault.New(fault.Conflict, "RUNS_ON_MACHINE",
			"The agent's runs are carried by its machine, which cannot try what is not saved. Save the change, then start a run.")
	}
	if req.RunID == "" {
		req.RunID = ident.New()
	}
	attached := false
	if req.Parsed == nil {
		if req.Input, attached, err = attachFiles(ctx, s.Files, who.TenantID, req.Input); err != nil {
			return nil, err
		}
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
	r.Options.KeyID, r.Options.Lenient, r.Options.OnMachine = who.KeyID, nil, spec.OnMachine
	if err := r.setOutcome(spec); err != nil {
		return nil, err
	}
	if err := capCost(ctx, r, s.CostCap); err != nil {
		return nil, err
	}
	r.Options.apply(model.MergeSettings(spec.Settings, req.Settings))
	if attached || r.hasFiles() {
		r.Options.Sources = model.JoinSources(r.Options.Sources, []string{model.SourceFile})
		if err := checkMedia(ctx, s.Models, r, spec, req.MediaField); err != nil {
			return nil, err
		}
	}
	r.Show()
	var parent *Record
	if req.Parent != "" {
		if parent, err = s.Runs.Get(ctx, who.TenantID, req.Parent); err != nil {
			return nil, err
		}
		r.Options.Sources = model.JoinSources(r.Options.Sources, parent.Options.Sources)
	}
	r.descend(who, req, parent)
	s.wakeAtEnd(r, req)
	if req.TeamRunID != "" {
		r.TeamRunID = &req.TeamRunID
	}
	r.Options.Budgets = budgets(r, parent, req.Budgets)
	r.Options.Lenient = append(r.Options.Lenient, req.Budgets...)
	if parent != nil {
		r.Options.Lenient = append(r.Options.Lenient, parent.Options.Lenient...)
	}
	if req.Answer != nil {
		ctx = txn.WithAnswer(ctx, func() any { return req.Answer(&r.Run) })
	}
	if err := s.Starter.Start(ctx, r, spec); err != nil {
		return nil, err
	}
	return &r.Run, nil
}

// specOfRequest returns the configuration that a new run uses: that of the version that it asks
// for, or the one that the agent's traffic chooses.
func specOfRequest(ctx context.Context, agents Agents, tenant string, req *Request) (*AgentSpec, error) {
	r := &Record{
		Run:     Run{TenantID: tenant, AgentID: req.AgentID, AgentVersion: req.AgentVersion},
		Options: Options{Sandbox: req.Options.Sandbox, Visitor: req.Options.Visitor},
	}
	spec, err := SpecOf(ctx, agents, r)
	if err != nil || req.AgentVersion != 0 || spec.Traffic == nil {
		return spec, err
	}
	session := ""
	if req.SessionID != nil {
		session = *req.SessionID
	}
	if r.AgentVersion = spec.Traffic.Choose(session); r.AgentVersion == 0 || r.AgentVersion == spec.Version {
		return spec, nil
	}
	chosen, err := SpecOf(ctx, agents, r)
	if fault.Is(err, fault.NotFound) { // the version is not kept any more
		return spec, nil
	}
	return chosen, err
}

// minCap is the cap of a run that may spend nothing: no call with a price is so cheap.
const minCap = 1e-9

// capCost narrows what a run may spend to what the permissions of its agent allow.
func capCost(ctx context.Context, r *Record, allowed CostCap) error {
	if allowed == nil {
		return nil
	}
	usd, bounded, lenient, err := allowed(ctx, r.TenantID, r.AgentID)
	if err != nil || !bounded {
		return err
	}
	usd = max(usd, minCap)
	if own := r.ResourceLimits.MaxCostUSD; own == nil || usd < *own {
		r.ResourceLimits.MaxCostUSD = &usd
		if lenient && own == nil {
			r.Options.Lenient = []string{r.RunID}
		}
	}
	return nil
}

// budgets returns the ids of the budgets that a run spends from: its own, and
// those of its parent, or of the parent of the run that it continues, and further ones.
func budgets(r, parent *Record, further []string) (ids []string) {
	if before := r.Options.Inherits; before != "" {
		ids = slices.DeleteFunc(slices.Clone(r.Options.Budgets), func(id string) bool { return id == before })
	}
	if parent != nil {
		ids = slices.Clip(parent.Options.Budgets)
	}
	for _, id := range further {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
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
