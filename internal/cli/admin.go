package cli

import (
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/auditsql"
	"agentd/internal/store/sqldb"
)

// withIdentity opens the database for its tenants, members and keys.
func (inv *invocation) withIdentity(s config.Storage, use func(*identity.Service) error) error {
	return inv.migrated(s, func(db *sqldb.DB) error { return use(identityService(db, nil)) })
}

// identityService returns the service of a database's members and tenants; plans
// may be nil if no tenant is created.
func identityService(db *sqldb.DB, plans *quota.Plans) *identity.Service {
	return identity.New(identity.Config{
		DB: db, Store: identitysql.New(db), Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Audit: auditLog(db), Plans: plans,
	})
}

func auditLog(db *sqldb.DB) *audit.Log {
	return &audit.Log{Store: auditsql.New(db), Writer: db, Clock: clock.System{}}
}

type keyCreateCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	Tenant  string         `placeholder:"ID" help:"Id of the tenant. Left out: the first one, which the first start made."`
	Role    authz.Role     `required:"" enum:"viewer,developer,admin,owner" placeholder:"ROLE" help:"Role of the member: ${enum}."`
	Scopes  []authz.Scope  `placeholder:"SCOPE" help:"Scopes of the key, or * for all. Left out: the default scopes."`
	Name    string         `required:"" placeholder:"NAME" help:"Name of the key."`
	User    string         `placeholder:"EMAIL" help:"Email address of the member. Left out, or unknown: a new member."`
	JSON    bool           `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *keyCreateCommand) Run(inv *invocation) error {
	return inv.withIdentity(cmd.Storage, func(s *identity.Service) error {
		g, err := s.Keys.Grant(inv, cmd.Tenant, cmd.Role, cmd.Scopes, cmd.Name, cmd.User)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return inv.printGrant(g, false)
		}
		fmt.Fprintf(inv.stdout, "Created key %s (%s).\n", oneLine(cmd.Name), g.KeyID)
		inv.showKey(g, "Member")
		return nil
	})
}

// showKey shows a new key to a person.
func (inv *invocation) showKey(g identity.Grant, holder string) {
	fmt.Fprintf(inv.stdout, "%-7s %s\n%-7s %s\n", holder, g.UserID, "Key", string(g.RawKey))
	inv.note("Save the key now: it is not stored and cannot be shown again.")
}

// printGrant prints a new key for a script.
func (inv *invocation) printGrant(g identity.Grant, withTenant bool) error {
	grant := struct {
		TenantID string `json:"tenant_id,omitzero"`
		UserID   string `json:"user_id"`
		KeyID    string `json:"key_id"`
		RawKey   string `json:"raw_key"`
	}{"", g.UserID, g.KeyID, string(g.RawKey)}
	if withTenant {
		grant.TenantID = g.TenantID
	}
	text, err := json.Marshal(grant)
	if err != nil {
		return err
	}
	return inv.printJSON(text)
}
