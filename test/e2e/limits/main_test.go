// Package limits tests rate limits, quotas, budgets and load, on a whole server.
package limits

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
