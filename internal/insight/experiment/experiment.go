// Package experiment compares versions of an agent, and models, on the same cases: an
// experiment is several evaluations of one dataset, and what tells them apart.
package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/insight/evaluation"
	"agentd/internal/kernel/resource"
	kernelwork "agentd/internal/kernel/work"
)

// WorkKind is the kind of work that completes experiments; the key is the experiment's id.
const WorkKind = "experiment"

// maxExperiments is how many experiments an agent has.
const maxExperiments = 100

// The states.
const (
	running   = "running"
	completed = "completed"
)

// Experiment is an experiment as it is stored.
type Experiment struct {
	resource.Meta `json:"-"`

	AgentID    string      `json:"agent_id"`
	Name       string      `json:"name"`
	DatasetID  string      `json:"dataset_id"`
	Variants   []variant   `json:"variants"`
	Status     string      `json:"status"`
	Comparison *Comparison `json:"comparison"` // nil: it has not ended
}

// variant is one of the things that are compared.
type variant struct {
	EvalRunID string            `json:"eval_run_id"`
	Version   string            `json:"version"`
	Model     *evaluation.Model `json:"model,omitzero"`
}

// Evaluations is the port to evaluations; *evaluation.Service implements it.
type Evaluations interface {
	Apply(o *evaluation.RunOptions, spec *evaluation.Spec) error
	Prepare(ctx context.Context, who authz.Caller, req evaluation.Request) (*evaluation.Record, error)
	StartTx(tx txn.Tx, all ...*evaluation.Record) error
	Sampled(ctx context.Context, r *evaluation.Record) (*evaluation.Samples, error)
}

// Options are what experiments need of others.
type Options struct {
	Evaluations Evaluations
	Store       evaluation.Store
	AgentTx     func(tx txn.Tx, tenant, id string) error // locks an agent. Errors: fault.NotFound
	KnownAgent  func(ctx context.Context, tenant, id string) error
	Queue       kernelwork.Queue
	Clock       clock.Clock
}

// Service is the experiments of all companies.
type Service struct {
	Options
	store  *resource.Store[Experiment]
	writer txn.Writer
}

