package engine

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// sandboxNote is the result of a call that a test of a changed agent does not make.
const sandboxNote = "not called: this run is a sandbox test of a changed agent, and %s"

// sandboxed reports whether the run tests a change of its agent; see run.Sandbox.
func (t *turn) sandboxed() bool { return t.j.rec.Options.Sandbox != nil }

// mayInSandbox reports whether a call may be made where the run is a test: only calls
// of tools that are read-only. If it may not, that is its result.
func (t *turn) mayInSandbox(o *outcome) bool {
	if !t.sandboxed() {
		return true
	}
	if known, ok := t.conv.tools.Lookup(o.in.Name); ok && !known.ReadOnly {
		o.fail(sandboxNote, "the tool may change something")
		return false
	}
	return true
}

// refuseInSandbox makes the refusal of a call that waits for a person its result.
func (t *turn) refuseInSandbox(c model.ToolCall) {
	in := run.ToolInput{ToolCallID: c.ID, Name: c.Name, Arguments: c.Arguments}
	t.beginCall(in)
	o := outcome{step: t.j.newest().Ref(), in: in, ruling: t.rulings[c.ID]}
	o.fail(sandboxNote, "the call waits for a person")
	t.record(o)
}

// replays reports whether the run replays another; see run.Sandbox.
func (t *turn) replays() bool { return t.sandboxed() && t.j.rec.Options.Sandbox.Replays != "" }

// recordedResults are the results of a run that is replayed, in order for each call.
type recordedResults struct {
	left map[string][]run.ToolOutput // by name and arguments
}

// recorded returns the results that calls of a replay have; nil where the run is none.
func (t *turn) recorded(ctx context.Context) (*recordedResults, error) {
	if !t.replays() {
		return nil, nil
	}
	rec := t.j.rec
	results, err := t.e.resultsOf(ctx, rec.TenantID, rec.Options.Sandbox.Replays)
	if err != nil {
		return nil, err
	}
	made, err := t.e.resultsOf(ctx, rec.TenantID, rec.RunID) // which took theirs before
	if err != nil {
		return nil, err
	}
	for key, taken := range made.left {
		results.left[key] = results.left[key][min(len(taken), len(results.left[key])):]
	}
	return results, nil
}

// resultsOf reads the results of a run by the calls that its model made: people may have
// changed arguments, and did not change those.
func (e *Engine) resultsOf(ctx context.Context, tenant, id string) (*recordedResults, error) {
	steps, err := e.Runs.ListSteps(ctx, tenant, id, 0, 0)
	if err != nil {
		return nil, err
	}
	r, asked := &recordedResults{left: map[string][]run.ToolOutput{}}, map[string]string{}
	for i := range steps {
		switch s := &steps[i]; s.Type {
		case run.StepLLM:
			var out run.LLMOutput
			if len(s.Output) > 0 {
				_ = json.Unmarshal(s.Output, &out) // agentd wrote it
			}
			for _, c := range out.ToolCalls {
				asked[c.ID] = callKey(c.Name, c.Arguments)
			}
		case run.StepTool:
			var in run.ToolInput
			var out run.ToolOutput
			if json.Unmarshal(s.Input, &in) != nil || json.Unmarshal(s.Output, &out) != nil {
				continue // it has no result
			}
			key, ok := asked[in.ToolCallID]
			if !ok {
				key = callKey(in.Name, in.Arguments)
			}
			r.left[key] = append(r.left[key], run.ToolOutput{Content: out.Content, IsError: out.IsError, Sources: out.Sources})
		}
	}
	return r, nil
}

// callKey is equal for calls of one tool with the same arguments.
func callKey(name, arguments string) string {
	v := jsontext.Value(arguments)
	if v.Canonicalize() != nil {
		return name + " " + arguments
	}
	return name + " " + string(v)
}

// take makes the next recorded result of a call its result.
func (r *recordedResults) take(o *outcome) {
	key := callKey(o.in.Name, o.in.Arguments)
	left := r.left[key]
	if len(left) == 0 {
		o.fail("not called: this run replays another, which did not make this call")
		return
	}
	o.out, r.left[key] = left[0], left[1:]
}
