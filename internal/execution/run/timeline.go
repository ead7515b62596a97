package run

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
)

// Families is the port to the runs that runs started.
type Families interface {
	// ListChildren returns the runs that a run started, oldest first.
	ListChildren(ctx context.Context, tenant, id string, limit int) ([]Child, error)
	// ListFamily returns the runs that descend from a run without a parent, oldest
	// first. They have no contents: neither input nor output, metadata, options.
	ListFamily(ctx context.Context, tenant, root string, limit int) ([]Record, error)
	// ListOutlines returns the steps of runs that these made themselves, by run and
	// seq.
	ListOutlines(ctx context.Context, tenant string, ids []string, limit int) ([]Outline, error)
}

// Child is a run that another one started.
type Child struct {
	RunID  string
	StepID string // of the parent; "": none
}

// Outline is a step without its contents.
type Outline struct {
	Step

	Name string // of the tool or the model
}

const (
	maxChildren = 1000
	maxFamily   = 5000  // runs on one timeline
	maxSpans    = 50000 // steps on one timeline
)

// families shows runs with those that they started.
type families struct{ *Service }

// addChildren adds to steps the ids of the runs that they started.
func (s families) addChildren(ctx context.Context, r *Record, steps []Step) error {
	if !slices.ContainsFunc(steps, func(s Step) bool { return s.Type == StepTool }) {
		return nil
	}
	children, err := s.Runs.ListChildren(ctx, r.TenantID, r.RunID, maxChildren)
	if err != nil || len(children) == 0 {
		return err
	}
	of := map[string][]string{}
	for _, c := range children {
		of[c.StepID] = append(of[c.StepID], c.RunID)
	}
	for i := range steps {
		steps[i].ChildRunIDs = of[steps[i].StepID]
	}
	return nil
}

type stepIn struct {
	RunID  string `path:"runId"`
	StepID string `path:"stepId"`
}

// step returns one step, ended or under way.
func (s families) step(ctx context.Context, who authz.Caller, in *stepIn) (*Step, error) {
	r, err := s.Runs.Get(ctx, who.TenantID, in.RunID)
	if err != nil {
		return nil, err
	}
	st, err := s.Runs.GetStep(ctx, who.TenantID, in.RunID, in.StepID)
	if err != nil {
		return nil, err
	}
	one := []Step{}
	if st != nil {
		one = append(one, *st)
	} else {
		one = slices.DeleteFunc(withPending(one, r), func(s Step) bool { return s.StepID != in.StepID })
	}
	if len(one) == 0 {
		return nil, fault.NewNotFound("step")
	}
	return &one[0], s.addChildren(ctx, r, one)
}

// SpanType is what a span of a timeline shows.
type SpanType string

// The types of spans.
const (
	SpanRun   SpanType = "run"   // the run whose timeline it is
	SpanChild SpanType = "child" // a run that descends from it
	SpanStep  SpanType = "step"
	SpanWait  SpanType = "wait"  // for a person's decision
	SpanRetry SpanType = "retry" // an attempt that failed
)

// Span is an interval of a timeline.
type Span struct {
	_ struct{} `json:"-" name:"RunSpan"`

	SpanID   string     `json:"span_id" required:"true" doc:"The id of the run, step or approval; of an attempt, the step's with its number."`
	ParentID *string    `json:"parent_id" required:"true" doc:"The span that this one is part of; null for the run whose timeline it is."`
	RunID    string     `json:"run_id" format:"uuid" required:"true"`
	AgentID  string     `json:"agent_id" format:"uuid" required:"true"`
	Type     SpanType   `json:"type" enum:"run,child,step,wait,retry" required:"true"`
	StepType StepType   `json:"step_type,omitzero" enum:"llm,tool,approval,input,guardrail,memory,compaction"`
	Name     string     `json:"name" required:"true" doc:"Of the agent, the tool or the model; otherwise the step's type."`
	Status   string     `json:"status" required:"true" doc:"Of the run, the step or the approval; failed for an attempt."`
	Start    time.Time  `json:"start" required:"true"`
	End      *time.Time `json:"end" required:"true" doc:"Null while it is under way."`
	Tokens   int64      `json:"tokens" required:"true" doc:"Of the span itself: input and output. A run has those of its steps."`
	CostUSD  *float64   `json:"cost_usd" required:"true" doc:"As tokens; null where a price is unknown."`
	Error    *string    `json:"error,omitzero" doc:"Why it failed."`
}

// Timeline is one page of a timeline.
type Timeline struct {
	_ struct{} `json:"-" name:"RunTimeline"`

	Items     []Span  `json:"items" required:"true"`
	Cursor    *string `json:"cursor" required:"true"`
	HasMore   bool    `json:"has_more" required:"true"`
	Truncated bool    `json:"truncated" required:"true" doc:"The family has more than 5,000 runs or 50,000 steps, and the rest is left out."`
}

type timelineIn struct {
	RunID  string `path:"runId"`
	Limit  string `query:"limit" doc:"Spans per page, 1 to 5000; default 1000."`
	Cursor string `query:"cursor"`
}

// timeline lists the spans of a run and its descendants, in the order of their start.
func (s families) timeline(ctx context.Context, who authz.Caller, in *timelineIn) (*Timeline, error) {
	r, err := s.Runs.Get(ctx, who.TenantID, in.RunID)
	if err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "timeline", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	runs, truncated, err := s.descendants(ctx, r)
	if err != nil {
		return nil, err
	}
	spans, more, err := s.spans(ctx, runs)
	if err != nil {
		return nil, err
	}
	t := &Timeline{Truncated: truncated || more}
	from, _ := slices.BinarySearchFunc(spans, after, func(s Span, position string) int { return strings.Compare(s.position(), position) })
	if from < len(spans) && after != "" && spans[from].position() == after {
		from++
	}
	n := page.Limit(in.Limit, 1000, 5000)
	t.Items = spans[from:min(from+n, len(spans))]
	if t.HasMore = from+n < len(spans); t.HasMore {
		next := s.Cursors.Seal(scope, t.Items[n-1].position())
		t.Cursor = &next
	}
	return t, nil
}

