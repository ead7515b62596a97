// Package sessions tests sessions, their turns, streams and contexts, on a whole server.
package sessions

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
