package isolation

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/config"
	"agentd/internal/base/ident"
)

// Every operation is called with everything that belongs to another company,
// in every place that can name a thing. It must answer exactly as if there
// were no such thing, say nothing of the other company and change nothing of
// it. The operator's own company is no exception. See docs/isolation.md.
func TestIsolation(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		whoami := n.Expect(200, "GET", "/api/v1/me", nil)
		keys := n.Expect(200, "GET", "/api/v1/tenants/me/keys", nil)["keys"].([]any)
		operator := contracttest.NewCompany(n, "zebra", identity.Grant{
			TenantID: whoami["tenant"].(object)["tenant_id"].(string), UserID: whoami["user"].(object)["user_id"].(string),
			KeyID: keys[0].(object)["key_id"].(string), RawKey: apptest.OwnerKey,
		})
		id, err := n.Admin().Tenants.Create(t.Context(), "Walrus and Sons", "walrus@example.com")
		if err != nil {
			t.Fatal(err)
		}
		second := contracttest.NewCompany(n, "walrus", id)
		t.Run("operator_to_second", func(t *testing.T) { intrude(t, operator.WithT(t), second.WithT(t)) })
		t.Run("second_to_operator", func(t *testing.T) { intrude(t, second.WithT(t), operator.WithT(t)) })
		// Only now, as it deletes things: what was refused is not refused to the
		// owner, and does nothing to anybody else.
		t.Run("own", func(t *testing.T) { minding(t, operator.WithT(t), second.WithT(t)) })
	}, lateRetries)
}

// lateRetries keeps webhooks from being retried during the test, so that nothing
// changes in the database but what the test does.
func lateRetries(c *config.Config) { c.Webhooks.RetryWaits = "12h" }

// intrude has one company try everything on another.
func intrude(t *testing.T, mine, theirs *contracttest.Company) {
	operations := contracttest.Operations(mine.Server)
	secrets := secretsOf(theirs, mine, operations)
	var callers []caller
	if !theirs.Admin().DB.Postgres() { // who may call is no matter of the database
		callers = callersOf(mine)
	}
	beside := theirs.Admin()
	h := harms{before: settledRowsOf(t, beside, theirs.Grant.TenantID)}
	for _, op := range operations {
		t.Run(op.TestName(), func(t *testing.T) {
			in := intruder{t, mine.WithT(t), theirs.WithT(t), beside, op, secrets}
			switch {
			case published[op.ID] || contracttest.BrowserOnly[op.ID] || op.Public && op.NeedsPerson:
				return // test/e2e/public and TestTrashOfPeople try those
			case op.Operator:
				in.operators()
			default:
				in.paths()
				in.queries()
				in.cursors()
				in.bodies()
				in.header()
				in.others(callers)
			}
			h.after(in)
		})
	}
	h.check(t, beside, theirs.Grant.TenantID)
}

// published are operations that show what companies publish to everybody, and what a
// visitor begins with it.
var published = map[string]bool{
	"searchMarketplace": true, "listPublicTenants": true, "getPublicAgentCard": true, "createPublicSession": true,
}

// onePage are lists of which a company of a test has no two entries.
var onePage = []string{
	"getSessionAuditLog", "getRunAuditLog", "listMarketplaceReviews", "listIntegrationTools", "listInitiativeActivity", "listCompanyActivity",
}

// settledRowsOf is rowsOf once the company's ledger is sealed and what it used is added to
// its counters, which takes seconds.
func settledRowsOf(t *testing.T, beside *apptest.Admin, tenant string) []string {
	t.Helper()
	for _, query := range []string{`SELECT entry_id FROM ledger_unsealed WHERE tenant_id = ?`, `SELECT day FROM usage_entries WHERE tenant_id = ?`} {
		apptest.Eventually(t, func() bool { return len(beside.Query(query, tenant)) == 0 })
	}
	return rowsOf(beside, tenant)
}

