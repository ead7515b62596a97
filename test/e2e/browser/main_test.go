package browser

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }
