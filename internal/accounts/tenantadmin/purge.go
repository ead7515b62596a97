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
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of this package's items of work.
const WorkKind = "tenancy"

// What the keys of items begin with; a tenant's id follows.
const (
	purging   = "purge/"
	unparking = "unpark/"
)

// A transaction that deletes takes about as long as an ordinary one, so that
// nobody who waits for SQLite's one writer waits noticeably longer.
const (
	fewRows   = 32
	mostRows  = 4096
	shortTime = 20 * time.Millisecond
	longTime  = 60 * time.Millisecond
)

// PurgeAnswer says what a purge deletes.
type PurgeAnswer struct {
	_ struct{} `json:"-" name:"AdminTenantPurged"`

	Purged   bool             `json:"purged" required:"true" doc:"The company is gone for everybody; what it stored is deleted from now on."`
	TenantID string           `json:"tenant_id" required:"true"`
	DryRun   bool             `json:"dry_run,omitzero"`
	Counts   map[string]int64 `json:"counts,omitzero" doc:"Of a dry run: how many rows of what would be deleted."`
}

// Purge makes a tenant invisible at once and has everything deleted that is
// its own. confirm is its id, name or slug. Errors: fault.NotFound;
// fault.Forbidden for the operator's own; fault.Invalid for a confirmation that
// is none; fault.Conflict with PURGE_PROTECTED.
func (s *Service) Purge(ctx context.Context, who authz.Caller, id, confirm string, dryRun bool) (PurgeAnswer, error) {
	return s.purge(ctx, who, id, confirm, dryRun, func(tx txn.Tx) error {
		return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: purging + id, TenantID: who.TenantID})
	})
}

// PurgeHere is Purge that does the work itself, for a program that is no
// server. What it leaves where it dies any server takes up.
func (s *Service) PurgeHere(ctx context.Context, who authz.Caller, id, confirm, owner string) (map[string]int64, error) {
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

func (s *Service) purge(ctx context.Context, who authz.Caller, id, confirm string, dryRun bool, enqueue func(txn.Tx) error) (PurgeAnswer, error) {
	t, err := s.Get(ctx, id)
	if err != nil {
		return PurgeAnswer{}, err
	}
	if err := purgeable(t, confirm); err != nil {
		return PurgeAnswer{}, err
	}
	answer := PurgeAnswer{TenantID: id, DryRun: dryRun, Purged: !dryRun}
	if dryRun {
		answer.Counts, err = s.counts(ctx, id)
		return answer, err
	}
	err = s.DB.Write(ctx, func(tx txn.Tx) error {
		t, err := s.Store.LockTx(tx, id)
		if err != nil {
			return err
		}
		if err := purgeable(t, confirm); err != nil {
			return err
		}
		// The log has it before anything is gone.
		if err := s.record(tx, who, "purge_started", id, details("name", t.Name, "slug", t.Slug)); err != nil {
			return err
		}
		if err := s.Store.MarkDeletedTx(tx, t, Purge{TenantID: id, Name: t.Name, By: who, At: s.Clock.Now()}); err != nil {
			return err
		}
		s.tell(tx)
		if err := enqueue(tx); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
	return answer, absent(err)
}

func purgeable(t Tenant, confirm string) error {
	switch {
	case t.Operator:
		return operators("purged")
	case confirm == "" || confirm != t.TenantID && confirm != t.Name && confirm != t.Slug:
		return fault.BadFields(fault.Field{Field: "confirm", Message: "must be the id, the name or the slug of the company, so that no other is deleted by mistake"})
	case t.PurgeProtection:
		return fault.New(fault.Conflict, "PURGE_PROTECTED", "This company is protected from being purged; take its purge_protection away first.")
	}
	return nil
}

// counts says how many rows a purge would delete.
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
	if id, ok := strings.CutPrefix(held.Key, unparking); ok {
		return s.unparkAll(ctx, held, id)
	}
	return fmt.Errorf("tenancy: an item of work with the key %s", held.Key)
}

// unparkAll makes due again what was held back while a tenant was suspended.
func (s *Service) unparkAll(ctx context.Context, held work.Lease, id string) error {
	for done := false; !done; {
		err := s.DB.Write(ctx, func(tx txn.Tx) error {
			if err := s.Queue.HoldTx(tx, held, s.Lease); err != nil {
				return err
			}
			n, err := s.Store.ResumeWorkTx(tx, id, s.RunKind, mostRows)
			if err != nil {
				return err
			}
			tx.AfterCommit(s.Woke)
			if done = n < mostRows; done {
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

// purgeAll deletes until it finds nothing any more, then the tenant itself. A
// request that was let in before the tenant was hidden may still write
// something: that is what the last look is for.
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
	return s.DB.Write(ctx, func(tx txn.Tx) error {
		if p.Told {
			if err := s.Store.DeletePurgeTx(tx, id); err != nil {
				return err
			}
			return s.Queue.FinishTx(tx, held)
		}
		done, err := s.Store.DeleteTx(tx, id)
		if err != nil {
			return err
		}
		told, err := done.told()
		if err != nil {
			return err
		}
		if err := s.record(tx, done.By, "purged", id, told); err != nil {
			return err
		}
		return s.Queue.RescheduleTx(tx, held, s.Clock.Now().Add(s.LastLook), nil)
	})
}

// purgeOnce goes through all parts and says whether there was anything.
func (s *Service) purgeOnce(ctx context.Context, held work.Lease, id string) (found bool, err error) {
	parts, err := s.Store.ListParts(ctx)
	if err != nil {
		return false, err
	}
	most := fewRows
	for _, part := range parts {
		for more := true; more; {
			n, took := 0, time.Duration(0)
			err := s.DB.Write(ctx, func(tx txn.Tx) (err error) {
				began := time.Now()
				if err := s.Queue.HoldTx(tx, held, s.Lease); err != nil {
					return err
				}
				n, err = s.Store.DeletePartTx(tx, id, part, most)
				took = time.Since(began)
				return err
			})
			if err != nil {
				return found, err
			}
			found, more = found || n > 0, n == most
			switch {
			case took > longTime:
				most = max(1, most/2)
			case took < shortTime && more:
				most = min(most*2, mostRows)
			}
		}
	}
	return found, nil
}

// told is what the audit log says of a purge.
func (p Purge) told() (jsontext.Value, error) {
	return marshal(struct {
		Name   string         `json:"name"`
		Since  time.Time      `json:"started_at"`
		Counts jsontext.Value `json:"counts"`
	}{p.Name, p.At, p.Counts})
}
