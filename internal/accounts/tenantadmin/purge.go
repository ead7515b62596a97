package tenantadmin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/accounts/identity"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of this package's items of work.
const WorkKind = "tenancy"

// Prefixes of the keys of items; a tenant's ID follows. Items are stored, so the
// values must not change.
const (
	purging  = "purge/"
	resuming = "unpark/"
)

// A transaction that deletes should take about as long as an ordinary one, so
// that others who wait for SQLite's single writer do not wait noticeably longer.
const (
	initialRows = 32
	maxRows     = 4096
	shortTime   = 20 * time.Millisecond
	longTime    = 60 * time.Millisecond
)

// PurgeAnswer reports what a purge deletes.
type PurgeAnswer struct {
	_ struct{} `json:"-" name:"AdminTenantPurged"`

	Purged   bool             `json:"purged" required:"true" doc:"The company is deleted; its data is being deleted in the background."`
	TenantID string           `json:"tenant_id" required:"true"`
	DryRun   bool             `json:"dry_run,omitzero"`
	Counts   map[string]int64 `json:"counts,omitzero" doc:"For a dry run: number of rows that would be deleted, by kind of data."`
}

// Purge makes a tenant invisible immediately and enqueues the deletion of its
// data. confirm is its ID, name or slug. Errors: fault.NotFound; fault.Forbidden
// for the operator's own tenant; fault.Invalid for a wrong confirmation;
// fault.Conflict with PURGE_PROTECTED; fault.Locked for a tenant under a legal hold.
func (s *Service) Purge(ctx context.Context, who authz.Caller, id, confirm string, dryRun bool) (PurgeAnswer, error) {
	return s.purge(ctx, who, id, confirm, dryRun, func(tx txn.Tx) error {
		return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: purging + id, TenantID: who.TenantID})
	})
}

