package run

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/page"
)

// Get reads one run.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Run, error) {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	r.LastEventID = eventID(r.EventSeq)
	if s.Artifacts != nil && r.Metrics.ToolCallsCount > 0 { // only tools produce files
		if r.Artifacts, err = s.Artifacts(ctx, tenant, id); err != nil {
			return nil, err
		}
	}
	if r.Wait.Approvals > 0 {
		all, err := s.Runs.ListApprovalsByRun(ctx, nil, tenant, id)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			if a.Status == ApprovalPending {
				r.PendingApprovals = append(r.PendingApprovals, a.pending())
			} else {
				r.Approvals = append(r.Approvals, a)
			}
		}
	}
	return &r.Run, nil
}

// eventID returns the id of an event; "" where there is none yet.
func eventID(seq int64) string {
	if seq == 0 {
		return ""
	}
	return strconv.FormatInt(seq, 10)
}

// Page is one page of runs.
type Page struct {
	_ struct{} `json:"-" name:"RunList"`

	Items   []Run   `json:"items" required:"true"`
	Cursor  *string `json:"cursor" required:"true"`
	HasMore bool    `json:"has_more" required:"true"`
}

// Runs per page.
const (
	defaultPage = 20
	maxPage     = 100
)

// list returns a page of runs.
func (s *Service) list(ctx context.Context, who authz.Caller, in *listIn) (*Page, error) {
	if err := in.Created.Check(); err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "runs", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	n := page.Limit(in.Limit, defaultPage, maxPage)
	read := s.Runs.List
	if in.Fields == "summary" {
		read = s.Runs.ListSummaries
	}
	runs, err := read(ctx, who.TenantID, in.Filter, page.Window{After: after, Limit: n + 1, Ascending: in.Order == "asc"})
	if err != nil {
		return nil, err
	}
	p := &Page{}
	if p.Items, p.HasMore = page.Cut(runs, n, Run.Weight); p.HasMore {
		next := s.Cursors.Seal(scope, p.Items[len(p.Items)-1].position())
		p.Cursor = &next
	}
	if in.Fields == "summary" {
		err = families{s}.addNames(ctx, who.TenantID, p.Items)
	}
	return p, err
}

// position is where the run stands in lists.
func (r Run) position() string { return page.MomentOf(r.CreatedAt, r.RunID) }

// Weight is the approximate size of the run on a page, in bytes.
func (r Run) Weight() int { return len(r.Input) + len(r.Output) + len(r.Metadata) }

// Wait returns the run once it has ended, or as it is when the timeout expires.
func (s *Service) Wait(ctx context.Context, tenant, id string, timeout time.Duration) (*Run, error) {
	sub := s.Hub.Subscribe(id)
	defer sub.Close()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	poll := time.NewTicker(time.Second) // in case a live event is lost
	defer poll.Stop()
	for {
		r, err := s.Get(ctx, tenant, id)
		if err != nil || r.Status.Final() {
			return r, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			return r, nil
		case <-sub.Ready():
			_, _, _ = sub.Drain() // the run is read again
		case <-poll.C:
		}
	}
}

// StepPage is the journal of a run. Paging fields appear only if the request has
// a limit or a cursor.
type StepPage struct {
	_ struct{} `json:"-" name:"RunStepList"`

	RunID        string   `json:"run_id" required:"true"`
	Steps        []Step   `json:"steps" required:"true"`
	Total        int      `json:"total" required:"true" doc:"Steps on all pages."`
	TotalCostUSD *float64 `json:"total_cost_usd"`
	LastEventID  string   `json:"last_event_id,omitzero" doc:"The event up to which these are the steps: follow the stream of events after it."`
	HasMore      *bool    `json:"has_more,omitzero"`
	Cursor       *string  `json:"cursor,omitzero"`
}

const maxSteps = 500

// steps lists a run's steps, oldest first: those with a result and those that
// are under way.
func (s *Service) steps(ctx context.Context, who authz.Caller, in *stepsIn) (*StepPage, error) {
	tenant, id := who.TenantID, in.RunID
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	scope := page.ScopeOf(tenant, "steps", in)
	position, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	steps, err := s.Runs.ListSteps(ctx, tenant, id, 0, 0)
	if err != nil {
		return nil, err
	}
	if in.Inherited != "true" {
		steps = slices.DeleteFunc(steps, func(s Step) bool { return s.InheritedFrom != nil })
	}
	steps = withPending(steps, r)
	if err := (families{s}).addChildren(ctx, r, steps); err != nil {
		return nil, err
	}
	if in.Fields == "summary" {
		for i := range steps {
			steps[i].Summarize()
		}
	}
	p := &StepPage{RunID: id, Steps: steps, Total: len(steps), TotalCostUSD: r.Metrics.TotalCostUSD, LastEventID: eventID(r.EventSeq)}
	if in.Limit == "" && in.Cursor == "" {
		return p, nil
	}
	after, _ := strconv.ParseInt(position, 10, 64)
	from := 0
	for from < len(steps) && steps[from].Seq <= after {
		from++
	}
	n := page.Limit(in.Limit, maxSteps, maxSteps)
	more := len(steps)-from > n
	p.Steps, p.HasMore = steps[from:min(from+n, len(steps))], &more
	if more {
		next := s.Cursors.Seal(scope, strconv.FormatInt(p.Steps[n-1].Seq, 10))
		p.Cursor = &next
	}
	return p, nil
}

// withPending adds the steps that are under way.
func withPending(steps []Step, r *Record) []Step {
	for _, p := range r.Pending {
		s := Step{
			StepID: p.StepID, RunID: r.RunID, TenantID: r.TenantID, Seq: p.Seq, StepIndex: p.Seq - 1,
			Type: p.Type, Status: StepRunning, StartedAt: p.StartedAt, Attempts: p.Attempts,
		}
		if p.Tool != nil {
			s.Input, _ = json.Marshal(p.Tool)
		}
		steps = append(steps, s)
	}
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.CompactFunc(steps, func(a, b Step) bool { return a.Seq == b.Seq })
}
