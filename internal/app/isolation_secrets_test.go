package app_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model/modeltest"
)

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// secrets are what nobody else may see: a company's marks and keys, and every
// id in whatever is stored of it.
type secrets struct {
	ids   map[string]bool
	texts []string
}

// in lists those of the secrets that a text holds.
func (s secrets) in(text string) (found []string) {
	for _, id := range anyID.FindAllString(text, -1) {
		if s.ids[id] {
			found = append(found, id)
		}
	}
	lower := strings.ToLower(text) // file names and headers may change its case
	for _, secret := range s.texts {
		if strings.Contains(lower, strings.ToLower(secret)) {
			found = append(found, secret)
		}
	}
	return found
}

// secrets lists the company's: what the database has of it, whether or not an
// operation shows it, and what operations show, whether or not it is stored.
func (c *company) secrets(but *company, operations []*operation) secrets {
	c.t.Helper()
	s := secrets{ids: map[string]bool{}, texts: []string{c.mark, string(c.id.RawKey), c.id.RawKey.Prefix()}}
	add := func(text string) {
		for _, id := range anyID.FindAllString(text, -1) {
			s.ids[id] = true
		}
	}
	beside := c.admin()
	for _, row := range beside.rows(c.id.TenantID) {
		add(row)
	}
	for _, op := range operations {
		if op.Method == "GET" && !op.page && !op.Operator {
			got := c.own(op).send(c.node)
			if !op.okStatus(got.StatusCode) {
				c.t.Fatalf("%s: %d %s", op, got.StatusCode, got.raw)
			}
			add(string(got.raw))
		}
	}
	if len(s.ids) < 50 {
		c.t.Errorf("a company of only %d ids proves little", len(s.ids))
	}
	// What the other one has itself is no secret: the operator, say, stands in
	// the log of a company that it made.
	for _, row := range beside.rows(but.id.TenantID) {
		for _, id := range anyID.FindAllString(row, -1) {
			delete(s.ids, id)
		}
	}
	for name, ids := range c.ids {
		for _, id := range ids {
			if name != "tenantId" && name != "subordinate" && anyID.MatchString(id) && !s.ids[id] {
				c.t.Errorf("%s %s of the one company is stored with the other", name, id)
			}
		}
	}
	return s
}

// volatile are columns that change without anybody's doing: leases are
// renewed, uses of keys are noted a while after.
var volatile = []string{"due_at", "last_used_at"}

// untenanted are the tables that hold nothing of a company, and why.
var untenanted = map[string]string{
	"goose_db_version": "which migrations ran",
	"signin_codes":     "by the email of a person, who may be of several companies or none yet",
	"tenant_purges":    "of companies that are gone or going",
	"signin_links":     "the same: how a person signs in elsewhere",
	"signin_tickets":   "the same: hashes of what was given out, sealed, for minutes",
}

// companyTables lists the tables that have rows of companies. Every table has a
// column tenant_id, or a reason.
func (a *admin) companyTables() (all []string) {
	a.tb.Helper()
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`
	columns := `SELECT name AS column_name FROM pragma_table_info('%s')`
	if a.db.Postgres() {
		query = `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`
		columns = `SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '%s'`
	}
	for _, table := range a.query(query) {
		name := table["name"].(string)
		if strings.HasPrefix(name, "search_") {
			continue // made of the others, a while after them
		}
		tenanted := false
		for _, column := range a.query(fmt.Sprintf(columns, name)) {
			tenanted = tenanted || column["column_name"] == "tenant_id"
		}
		if tenanted {
			all = append(all, name)
		} else if untenanted[name] == "" {
			a.tb.Errorf("the table %s has no tenant_id: give it one, or say in untenanted (isolation_secrets_test.go) why nothing in it belongs to a company", name)
		}
	}
	return all
}

// rows dumps what the database has of a tenant.
func (a *admin) rows(tenant string) (all []string) {
	a.tb.Helper()
	if a.tenanted == nil {
		a.tenanted = a.companyTables()
	}
	for _, table := range a.tenanted {
		var found []string
		for _, row := range a.query(`SELECT * FROM `+table+` WHERE tenant_id = ?`, tenant) {
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

// unharmed fails if anything of the other company is not as it was, and gives
// how it is now.
func (in intruder) unharmed(before []string) []string {
	in.Helper()
	now := in.beside.rows(in.theirs.id.TenantID)
	if diff := cmp.Diff(before, now); diff != "" {
		in.Errorf("%s changed something of the other company:\n%s", in.op, diff)
	}
	return now
}

// Every table that keeps words of a company bears its mark, so that a search
// for the mark finds whatever of it another company is shown.
func TestCompaniesAreMarked(t *testing.T) {
	t.Parallel()
	heavy(t)
	n := start(t, modeltest.New(t, silent), embedding, searching(t))
	id, err := n.admin().CreateTenant(t.Context(), "Walrus and Sons", "walrus@example.com")
	if err != nil {
		t.Fatal(err)
	}
	c := newCompany(n, "walrus", id)
	beside := n.admin()
	for _, table := range beside.companyTables() {
		rows := beside.query(`SELECT * FROM `+table+` WHERE tenant_id = ?`, c.id.TenantID)
		marked := slices.ContainsFunc(rows, func(row map[string]any) bool {
			return strings.Contains(strings.ToLower(fmt.Sprintf("%s", row)), c.mark)
		})
		if !marked && unmarked[table] == "" {
			t.Errorf("none of the %d rows of the table %s bears the mark of its company: have newCompany in company_test.go fill one with it, "+
				"or say in unmarked (isolation_secrets_test.go) why there are no words of a company in it", len(rows), table)
		}
	}
}

// unmarked are the tables in which nothing is a company's own words, and why.
// What they have is found by its ids.
var unmarked = map[string]string{
	"notification_prefs": "channels, types and hours",
	"approvals":          "a tool and numbers", "blobs": "hashes of contents", "blob_loose": "parts that nobody uses", "collections": "settings of an index",
	"idempotency": "answers, sealed", "mcp_grants": "sealed", "mcp_pending": "sealed", "notification_numbers": "a counter", "run_budgets": "counters",
	"run_events":       "packed",
	"browser_sessions": "made by signing in, which TestSignIn* does; keys have none", "signin_factors": "sealed",
	"sensor_calls":  "hashes and ids",
	"schedule_runs": "ids", "session_runs": "ids and numbers", "session_shares": "a hash", "work": "ids of what is to be done",
	"usage_budgets": "numbers", "usage_counters": "counters", "usage_events": "which thresholds were told of", "usage_locks": "times",
	"workspace_agents": "ids", "webhook_deliveries": "ids, and what receivers answered",
}
