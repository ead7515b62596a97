package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/accounts/tenantadmin"
	"agentd/internal/accounts/tenantadmin/tenantadminsql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/quota"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
)

// purgeLease is how long a purge that was begun here waits for a server, where
// this process dies.
const purgeLease = time.Minute

// withTenants opens the database for what the operator does with tenants. The
// servers that use it notice within a second.
func (inv *invocation) withTenants(s config.Storage, plans *quota.Plans, use func(s *tenantadmin.Service, who authz.Caller) error) error {
	return inv.migrated(s, func(db *sqldb.DB) error {
		people := identitysql.New(db)
		operator, err := people.GetOperator(inv)
		if err != nil && !errors.Is(err, identity.ErrNotFound) {
			return err
		}
		log := slog.New(slog.DiscardHandler)
		return use(tenantadmin.New(tenantadmin.Config{
			DB: db, Store: tenantadminsql.New(db), Tenants: identityService(db, plans).Tenants, Plans: plans, Audit: auditLog(db),
			Queue: worksql.New(db, clock.System{}, nil), Clock: clock.System{}, Log: log, Lease: purgeLease,
		}), authz.Caller{TenantID: operator, Operator: true, Method: audit.CommandLine})
	})
}

// withTenant does something with a tenant that is named by its id or slug.
func (inv *invocation) withTenant(s config.Storage, name string,
	do func(context.Context, *tenantadmin.Service, authz.Caller, tenantadmin.Tenant) error) error {
	return inv.withTenants(s, nil, func(s *tenantadmin.Service, who authz.Caller) error {
		t, err := s.Named(inv, name)
		if err != nil {
			return err
		}
		return do(inv, s, who, t)
	})
}

type tenantCreateCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	Tenancy config.Tenancy `embed:"" group:"Tenants"`
	Name    string         `required:"" placeholder:"NAME" help:"Name of the tenant."`
	Owner   string         `placeholder:"EMAIL" help:"Email address of its owner."`
	Plan    string         `placeholder:"ID" help:"Plan of the tenant, one of AGENTD_PLANS. Left out: the default one."`
	JSON    bool           `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *tenantCreateCommand) Run(inv *invocation) error {
	plans, err := quota.Load(cmd.Tenancy.Plans)
	if err != nil {
		return fmt.Errorf("AGENTD_PLANS: %w", err)
	}
	return inv.withTenants(cmd.Storage, plans, func(s *tenantadmin.Service, who authz.Caller) error {
		made, err := s.Create(inv, who, tenantadmin.Creation{Name: cmd.Name, OwnerEmail: cmd.Owner, Plan: cmd.Plan})
		if err != nil {
			return err
		}
		g := identity.Grant{TenantID: made.TenantID, UserID: made.UserID, KeyID: made.KeyID, RawKey: made.RawKey}
		if cmd.JSON {
			return inv.printGrant(g, true)
		}
		fmt.Fprintf(inv.stdout, "Created tenant %s (%s).\n", oneLine(cmd.Name), g.TenantID)
		inv.showKey(g, "Owner")
		return nil
	})
}

type tenantListCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	JSON    bool           `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *tenantListCommand) Run(inv *invocation) error {
	return inv.withTenants(cmd.Storage, nil, func(s *tenantadmin.Service, _ authz.Caller) error {
		all, err := s.List(inv, tenantadmin.Filter{}, page.Window{})
		if err != nil {
			return err
		}
		if cmd.JSON {
			return inv.printAny(items[tenantadmin.Tenant]{Items: all})
		}
		rows := make([][]string, len(all))
		for i, t := range all {
			rows[i] = []string{t.TenantID, t.Slug, string(t.Status), t.Plan, t.CreatedAt.Format(time.DateOnly), t.Name}
		}
		return inv.table([]string{"TENANT", "SLUG", "STATUS", "PLAN", "CREATED", "~NAME"}, rows)
	})
}

type tenantSuspendCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	Tenant  string         `arg:"" placeholder:"TENANT" help:"Id or slug of the tenant."`
	Reason  string         `placeholder:"TEXT" help:"Why."`
	JSON    bool           `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *tenantSuspendCommand) Run(inv *invocation) error {
	return inv.withTenant(cmd.Storage, cmd.Tenant,
		func(ctx context.Context, s *tenantadmin.Service, who authz.Caller, t tenantadmin.Tenant) error {
			done, err := s.Suspend(ctx, who, t.TenantID, cmd.Reason)
			if err != nil {
				return err
			}
			if cmd.JSON {
				return inv.printAny(done)
			}
			fmt.Fprintf(inv.stdout, "Suspended %s (%s).\n", oneLine(t.Name), t.TenantID)
			return nil
		})
}

type tenantReactivateCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	Tenant  string         `arg:"" placeholder:"TENANT" help:"Id or slug of the tenant."`
	JSON    bool           `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *tenantReactivateCommand) Run(inv *invocation) error {
	return inv.withTenant(cmd.Storage, cmd.Tenant,
		func(ctx context.Context, s *tenantadmin.Service, who authz.Caller, t tenantadmin.Tenant) error {
			done, err := s.Reactivate(ctx, who, t.TenantID)
			if err != nil {
				return err
			}
			if cmd.JSON {
				return inv.printAny(done)
			}
			fmt.Fprintf(inv.stdout, "Reactivated %s (%s).\n", oneLine(t.Name), t.TenantID)
			return nil
		})
}

type tenantPurgeCommand struct {
	Storage config.Storage `embed:"" group:"Storage"`
	Tenant  string         `arg:"" placeholder:"TENANT" help:"Id or slug of the tenant."`
	Confirm string         `placeholder:"NAME" help:"Its id, name or slug again, to confirm; this cannot be undone."`
	DryRun  bool           `help:"Only count what would be deleted."`
	JSON    bool           `help:"Print the result as JSON."`
}

// Run implements the command.
func (cmd *tenantPurgeCommand) Run(inv *invocation) error {
	return inv.withTenant(cmd.Storage, cmd.Tenant,
		func(ctx context.Context, s *tenantadmin.Service, who authz.Caller, t tenantadmin.Tenant) error {
			answer := tenantadmin.PurgeAnswer{TenantID: t.TenantID, Purged: true}
			var err error
			if cmd.DryRun {
				answer, err = s.Purge(ctx, who, t.TenantID, cmp.Or(cmd.Confirm, t.TenantID), true)
			} else {
				answer.Counts, err = s.PurgeNow(ctx, who, t.TenantID, cmd.Confirm, "command line "+ident.New())
			}
			if err != nil {
				return err
			}
			if cmd.JSON {
				return inv.printAny(answer)
			}
			verb := "Purged"
			if cmd.DryRun {
				verb = "Would purge"
			}
			fmt.Fprintf(inv.stdout, "%s %s (%s).\n", verb, oneLine(t.Name), t.TenantID)
			rows := [][]string{}
			for _, part := range slices.Sorted(maps.Keys(answer.Counts)) {
				rows = append(rows, []string{part, strconv.FormatInt(answer.Counts[part], 10)})
			}
			return inv.table([]string{"WHAT", "ROWS"}, rows)
		})
}
