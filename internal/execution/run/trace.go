package run

import (
	"context"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
)

// maxTraced bounds the runs of a trace.
const maxTraced = 500

type traceIn struct {
	TraceID string `path:"traceId" doc:"ID of any run of the family."`
}

// Trace is a family of runs: a run that no other started, and those that it started,
// directly and indirectly.
type Trace struct {
	_ struct{} `json:"-" name:"RunTrace"`

	TraceID   string `json:"trace_id" format:"uuid" required:"true" doc:"The run that the family began with."`
	Count     int    `json:"count" required:"true" doc:"Number of runs."`
	Truncated bool   `json:"truncated,omitzero" doc:"Whether the family has more runs than the 500 that are listed."`
	Runs      []Run  `json:"runs" required:"true" doc:"The family as summaries, oldest first."`
	Trace     []Run  `json:"trace" required:"true" doc:"The chain of delegation: from the first run to the one that was asked for."`
}

// Routes lists the operation.
func (p Past) Routes() []route.Route {
	return []route.Route{route.Action(route.Row{
		Method: "GET", Path: "/api/v1/admin/trace/{traceId}", ID: "traceRuns", Tag: "Admin", Summary: "Trace a chain of delegation",
		Doc:    "The runs that started each other, from the one that a person, a key, a schedule or a sensor started.",
		Scopes: []authz.Scope{authz.SuperScope}, Role: authz.Admin, Errors: []int{404},
	}, p.trace)}
}

func (p Past) trace(ctx context.Context, who authz.Caller, in *traceIn) (*Trace, error) {
	asked, err := p.Runs.Get(ctx, who.TenantID, in.TraceID)
	if err != nil {
		return nil, err
	}
	out := &Trace{TraceID: asked.RunID, Runs: []Run{}}
	if asked.RootRunID != nil {
		out.TraceID = *asked.RootRunID
	}
	if first, err := p.summary(ctx, who.TenantID, out.TraceID); err != nil {
		return nil, err
	} else if first != nil {
		out.Runs = append(out.Runs, *first)
	}
	w := page.Window{Limit: actRuns, Ascending: true}
	for !out.Truncated {
		found, err := p.Runs.ListSummaries(ctx, who.TenantID, Filter{RootRunID: out.TraceID}, w)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			break
		}
		w.After = found[len(found)-1].position()
		out.Runs = append(out.Runs, found...)
		out.Truncated = len(out.Runs) > maxTraced
	}
	out.Runs = out.Runs[:min(len(out.Runs), maxTraced)]
	out.Count, out.Trace = len(out.Runs), []Run{}
	for next := &asked.RunID; next != nil && len(out.Trace) < maxTraced; {
		r, err := p.summary(ctx, who.TenantID, *next)
		if err != nil {
			return nil, err
		}
		if r == nil {
			break
		}
		out.Trace, next = append(out.Trace, *r), r.ParentRunID
	}
	slices.Reverse(out.Trace)
	return out, nil
}

// summary returns a run; nil for one that was deleted.
func (p Past) summary(ctx context.Context, tenant, id string) (*Run, error) {
	r, err := p.Runs.Get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.Summarize()
	return &r.Run, nil
}
