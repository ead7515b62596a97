// Package isolation tests what one tenant can see of another, and who may call which operation, on a whole server.
package isolation

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
