package evaluation

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

type (
	startIn struct {
		AgentID string `path:"agentId"`
		Body    struct {
			_ struct{} `json:"-" name:"EvalRunCreate"`

			DatasetID    string   `json:"dataset_id" required:"true" ref:"dataset" maxLength:"36" doc:"The dataset whose cases are run."`
			Version      string   `json:"agent_version,omitzero" maxLength:"18" doc:"The version of the agent, as a number. Default: the newest."`
			Scorers      []string `json:"scorers,omitzero" maxItems:"50" maxLength:"200" doc:"Names or ids of scorers; exact, contains, numeric, tool_calls and embedding need not be created. Default: all scorers of the agent, or exact and tool_calls where it has none."`
			AutoRollback bool     `json:"auto_rollback_on_regression,omitzero" doc:"If there is a regression, and the evaluated version is the newest one, the agent gets the configuration of the baseline's version back."`
			Baseline     string   `json:"baseline_eval_run_id,omitzero" ref:"evaluation" maxLength:"36" doc:"A completed evaluation of the same dataset to compare with. Default: the newest one of another version with the same scorers."`
			MaxDrop      *float64 `json:"max_drop,omitzero" minimum:"0" maximum:"1" doc:"By how much the pass rate and the mean scores may fall against the baseline. A smaller fall is a regression too if it is not chance. Default: 0.05."`
			RunOptions
		}
	}
	listIn struct {
		AgentID string `path:"agentId"`
		Limit   string `query:"limit" doc:"Evaluations per page, 1 to 200; 50 if omitted."`
		Cursor  string `query:"cursor"`
	}
	runIn struct {
		AgentID   string `path:"agentId"`
		EvalRunID string `path:"evalRunId"`
	}
	resultsIn struct {
		AgentID   string `path:"agentId"`
		EvalRunID string `path:"evalRunId"`
		Limit     string `query:"limit" doc:"Results per page, 1 to 1,000; 100 if omitted."`
		Cursor    string `query:"cursor"`
	}
)

// RunOptions are how the cases of an evaluation are run.
type RunOptions struct {
	Concurrency   *int     `json:"concurrency,omitzero" minimum:"1" maximum:"64" doc:"How many cases are run at a time, 1 to 64. Default: 16."`
	CaseTimeoutMS *int64   `json:"case_timeout_ms,omitzero" minimum:"1" maximum:"86400000" doc:"Milliseconds of running time of each case. Default: 600,000."`
	MaxCostUSD    *float64 `json:"max_cost_usd,omitzero" minimum:"0" doc:"US dollars that the runs may spend together; 0 and left out: no limit of its own."`
	Model         *Model   `json:"model,omitzero" doc:"A model of the operator's providers that the runs use in place of the agent's."`
	Sandbox       bool     `json:"sandbox,omitzero" doc:"The runs call only tools that change nothing, wait for no person, and cause no webhooks, notifications and memories. Default: false, the runs are ordinary ones."`
}

// Defaults is what holds for evaluations that do not say otherwise.
type Defaults struct {
	Concurrency, MaxConcurrency int
	CaseTimeout                 time.Duration
}

func (o *Options) defaults() Defaults {
	if o.Defaults != nil {
		return o.Defaults()
	}
	return Defaults{defaultConcurrency, maxConcurrency, defaultCaseTimeout}
}

// Apply sets what the options of a request say. Errors: fault.Invalid.
func (o *Options) Apply(sent *RunOptions, spec *Spec) error {
	d := o.defaults()
	if sent.Concurrency != nil && *sent.Concurrency > d.MaxConcurrency {
		return fault.BadFields(fault.Field{Field: "concurrency", Message: fmt.Sprintf(
			"the operator of this service lets evaluations run at most %d cases at a time", d.MaxConcurrency)})
	}
	sent.apply(spec, d)
	return nil
}

func (o *RunOptions) apply(s *Spec, d Defaults) {
	s.Concurrency, s.CaseTimeoutMS = d.Concurrency, d.CaseTimeout.Milliseconds()
	if o.Concurrency != nil {
		s.Concurrency = *o.Concurrency
	}
	if o.CaseTimeoutMS != nil {
		s.CaseTimeoutMS = *o.CaseTimeoutMS
	}
	s.MaxCostUSD, s.Model, s.Sandbox = ptr.Value(o.MaxCostUSD), o.Model, o.Sandbox
}