// PurgeNow is Purge that does the work itself, for the command line. If it is
// interrupted, any server completes the purge.
func (s *Service) PurgeNow(ctx context.Context, who authz.Caller, id, confirm, owner string) (map[string]int64, error) {
	var held work.Lease
	_, err := s.purge(ctx, who, id, confirm, false, func(tx txn.Tx) (err error) {
		held, err = s.Queue.EnqueueHeldTx(tx, work.Item{Kind: WorkKind, Key: purging + id, TenantID: who.TenantID}, owner, s.Lease)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.Handle(ctx, held); err != nil {
		return nil, err
	}
	p, err := s.Store.GetPurge(ctx, id)
	if err != nil {
		return nil, err
	}
	return p.counts()
}

func (s *Service) purge(ctx context.Context, who authz.Caller, id, confirm string, dryRun bool, enqueue func(txn.Tx) error) (PurgeAnswer,
	error) {
	t, err := s.Get(ctx, id)
	if err != nil {
		return PurgeAnswer{}, err
	}
	if err := purgeable(t, confirm); err != nil {
		return PurgeAnswer{}, err
	}
	answer := PurgeAnswer{TenantID: id, DryRun: dryRun, Purged: !dryRun}
	if dryRun {
		if err := route.Match(ctx, t); err != nil {
			return PurgeAnswer{}, err
		}
		answer.Counts, err = s.counts(ctx, id)
		return answer, err
	}
	err = s.DB.Write(ctx, func(tx txn.Tx) error {
		t, err := s.Store.LockTx(tx, id)
		if err != nil {
			return err
		}
		if err := route.Match(tx.Context(), t); err != nil {
			return err
		}
		if err := purgeable(t, confirm); err != nil {
			return err
		}
		// The audit log records it before anything is deleted.
		if err := s.record(tx, who, "purge_started", id, details("name", t.Name, "slug", t.Slug)); err != nil {
			return err
		}
		if err := s.Store.MarkDeletedTx(tx, t, Purge{TenantID: id, Name: t.Name, By: who, At: s.Clock.Now()}); err != nil {
			return err
		}
		s.notifyNodes(tx)
		if err := enqueue(tx); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
	return answer, publicError(err)
}

func purgeable(t Tenant, confirm string) error {
	switch {
	case t.Operator:
		return operatorProtected("purged")
	case confirm == "" || confirm != t.TenantID && confirm != t.Name && confirm != t.Slug:
		return fault.BadFields(fault.Field{Field: "confirm",
			Message: "must be the id, the name or the slug of the company, so that no other company is deleted by mistake"})
	case t.PurgeProtection:
		return fault.New(fault.Conflict, "PURGE_PROTECTED",
			"This company is protected from being purged; set its purge_protection to false first.")
	case t.held().LegalHold:
		return fault.New(fault.Locked, "LEGAL_HOLD", "This company's data is under a legal hold; set its legal_hold to false first.")
	}
	return nil
}

// counts returns how many rows a purge would delete.
func (s *Service) counts(ctx context.Context, id string) (map[string]int64, error) {
	parts, err := s.Store.ListParts(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for _, part := range parts {
		n, err := s.Store.CountPart(ctx, id, part)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			all[part] = n
		}
	}
	return all, nil
}

// Handle is the work handler.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	if id, ok := strings.CutPrefix(held.Key, purging); ok {
		return s.purgeAll(ctx, held, id)
	}
	if id, ok := strings.CutPrefix(held.Key, resuming); ok {
		return s.resumeAll(ctx, held, id)
	}
	return fmt.Errorf("tenantadmin: work item with the unknown key %s", held.Key)
}

// resumeAll makes due again what was held back while a tenant was suspended.
func (s *Service) resumeAll(ctx context.Context, held work.Lease, id string) error {
	for done := false; !done; {
		if err := work.StopIfDraining(ctx); err != nil {
			return err
		}
		err := s.DB.Write(ctx, func(tx txn.Tx) error {
			if err := s.Queue.HoldTx(tx, held, s.Lease); err != nil {
				return err
			}
			n, err := s.Store.ResumeWorkTx(tx, id, s.RunKind, maxRows)
			if err != nil {
				return err
			}
			tx.AfterCommit(s.OnResume)
			if done = n < maxRows; done {
				return s.Queue.FinishTx(tx, held)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// purgeAll deletes until it finds no more rows, then the tenant itself. A request
// that was authenticated before the tenant was hidden may still write something:
// the recheck deletes that.
func (s *Service) purgeAll(ctx context.Context, held work.Lease, id string) error {
	p, err := s.Store.GetPurge(ctx, id)
	if errors.Is(err, identity.ErrNotFound) {
		return s.DB.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, held) })
	}
	if err != nil {
		return err
	}
	for found := true; found; {
		if found, err = s.purgeOnce(ctx, held, id); err != nil {
			return err
		}
	}
	hold := func(tx txn.Tx) error { return s.Queue.HoldTx(tx, held, s.Lease) }
	if err := s.Store.DeleteRemains(ctx, hold); err != nil { // the recheck tries once more
		s.Log.Warn("words of a purged company may be in the database's log for some time", "tenant", id, "err", err)
	}
	return s.DB.Write(ctx, func(tx txn.Tx) error {
		if p.Logged {
			if err := s.Store.DeletePurgeTx(tx, id); err != nil {
				return err
			}
			return s.Queue.FinishTx(tx, held)
		}
		done, err := s.Store.DeleteTx(tx, id)
		if err != nil {
			return err
		}
		details, err := done.details()
		if err != nil {
			return err
		}
		if err := s.record(tx, done.By, "purged", id, details); err != nil {
			return err
		}
		return s.Queue.RescheduleTx(tx, held, s.Clock.Now().Add(s.RecheckAfter), nil)
	})
}

// purgeOnce deletes all parts and reports whether there was anything to delete.
func (s *Service) purgeOnce(ctx context.Context, held work.Lease, id string) (found bool, err error) {
	parts, err := s.Store.ListParts(ctx)
	if err != nil {
		return false, err
	}
	limit := initialRows
	for _, part := range parts {
		for more := true; more; {
			if err := work.StopIfDraining(ctx); err != nil {
				return found, err
			}
			n, took := 0, time.Duration(0)
			err := s.DB.Write(ctx, func(tx txn.Tx) (err error) {
				began := time.Now()
				if err := s.Queue.HoldTx(tx, held, s.Lease); err != nil {
					return err
				}
				n, err = s.Store.DeletePartTx(tx, id, part, limit)
				took = time.Since(began)
				return err
			})
			if err != nil {
				return found, err
			}
			found, more = found || n > 0, n == limit
			switch {
			case took > longTime:
				limit = max(1, limit/2)
			case took < shortTime && more:
				limit = min(limit*2, maxRows)
			}
		}
	}
	return found, nil
}

// details are the details of a purge's audit entry.
func (p Purge) details() (jsontext.Value, error) {
	return marshal(struct {
		Name   string         `json:"name"`
		Since  time.Time      `json:"started_at"`
		Counts jsontext.Value `json:"counts"`
	}{p.Name, p.At, p.Counts})
}
