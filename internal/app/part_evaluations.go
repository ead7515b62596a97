package app

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/insight/evaluation"
	"agentd/internal/insight/evaluation/evaluationsql"
	"agentd/internal/insight/experiment"
	"agentd/internal/insight/rollout"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
	"agentd/internal/wire/outbound"
)

// insight is how good agents are, measured.
type insight struct {
	evaluations *evaluation.Service
	rollouts    *rollout.Service
	experiments *experiment.Service
}

func newInsight(
	p *platform, out *egress, models *models, accounts *accounts, delivery *delivery, agents *agents, execution *execution,
) *insight {
	i := &insight{}
	i.evaluations = evaluation.New(p.kernel, evaluation.Options{
		Store:   announcedEvaluations{evaluationsql.New(p.db), p.announce},
		Runs:    measuredRuns{execution.runs, runsql.New(p.db), runsql.NewOutcomes(p.db)},
		Agents:  measuredAgents{agents.agents},
		AgentTx: agents.lockTx, Models: agents.proxy, Embed: embedder(models, agents), Hooks: out.caller(p), CheckURL: outbound.CheckURL,
		Meter: accounts.usage, Queue: p.queue, Clock: p.clock, Cursors: p.cursors, Lease: lease,
		Defaults: p.evaluationDefaults,
		RolledBackTx: func(tx txn.Tx, tenant string, at time.Time, b *evaluation.Rollback) error {
			return delivery.webhooks.Emit(tx, webhook.Event{
				TenantID: tenant, ID: ident.Derive(b.EvalRunID, "rollback"), Type: "eval.auto_rollback", At: at,
				Data: func() (jsontext.Value, error) {
					return json.Marshal(webhook.RollbackData{
						EvalRunID: b.EvalRunID, AgentID: b.AgentID, DatasetID: b.DatasetID, FromVersion: b.FromVersion, ToVersion: b.ToVersion,
						NewVersion: b.NewVersion, BaselineEvalRunID: b.BaselineEvalRunID, PassRate: b.PassRate, BaselinePassRate: b.BaselinePassRate,
					})
				},
			})
		},
	})
	i.experiments = experiment.New(p.kernel, experiment.Options{
		Evaluations: i.evaluations, Store: evaluationsql.New(p.db), AgentTx: agents.lockTx, KnownAgent: agentCheck{agents.agents}.Check,
		Queue: p.queue, Clock: p.clock,
	})
	i.evaluations.ConnectEnd(i.experiments.OnEndTx)
	i.rollouts = rollout.New(rollout.Options{
		Agents: agents.agents, HasVersion: measuredAgents{agents.agents}.HasVersion, Samples: samplesOf(runsql.NewOutcomes(p.db)),
		Writer: p.db, Queue: p.queue, Now: p.clock.Now,
	})
	return i
}

func (i *insight) part(p *platform) part {
	return part{
		name: "insight", routes: slices.Concat(i.evaluations.Routes(), i.experiments.Routes(), i.rollouts.Routes()),
		workers: []worker{
			p.worker(evaluation.WorkKind, 16, i.evaluations.Handle), p.worker(experiment.WorkKind, 4, i.experiments.Handle),
			p.worker(rollout.WorkKind, 2, i.rollouts.Handle),
		},
		watchers: []watcher{{"evaluations", i.evaluations.OnRunState}},
		subscribers: []subscriber{
			onAgentDeleted("remove-evaluations-of-deleted-agents", func(ctx context.Context, c agentChange) error {
				return i.evaluations.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
			onAgentDeleted("remove-experiments-of-deleted-agents", func(ctx context.Context, c agentChange) error {
				return i.experiments.AgentDeleted(ctx, c.TenantID, c.ID)
			}),
		},
	}
}

// samplesOf returns rollout.Options.Samples.
func samplesOf(
	store *runsql.Outcomes,
) func(ctx context.Context, tenant, agent string, since time.Time, limit int) ([]rollout.Sample, error) {
	return func(ctx context.Context, tenant, agent string, since time.Time, limit int) ([]rollout.Sample, error) {
		ended, err := store.ListEnded(ctx, tenant, agent, since, limit)
		all := make([]rollout.Sample, len(ended))
		for i := range ended {
			m := &ended[i].Metrics
			all[i] = rollout.Sample{
				Version: ended[i].Version, Completed: ended[i].Status == run.Completed, Cancelled: ended[i].Status == run.Cancelled,
				DurationMS: m.DurationMS, CostUSD: m.TotalCostUSD, Tokens: m.InputTokens + m.OutputTokens,
			}
		}
		return all, err
	}
}

// embedder returns the function that embeds texts for scorers; nil where no embedding
// model is configured.
func embedder(models *models, agents *agents) func(ctx context.Context, who authz.Caller, texts []string) ([][]float32, error) {
	if models.embedder == nil {
		return nil
	}
	target := embeddings(models, agents).Target
	return func(ctx context.Context, who authz.Caller, texts []string) ([][]float32, error) {
		call, err := agents.proxy.OpenTarget(ctx, who, target, quota.SourceEmbeddings)
		if err != nil {
			return nil, err
		}
		made, err := models.embedder.Embed(ctx, texts)
		if made.Tokens > 0 {
			call.Used(model.Usage{InputTokens: made.Tokens})
		}
		return made.Vectors, err
	}
}

// measuredRuns implements evaluation.Runs.
type measuredRuns struct {
	*run.Service
	store    *runsql.Store
	outcomes *runsql.Outcomes
}

var _ evaluation.Runs = measuredRuns{}

// Cancel implements evaluation.Runs.
func (r measuredRuns) Cancel(ctx context.Context, tenant, id string) error {
	_, err := r.Service.Cancel(ctx, tenant, id)
	return err
}

// List implements evaluation.Runs.
func (r measuredRuns) List(ctx context.Context, tenant string, f run.Filter, w page.Window) ([]run.Run, error) {
	return r.store.List(ctx, tenant, f, w)
}

// ListSteps implements evaluation.Runs.
func (r measuredRuns) ListSteps(ctx context.Context, tenant, id string) ([]run.Step, error) {
	return r.store.ListSteps(ctx, tenant, id, 0, 0)
}

// ListStatuses implements evaluation.Runs.
func (r measuredRuns) ListStatuses(ctx context.Context, tenant string, ids []string) (map[string]run.Status, error) {
	return r.outcomes.ListStatuses(ctx, tenant, ids)
}

// CountWorkingTx implements evaluation.Runs.
func (r measuredRuns) CountWorkingTx(tx txn.Tx, tenant string, ids []string) (int, error) {
	return r.outcomes.CountWorkingTx(tx, tenant, ids)
}

// CreateBudgetTx implements evaluation.Runs.
func (r measuredRuns) CreateBudgetTx(tx txn.Tx, tenant, id string, usd float64) error {
	return r.store.CreateBudget(tenant, id, run.NanoUSD(usd))(tx)
}

// measuredAgents implements evaluation.Agents.
type measuredAgents struct{ *agent.Agents }

var _ evaluation.Agents = measuredAgents{}

// Head implements evaluation.Agents.
func (a measuredAgents) Head(ctx context.Context, tenant, id string) (version int64, active bool, err error) {
	g, err := a.Store().Get(ctx, tenant, id)
	if err != nil {
		return 0, false, err
	}
	version, err = strconv.ParseInt(g.VersionNo, 10, 64)
	return version, g.Status == agent.Active, err
}

// HasVersion implements evaluation.Agents.
func (a measuredAgents) HasVersion(ctx context.Context, tenant, id string, version int64) error {
	_, err := a.GetVersion(ctx, tenant, id, version)
	return err
}
