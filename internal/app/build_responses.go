package app

import (
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/responsechain/responsechainsql"
)

// responses are what runs of the responses shape go on from.
func (a *App) responses() *responsechain.Service {
	return &responsechain.Service{Store: responsechainsql.New(a.db)}
}
