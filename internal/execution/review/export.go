package review

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/execution/run"
)

const (
	eventPage     = 500
	defaultExport = 10_000
	maxExport     = 1_000_000
	exportPage    = 100

	// settleTime is the age at which runs are exported: those of concurrent transactions
	// are stored in another order than that of their times.
	settleTime = 10 * time.Second
)

type eventsIn struct {
	RunID string `path:"runId"`
	After int64  `query:"after" minimum:"0" doc:"Only events with a greater seq: that of the last line that you have."`
}

// exportEvents returns the events of a run so far, which are read while they are sent.
func (s *Service) exportEvents(ctx context.Context, who authz.Caller, in *eventsIn) (route.Lines, error) {
	r, err := s.Runs.Get(ctx, who.TenantID, in.RunID)
	if err != nil {
		return nil, err
	}
	data := run.EventData(&r.Run)
	return func(yield func([]byte, error) bool) {
		for after := in.After; ; {
			events, err := s.Log.Read(ctx, r.TenantID, r.RunID, after, eventPage)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range events {
				after = events[i].Seq
				if !yield(data(events[i]), nil) {
					return
				}
			}
			if len(events) < eventPage {
				return
			}
		}
	}, nil
}

type exportIn struct {
	run.Filter

	After string `query:"after" maxLength:"100" doc:"The cursor of the last line that you have: the export continues after it. It never expires."`
	Limit string `query:"limit" doc:"Runs at most, 1 to 1000000; default 10000."`
}

// exportLine is a run as a line of an export.
type exportLine struct {
	run.Run

	Cursor string `json:"cursor"`
}

// exportRuns returns runs, oldest first, which are read while they are sent.
func (s *Service) exportRuns(ctx context.Context, who authz.Caller, in *exportIn) (route.Lines, error) {
	if err := in.Created.Check(); err != nil {
		return nil, err
	}
	if in.After != "" {
		if at, id, _ := strings.Cut(in.After, ","); at == "" || !ident.Valid(id) {
			return nil, fault.New(fault.Invalid, "INVALID_CURSOR", "The parameter after is not the cursor of an exported line.")
		}
	}
	f := in.Filter
	if settled := s.Clock.Now().Add(-settleTime); f.CreatedBefore.IsZero() || f.CreatedBefore.After(settled) {
		f.CreatedBefore = settled
	}
	w := page.Window{After: in.After, Ascending: true}
	n := page.Limit(in.Limit, defaultExport, maxExport)
	return func(yield func([]byte, error) bool) {
		for n > 0 {
			w.Limit = min(n, exportPage)
			runs, err := s.Runs.List(ctx, who.TenantID, f, w)
			if err != nil || len(runs) == 0 {
				if err != nil {
					yield(nil, err)
				}
				return
			}
			for i := range runs {
				w.After = page.MomentOf(runs[i].CreatedAt, runs[i].RunID)
				line, err := json.Marshal(exportLine{runs[i], w.After})
				if !yield(line, err) || err != nil {
					return
				}
			}
			n -= len(runs) // List returns fewer than asked for where they are large
		}
	}, nil
}