// minding has a company do everything with what is its own, by keys that carry
// the scope that is needed and no other.
func minding(t *testing.T, mine, theirs *contracttest.Company) {
	operations := contracttest.Operations(mine.Server)
	secrets := secretsOf(theirs, mine, operations)
	keys := map[string]*apptest.Server{}
	holding := func(op *contracttest.Operation) *apptest.Server {
		if len(op.Scopes) == 0 || moreScopes[op.ID] != "" {
			return mine.Server
		}
		scopes := []string{string(op.Scopes[0])}
		for _, more := range op.And {
			scopes = append(scopes, string(more))
		}
		name := strings.Join(scopes, " ")
		if keys[name] == nil {
			keys[name] = mine.WithScopes(scopes...)
		}
		return keys[name]
	}
	beside := theirs.Admin()
	h := harms{before: settledRowsOf(t, beside, theirs.Grant.TenantID)}
	slices.SortStableFunc(operations, contracttest.DeletionsLast)
	for _, op := range operations {
		if op.NeedsPerson || contracttest.BrowserOnly[op.ID] || op.ID == contracttest.NeverSucceeds {
			continue
		}
		t.Run(op.TestName(), func(t *testing.T) {
			in := intruder{t, mine.WithT(t), theirs.WithT(t), beside, op, secrets}
			if op.Operator || published[op.ID] { // who sees every company, or what all may see
				in.secrets.ids, in.secrets.texts = nil, nil
			}
			k := in.mine.OwnCall(op)
			in.mine.Server = in.mine.WithKey(holding(op).Key)
			if got := in.send(k); !op.Succeeds(got.StatusCode) {
				t.Errorf("%s with everything one's own and the scopes %v: %d %s", op, op.Scopes, got.StatusCode, got.Body)
			}
			h.after(in)
		})
	}
	h.check(t, beside, theirs.Grant.TenantID)
}

// moreScopes are operations that succeed only with more than the one scope of
// their row, and why.
var moreScopes = map[string]string{
	"createApiKey":            "a key carries nothing that its maker's has not, and the new one is to carry something",
	"inviteUser":              "gives a role: needs all that the role may do",
	"resendInvite":            "gives a role",
	"setUserRole":             "gives a role",
	"unsuspendUser":           "gives a role back",
	"transferTenantOwnership": "gives the role owner",
	"replayRun":               "with the mode execute it starts a run",
}

// intruder tries one operation.
type intruder struct {
	*testing.T
	mine, theirs *contracttest.Company
	beside       *apptest.Admin // of the database, whose rows nobody hides
	op           *contracttest.Operation
	secrets      secrets
}

// operators tries what is the operator's alone. To the operator companies are
// there or not; whoever else asks does not learn that.
func (in intruder) operators() {
	k := in.mine.OwnCall(in.op)
	for _, id := range []string{in.theirs.Grant.TenantID, ident.New()} {
		for _, p := range in.op.PathParams {
			k.Path[p] = id
		}
		if !in.mine.IsOperator() {
			in.op.CheckRefusal(in.T, in.send(k, id), 403, "FORBIDDEN")
		} else if len(in.op.PathParams) > 0 && id != in.theirs.Grant.TenantID {
			in.op.CheckRefusal(in.T, k.Send(in.mine.Server), 404, "NOT_FOUND")
		}
	}
}

// paths puts the other company's ids into the path.
func (in intruder) paths() {
	for _, p := range in.op.PathParams {
		if contracttest.PlainParameters[p] || contracttest.OpensByLink[in.op.ID] {
			continue
		}
		k := in.mine.OwnCall(in.op)
		for _, id := range in.theirs.IDs[p] {
			in.absent(k, id, in.statusOf(p, 404), func(id string) { k.Path[p] = id })
		}
	}
}

// statusOf is what an operation answers where a parameter or a field names
// nothing.
func (in intruder) statusOf(name string, otherwise int) int {
	if status, always := contracttest.Unconditional[in.op.ID+" "+name]; always {
		return status
	}
	return otherwise
}

