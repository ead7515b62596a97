package app

import (
	"context"
	"time"

	"agentd/internal/operation/privacy/privacysql"
	"agentd/internal/operation/retention"
	"agentd/internal/operation/retention/retentionsql"
)

// newRetention makes what deletes what is too old.
func newRetention(p *platform, content *content) *retention.Service {
	return &retention.Service{Deps: retention.Deps{
		Store: retentionsql.New(p.db, personalTables), Settings: retention.Section(p.settings), Writer: p.db, Clock: p.clock,
		DeleteArtifactsTx: content.artifacts.DeleteOfRunTx, ResetSummaryTx: privacysql.New(p.db).ResetSummaryTx,
		Pause: 20 * time.Millisecond,
	}}
}

func retentionPart(p *platform, s *retention.Service) part {
	return part{name: "retention", routes: s.Routes(), services: []service{background(func(ctx context.Context) { s.Serve(ctx, p.log) })}}
}
