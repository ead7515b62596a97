// Package contract tests the rules that hold for every operation: bodies, answers, lists, repeated writes, on a whole server.
package contract

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
