package evaluation

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource"
)

// fromRuns selects runs of an agent that become cases.
type fromRuns struct {
	_ struct{} `json:"-" name:"EvalDatasetFromRuns"`

	RunIDs       []string   `json:"run_ids,omitzero" ref:"run" maxItems:"1000" maxLength:"36" doc:"These runs, in this order. Left out: the newest completed ones."`
	Limit        *int       `json:"limit,omitzero" minimum:"1" maximum:"1000" doc:"How many runs at most, if run_ids is left out. Default: 100."`
	CreatedAfter *time.Time `json:"created_after,omitzero" doc:"Only runs that were created at this time or later, if run_ids is left out."`
	Outputs      *bool      `json:"with_outputs,omitzero" doc:"What a run answered becomes the case's expected_output. Default: true."`
	ToolCalls    bool       `json:"with_tool_calls,omitzero" doc:"The tool calls of a run become the case's expected_tool_calls. Default: false."`
}

// maxPages is how many pages of 100 runs are looked through for those that are selected.
const maxPages = 50

// casesOfRuns makes cases of runs. Errors: fault.Invalid for run_ids that are not runs of
// the agent.
func (s *Service) casesOfRuns(ctx context.Context, tenant, agentID string, from *fromRuns) ([]Case, error) {
	found, err := s.selected(ctx, tenant, agentID, from)
	if err != nil {
		return nil, err
	}
	var cases []Case
	for i := range found {
		c, err := s.caseOfRun(ctx, &found[i], from)
		if err != nil {
			return nil, err
		}
		if len(c.Input)+len(c.ExpectedOutput) <= maxCaseBytes {
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// selected returns the runs that are selected, the oldest first.
func (s *Service) selected(ctx context.Context, tenant, agentID string, from *fromRuns) (found []run.Run, err error) {
	if len(from.RunIDs) > 0 {
		return found, resource.CheckReferences("from_runs.run_ids", "run of the agent", from.RunIDs, nil, func(id string) error {
			r, err := s.Runs.Get(ctx, tenant, id)
			if err == nil && r.AgentID != agentID {
				err = fault.NewNotFound("run")
			}
			if err == nil {
				found = append(found, *r)
			}
			return err
		})
	}
	limit := 100
	if from.Limit != nil {
		limit = *from.Limit
	}
	f := run.Filter{AgentID: agentID, Status: []run.Status{run.Completed}}
	if from.CreatedAfter != nil {
		f.CreatedAfter = *from.CreatedAfter
	}
	w := page.Window{}
	for pages := 0; len(found) < limit && pages < maxPages; pages++ {
		w.Limit = min(limit-len(found), 100)
		part, err := s.Runs.List(ctx, tenant, f, w)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			break
		}
		last := &part[len(part)-1]
		w.After = page.MomentOf(last.CreatedAt, last.RunID)
		found = append(found, slices.DeleteFunc(part, func(r run.Run) bool {
			return r.StartedBy != nil && r.StartedBy.Type == run.ByEvaluation // its cases are in a dataset already
		})...)
	}
	slices.Reverse(found)
	return found, nil
}

func (s *Service) caseOfRun(ctx context.Context, r *run.Run, from *fromRuns) (Case, error) {
	c := Case{Input: r.Input}
	metadata, err := json.Marshal(struct {
		RunID string `json:"run_id"`
	}{r.RunID})
	if err != nil {
		return c, err
	}
	c.Metadata = schema.Object(metadata)
	var out run.Output
	if (from.Outputs == nil || *from.Outputs) && r.Status == run.Completed && json.Unmarshal(r.Output, &out) == nil {
		if c.ExpectedOutput, err = jsontext.AppendQuote(nil, out.Text); err != nil {
			c.ExpectedOutput = nil // it is not UTF-8
		}
	}
	if !from.ToolCalls {
		return c, nil
	}
	calls, err := s.callsOf(ctx, r.TenantID, r.RunID)
	c.ExpectedToolCalls = []ExpectedCall{}
	for _, made := range calls {
		e := ExpectedCall{Name: made.name}
		if a := jsontext.Value(made.arguments); a.IsValid() && a.Kind() == '{' {
			e.Arguments = schema.Object(a)
		}
		c.ExpectedToolCalls = append(c.ExpectedToolCalls, e)
	}
	return c, err
}
