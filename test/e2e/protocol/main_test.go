// Package protocol tests what holds for all requests: paths, headers, lists and
// cursors, idempotency keys.
package protocol

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
