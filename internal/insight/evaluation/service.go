package evaluation

import (
	"context"
	"slices"
	"strconv"
	"time"

	"agentd/internal/agents/guardrail"
	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	kernelwork "agentd/internal/kernel/work"
)

// Runs is the port to runs.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) error
	// Get returns a run. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	// List returns a page of runs, newest first.
	List(ctx context.Context, tenant string, f run.Filter, w page.Window) ([]run.Run, error)
	// ListSteps returns the steps of a run, in order.
	ListSteps(ctx context.Context, tenant, id string) ([]run.Step, error)
	// ListStatuses returns the states of those of the runs that exist.
	ListStatuses(ctx context.Context, tenant string, ids []string) (map[string]run.Status, error)
	// CountWorkingTx returns how many of the runs exist, have not ended and wait for no
	// person.
	CountWorkingTx(tx txn.Tx, tenant string, ids []string) (int, error)
	// CreateBudgetTx makes a budget that several runs spend from; see run.Budgets.
	CreateBudgetTx(tx txn.Tx, tenant, id string, usd float64) error
}

// Agents is the port to agents.
type Agents interface {
	// Head returns the newest version of an agent, and whether it takes runs. Errors:
	// fault.NotFound.
	Head(ctx context.Context, tenant, id string) (version int64, active bool, err error)
	// HasVersion reports whether a version of an agent is kept. Errors: fault.NotFound
	// where it is not.
	HasVersion(ctx context.Context, tenant, id string, version int64) error
	// CheckRollback refuses a rollback that would not be possible now.
	CheckRollback(ctx context.Context, tenant, id string, version int64) error
	// RollbackTx makes the configuration of a version the newest one, if from is the newest
	// by now. made is 0 if it is not.
	RollbackTx(tx txn.Tx, who authz.Caller, id string, from, to int64) (made int64, err error)
}

// Models admits calls of models; *modelproxy.Proxy.
type Models interface {
	Open(ctx context.Context, who authz.Caller, params modelproxy.CallParams) (*modelproxy.Call, error)
}

// Options are what evaluations need of others.
type Options struct {
	Store   Store
	Runs    Runs
	Agents  Agents
	AgentTx func(tx txn.Tx, tenant, id string) error // locks an agent. Errors: fault.NotFound
	Models  Models
	// Embed returns a vector for each text; nil: no embedding model is configured.
	Embed func(ctx context.Context, who authz.Caller, texts []string) ([][]float32, error)
	Hooks guardrail.Hooks
	// CheckURL says why an address cannot be called, without looking it up.
	CheckURL func(url string) error
	Meter    quota.Meter // nil: there may be any number of runs
	Queue    kernelwork.Queue
	Clock    clock.Clock
	Cursors  *page.Cursors
	Lease    time.Duration
	// Defaults returns what holds for evaluations that do not say otherwise; it may
	// change. Nil: 16 cases at a time of at most 64, ten minutes.
	Defaults func() Defaults
	// RolledBackTx emits that an agent was rolled back.
	RolledBackTx func(tx txn.Tx, tenant string, at time.Time, b *Rollback) error
}

// Rollback is an agent that was rolled back after a regression.
type Rollback struct {
	EvalRunID         string
	AgentID           string
	DatasetID         string
	FromVersion       string // that did worse
	ToVersion         string // whose configuration is in effect again
	NewVersion        string // that the rollback made
	BaselineEvalRunID string
	PassRate          float64
	BaselinePassRate  float64
}

// Service is the evaluations of all companies.
type Service struct {
	Options
	Writer   txn.Writer
	audit    audit.Recorder
	datasets *resource.Store[Dataset]
	scorers  *resource.Store[Scorer]
	// onEndTx is called with evaluations that end, in the transaction of their end.
	onEndTx func(tx txn.Tx, r *Record) error
}

// New returns the evaluations.
func New(deps resource.Deps, o Options) *Service {
	s := &Service{Options: o, Writer: deps.Writer, audit: deps.Audit, datasets: resource.NewStore(datasets, deps)}
	s.scorers = resource.NewStore(s.scorerKind(), deps)
	return s
}

