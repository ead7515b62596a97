// Package content tests files, workspaces, knowledge, memory and search, on a whole server.
package content

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