// defaultDrop is by how much measurements may fall unless an evaluation says otherwise.
const defaultDrop = 0.05

// Version returns a version of an agent from a body; 0: the newest. Errors: fault.Invalid.
func Version(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fault.BadFields(fault.Field{Field: field, Message: `it is not the number of a version, such as "3"`})
	}
	return n, nil
}

type (
	resultView struct {
		_ struct{} `json:"-" name:"EvalResult"`

		CaseID     string             `json:"case_id" format:"uuid" required:"true"`
		RunID      string             `json:"run_id" format:"uuid" required:"true"`
		Scores     map[string]float64 `json:"scores" required:"true" doc:"By the name of the scorer, from 0 to 1. Scorers that the case has nothing for are left out."`
		Reasons    map[string]string  `json:"reasons,omitzero" doc:"Why a score is what it is, by the name of the scorer."`
		Passed     bool               `json:"passed" required:"true" doc:"Whether all scores reach their thresholds."`
		Error      string             `json:"error,omitzero" doc:"Why the case could not be judged."`
		Output     string             `json:"output" required:"true" doc:"The beginning of the answer, 1,000 characters."`
		DurationMS float64            `json:"duration_ms" required:"true"`
		TokensUsed int64              `json:"tokens_used" required:"true"`
		CostUSD    float64            `json:"cost_usd" required:"true"`
	}
	erroredView struct {
		_ struct{} `json:"-" name:"EvalErroredCase"`

		CaseID string `json:"case_id" format:"uuid" required:"true"`
		Error  string `json:"error" required:"true"`
	}
	// View is an evaluation as callers see it.
	View struct {
		_ struct{} `json:"-" name:"EvalRun"`

		EvalRunID    string        `json:"eval_run_id" format:"uuid" required:"true"`
		TenantID     string        `json:"tenant_id" required:"true"`
		AgentID      string        `json:"agent_id" format:"uuid" required:"true"`
		DatasetID    string        `json:"dataset_id" format:"uuid" required:"true"`
		ExperimentID string        `json:"experiment_id,omitzero" format:"uuid" doc:"The experiment that it is part of."`
		AgentVersion string        `json:"agent_version" required:"true"`
		Model        *Model        `json:"model,omitzero" doc:"The model that the runs use in place of the agent's."`
		Status       Status        `json:"status" enum:"pending,running,completed,failed,cancelled" required:"true" doc:"failed: it ended before all cases were run; error says why."`
		Error        string        `json:"error,omitzero" doc:"Why it ended early, in one sentence."`
		Scorers      []string      `json:"scorers" required:"true" doc:"Names of the scorers."`
		TotalCases   int           `json:"total_cases" required:"true"`
		EndedCases   int           `json:"ended_cases" required:"true" doc:"How many cases have been run and judged."`
		Results      []resultView  `json:"results,omitzero" doc:"The first results, in the order of the cases, up to 1,000 and 4 MiB; GET …/results has all of them. Not in lists."`
		Errored      []erroredView `json:"errored_cases,omitzero" doc:"The cases among results that could not be judged."`
		Summary      *Summary      `json:"summary" required:"true" doc:"What it found; null until it ends."`
		CreatedAt    time.Time     `json:"created_at" required:"true"`
		CompletedAt  *time.Time    `json:"completed_at" required:"true"`
	}
	list struct {
		_ struct{} `json:"-" name:"EvalRunList"`

		EvalRuns []View `json:"eval_runs" required:"true" doc:"Newest first, without their results."`
		Total    int    `json:"total" required:"true" doc:"On this page."`
		HasMore  bool   `json:"has_more" required:"true"`
		Cursor   string `json:"cursor,omitzero"`
	}
	results struct {
		_ struct{} `json:"-" name:"EvalResultList"`

		Results []resultView `json:"results" required:"true" doc:"In the order of the cases; a case appears when it has ended."`
		HasMore bool         `json:"has_more" required:"true"`
		Cursor  string       `json:"cursor,omitzero"`
	}
)