// queries puts the other company's ids into filters: nothing matches.
func (in intruder) queries() {
	if contracttest.OpensByLink[in.op.ID] {
		return
	}
	for _, q := range in.op.QueryParams {
		if q == "tenant_id" && strings.HasPrefix(in.op.Path, "/api/v1/admin/audit") {
			continue // the operator may name any company: audit.TestReadingAnothersLog
		}
		target, known := in.queryReference(q)
		if !known {
			if in.mayName(q) {
				in.Errorf("%s: no test knows what the query parameter %s names: add it to References in internal/app/apptest/contracttest/recipes.go", in.op, q)
			}
			continue
		}
		k := in.mine.OwnCall(in.op)
		for _, id := range in.theirs.IDs[target] {
			got := in.absent(k, id, in.statusOf(q, 200), func(id string) { k.Query.Set(q, id) })
			items, _ := got.JSON["items"].([]any)
			if entries, _ := got.JSON["entries"].([]any); len(items)+len(entries) > 0 {
				in.Errorf("%s?%s= of another company: %s", in.op, q, got.Body)
			}
		}
	}
}

// queryReference says what a query parameter names: by operation and name, by name.
func (in intruder) queryReference(name string) (target string, known bool) {
	if target, known = contracttest.References[in.op.ID+" "+name]; !known {
		target, known = contracttest.References[name]
	}
	return target, known
}

// mayName reports whether a query parameter may name a thing: it says so itself,
// or it is called like a thing that routes name. A number, a switch, a time or one
// of a few words names nothing.
func (in intruder) mayName(q string) bool {
	s := in.op.QuerySchemas[q]
	if s.Items != nil {
		s = in.op.Resolve(s.Items)
	}
	if s.Type != "string" || s.Enum != nil || s.Format != "" && s.Format != "uuid" {
		return false
	}
	_, thing := in.mine.IDs[q+"Id"]
	return thing || s.Format == "uuid" || naming.MatchString(q)
}

// cursors goes on in the other company's list.
func (in intruder) cursors() {
	if !slices.Contains(in.op.QueryParams, "cursor") || slices.Contains(onePage, in.op.ID) {
		return
	}
	k := in.theirs.OwnCall(in.op)
	k.Query.Set("limit", "1")
	cursor, ok := k.Send(in.theirs.Server).JSON["cursor"].(string)
	if !ok {
		in.Fatalf("%s has no second page: have NewCompany in internal/app/apptest/contracttest/company.go make two of them", in.op)
	}
	k = in.mine.OwnCall(in.op)
	k.Query.Set("cursor", cursor)
	in.op.CheckRefusal(in.T, in.send(k, cursor), 422, "INVALID_CURSOR")
}

// header names the other company or a thing of it: the chat routes refuse a
// company, the others act in the key's own; a thing is absent.
func (in intruder) header() {
	if in.op.ChatErrors || in.op.MessagesErrors {
		got := in.send(in.mine.OwnCall(in.op), in.theirs.Grant.TenantID, "X-Active-Tenant", in.theirs.Grant.TenantID)
		in.op.CheckRefusal(in.T, got, 400, "INVALID_REQUEST")
	} else if in.op.Method == http.MethodGet && !in.op.NeedsPerson {
		k := in.mine.OwnCall(in.op)
		got := in.send(k, in.theirs.Grant.TenantID, "X-Active-Tenant", in.theirs.Grant.TenantID)
		if !in.op.Succeeds(got.StatusCode) {
			in.Errorf("%s: %d %s", in.op, got.StatusCode, got.Body)
		}
	}
	for _, name := range in.op.HeaderParams {
		how, known := headerReferences[name]
		if !known {
			in.Errorf("%s: no test knows whether the header %s names things: add it to headerReferences in test/e2e/isolation/isolation_test.go", in.op, name)
		}
		k := in.mine.OwnCall(in.op)
		for _, id := range in.theirs.IDs[how.target] {
			in.absent(k, id, how.status, func(id string) { k.Headers = []string{name, fmt.Sprintf(how.format, id)} })
		}
	}
}

