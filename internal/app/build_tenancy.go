package app

import (
	"agentd/internal/audit"
	"agentd/internal/page"
	"agentd/internal/sqlstore"
)

func (a *App) buildAudit(cursors *page.Cursors) {
	a.audit = &audit.Log{Store: sqlstore.NewAudit(a.db), Writer: a.db, Cursors: cursors, Clock: a.clock}
}
