package openaiclient

import (
	"testing"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
	"agentd/internal/wire/wiretest"
)

// Chat completions behave as all wires do (rule D23-wires). What goes back with an answer
// has no signature here: TestOpaqueData and its neighbours.
func TestWire(t *testing.T) {
	wiretest.Run(t, func(c modelcall.Config) model.Client { return New(c) }, wiretest.Chat{}, wiretest.Features{NoSignatures: true})
}
