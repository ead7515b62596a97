// Package retention deletes what is older than the operator keeps it: runs with all that
// belongs to them, their events and artifacts alone, entries of audit logs and of activity
// feeds. It works in the background, in small batches, and leaves what a legal hold keeps.
package retention

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
	"agentd/internal/operation/setting"
)

// Settings are for how long things are kept.
type Settings struct {
	_ struct{} `json:"-" name:"AdminConfigRetention"`

	Run      *int64 `json:"run_days,omitzero" nullable:"true" minimum:"1" maximum:"36500" doc:"Days that a run is kept after its end, with its steps, events, artifacts, approvals and feedback. Left out: for ever."`
	Event    *int64 `json:"event_days,omitzero" nullable:"true" minimum:"1" maximum:"36500" doc:"Days that the events of a run are kept after its end; the last ones, which say how it ended, stay with the run. Left out: as long as the run."`
	Artifact *int64 `json:"artifact_days,omitzero" nullable:"true" minimum:"1" maximum:"36500" doc:"Days that the files which a run made are kept after its end. Left out: as long as the run."`
	Audit    *int64 `json:"audit_days,omitzero" nullable:"true" minimum:"1" maximum:"36500" doc:"Days that entries of audit logs are kept. Left out: for ever."`
	Feed     *int64 `json:"feed_days,omitzero" nullable:"true" minimum:"1" maximum:"36500" doc:"How many days activity feeds go back. Left out: to their beginning."`
}

// Section adds the settings to those of the operator.
func Section(all *setting.Service) *setting.Section[Settings] {
	return setting.Add(all, &setting.Section[Settings]{Name: "retention"})
}

// Tenant is what is decided for one company.
type Tenant struct {
	ID      string
	Held    bool  // nothing of it may be deleted
	MaxDays int64 // its max_retention_days; 0: none
}

// Mark is a place among the runs of a company that have ended, in the order of their ends.
type Mark struct {
	At    time.Time
	RunID string
}

// Ended is a run that has ended.
type Ended struct {
	Mark

	SessionID string // "": none
}

// The kinds that have marks.
const (
	Events    = "event"
	Artifacts = "artifact"
	Audit     = "audit"
)

// Store is the port to the tables.
type Store interface {
	// ListTenants returns companies in the order of their ids.
	ListTenants(ctx context.Context, after string, n int) ([]Tenant, error)
	GetTenant(ctx context.Context, id string) (Tenant, error)
	// HasHoldTx reports whether a company is under a legal hold.
	HasHoldTx(tx txn.Tx, tenant string) (bool, error)

	// ListEnded returns runs that ended before a time, oldest first, after a mark.
	ListEnded(ctx context.Context, tenant string, before time.Time, after Mark, n int) ([]Ended, error)
	GetMark(ctx context.Context, tenant, kind string) (Mark, error)
	PutMarkTx(tx txn.Tx, tenant, kind string, m Mark) error

	// DeleteRunsTx deletes runs, and what their tables and others have of them.
	DeleteRunsTx(tx txn.Tx, tenant string, runs []Ended) error
	// DeleteEventsTx deletes the events of runs, but for the last ones: streams end by them.
	DeleteEventsTx(tx txn.Tx, tenant string, runs []Ended) error
	// ListWithArtifactsTx returns which of the runs have artifacts.
	ListWithArtifactsTx(tx txn.Tx, tenant string, runs []Ended) ([]string, error)
	// DeleteAuditTx and DeleteFeedTx delete up to n entries from before a time, and return
	// how many.
	DeleteAuditTx(tx txn.Tx, tenant string, before time.Time, n int) (int64, error)
	DeleteFeedTx(tx txn.Tx, tenant string, before time.Time, n int) (int64, error)
}

// Deps is what a Service needs.
type Deps struct {
	Store    Store
	Settings *setting.Section[Settings]
	Writer   txn.Writer
	Clock    clock.Clock
	// DeleteArtifactsTx deletes the artifacts of a run, and returns how many.
	DeleteArtifactsTx func(tx txn.Tx, tenant, run string) (int64, error)
	// ResetSummaryTx removes what a session's summary quotes of its runs.
	ResetSummaryTx func(tx txn.Tx, tenant, session string) error
	// Pause is what is waited between two batches, so that others write meanwhile.
	Pause time.Duration
}

// Service is the slice.
type Service struct{ Deps }

const (
	sweepEvery = time.Hour
	batch      = 100 // runs of one transaction
	entries    = 500 // of a log or a feed
	day        = 24 * time.Hour
)

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	return setting.Routes(s.Settings, setting.Published[Settings]{
		Name: "retention", GetID: "getAdminRetentionConfig", PutID: "updateAdminRetentionConfig", What: "how long things are kept",
		Doc: "Days, counted from the end of a run or the time of an entry. What is older is deleted within two hours, for good. " +
			"A company's max_retention_days is a shorter limit for its runs and its feed; a legal hold keeps everything.",
		Example: `{"event_days": 3650}`,
	})
}

// Serve deletes what is too old until ctx ends.
func (s *Service) Serve(ctx context.Context, log *slog.Logger) {
	work.Every(ctx, sweepEvery, log, "what is older than it is kept could not be deleted; the next turn tries again", s.Sweep)
}

// Sweep deletes what is too old, of all companies.
func (s *Service) Sweep(ctx context.Context) error {
	for after := ""; ; {
		const page = 100
		tenants, err := s.Store.ListTenants(ctx, after, page)
		if err != nil {
			return err
		}
		for _, t := range tenants {
			if err := s.sweep(ctx, t); err != nil {
				return err
			}
			after = t.ID
		}
		if len(tenants) < page {
			return nil
		}
	}
}

