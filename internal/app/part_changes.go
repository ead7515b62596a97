package app

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/delivery/live"
	"agentd/internal/delivery/webhook"
	"agentd/internal/insight/evaluation"
	"agentd/internal/teams/mission"
)

// announcedMissions announces what changes of missions, to pages that look.
type announcedMissions struct {
	mission.Store
	live.Announcer
}

// CreateTx implements mission.Store.
func (s announcedMissions) CreateTx(tx txn.Tx, r *mission.Record) error {
	s.Tx(tx, r.TenantID, live.Change{Kind: "mission", ID: r.MissionID, Op: live.Created})
	return s.Store.CreateTx(tx, r)
}

// UpdateTx implements mission.Store.
func (s announcedMissions) UpdateTx(tx txn.Tx, r *mission.Record) error {
	s.Tx(tx, r.TenantID, live.Change{Kind: "mission", ID: r.MissionID, Op: live.Updated})
	return s.Store.UpdateTx(tx, r)
}

// RequestTx implements mission.Store.
func (s announcedMissions) RequestTx(tx txn.Tx, tenant, id string, change func(*mission.Record) error) (*mission.Record, error) {
	s.Tx(tx, tenant, live.Change{Kind: "mission", ID: id, Op: live.Updated})
	return s.Store.RequestTx(tx, tenant, id, change)
}

// announcedEvaluations announces what changes of evaluations.
type announcedEvaluations struct {
	evaluation.Store
	live.Announcer
}

// CreateTx implements evaluation.Store.
func (s announcedEvaluations) CreateTx(tx txn.Tx, r *evaluation.Record) error {
	s.Tx(tx, r.TenantID, live.Change{Kind: "evaluation", ID: r.EvalRunID, Op: live.Created})
	return s.Store.CreateTx(tx, r)
}

// UpdateTx implements evaluation.Store.
func (s announcedEvaluations) UpdateTx(tx txn.Tx, r *evaluation.Record) error {
	s.Tx(tx, r.TenantID, live.Change{Kind: "evaluation", ID: r.EvalRunID, Op: live.Updated})
	return s.Store.UpdateTx(tx, r)
}

// rowOf returns what reads a row as lists show it.
func rowOf[R, V any](
	get func(ctx context.Context, tenant, id string) (*R, error), show func(*R) V,
) func(ctx context.Context, tenant, id string) (jsontext.Value, int64, error) {
	return live.RowOf(func(ctx context.Context, tenant, id string) (v V, err error) {
		r, err := get(ctx, tenant, id)
		if err != nil {
			return v, err
		}
		return show(r), nil
	})
}

// announcedWebhooks announces what changes of subscriptions: each delivery counts.
type announcedWebhooks struct {
	webhook.Store
	live.Announcer
}

func (s announcedWebhooks) tell(tx txn.Tx, tenant, id, op string) {
	s.Tx(tx, tenant, live.Change{Kind: "webhook", ID: id, Op: op})
}

// CreateTx implements webhook.Store.
func (s announcedWebhooks) CreateTx(tx txn.Tx, sub webhook.Subscription) (int, error) {
	s.tell(tx, sub.TenantID, sub.ID, live.Created)
	return s.Store.CreateTx(tx, sub)
}

// DeleteTx implements webhook.Store.
func (s announcedWebhooks) DeleteTx(tx txn.Tx, tenant, id string, at time.Time) (bool, error) {
	found, err := s.Store.DeleteTx(tx, tenant, id, at)
	if found && err == nil {
		s.tell(tx, tenant, id, live.Deleted)
	}
	return found, err
}

// EnableTx implements webhook.Store.
func (s announcedWebhooks) EnableTx(tx txn.Tx, tenant, id string) error {
	s.tell(tx, tenant, id, live.Updated)
	return s.Store.EnableTx(tx, tenant, id)
}

// MarkHealthyTx implements webhook.Store.
func (s announcedWebhooks) MarkHealthyTx(tx txn.Tx, tenant, id string) error {
	s.tell(tx, tenant, id, live.Updated)
	return s.Store.MarkHealthyTx(tx, tenant, id)
}

// MarkFailedTx implements webhook.Store.
func (s announcedWebhooks) MarkFailedTx(tx txn.Tx, tenant, id string, at time.Time, failing, disabled int) (webhook.Status, error) {
	s.tell(tx, tenant, id, live.Updated)
	return s.Store.MarkFailedTx(tx, tenant, id, at, failing, disabled)
}
