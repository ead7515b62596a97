// Package delivery tests webhooks, notifications and sensors, on a whole server.
package delivery

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