// least returns the smaller number of days; 0 is none.
func least(set *int64, most int64) int64 {
	if set == nil {
		return most
	}
	if most == 0 {
		return *set
	}
	return min(*set, most)
}

// before returns the time before which things are too old, if there is one.
func (s *Service) before(days int64) (time.Time, bool) {
	return s.Clock.Now().Add(-time.Duration(days) * day), days > 0
}

// FeedSince returns how far back a company's feed goes; zero: to its beginning.
func (s *Service) FeedSince(ctx context.Context, tenant string) (time.Time, error) {
	t, err := s.Store.GetTenant(ctx, tenant)
	if err != nil {
		return time.Time{}, err
	}
	at, bounded := s.before(least(s.Settings.Get().Feed, t.MaxDays))
	if !bounded {
		return time.Time{}, nil
	}
	return at, nil
}

func (s *Service) sweep(ctx context.Context, t Tenant) error {
	if t.Held {
		return nil
	}
	set := s.Settings.Get()
	if before, bounded := s.before(least(set.Run, t.MaxDays)); bounded {
		if err := s.sweepRuns(ctx, t.ID, before); err != nil {
			return err
		}
	}
	if before, bounded := s.before(least(set.Event, 0)); bounded {
		if err := s.sweepMarked(ctx, t.ID, Events, before, s.Store.DeleteEventsTx); err != nil {
			return err
		}
	}
	if before, bounded := s.before(least(set.Artifact, 0)); bounded {
		if err := s.sweepMarked(ctx, t.ID, Artifacts, before, s.deleteArtifactsTx); err != nil {
			return err
		}
	}
	if before, bounded := s.before(least(set.Audit, 0)); bounded {
		// Without the mark the log refuses that entries are deleted.
		if err := s.sweepEntries(ctx, t.ID, before, func(tx txn.Tx, tenant string, before time.Time, n int) (int64, error) {
			if err := s.Store.PutMarkTx(tx, tenant, Audit, Mark{At: before}); err != nil {
				return 0, err
			}
			return s.Store.DeleteAuditTx(tx, tenant, before, n)
		}); err != nil {
			return err
		}
	}
	if before, bounded := s.before(least(set.Feed, t.MaxDays)); bounded {
		return s.sweepEntries(ctx, t.ID, before, s.Store.DeleteFeedTx)
	}
	return nil
}

// write makes a batch, unless the company is under a legal hold by now. It reports whether
// the batch was made.
func (s *Service) write(ctx context.Context, tenant string, do func(tx txn.Tx) error) (made bool, err error) {
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		held, err := s.Store.HasHoldTx(tx, tenant)
		if made = err == nil && !held; !made {
			return err
		}
		return do(tx)
	})
	if err != nil || s.Pause == 0 {
		return made && err == nil, err
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(s.Pause):
		return made, nil
	}
}

func (s *Service) sweepRuns(ctx context.Context, tenant string, before time.Time) error {
	for {
		runs, err := s.Store.ListEnded(ctx, tenant, before, Mark{}, batch)
		if err != nil || len(runs) == 0 {
			return err
		}
		made, err := s.write(ctx, tenant, func(tx txn.Tx) error {
			if err := s.deleteArtifactsTx(tx, tenant, runs); err != nil {
				return err
			}
			if err := s.Store.DeleteRunsTx(tx, tenant, runs); err != nil {
				return err
			}
			return s.resetSummariesTx(tx, tenant, runs)
		})
		if err != nil || !made {
			return err
		}
	}
}

// resetSummariesTx removes what the sessions of runs quote of them.
func (s *Service) resetSummariesTx(tx txn.Tx, tenant string, runs []Ended) error {
	done := map[string]bool{"": true}
	for i := range runs {
		id := runs[i].SessionID
		if done[id] {
			continue
		}
		if err := s.ResetSummaryTx(tx, tenant, id); err != nil {
			return err
		}
		done[id] = true
	}
	return nil
}

func (s *Service) deleteArtifactsTx(tx txn.Tx, tenant string, runs []Ended) error {
	ids, err := s.Store.ListWithArtifactsTx(tx, tenant, runs)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := s.DeleteArtifactsTx(tx, tenant, id); err != nil {
			return err
		}
	}
	return nil
}

// sweepMarked deletes something of runs that are kept. The mark says how far it came, so
// that no run is looked at twice.
func (s *Service) sweepMarked(
	ctx context.Context, tenant, kind string, before time.Time, remove func(tx txn.Tx, tenant string, runs []Ended) error,
) error {
	mark, err := s.Store.GetMark(ctx, tenant, kind)
	if err != nil {
		return err
	}
	for {
		runs, err := s.Store.ListEnded(ctx, tenant, before, mark, batch)
		if err != nil || len(runs) == 0 {
			return err
		}
		mark = runs[len(runs)-1].Mark
		made, err := s.write(ctx, tenant, func(tx txn.Tx) error {
			if err := remove(tx, tenant, runs); err != nil {
				return err
			}
			return s.Store.PutMarkTx(tx, tenant, kind, mark)
		})
		if err != nil || !made {
			return err
		}
	}
}

func (s *Service) sweepEntries(
	ctx context.Context, tenant string, before time.Time, remove func(tx txn.Tx, tenant string, before time.Time, n int) (int64, error),
) error {
	for {
		var n int64
		made, err := s.write(ctx, tenant, func(tx txn.Tx) (err error) {
			n, err = remove(tx, tenant, before, entries)
			return err
		})
		if err != nil || !made || n < entries {
			return err
		}
	}
}
