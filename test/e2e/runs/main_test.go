// Package runs tests runs, their tools, waits, schedules and guardrails, on a whole server.
package runs

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