// size returns about how many bytes a result has.
func (r Result) size() int {
	n := 400 + len(r.Output) + len(r.Error)
	for name, reason := range r.Reasons {
		n += len(name) + len(reason)
	}
	return n
}

func viewOfResult(r *Result) resultView {
	v := resultView{
		CaseID: r.CaseID, RunID: r.RunID, Scores: r.Scores, Reasons: r.Reasons, Passed: r.Passed, Error: r.Error, Output: r.Output,
		DurationMS: r.DurationMS, TokensUsed: r.Tokens, CostUSD: r.CostUSD,
	}
	if v.Scores == nil {
		v.Scores = map[string]float64{}
	}
	return v
}

// ViewOf returns an evaluation as callers see it, without results.
func ViewOf(r *Record) View {
	v := View{
		EvalRunID: r.EvalRunID, TenantID: r.TenantID, AgentID: r.AgentID, DatasetID: r.DatasetID, ExperimentID: r.ExperimentID,
		AgentVersion: itoa(r.Version), Model: r.Spec.Model, Status: r.Status, Error: r.Error, Scorers: []string{}, TotalCases: r.Total,
		EndedCases: r.Tally.Ended(), Summary: r.Summary, CreatedAt: r.CreatedAt,
	}
	for _, c := range r.Spec.Scorers {
		v.Scorers = append(v.Scorers, c.Name)
	}
	if !r.CompletedAt.IsZero() {
		v.CompletedAt = &r.CompletedAt
	}
	return v
}

// maxShownResults is how many results are shown with an evaluation.
const maxShownResults = 1000

func (s *Service) withResults(ctx context.Context, r *Record) (*View, error) {
	v := ViewOf(r)
	v.Results, v.Errored = []resultView{}, []erroredView{}
	found, err := s.Store.ListResults(ctx, r.TenantID, r.EvalRunID, -1, maxShownResults)
	found, _ = page.Cut(found, maxShownResults, Result.size)
	for i := range found {
		v.Results = append(v.Results, viewOfResult(&found[i]))
		if found[i].Error != "" {
			v.Errored = append(v.Errored, erroredView{CaseID: found[i].CaseID, Error: found[i].Error})
		}
	}
	return &v, err
}

const (
	tag        = "Evaluations"
	ofAgents   = "/api/v1/agents/{agentId}"
	readScope  = authz.Scope("evaluations:read")
	writeScope = authz.Scope("evaluations:write")
)

func row(method, path, id, summary, doc string, status int) route.Row {
	r := route.Row{
		Method: method, Path: ofAgents + path, ID: id, Tag: tag, Summary: summary, Doc: doc, Status: status,
		Scopes: []authz.Scope{readScope}, Errors: []int{404},
	}
	if method != "GET" {
		r.Scopes, r.Role = []authz.Scope{writeScope}, authz.Developer
		r.Errors = []int{404, 409}
	}
	return r
}

// Routes returns the operations on datasets, scorers and evaluations.
func (s *Service) Routes() []route.Route {
	const one = "/evaluations/{evalRunId}"
	start := row("POST", "/evaluations", "runEvaluation", "Evaluate an agent",
		"Runs every case of a dataset and has scorers judge the answers. It goes on after the answer, survives crashes, and its runs count "+
			"as runs of the company. If the plan allows no run, the answer is 429 before any case is run, also where waiting does not help.", 201)
	start.Errors = []int{404, 409, 429, 501}
	cancelled := row("POST", one+"/cancel", "cancelEvaluation", "Cancel an evaluation",
		"Ends the runs that are under way. What was judged by then stays.", 202)
	scorer := row("POST", "/scorers", "createAgentScorer", "Create a scorer",
		"Scorers judge the answers of an agent in evaluations of it.", 201)
	scorer.Errors = []int{404, 409, 501}
	return append(s.datasetRoutes(),
		route.Action(scorer, s.createScorer),
		route.Action(row("GET", "/scorers", "listAgentScorers", "List the scorers of an agent", "", 200), s.listScorers),
		route.Action(row("DELETE", "/scorers/{scorerId}", "deleteAgentScorer", "Delete a scorer",
			"Evaluations that use it go on with it.", 204), s.deleteScorer),
		route.Action(start, s.start),
		route.Action(row("GET", "/evaluations", "listEvalRuns", "List the evaluations of an agent", "", 200), s.list),
		route.Action(row("GET", one, "getEvalRun", "Get an evaluation", "", 200), s.show),
		route.Action(row("GET", one+"/results", "listEvalResults", "List the results of an evaluation", "", 200), s.listResults),
		route.Action(cancelled, func(ctx context.Context, who authz.Caller, in *runIn) (*View, error) {
			r, err := s.cancel(ctx, who, in.AgentID, in.EvalRunID)
			if err != nil {
				return nil, err
			}
			v := ViewOf(r)
			return &v, nil
		}),
	)
}