// position is where the span stands on its timeline: a text that sorts.
func (s *Span) position() string {
	return strconv.FormatInt(s.Start.UnixMicro()+1<<62, 10) + s.SpanID
}

// descendants returns a run and those that descend from it, parents first. It
// reports whether there are more than it returns.
func (s families) descendants(ctx context.Context, r *Record) (all []Record, more bool, err error) {
	root := r.RunID
	if r.RootRunID != nil {
		root = *r.RootRunID
	}
	family, err := s.Runs.ListFamily(ctx, r.TenantID, root, maxFamily+1)
	if err != nil {
		return nil, false, err
	}
	children := map[string][]Record{}
	for _, f := range family[:min(len(family), maxFamily)] {
		if f.ParentRunID != nil {
			children[*f.ParentRunID] = append(children[*f.ParentRunID], f)
		}
	}
	all = []Record{*r}
	for i := 0; i < len(all); i++ { // all grows
		all = append(all, children[all[i].RunID]...)
	}
	return all, len(family) > maxFamily, nil
}

// spans returns the spans of runs, of which the first is the one whose timeline it
// is, and reports whether some were left out.
func (s families) spans(ctx context.Context, runs []Record) ([]Span, bool, error) {
	tenant := runs[0].TenantID
	ids := make([]string, len(runs))
	agents := make(map[string]string, len(runs))
	for i := range runs {
		ids[i], agents[runs[i].RunID] = runs[i].RunID, runs[i].AgentID
	}
	steps, err := s.Runs.ListOutlines(ctx, tenant, ids, maxSpans+1)
	if err != nil {
		return nil, false, err
	}
	more := len(steps) > maxSpans
	var spans []Span
	names := map[string]string{}
	for i := range runs {
		name, err := s.agentName(ctx, tenant, runs[i].AgentID, names)
		if err != nil {
			return nil, false, err
		}
		spans = append(spans, runs[i].span(i == 0, name))
		for _, st := range withPending(nil, &runs[i]) {
			o := Outline{Step: st}
			if in := (ToolInput{}); json.Unmarshal(st.Input, &in) == nil {
				o.Name = in.Name
			}
			steps = append(steps, o)
		}
	}
	waits, err := s.waits(ctx, tenant, runs)
	if err != nil {
		return nil, false, err
	}
	spans = append(spans, waits...)
	known := map[string]bool{}
	for i := range steps {
		if known[steps[i].StepID] { // it ended after the run was read
			continue
		}
		known[steps[i].StepID] = true
		spans = append(spans, steps[i].spans(agents[steps[i].RunID])...)
	}
	slices.SortFunc(spans, func(a, b Span) int { return strings.Compare(a.position(), b.position()) })
	return spans, more, nil
}

// waits returns the spans in which runs waited for approvals.
func (s families) waits(ctx context.Context, tenant string, runs []Record) (all []Span, err error) {
	for i := range runs {
		if runs[i].Metrics.ToolCallsCount == 0 && runs[i].Status != AwaitingApproval {
			continue
		}
		approvals, err := s.Runs.ListApprovalsByRun(ctx, nil, tenant, runs[i].RunID)
		if err != nil {
			return nil, err
		}
		for _, a := range approvals {
			all = append(all, Span{
				SpanID: a.ApprovalID, ParentID: &runs[i].RunID, RunID: a.RunID, AgentID: runs[i].AgentID,
				Type: SpanWait, Name: a.ToolName, Status: string(a.Status), Start: a.RequestedAt, End: a.DecidedAt,
			})
		}
	}
	return all, nil
}

func (r *Record) span(first bool, name string) Span {
	s := Span{
		SpanID: r.RunID, RunID: r.RunID, AgentID: r.AgentID, Type: SpanRun, Name: cmp.Or(name, r.AgentID), Status: string(r.Status),
		Start: r.CreatedAt, End: r.CompletedAt, Tokens: r.Metrics.InputTokens + r.Metrics.OutputTokens, CostUSD: r.Metrics.TotalCostUSD,
	}
	if !first {
		s.Type, s.ParentID = SpanChild, cmp.Or(r.ParentStepID, r.ParentRunID)
	}
	return s
}

// spans returns the span of the step, and those of its attempts that failed.
func (o *Outline) spans(agent string) []Span {
	var m StepMetrics
	if len(o.Metrics) > 0 {
		_ = json.Unmarshal(o.Metrics, &m) // our own text
	}
	run, step := o.RunID, o.StepID
	all := []Span{{
		SpanID: o.StepID, ParentID: &run, RunID: o.RunID, AgentID: agent, Type: SpanStep, StepType: o.Type,
		Name: cmp.Or(o.Name, string(o.Type)), Status: string(o.Status), Start: o.StartedAt, End: o.CompletedAt,
		Tokens: m.InputTokens + m.OutputTokens, CostUSD: m.CostUSD, Error: o.Error,
	}}
	begin := o.StartedAt
	for i, a := range o.Attempts {
		all = append(all, Span{
			SpanID: o.StepID + "-" + strconv.Itoa(i+1), ParentID: &step, RunID: o.RunID, AgentID: agent, Type: SpanRetry, StepType: o.Type,
			Name: all[0].Name, Status: string(StepFailed), Start: begin, End: &a.At, Error: &a.Error,
		})
		begin = a.At
	}
	return all
}