// ConnectEnd has a function called in the transaction in which an evaluation ends.
func (s *Service) ConnectEnd(onEndTx func(tx txn.Tx, r *Record) error) { s.onEndTx = onEndTx }

// Request is an evaluation that is to be started.
type Request struct {
	AgentID      string
	DatasetID    string
	ExperimentID string
	Version      int64 // 0: the newest
	Scorers      []string
	Spec         Spec // without the scorers and who starts it
}

// planRetryAfter is the Retry-After where the plan allows no run, and waiting does not
// help: every 429 names a time.
const planRetryAfter = time.Hour

// Prepare checks a request and returns the evaluation that it asks for; Start stores it.
// Errors: fault.NotFound for the agent, its version or the dataset; fault.Conflict for a
// suspended agent; fault.Limited where the plan allows no run.
func (s *Service) Prepare(ctx context.Context, who authz.Caller, req Request) (*Record, error) {
	head, active, err := s.Agents.Head(ctx, who.TenantID, req.AgentID)
	if err != nil {
		return nil, err
	}
	if !active {
		return nil, fault.WrongState("agent", "suspended", "starting an evaluation")
	}
	d, err := s.getDataset(ctx, who.TenantID, req.AgentID, req.DatasetID)
	if err != nil {
		return nil, err
	}
	if req.Version == 0 {
		req.Version = head
	} else if err := s.Agents.HasVersion(ctx, who.TenantID, req.AgentID, req.Version); err != nil {
		return nil, err
	}
	if id := req.Spec.Baseline; id != "" {
		base, err := s.Store.Get(ctx, who.TenantID, id)
		if err == nil && base.DatasetID != req.DatasetID {
			err = fault.NewNotFound("evaluation")
		}
		if err != nil {
			return nil, err
		}
		if base.Status != Completed {
			return nil, fault.WrongState("baseline", string(base.Status), "comparing with it")
		}
	}
	if s.Meter != nil {
		if err := s.Meter.AllowRun(ctx, who.TenantID); err != nil {
			return nil, planLimited(err)
		}
	}
	r := &Record{
		TenantID: who.TenantID, EvalRunID: ident.New(), AgentID: req.AgentID, DatasetID: req.DatasetID, ExperimentID: req.ExperimentID,
		Version: req.Version, Status: Pending, Spec: req.Spec, Total: d.Cases, CreatedAt: s.Clock.Now(),
	}
	r.Spec.KeyID, r.Spec.UserID = who.KeyID, who.UserID
	r.Spec.Scorers, err = s.chosen(ctx, who.TenantID, req.AgentID, req.Scorers)
	return r, err
}

// planLimited makes the refusal of an exhausted plan a Limited one.
func planLimited(err error) error {
	f := fault.From(err)
	if f == nil || f.Code != quota.CodeReached || f.Kind != fault.Forbidden {
		return err
	}
	limited := *f
	limited.Kind, limited.RetryAfter = fault.Limited, planRetryAfter
	return &limited
}

