package review

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
)

// maxCompared is how many steps of each run are compared.
const maxCompared = 500

type diffIn struct {
	RunID string `path:"runId"`
	With  string `query:"with" format:"uuid" doc:"The other run. Required."`
}

// Diff is how a run differs from another.
type Diff struct {
	_ struct{} `json:"-" name:"RunDiff"`

	RunID     string     `json:"run_id" format:"uuid" required:"true"`
	WithRunID string     `json:"with_run_id" format:"uuid" required:"true"`
	Same      bool       `json:"same" required:"true" doc:"Status, result and all steps are equal; ids, times and costs are not compared."`
	Changed   []string   `json:"changed" required:"true" doc:"What of the runs differs: agent_id, agent_version, input, status, output, steps."`
	First     *int64     `json:"first_difference" required:"true" nullable:"true" doc:"The place in steps of the first pair that differs, from 0; null: none does."`
	Steps     []StepPair `json:"steps" required:"true" doc:"The steps of both, paired in order."`
	From      RunSide    `json:"from" required:"true" doc:"The run."`
	To        RunSide    `json:"to" required:"true" doc:"The other one."`
	Truncated bool       `json:"truncated" required:"true" doc:"A run has more than 500 steps, and the rest was not compared."`
}

// RunSide is what a comparison shows of a run.
type RunSide struct {
	_ struct{} `json:"-" name:"RunDiffSide"`

	RunID        string      `json:"run_id" format:"uuid" required:"true"`
	AgentID      string      `json:"agent_id" format:"uuid" required:"true"`
	AgentVersion int64       `json:"agent_version" required:"true"`
	Status       run.Status  `json:"status" required:"true"`
	Text         string      `json:"text" required:"true" doc:"The result."`
	Error        *string     `json:"error,omitzero"`
	Metrics      run.Metrics `json:"metrics" required:"true"`
}

// StepPair is a step of a run and the one that it is compared with.
type StepPair struct {
	_ struct{} `json:"-" name:"RunStepPair"`

	Change  string    `json:"change" enum:"same,changed,removed,added" required:"true" doc:"removed: only the run has it; added: only the other one."`
	Differs []string  `json:"differs,omitzero" doc:"What of the steps differs: status, text, tool_calls, arguments, result, output."`
	From    *run.Step `json:"from,omitzero" doc:"Of the run; absent where only the other one has it. Without input and output, but with their beginnings."`
	To      *run.Step `json:"to,omitzero" doc:"Of the other one; absent where only the run has it."`
}

// diff compares a run with another.
func (s *Service) diff(ctx context.Context, who authz.Caller, in *diffIn) (*Diff, error) {
	if in.With == "" {
		return nil, fault.New(fault.Invalid, "INVALID_QUERY", "The parameter with is missing; send the id of the run to compare with.")
	}
	a, err := s.journal(ctx, who.TenantID, in.RunID)
	if err != nil {
		return nil, err
	}
	b, err := s.journal(ctx, who.TenantID, in.With)
	if err != nil {
		return nil, err
	}
	d := &Diff{
		RunID: in.RunID, WithRunID: in.With, From: side(&a.Run), To: side(&b.Run), Changed: changedOf(&a.Run, &b.Run),
		Truncated: len(a.Steps) > maxCompared || len(b.Steps) > maxCompared,
	}
	d.Steps = pair(a.Steps[:min(len(a.Steps), maxCompared)], b.Steps[:min(len(b.Steps), maxCompared)])
	if i := slices.IndexFunc(d.Steps, func(p StepPair) bool { return p.Change != same }); i >= 0 {
		at := int64(i)
		d.First, d.Changed = &at, append(d.Changed, "steps")
	}
	for i := range d.Steps {
		for _, step := range []*run.Step{d.Steps[i].From, d.Steps[i].To} {
			if step != nil {
				step.Summarize()
			}
		}
	}
	d.Same = d.First == nil && !slices.Contains(d.Changed, "status") && !slices.Contains(d.Changed, "output")
	return d, nil
}

// journal reads a run with its steps, of which it reads one more than are compared.
func (s *Service) journal(ctx context.Context, tenant, id string) (*run.Journal, error) {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	steps, err := s.Runs.ListSteps(ctx, tenant, id, 0, maxCompared+1)
	return &run.Journal{Run: *r, Steps: steps}, err
}

func side(r *run.Record) RunSide {
	return RunSide{
		RunID: r.RunID, AgentID: r.AgentID, AgentVersion: r.AgentVersion, Status: r.Status, Text: textOf(r), Error: r.Error, Metrics: r.Metrics,
	}
}

func textOf(r *run.Record) string {
	var out run.Output
	if len(r.Output) > 0 {
		_ = json.Unmarshal(r.Output, &out) // agentd wrote it
	}
	return out.Text
}

