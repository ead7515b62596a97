// Package reconciliation compares what companies are billed by with what their runs say.
// The counters of usage are written in the transactions of runs, so that both agree. A
// difference is a defect, a change of the database by hand, or runs that were deleted.
//
// The runs of a period are read in pages, outside of transactions, up to a bound.
package reconciliation

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/operation/setting"
)

// Settings are when companies are compared, and which difference is reported.
type Settings struct {
	_ struct{} `json:"-" name:"AdminConfigReconciliation"`

	Enabled   bool    `json:"enabled" doc:"Whether the day before is compared by itself."`
	Hours     int64   `json:"interval_hours" minimum:"1" maximum:"720" doc:"Hours between two comparisons of all companies; one node makes them."`
	Threshold float64 `json:"threshold_percent" minimum:"0.001" maximum:"100" doc:"A difference of more percent of the larger value is logged as a warning, counted in the metric agentd_reconciliation_drifting_companies, and marked in the results."`
}

// Section adds the settings to those of the operator.
func Section(all *setting.Service) *setting.Section[Settings] {
	return setting.Add(all, &setting.Section[Settings]{
		Name: "reconciliation", Initial: Settings{Enabled: true, Hours: 24, Threshold: 1},
	})
}

// Place is a place among the runs of a company, in the order of their creation.
type Place struct {
	At    time.Time
	RunID string
}

// Run is what a run says of itself.
type Run struct {
	Place

	Source      string // as counters name it
	CompletedAt time.Time
	Use         quota.Use
	Unpriced    bool // the price of a call was not known, so that Use has no cost
}

// Store is the port to the tables.
type Store interface {
	// ListTenants returns the ids of companies in their order.
	ListTenants(ctx context.Context, after string, n int) ([]string, error)
	HasTenant(ctx context.Context, id string) (bool, error)
	// ListRuns returns up to n runs that were created from after on, and before a time,
	// oldest first.
	ListRuns(ctx context.Context, tenant string, after Place, before time.Time, n int) ([]Run, error)

	// GetResult returns the last comparison of a company; nil: there is none.
	GetResult(ctx context.Context, tenant string) (*Result, error)
	PutResultTx(tx txn.Tx, tenant string, r *Result) error
	// GetTurn returns the last comparison of all companies; nil: there is none.
	GetTurn(ctx context.Context) (*Turn, error)
	PutTurnTx(tx txn.Tx, t *Turn) error
	// ClaimTx reports whether no node began a turn since a time, and notes that this one
	// does now.
	ClaimTx(tx txn.Tx, since, now time.Time) (bool, error)
}

// Deps is what a Service needs.
type Deps struct {
	Store    Store
	Settings *setting.Section[Settings]
	Writer   txn.Writer
	Clock    clock.Clock
	Audit    audit.Recorder
	Log      *slog.Logger
	// Counted returns what was counted for a company's agents on some days, both included,
	// by source.
	Counted func(ctx context.Context, tenant, from, to string) (map[string]quota.Use, error)
	// Drifting is called after each turn with the number of companies whose counters and
	// runs differ; nil: not reported.
	Drifting func(companies int)
	// MaxRuns is after how many runs of a company a comparison stops; 0: 200000.
	MaxRuns int
}

// Service is the slice.
type Service struct{ Deps }

const (
	pageSize = 1000
	maxRuns  = 200_000
	// maxWait bounds a turn that a request waits for, maxTurn one in the background.
	maxWait, maxTurn = 20 * time.Second, time.Hour
	// maxShown bounds the companies that the result of a turn names.
	maxShown = 100
	// lookEvery is how often a node looks whether a turn is due.
	lookEvery = time.Minute
)

// compare compares a company's counters with its runs.
func (s *Service) compare(ctx context.Context, tenant string, p period) (*Result, error) {
	counted, err := s.Counted(ctx, tenant, dayOf(p.from), dayOf(p.to.AddDate(0, 0, -1)))
	if err != nil {
		return nil, err
	}
	for _, source := range quota.OtherSources {
		delete(counted, source) // they have no runs
	}
	r := &Result{Period: p.name, CheckedAt: s.Clock.Now(), Threshold: s.Settings.Get().Threshold}
	told, most := map[string]quota.Use{}, int64(cmp.Or(s.MaxRuns, maxRuns))
	for after := (Place{At: p.from}); !r.Complete && r.RunsRead < most; {
		runs, err := s.Store.ListRuns(ctx, tenant, after, p.to, pageSize)
		if err != nil {
			return nil, err
		}
		for i := range runs {
			r.add(told, &runs[i], p)
			after = runs[i].Place
		}
		r.Complete = len(runs) < pageSize
	}
	r.finish(counted, told)
	return r, nil
}

// turn compares all companies, until ctx ends.
func (s *Service) turn(ctx context.Context, p period) (*Turn, error) {
	t := &Turn{Period: p.name, StartedAt: s.Clock.Now(), Worst: []Drifting{}}
	for after := ""; ; {
		tenants, err := s.Store.ListTenants(ctx, after, pageSize)
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		for _, id := range tenants {
			if err := s.turnOf(ctx, id, p, t); err != nil && ctx.Err() == nil {
				return nil, err
			}
			after = id
		}
		if t.Complete = ctx.Err() == nil && len(tenants) < pageSize; t.Complete || ctx.Err() != nil {
			break
		}
	}
	t.EndedAt = s.Clock.Now()
	if s.Drifting != nil {
		s.Drifting(int(t.Drifts))
	}
	return t, nil
}

// turnOf compares one company and keeps the result.
func (s *Service) turnOf(ctx context.Context, tenant string, p period, t *Turn) error {
	r, err := s.compare(ctx, tenant, p)
	if err != nil {
		return err
	}
	err = s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.PutResultTx(tx, tenant, r) })
	if err != nil {
		return err
	}
	t.add(tenant, r)
	if r.Exceeded {
		worst := r.worst()
		s.Log.Warn("what a company is billed by differs from what its runs say", "tenant", tenant, "period", r.Period,
			"metric", worst.Metric, "counted", worst.Counted, "of_runs", worst.OfRuns, "percent", worst.Percent)
	}
	return nil
}

// Serve compares all companies as often as the settings say, until ctx ends.
func (s *Service) Serve(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("the counters could not be compared with the runs; the next turn tries again", "err", err)
		}
	}
}

// Look begins a turn if one is due and no other node began it.
func (s *Service) Look(ctx context.Context) error {
	set := s.Settings.Get()
	if !set.Enabled {
		return nil
	}
	now, due := s.Clock.Now(), false
	err := s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		due, err = s.Store.ClaimTx(tx, now.Add(-time.Duration(set.Hours)*time.Hour), now)
		return err
	})
	if err != nil || !due {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, maxTurn)
	defer cancel()
	t, err := s.turn(bounded, yesterday(now))
	if err != nil {
		return err
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.PutTurnTx(tx, t) })
}
