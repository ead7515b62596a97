package app

import (
	"agentd/internal/execution/responsechain"
	"agentd/internal/store/sqlstore"
)

// responses are what runs of the responses shape go on from.
func (a *App) responses() *responsechain.Service {
	return &responsechain.Service{Store: sqlstore.NewResponses(a.db)}
}
