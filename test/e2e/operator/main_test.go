// Package operator tests what the operator sets while the service runs, on whole servers.
package operator

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object

const configPath = "/api/v1/admin/config/"