// New returns the experiments.
func New(deps resource.Deps, o Options) *Service {
	return &Service{o, resource.NewStore(resource.Kind[Experiment]{
		Name: "experiment", Path: "/api/v1/experiments", IDField: "experiment_id", Tag: "Evaluations",
		Readers: resource.Access{Scopes: []authz.Scope{"evaluations:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"evaluations:write"}, Role: authz.Developer},
		Indexes: []resource.Index[Experiment]{{Name: "agent", Of: func(e *Experiment) string { return e.AgentID }}},
		Label:   func(e *Experiment) string { return e.Name },
	}, deps), deps.Writer}
}

type (
	variantIn struct {
		_ struct{} `json:"-" name:"ExperimentVariantCreate"`

		Version   string            `json:"version,omitzero" maxLength:"18" doc:"A version of the agent, as a number. Default: the newest."`
		Model     *evaluation.Model `json:"model,omitzero" doc:"A model of the operator's providers in place of the agent's."`
		EvalRunID string            `json:"eval_run_id,omitzero" ref:"evaluation" maxLength:"36" doc:"A completed evaluation of the dataset, in place of a new one."`
	}
	createIn struct {
		AgentID string `path:"agentId"`
		Body    struct {
			_ struct{} `json:"-" name:"ExperimentCreate"`

			Name      string      `json:"name" required:"true" minLength:"1" maxLength:"200" doc:"What the experiment is called."`
			DatasetID string      `json:"dataset_id" required:"true" ref:"dataset" maxLength:"36" doc:"The dataset whose cases all variants run."`
			Variants  []variantIn `json:"variants" required:"true" minItems:"1" maxItems:"10" doc:"What is compared. The first one is the baseline of the others."`
			Scorers   []string    `json:"scorers,omitzero" maxItems:"50" maxLength:"200" doc:"Names or ids of scorers, as evaluations take them."`
			evaluation.RunOptions
		}
	}
	agentIn struct {
		AgentID string `path:"agentId"`
	}
	oneIn struct {
		AgentID      string `path:"agentId"`
		ExperimentID string `path:"experimentId"`
	}
)

type (
	variantView struct {
		_ struct{} `json:"-" name:"ExperimentVariant"`

		Version   string            `json:"version" required:"true"`
		EvalRunID string            `json:"eval_run_id" format:"uuid" required:"true"`
		Model     *evaluation.Model `json:"model,omitzero"`
	}
	view struct {
		_ struct{} `json:"-" name:"Experiment"`

		ExperimentID string        `json:"experiment_id" format:"uuid" required:"true"`
		TenantID     string        `json:"tenant_id" required:"true"`
		AgentID      string        `json:"agent_id" format:"uuid" required:"true"`
		Name         string        `json:"name" required:"true"`
		DatasetID    string        `json:"dataset_id" format:"uuid" required:"true"`
		Variants     []variantView `json:"variants" required:"true"`
		Status       string        `json:"status" required:"true" enum:"pending,running,completed"`
		Comparison   *Comparison   `json:"comparison" required:"true" doc:"What tells the variants apart; null until all evaluations have ended."`
		CreatedAt    time.Time     `json:"created_at" required:"true"`
	}
	list struct {
		_ struct{} `json:"-" name:"ExperimentList"`

		Experiments []*view `json:"experiments" required:"true" doc:"Newest first."`
		Total       int     `json:"total" required:"true"`
	}
)

func viewOf(e *Experiment) *view {
	v := &view{
		ExperimentID: e.ID, TenantID: e.TenantID, AgentID: e.AgentID, Name: e.Name, DatasetID: e.DatasetID, Variants: []variantView{},
		Status: e.Status, Comparison: e.Comparison, CreatedAt: e.CreatedAt,
	}
	for _, one := range e.Variants {
		v.Variants = append(v.Variants, variantView{Version: one.Version, EvalRunID: one.EvalRunID, Model: one.Model})
	}
	return v
}

// Routes returns the operations on experiments.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary, doc string, status int) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1/agents/{agentId}/experiments" + path, ID: id, Tag: "Evaluations", Summary: summary, Doc: doc,
			Status: status, Scopes: []authz.Scope{"evaluations:read"}, Errors: []int{404},
		}
		if method != "GET" {
			r.Scopes, r.Role, r.Errors = []authz.Scope{"evaluations:write"}, authz.Developer, []int{404, 409, 429, 501}
		}
		return r
	}
	remove := row("DELETE", "/{experimentId}", "deleteExperiment", "Delete an experiment", "Its evaluations stay.", 204)
	remove.Errors = []int{404}
	return []route.Route{
		route.Action(row("POST", "", "createExperiment", "Compare versions and models",
			"Evaluates each variant on the same cases, and shows which are better than the first one, and "+
				"whether that may be chance.", 201), s.create),
		route.Action(row("GET", "", "listExperiments", "List the experiments of an agent", "", 200), s.list),
		route.Action(row("GET", "/{experimentId}", "getExperiment", "Get an experiment", "", 200), s.show),
		route.Action(remove, s.remove),
	}
}

func ofAgent(id string) resource.Find {
	return resource.Find{Where: map[string]string{"agent": id}, Limit: maxExperiments}
}

func (s *Service) create(ctx context.Context, who authz.Caller, in *createIn) (*view, error) {
	e := s.store.Blank()
	e.ID, e.AgentID, e.Name, e.DatasetID, e.Status = ident.New(), in.AgentID, in.Body.Name, in.Body.DatasetID, running
	if strings.TrimSpace(e.Name) == "" {
		return nil, fault.BadFields(fault.Field{Field: "name", Message: "it is blank"})
	}
	started, err := s.prepare(ctx, who, in, e)
	if err != nil {
		return nil, err
	}
	var answer *view
	err = s.writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.AgentTx(tx, who.TenantID, e.AgentID); err != nil {
			return err
		}
		all, err := s.store.ListTx(tx, who.TenantID, ofAgent(e.AgentID))
		if err != nil {
			return err
		}
		if len(all) >= maxExperiments {
			return fault.New(fault.Conflict, "COUNT_LIMIT_REACHED", "An agent has at most %d experiments. Delete some first.", maxExperiments)
		}
		// The comparison is made at once where all evaluations were made before.
		if err := s.Queue.EnqueueTx(tx, s.item(who.TenantID, e.ID)); err != nil {
			return err
		}
		if err := s.Evaluations.StartTx(tx, started...); err != nil {
			return err
		}
		made := *e
		if err := s.store.CreateTx(tx, who, &made); err != nil {
			return err
		}
		answer = viewOf(&made)
		return txn.Answer(tx, answer)
	})
	return answer, err
}

