package app

import (
	"agentd/internal/response"
	"agentd/internal/sqlstore"
)

// responses are what runs of the responses shape go on from.
func (a *App) responses() *response.Service {
	return &response.Service{Store: sqlstore.NewResponses(a.db)}
}