// headerReferences says what headers name, how, and what is answered where it
// is not there; no target: nothing.
var headerReferences = map[string]struct {
	target, format string
	status         int
}{
	"X-Sensor-Signature": {}, "Stripe-Signature": {}, "X-Public-Session-Token": {}, "Origin": {}, "Sec-Fetch-Site": {},
	"If-Match": {}, "If-None-Match": {}, "Idempotency-Key": {},
	"X-SVC-Agent-Id": {"agentId", "%s", 404},
	"X-Agent-Id":     {"agentId", "%s", 404},
	"Last-Event-ID":  {"runId", "%s:1", 200},
}

// absent makes a call with the other company's id and with one that nobody
// has: the answers must be the same, but for the id.
func (in intruder) absent(k *contracttest.Call, id string, status int, set func(id string)) apptest.Reply {
	in.Helper()
	got := in.alike(k, id, set)
	switch {
	case got.StatusCode != status:
		in.Errorf("%s with another company's %s: %d, want %d: %s", in.op, id, got.StatusCode, status, got.Body)
	case status == 404 && slices.Contains(in.mine.IDs["model"], modelOf(k)) && in.op.ID == "createResponse":
		in.op.CheckRefusal(in.T, got, 404, "previous_response_not_found")
	case status == 404 && in.op.ChatErrors && !slices.ContainsFunc(in.op.PathParams, func(name string) bool { return slices.Contains(noModels, name) }):
		in.op.CheckRefusal(in.T, got, 404, "model_not_found")
	case status == 404:
		in.op.CheckRefusal(in.T, got, 404, "NOT_FOUND")
	}
	return got
}

// noModels are what the paths of the compatible routes name beside models.
var noModels = []string{"responseId", "fileId", "vectorStoreId"}

// modelOf is the agent that a call of the chat routes asks.
func modelOf(k *contracttest.Call) string {
	body, _ := k.Body.(object)
	model, _ := body["model"].(string)
	return model
}

// alike makes a call with the other company's id and with one that nobody has,
// and fails unless the answers are the same. It gives the first.
func (in intruder) alike(k *contracttest.Call, id string, set func(id string)) apptest.Reply {
	in.Helper()
	set(id)
	got := in.send(k, id)
	nobody := ident.New()
	set(nobody)
	want := in.send(k, nobody)
	if diff := cmp.Diff(plain(want, nobody), plain(got, id)); diff != "" {
		in.Errorf("%s tells another company's %s from one that nobody has (-nobody's +another's):\n%s", in.op, id, diff)
	}
	return got
}

// send makes a call as the intruder and looks for the other company in the
// answer. sent are things of the other company that the call names itself.
func (in intruder) send(k *contracttest.Call, sent ...string) apptest.Reply {
	in.Helper()
	got := k.Send(in.mine.Server, append(sent[min(len(sent), 1):], k.Headers...)...)
	var head strings.Builder
	_ = got.Header.Write(&head)
	all := head.String() + string(got.Body)
	for _, secret := range in.secrets.in(all) {
		if !slices.Contains(sent, secret) {
			in.Errorf("%s tells %q of another company: %s", in.op, secret, all)
		}
	}
	return got
}

// plain is an answer without what differs from one request to the next.
func plain(r apptest.Reply, id string) string {
	h := maps.Clone(r.Header)
	request := h.Get("X-Request-Id")
	for _, name := range []string{"X-Request-Id", "Date", "X-Run-Id", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Content-Length"} {
		delete(h, name)
	}
	var b strings.Builder
	fmt.Fprintln(&b, r.StatusCode)
	_ = h.Write(&b)
	b.Write(r.Body)
	text := strings.NewReplacer(id, "<id>", request, "<request>").Replace(b.String())
	return sentAt.ReplaceAllLiteralString(text, "<now>")
}

// sentAt is the time that a frame which is no event of the past bears, and that of a view.
var sentAt = regexp.MustCompile(`"(timestamp|generated_at)":"[^"]*"|"last_event_id":"[0-9]{16}(,|-[0-9a-f]{8})"|id: [0-9]{16}(,|-[0-9a-f]{8})`)