func changedOf(a, b *run.Record) []string {
	changed := []string{}
	add := func(name string, differs bool) {
		if differs {
			changed = append(changed, name)
		}
	}
	add("agent_id", a.AgentID != b.AgentID)
	add("agent_version", a.AgentVersion != b.AgentVersion)
	add("input", canonical(string(a.Input)) != canonical(string(b.Input)))
	add("status", a.Status != b.Status)
	add("output", textOf(a) != textOf(b))
	return changed
}

const (
	same    = "same"
	differs = "changed"
	removed = "removed"
	added   = "added"
)

// shape is what is compared of a step.
type shape struct {
	step  *run.Step
	kind  string      // type and tool: only steps of one kind are paired
	parts [][2]string // names and values, in one order for each type
}

func shapes(steps []run.Step) []shape {
	all := make([]shape, len(steps))
	for i := range steps {
		s := &steps[i]
		all[i] = shape{s, string(s.Type), [][2]string{{"status", string(s.Status)}}}
		var more [][2]string
		switch s.Type {
		case run.StepLLM:
			more = llmParts(s)
		case run.StepTool:
			var in run.ToolInput
			more = toolParts(s, &in)
			all[i].kind += " " + in.Name
		default:
			more = [][2]string{{"output", canonical(string(s.Output))}}
		}
		all[i].parts = append(all[i].parts, more...)
	}
	return all
}

func llmParts(s *run.Step) [][2]string {
	var out run.LLMOutput
	if len(s.Output) > 0 {
		_ = json.Unmarshal(s.Output, &out) // agentd wrote it
	}
	calls := ""
	for _, c := range out.ToolCalls { // their ids differ each time
		calls += c.Name + canonical(c.Arguments) + "\n"
	}
	return [][2]string{{"text", out.Text}, {"tool_calls", calls}}
}

func toolParts(s *run.Step, in *run.ToolInput) [][2]string {
	var out run.ToolOutput
	if len(s.Input) > 0 {
		_ = json.Unmarshal(s.Input, in) // agentd wrote both
	}
	if len(s.Output) > 0 {
		_ = json.Unmarshal(s.Output, &out)
	}
	return [][2]string{{"arguments", canonical(in.Arguments)}, {"result", out.Content}}
}

// canonical returns JSON in one spelling; other text as it is.
func canonical(text string) string {
	v := jsontext.Value(text)
	if v.Canonicalize() != nil {
		return text
	}
	return string(v)
}

// differences returns the names of the parts that differ.
func (s shape) differences(other shape) (names []string) {
	for i, p := range s.parts {
		if p[1] != other.parts[i][1] {
			names = append(names, p[0])
		}
	}
	return names
}

// How well two steps fit each other. Two that are left alone fit worse than a pair that
// differs, and an equal pair is better than two that differ.
const (
	fitsSame = 5
	fitsKind = 2
)

func (s shape) fit(other shape) int {
	switch {
	case s.kind != other.kind:
		return 0
	case len(s.differences(other)) == 0:
		return fitsSame
	}
	return fitsKind
}

// pair pairs the steps of two runs in order so that they fit best.
func pair(from, to []run.Step) []StepPair {
	a, b := shapes(from), shapes(to)
	best := make([][]int, len(a)+1) // of the steps from i and from j on
	fits := make([][]int, len(a))
	best[len(a)] = make([]int, len(b)+1)
	for i := len(a) - 1; i >= 0; i-- {
		best[i], fits[i] = make([]int, len(b)+1), make([]int, len(b))
		for j := len(b) - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if fits[i][j] = a[i].fit(b[j]); fits[i][j] > 0 {
				best[i][j] = max(best[i][j], best[i+1][j+1]+fits[i][j])
			}
		}
	}
	pairs := []StepPair{}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case fits[i][j] > 0 && best[i][j] == best[i+1][j+1]+fits[i][j]:
			p := StepPair{Change: same, Differs: a[i].differences(b[j]), From: a[i].step, To: b[j].step}
			if len(p.Differs) > 0 {
				p.Change = differs
			}
			pairs = append(pairs, p)
			i, j = i+1, j+1
		case best[i][j] == best[i+1][j]:
			pairs = append(pairs, StepPair{Change: removed, From: a[i].step})
			i++
		default:
			pairs = append(pairs, StepPair{Change: added, To: b[j].step})
			j++
		}
	}
	for ; i < len(a); i++ {
		pairs = append(pairs, StepPair{Change: removed, From: a[i].step})
	}
	for ; j < len(b); j++ {
		pairs = append(pairs, StepPair{Change: added, To: b[j].step})
	}
	return pairs
}
