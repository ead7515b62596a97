// Package compat tests the formats of other APIs: chat completions, responses, messages, audio, MCP, on a whole server.
package compat

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
