package isolation

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
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

// secretsOf lists the company's: what the database has of it, whether or not an
// operation shows it, and what operations show, whether or not it is stored.
func secretsOf(c *contracttest.Company, but *contracttest.Company, operations []*contracttest.Operation) secrets {
	c.T.Helper()
	s := secrets{ids: map[string]bool{}, texts: []string{c.Mark, string(c.Grant.RawKey), c.Grant.RawKey.Prefix()}}
	add := func(text string) {
		for _, id := range anyID.FindAllString(text, -1) {
			s.ids[id] = true
		}
	}
	beside := c.Admin()
	for _, row := range beside.Rows(c.Grant.TenantID) {
		add(row)
	}
	for _, op := range operations {
		if op.Method == "GET" && !op.NeedsPerson && !op.Operator && !contracttest.BrowserOnly[op.ID] {
			got := c.OwnCall(op).Send(c.Server)
			if !op.Succeeds(got.StatusCode) {
				c.T.Fatalf("%s: %d %s", op, got.StatusCode, got.Body)
			}
			add(string(got.Body))
		}
	}
	if len(s.ids) < 50 {
		c.T.Errorf("a company of only %d ids proves little", len(s.ids))
	}
	// What the other one has itself is no secret: the operator, say, stands in
	// the log of a company that it made.
	for _, row := range beside.Rows(but.Grant.TenantID) {
		for _, id := range anyID.FindAllString(row, -1) {
			delete(s.ids, id)
		}
	}
	for name, ids := range c.IDs {
		for _, id := range ids {
			if name != "tenantId" && name != "subordinate" && anyID.MatchString(id) && !s.ids[id] {
				c.T.Errorf("%s %s of the one company is stored with the other", name, id)
			}
		}
	}
	return s
}

// harms looks for changes of what the other company keeps. Reading all of it takes
// longer than ten operations, so that it looks once for some of them, and names these
// with what changed.
type harms struct {
	before []string // its rows
	tried  []string // the operations since they were read
}

// after fails the test of an operation if it is time to look, and anything changed.
func (h *harms) after(in intruder) {
	in.Helper()
	h.tried = append(h.tried, in.op.ID)
	if len(h.tried) == 20 {
		h.check(in.T, in.beside, in.theirs.Grant.TenantID)
	}
}

func (h *harms) check(t *testing.T, beside *apptest.Admin, tenant string) {
	t.Helper()
	now := rowsOf(beside, tenant)
	if diff := differences(h.before, now); diff != "" {
		t.Errorf("one of the operations %s changed something of the other company:\n%s", strings.Join(h.tried, ", "), diff)
	}
	h.before, h.tried = now, nil
}

// differences returns the rows that are in one of two lists alone, 20 at most; "" if there
// are none. cmp.Diff takes minutes for thousands of rows.
func differences(before, now []string) string {
	if slices.Equal(before, now) {
		return ""
	}
	count := map[string]int{}
	for _, row := range before {
		count[row]--
	}
	for _, row := range now {
		count[row]++
	}
	var all []string
	for _, row := range slices.Sorted(maps.Keys(count)) {
		if n := count[row]; n != 0 && len(all) < 20 {
			all = append(all, fmt.Sprintf("%+d %.500s", n, row))
		}
	}
	return strings.Join(all, "\n")
}

// rowsOf returns a company's rows, but for those that count what the company itself
// downloaded, exported and was refused, which are written up to a minute later, the
// settings of integrations, which a recipe changes as the operator, and the comparison of
// its counters with its runs, which the server makes by itself.
func rowsOf(a *apptest.Admin, tenant string) []string {
	return slices.DeleteFunc(a.Rows(tenant), func(row string) bool { return late.MatchString(row) })
}

var late = regexp.MustCompile(`^(audit_logmap\[action:([a-z_.]*(downloaded|exported|accessed|refused|failed) |setting\.updated .*target_id:integrations )|reconciliationsmap\[)`)

// Every table that keeps words of a company bears its mark, so that a search
// for the mark finds whatever of it another company is shown.
func TestCompaniesAreMarked(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.Embedding, apptest.WebSearch(t))
	id, err := n.Admin().Tenants.Create(t.Context(), "Walrus and Sons", "walrus@example.com")
	if err != nil {
		t.Fatal(err)
	}
	c := contracttest.NewCompany(n, "walrus", id)
	beside := n.Admin()
	for _, table := range beside.CompanyTables() {
		rows := beside.Query(`SELECT * FROM `+table+` WHERE tenant_id = ?`, c.Grant.TenantID)
		marked := slices.ContainsFunc(rows, func(row map[string]any) bool {
			return strings.Contains(strings.ToLower(fmt.Sprintf("%s", row)), c.Mark)
		})
		if !marked && unmarked[table] == "" {
			t.Errorf("none of the %d rows of the table %s bears the mark of its company: have NewCompany in internal/app/apptest/contracttest/company.go fill one with it, "+
				"or say in unmarked (test/e2e/isolation/secrets_test.go) why there are no words of a company in it", len(rows), table)
		}
	}
}

// unmarked are the tables in which nothing is a company's own words, and why.
// What they have is found by its ids.
var unmarked = map[string]string{
	"notification_prefs": "channels, types and hours", "notification_optouts": "hashes", "notification_mail": "counters",
	"approvals": "a tool and numbers", "blobs": "hashes of contents", "blob_loose": "parts that nobody uses", "collections": "settings of an index",
	"feed_entries": "ids, names of steps and numbers", "retention_marks": "times and ids", "reconciliations": "numbers", "idempotency": "answers, sealed", "audit_unsent": "ids", "mcp_grants": "sealed", "mcp_pending": "sealed", "notification_numbers": "a counter", "run_budgets": "counters",
	"run_events": "packed", "run_checkpoints": "ids and numbers", "model_waits": "ids, and a hash of the endpoint",
	"browser_sessions": "made by signing in, which TestSignIn* does; keys have none", "signin_factors": "sealed",
	"initiative_states": "numbers and times", "objective_tasks": "ids and numbers, and the words of a run until it has them",
	"integration_documents": "documents of services, compressed", "marketplace_published": "ids and numbers", "marketplace_words": "what is published",
	"marketplace_favourites": "ids", "bridge_events": "keys of reports, until their task ends",
	"sensor_calls": "hashes and ids", "a2a_published": "ids", "a2a_errands": "filled where other systems are reached",
	"schedule_runs": "ids", "session_runs": "ids and numbers", "session_shares": "a hash", "work": "ids of what is to be done",
	"ledger_unsealed": "entries for some seconds", "ledger_heads": "a number and a hash", "governance_states": "numbers and times",
	"usage_budgets": "numbers", "usage_counters": "counters", "counters": "numbers", "usage_entries": "counters", "usage_durations": "numbers", "usage_events": "which thresholds were told of", "usage_locks": "times",
	"billing_accounts": "ids of Stripe", "visitor_agents": "counters", "visitor_files": "ids", "visitor_sessions": "ids and hashes",
	"workspace_agents": "ids", "webhook_deliveries": "ids, and what receivers answered",
}