// StartTx stores prepared evaluations, which begin after the commit. Errors: fault.Limited
// where the company has as many under way as it may.
func (s *Service) StartTx(tx txn.Tx, all ...*Record) error {
	if len(all) == 0 {
		return nil
	}
	open, err := s.Store.CountOpenTx(tx, all[0].TenantID)
	if err != nil {
		return err
	}
	if open+len(all) > maxOpen {
		f := fault.New(fault.Limited, "", "%d evaluations of the company are under way, and there may be %d. Wait until some have ended, "+
			"or cancel them.", open, maxOpen)
		f.RetryAfter = 10 * time.Second
		return f
	}
	for _, r := range all {
		if err := s.Store.CreateTx(tx, r); err != nil {
			return err
		}
		if usd := r.Spec.MaxCostUSD; usd > 0 {
			if err := s.Runs.CreateBudgetTx(tx, r.TenantID, r.EvalRunID, usd); err != nil {
				return err
			}
		}
		if err := s.Queue.EnqueueTx(tx, s.item(r)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) item(r *Record) kernelwork.Item {
	return kernelwork.Item{Kind: WorkKind, Key: r.EvalRunID, TenantID: r.TenantID, Due: s.Clock.Now()}
}

// cancel requests the end of an evaluation. Errors: fault.NotFound, fault.Conflict where
// it has ended.
func (s *Service) cancel(ctx context.Context, who authz.Caller, agentID, evalRunID string) (*Record, error) {
	r, err := s.get(ctx, who.TenantID, agentID, evalRunID)
	if err != nil {
		return nil, err
	}
	if r.Status.Final() {
		return nil, fault.WrongState("evaluation", string(r.Status), "cancelling")
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		// Like workers, it locks the work before the row.
		if err := s.Queue.EnqueueTx(tx, s.item(r)); err != nil {
			return err
		}
		if err := s.Store.RequestCancelTx(tx, who.TenantID, evalRunID); err != nil {
			return err
		}
		if err := s.record(tx, who, "cancelled", evalRunID); err != nil {
			return err
		}
		return txn.Answer(tx, ViewOf(r))
	})
	return r, err
}

// record notes in the audit log what was done with an evaluation.
func (s *Service) record(tx txn.Tx, who authz.Caller, action, evalRunID string) error {
	return audit.Write(s.audit, tx, who, audit.Entry{Action: "evaluation." + action, TargetType: "evaluation", TargetID: evalRunID})
}

// get returns an evaluation of an agent. Errors: fault.NotFound.
func (s *Service) get(ctx context.Context, tenant, agentID, evalRunID string) (*Record, error) {
	r, err := s.Store.Get(ctx, tenant, evalRunID)
	if err == nil && r.AgentID != agentID {
		err = fault.NewNotFound("evaluation")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// OnRunState wakes an evaluation whose run waits for a person, which no one will answer.
// It is a run.Watcher.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if w := r.Options.Wakes; w == nil || w.Kind != WorkKind || !r.Status.Waits() {
		return nil
	}
	return s.Queue.EnqueueTx(tx, kernelwork.Item{Kind: WorkKind, Key: r.Options.Wakes.Key, TenantID: r.TenantID, Due: s.Clock.Now()})
}

// maxOrphans is how many runs of evaluations are ended with their agent.
const maxOrphans = maxOpen * maxConcurrency

// AgentDeleted removes what belongs to an agent that was deleted.
func (s *Service) AgentDeleted(ctx context.Context, tenant, agentID string) error {
	who := authz.Caller{TenantID: tenant}
	var orphans []string
	err := s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		orphans, err = s.Store.DeleteAgentTx(tx, tenant, agentID, maxOrphans)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range orphans {
		if err := s.Runs.Cancel(ctx, tenant, id); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	sets, err := s.datasets.List(ctx, tenant, ofAgent(agentID, maxDatasets))
	if err != nil {
		return err
	}
	for _, d := range sets {
		if err := s.removeDataset(ctx, who, d.ID); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	scorers, err := s.scorers.List(ctx, tenant, ofAgent(agentID, maxScorers))
	if err != nil {
		return err
	}
	for _, c := range scorers {
		if err := s.scorers.Delete(ctx, who, c.ID); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// removeDataset deletes a dataset with its cases. Evaluations of it keep their results.
func (s *Service) removeDataset(ctx context.Context, who authz.Caller, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.datasets.DeleteTx(tx, who, id); err != nil {
			return err
		}
		if err := s.Store.DeleteCasesTx(tx, who.TenantID, id); err != nil {
			return err
		}
		return txn.Answer(tx, nil)
	})
}

// Comparable reports whether two evaluations measured the same way: with scorers of the
// same names.
func Comparable(a, b *Record) bool {
	names := func(r *Record) (all []string) {
		for _, c := range r.Spec.Scorers {
			all = append(all, c.Name)
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(names(a), names(b))
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
