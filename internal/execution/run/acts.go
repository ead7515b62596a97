package run

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/ptr"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
)

const (
	actRuns  = 100 // runs read at a time
	actSteps = 200 // steps read at a time
)

// Past reads what runs did.
type Past struct {
	Runs   Store
	Agents Agents
}

// Acts calls yield with what runs that were created in a time did, oldest run first:
// their calls of tools, as they were asked for, and of their model and their judge's, once for each run.
// It reads at most so many runs, and ends early when yield returns false. It returns
// how many runs were read whole and when the next one was created; zero: there is none.
func (p Past) Acts(
	ctx context.Context, tenant string, from, to time.Time, most int, yield func(policy.Run, policy.Act) bool,
) (runs int, next time.Time, err error) {
	at := &past{s: p, yield: yield, models: map[modelKey]string{}}
	w := page.Window{Limit: actRuns, Ascending: true}
	f := Filter{Created: page.Created{CreatedAfter: from, CreatedBefore: to}}
	for {
		found, err := p.Runs.ListSummaries(ctx, tenant, f, w)
		if err != nil || len(found) == 0 {
			return runs, time.Time{}, err
		}
		for i := range found {
			r := &found[i]
			w.After = r.position()
			if runs == most {
				return runs, r.CreatedAt, nil
			}
			more, err := at.run(ctx, tenant, r.RunID)
			if err != nil {
				return runs, r.CreatedAt, err
			}
			if !more {
				return runs, r.CreatedAt, nil
			}
			runs++
		}
	}
}

type modelKey struct {
	agent   string
	version int64
}

// past reads what runs did.
type past struct {
	s      Past
	yield  func(policy.Run, policy.Act) bool
	models map[modelKey]string // of versions of agents; "": unknown
}

// run yields the acts of a run. A run that was deleted meanwhile has none.
func (p *past) run(ctx context.Context, tenant, id string) (more bool, err error) {
	r, err := p.s.Runs.Get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	ref, err := p.modelOf(ctx, r)
	if err != nil {
		return false, err
	}
	of := policy.Run{TenantID: tenant, RunID: id, AgentID: r.AgentID}
	sources, err := p.before(ctx, r)
	if err != nil {
		return false, err
	}
	facts := func() (agent, run map[string]any) {
		return map[string]any{"version": r.AgentVersion, "model": ref}, map[string]any{"session_id": ptr.Value(r.SessionID)}
	}
	if ref != "" && !p.yield(of, policy.Act{Actions: []string{"model:" + ref}, Sources: sources, Facts: facts}) {
		return false, nil
	}
	if o := r.Options.Outcome; o != nil && o.JudgeModel != "" &&
		!p.yield(of, policy.Act{Actions: []string{"model:" + o.JudgeModel}, Sources: sources, Facts: facts}) {
		return false, nil
	}
	more = true
	err = p.steps(ctx, r, func(step *Step, read []string) bool {
		if step.Type == StepTool {
			var in ToolInput
			if json.Unmarshal(step.Input, &in) == nil && in.Name != "" {
				act := policy.ToolAct(in.Name, in.Arguments, sources)
				act.Facts = facts
				of.StepID = step.StepID
				more = p.yield(of, act)
			}
		}
		sources = model.JoinSources(sources, read)
		return more
	})
	return more, err
}

// before returns what a run had read when it began: all that it had read in the end
// without what its steps read.
func (p *past) before(ctx context.Context, r *Record) ([]string, error) {
	all := (&Transcript{}).Sources(r)
	if len(all) == len(r.Options.Sources) {
		return r.Options.Sources, nil
	}
	err := p.steps(ctx, r, func(_ *Step, read []string) bool {
		all = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(read, s) })
		return true
	})
	return model.JoinSources(r.Options.Sources, all), err
}

// steps calls do with the steps of a run and what each of them read.
func (p *past) steps(ctx context.Context, r *Record, do func(step *Step, read []string) bool) error {
	for after := int64(0); ; {
		steps, err := p.s.Runs.ListSteps(ctx, r.TenantID, r.RunID, after, actSteps)
		if err != nil {
			return err
		}
		for i := range steps {
			after = steps[i].Seq
			var out struct {
				Sources []string `json:"sources"`
			}
			if steps[i].Type != StepCompaction && len(steps[i].Output) > 0 {
				_ = json.Unmarshal(steps[i].Output, &out) // what is no object read nothing
			}
			if !do(&steps[i], out.Sources) {
				return nil
			}
		}
		if len(steps) < actSteps {
			return nil
		}
	}
}

// modelOf returns the model that rules about a run's model name; "" where the version
// of its agent is gone.
func (p *past) modelOf(ctx context.Context, r *Record) (string, error) {
	k := modelKey{r.AgentID, r.AgentVersion}
	if ref, ok := p.models[k]; ok {
		return ref, nil
	}
	spec, err := p.s.Agents.Spec(ctx, r.TenantID, r.AgentID, r.AgentVersion)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	if spec != nil {
		p.models[k] = spec.Model.ModelRef
	}
	return p.models[k], nil
}