func (s *Service) start(ctx context.Context, who authz.Caller, in *startIn) (*View, error) {
	b := &in.Body
	version, err := Version("agent_version", b.Version)
	if err != nil {
		return nil, err
	}
	req := Request{AgentID: in.AgentID, DatasetID: b.DatasetID, Version: version, Scorers: b.Scorers}
	if err := s.Apply(&b.RunOptions, &req.Spec); err != nil {
		return nil, err
	}
	req.Spec.Baseline, req.Spec.AutoRollback, req.Spec.MaxDrop = b.Baseline, b.AutoRollback, defaultDrop
	if b.MaxDrop != nil {
		req.Spec.MaxDrop = *b.MaxDrop
	}
	r, err := s.Prepare(ctx, who, req)
	if err != nil {
		return nil, err
	}
	v := ViewOf(r)
	v.Results = []resultView{}
	return &v, s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.StartTx(tx, r); err != nil {
			return err
		}
		if err := s.record(tx, who, "started", r.EvalRunID); err != nil {
			return err
		}
		return txn.Answer(tx, &v)
	})
}

// known returns fault.NotFound for an agent that the company does not have.
func (s *Service) known(ctx context.Context, tenant, agentID string) error {
	_, _, err := s.Agents.Head(ctx, tenant, agentID)
	return err
}

func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*list, error) {
	if err := s.known(ctx, who.TenantID, in.AgentID); err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "evaluations", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := page.Limit(in.Limit, 50, 200)
	found, err := s.Store.List(ctx, who.TenantID, Filter{AgentID: in.AgentID}, page.Window{After: after, Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	l := &list{EvalRuns: []View{}, HasMore: len(found) > limit}
	if l.HasMore {
		found = found[:limit]
		l.Cursor = s.Cursors.Seal(scope, found[limit-1].EvalRunID)
	}
	for i := range found {
		l.EvalRuns = append(l.EvalRuns, ViewOf(&found[i]))
	}
	l.Total = len(l.EvalRuns)
	return l, nil
}

func (s *Service) show(ctx context.Context, who authz.Caller, in *runIn) (*View, error) {
	r, err := s.get(ctx, who.TenantID, in.AgentID, in.EvalRunID)
	if err != nil {
		return nil, err
	}
	return s.withResults(ctx, r)
}

func (s *Service) listResults(ctx context.Context, who authz.Caller, in *resultsIn) (*results, error) {
	r, err := s.get(ctx, who.TenantID, in.AgentID, in.EvalRunID)
	if err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "evaluation_results", in)
	position, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	after, limit := -1, page.Limit(in.Limit, 100, 1000)
	if position != "" {
		if after, err = strconv.Atoi(position); err != nil {
			return nil, err
		}
	}
	found, err := s.Store.ListResults(ctx, who.TenantID, r.EvalRunID, after, limit+1)
	if err != nil {
		return nil, err
	}
	out := &results{Results: []resultView{}}
	if found, out.HasMore = page.Cut(found, limit, Result.size); out.HasMore {
		out.Cursor = s.Cursors.Seal(scope, strconv.Itoa(found[len(found)-1].Seq))
	}
	for i := range found {
		out.Results = append(out.Results, viewOfResult(&found[i]))
	}
	return out, nil
}
