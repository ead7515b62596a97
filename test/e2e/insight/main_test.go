// Package insight tests evaluations, experiments and traffic, on a whole server.
package insight

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