func (s *Service) item(tenant, id string) kernelwork.Item {
	return kernelwork.Item{Kind: WorkKind, Key: id, TenantID: tenant, Due: s.Clock.Now()}
}

// prepare sets the variants of a new experiment, and returns the evaluations that it
// starts.
func (s *Service) prepare(ctx context.Context, who authz.Caller, in *createIn, e *Experiment) (started []*evaluation.Record, err error) {
	for i := range in.Body.Variants {
		v := &in.Body.Variants[i]
		field := fmt.Sprintf("variants[%d]", i)
		if v.EvalRunID != "" {
			r, err := s.existing(ctx, who.TenantID, in, v, field)
			if err != nil {
				return nil, err
			}
			e.Variants = append(e.Variants, variant{r.EvalRunID, fmt.Sprint(r.Version), r.Spec.Model})
			continue
		}
		req := evaluation.Request{AgentID: in.AgentID, DatasetID: in.Body.DatasetID, ExperimentID: e.ID, Scorers: in.Body.Scorers}
		if req.Version, err = evaluation.Version(field+".version", v.Version); err != nil {
			return nil, err
		}
		if err := s.Evaluations.Apply(&in.Body.RunOptions, &req.Spec); err != nil {
			return nil, err
		}
		if v.Model != nil {
			req.Spec.Model = v.Model
		}
		r, err := s.Evaluations.Prepare(ctx, who, req)
		if err != nil {
			return nil, err
		}
		started = append(started, r)
		e.Variants = append(e.Variants, variant{r.EvalRunID, fmt.Sprint(r.Version), r.Spec.Model})
	}
	if len(started) == 0 { // nothing looked for the agent and the dataset yet
		return nil, s.KnownAgent(ctx, who.TenantID, in.AgentID)
	}
	return started, nil
}

// existing returns a completed evaluation that takes part. Errors: fault.NotFound,
// fault.Conflict for one that did not complete, fault.Invalid for a field that
// contradicts it.
func (s *Service) existing(
	ctx context.Context, tenant string, in *createIn, v *variantIn, field string,
) (*evaluation.Record, error) {
	r, err := s.Store.Get(ctx, tenant, v.EvalRunID)
	if err == nil && (r.AgentID != in.AgentID || r.DatasetID != in.Body.DatasetID) {
		err = fault.NewNotFound("evaluation")
	}
	if err != nil {
		return nil, err
	}
	if r.Status != evaluation.Completed {
		return nil, fault.WrongState("evaluation", string(r.Status), "comparing it")
	}
	if v.Model != nil || v.Version != "" && v.Version != fmt.Sprint(r.Version) {
		return nil, fault.BadFields(fault.Field{
			Field: field, Message: "eval_run_id has a version and a model already; leave version and model out",
		})
	}
	return r, nil
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *agentIn) (*list, error) {
	if err := s.KnownAgent(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	all, err := s.store.List(ctx, who.TenantID, ofAgent(in.AgentID))
	slices.Reverse(all)
	l := &list{Experiments: []*view{}, Total: len(all)}
	for _, e := range all {
		l.Experiments = append(l.Experiments, viewOf(e))
	}
	return l, err
}

func (s *Service) get(ctx context.Context, tenant string, in *oneIn) (*Experiment, error) {
	e, err := s.store.Get(ctx, tenant, in.ExperimentID)
	if err == nil && e.AgentID != in.AgentID {
		err = fault.NewNotFound("experiment")
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (s *Service) show(ctx context.Context, who authz.Caller, in *oneIn) (*view, error) {
	e, err := s.get(ctx, who.TenantID, in)
	if err != nil {
		return nil, err
	}
	return viewOf(e), nil
}

func (s *Service) remove(ctx context.Context, who authz.Caller, in *oneIn) (*struct{}, error) {
	if _, err := s.get(ctx, who.TenantID, in); err != nil {
		return nil, err
	}
	return nil, s.writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.store.DeleteTx(tx, who, in.ExperimentID); err != nil {
			return err
		}
		return txn.Answer(tx, nil)
	})
}

// AgentDeleted removes the experiments of an agent that was deleted.
func (s *Service) AgentDeleted(ctx context.Context, tenant, agentID string) error {
	all, err := s.store.List(ctx, tenant, ofAgent(agentID))
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := s.store.Delete(ctx, authz.Caller{TenantID: tenant}, e.ID); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}
