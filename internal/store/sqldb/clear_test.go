package sqldb_test

import (
	"testing"

	"agentd/internal/store/sqldb"
)

func TestUnencrypted(t *testing.T) {
	t.Setenv("PGSSLMODE", "") // which would count too
	for url, want := range map[string]bool{
		"": false,
		"postgres://user:pw@db.example.com/agentd":                               true, // TLS if the server offers it
		"postgres://user:pw@db.example.com/agentd?sslmode=disable":               true,
		"postgres://user:pw@db.example.com/agentd?sslmode=allow":                 true,
		"postgres://user:pw@10.0.0.1/agentd?sslmode=prefer":                      true,
		"postgres://user:pw@db.example.com/agentd?sslmode=require":               false,
		"postgres://user:pw@db.example.com/agentd?sslmode=verify-full":           false,
		"postgres://user:pw@127.0.0.1/agentd?sslmode=disable":                    false,
		"postgres://user:pw@[::1]/agentd":                                        false,
		"postgres://user:pw@localhost/agentd":                                    false,
		"postgres:///agentd?host=/var/run/postgresql":                            false,
		"postgres://user:pw@localhost,db.example.com/agentd":                     true,
		"postgres://user:pw@localhost,db.example.com/agentd?sslmode=verify-full": false,
		"host=db.example.com user=x":                                             true,
		"postgres://user:%zz@db.example.com/agentd":                              false, // refused elsewhere
	} {
		if got := sqldb.Unencrypted(url); got != want {
			t.Errorf("%s: %t", url, got)
		}
	}
}
