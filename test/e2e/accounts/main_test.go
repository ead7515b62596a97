// Package accounts tests people, tenants, keys and how callers sign in, on a whole server.
package accounts

import (
	"testing"

	"agentd/internal/app/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

type object = apptest.Object
