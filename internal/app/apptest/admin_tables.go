package apptest

import (
	"fmt"
	"slices"
	"strings"
)

// volatile are columns that change without a request: leases are renewed, uses of
// keys are recorded later.
var volatile = []string{"due_at", "last_used_at"}

// untenanted are the tables without data of tenants, and why they have none.
var untenanted = map[string]string{
	"goose_db_version":     "which migrations ran",
	"signin_addresses":     "by the email of a person, who may be of several companies or none yet",
	"signin_attempts":      "by the email of a person, who may be of several companies or none yet",
	"nodes":                "the processes that run, and where",
	"audit_push":           "of the deployment: whether entries are pushed",
	"kept_secrets":         "of the deployment",
	"secret_keys":          "of the deployment: ids of its secret keys",
	"secret_servers":       "of the deployment: which servers run",
	"billing_events":       "ids of events of Stripe",
	"public_events":        "of the deployment: how often pages for strangers were used",
	"operator_settings":    "of the deployment: what its operator set",
	"reconciliation_turns": "of the deployment: how the last comparison of all companies went",
	"tenant_purges":        "of companies that are gone or going",
	"signin_links":         "the same: how a person signs in elsewhere",
	"signin_tickets":       "the same: hashes of what was given out, sealed, for minutes",
}

// CompanyTables lists the tables that have rows of companies. Every table has a
// column tenant_id, or a reason.
func (a *Admin) CompanyTables() (all []string) {
	a.T.Helper()
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`
	columns := `SELECT name AS column_name FROM pragma_table_info('%s')`
	if a.DB.Postgres() {
		query = `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`
		columns = `SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '%s'`
	}
	for _, table := range a.Query(query) {
		name := table["name"].(string)
		if strings.HasPrefix(name, "search_") {
			continue // made of the others, a while after them
		}
		tenanted := false
		for _, column := range a.Query(fmt.Sprintf(columns, name)) {
			tenanted = tenanted || column["column_name"] == "tenant_id"
		}
		if tenanted {
			all = append(all, name)
		} else if untenanted[name] == "" {
			a.T.Errorf("the table %s has no tenant_id: give it one, or say in untenanted (internal/app/apptest/admin_tables.go) why "+
				"nothing in it belongs to a company", name)
		}
	}
	return all
}

// Rows returns all rows of a tenant, in every table, as text.
func (a *Admin) Rows(tenant string) (all []string) {
	a.T.Helper()
	if a.tenanted == nil {
		a.tenanted = a.CompanyTables()
	}
	for _, table := range a.tenanted {
		var found []string
		for _, row := range a.Query(`SELECT * FROM `+table+` WHERE tenant_id = ?`, tenant) {
			for _, column := range volatile {
				delete(row, column)
			}
			found = append(found, fmt.Sprint(table, row))
		}
		slices.Sort(found)
		all = append(all, found...)
	}
	return all
}

// TenantTables lists the tables with a column tenant_id, except tenants itself.
func (a *Admin) TenantTables() []string {
	a.T.Helper()
	return a.tables(true)
}

// SharedTables lists the tables that have no tenant_id and no excuse for it here.
func (a *Admin) SharedTables() []string {
	a.T.Helper()
	excused := []string{
		"goose_db_version",             // of the schema
		"sqlite_sequence",              // SQLite's own, for the table before
		"sqlite_stat1", "sqlite_stat4", // constants for SQLite's planner
		"tenant_purges",                             // ends with a last look
		"nodes",                                     // the processes that run
		"audit_push",                                // whether entries are pushed
		"operator_settings", "reconciliation_turns", // of the deployment
		"billing_events",                                // ids of Stripe's events, against repetitions
		"public_events",                                 // numbers of pages' visitors, of all companies together
		"kept_secrets", "secret_keys", "secret_servers", // of the deployment
		// A person is an email address, which companies have in common; codes and
		// tickets last for minutes.
		"signin_addresses", "signin_attempts", "signin_links", "signin_tickets",
	}
	return slices.DeleteFunc(a.tables(false), func(table string) bool {
		return slices.Contains(excused, table) || strings.HasPrefix(table, "search_words") // which go with search_docs
	})
}

// AllTables lists every table.
func (a *Admin) AllTables() []string {
	a.T.Helper()
	return slices.Concat(a.tables(true), a.tables(false), []string{"tenants"})
}

func (a *Admin) tables(with bool) (names []string) {
	a.T.Helper()
	all := `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`
	columns := `SELECT name AS col FROM pragma_table_info(?)`
	if a.DB.Postgres() {
		all = `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`
		columns = `SELECT column_name AS col FROM information_schema.columns WHERE table_schema = 'public' AND table_name = ?`
	}
	for _, row := range a.Query(all) {
		name := row["name"].(string)
		has := slices.ContainsFunc(a.Query(columns, name), func(c map[string]any) bool { return c["col"] == "tenant_id" })
		if has == with && name != "tenants" {
			names = append(names, name)
		}
	}
	return names
}
