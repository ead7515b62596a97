package app

import (
	"context"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/signin/signinsql"
	"agentd/internal/accounts/tenantadmin/tenantadminsql"
	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/marketplace/marketplacesql"
	"agentd/internal/content/search/searchsql"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/execution/responsechain/responsechainsql"
	"agentd/internal/execution/review/reviewsql"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/governance/constitution/constitutionsql"
	"agentd/internal/governance/ledger/ledgersql"
	"agentd/internal/operation/privacy"
	"agentd/internal/operation/privacy/privacysql"
	"agentd/internal/public/visitor/visitorsql"
	"agentd/internal/store/auditsql"
	"agentd/internal/store/idempotencysql"
	"agentd/internal/teams/a2a/a2asql"
	"agentd/internal/teams/bridge/bridgesql"
	"agentd/internal/teams/errand/errandsql"
	"agentd/internal/teams/mission/missionsql"
	"agentd/internal/teams/teamrun/teamrunsql"
)

// personalTables are what all slices keep of people.
var personalTables = slices.Concat(
	identitysql.Personal, signinsql.Personal, tenantadminsql.Personal, usagesql.Personal, auditsql.Personal, idempotencysql.Personal,
	notificationsql.Personal, runsql.Personal, sessionsql.Personal, responsechainsql.Personal, reviewsql.Personal, searchsql.Personal,
	teamrunsql.Personal, missionsql.Personal, a2asql.Personal, errandsql.Personal, bridgesql.Personal,
	marketplacesql.Personal, ledgersql.Personal,
	visitorsql.Personal, constitutionsql.Personal,
)

// privacyPart is the access to and the erasure of what is kept of people.
func privacyPart(p *platform, content *content, execution *execution) part {
	s := privacy.New(privacy.Deps{
		Store: privacysql.New(p.db), Holdings: holdings{content, execution.runs}, Tables: personalTables, Writer: p.db, Queue: p.queue,
		Clock: p.clock, Log: p.log, Audit: p.audit, Node: p.node, Lease: lease,
	})
	return part{name: "privacy", routes: s.Routes(), workers: []worker{p.worker(privacy.WorkKind, 1, s.Handle)}}
}

// holdings implements privacy.Holdings.
type holdings struct {
	content *content
	runs    *run.Service
}

// GetFile implements privacy.Holdings.
func (h holdings) GetFile(ctx context.Context, tenant, id string) (privacy.Content, error) {
	f, err := h.content.files.Get(ctx, tenant, id)
	if err != nil {
		return privacy.Content{}, err
	}
	return privacy.Content{ID: id, Name: f.Filename, Open: func(ctx context.Context) (io.ReadCloser, error) {
		_, opened, err := h.content.files.Open(ctx, tenant, id)
		return opened, err
	}}, nil
}

// DeleteFile implements privacy.Holdings.
func (h holdings) DeleteFile(ctx context.Context, tenant, id string) (bool, error) {
	return h.content.files.Erase(ctx, tenant, id)
}

// ListArtifacts implements privacy.Holdings.
func (h holdings) ListArtifacts(ctx context.Context, tenant, runID string) ([]privacy.Content, error) {
	all, err := h.content.artifacts.Of(ctx, tenant, runID)
	if err != nil {
		return nil, err
	}
	out := make([]privacy.Content, len(all))
	for i, a := range all {
		out[i] = privacy.Content{ID: a.ArtifactID, Name: a.Name, Open: func(ctx context.Context) (io.ReadCloser, error) {
			_, opened, err := h.content.artifacts.Open(ctx, tenant, a.ArtifactID)
			return opened, err
		}}
	}
	return out, nil
}

// DeleteArtifactsTx implements privacy.Holdings.
func (h holdings) DeleteArtifactsTx(tx txn.Tx, tenant, runID string) (int64, error) {
	return h.content.artifacts.DeleteOfRunTx(tx, tenant, runID)
}

// ListMemories implements privacy.Holdings.
func (h holdings) ListMemories(ctx context.Context, tenant, agent, runID string) ([]string, []jsontext.Value, error) {
	all, err := h.content.memory.OfRun(ctx, tenant, agent, runID)
	if err != nil {
		return nil, nil, err
	}
	ids, entries := make([]string, len(all)), make([]jsontext.Value, len(all))
	for i := range all {
		ids[i] = all[i].EntryID
		if entries[i], err = json.Marshal(&all[i]); err != nil {
			return nil, nil, err
		}
	}
	return ids, entries, nil
}

// DeleteMemory implements privacy.Holdings.
func (h holdings) DeleteMemory(ctx context.Context, tenant, agent, id string) error {
	return h.content.memory.Delete(ctx, tenant, agent, id)
}

// CancelRun implements privacy.Holdings.
func (h holdings) CancelRun(ctx context.Context, tenant, id string) error {
	_, err := h.runs.Cancel(ctx, tenant, id)
	return err
}
