package app_test

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
	"agentd/internal/base/ident"
)

// Every operation is called with everything that belongs to another company,
// in every place that can name a thing. It must answer exactly as if there
// were no such thing, say nothing of the other company and change nothing of
// it. The operator's own company is no exception. See docs/isolation.md.
func TestIsolation(t *testing.T) {
	heavy(t)
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		whoami := n.want(200, "GET", "/api/v1/me", nil)
		keys := n.want(200, "GET", "/api/v1/tenants/me/keys", nil)["keys"].([]any)
		operator := newCompany(n, "zebra", identity.Grant{
			TenantID: whoami["tenant"].(object)["tenant_id"].(string), UserID: whoami["user"].(object)["user_id"].(string),
			KeyID: keys[0].(object)["key_id"].(string), RawKey: ownerKey,
		})
		id, err := n.admin().CreateTenant(t.Context(), "Walrus and Sons", "walrus@example.com")
		if err != nil {
			t.Fatal(err)
		}
		second := newCompany(n, "walrus", id)
		t.Run("operator_to_second", func(t *testing.T) { intrude(t, operator.in(t), second.in(t)) })
		t.Run("second_to_operator", func(t *testing.T) { intrude(t, second.in(t), operator.in(t)) })
		// Only now, as it deletes things: what was refused is not refused to the
		// owner, and does nothing to anybody else.
		t.Run("own", func(t *testing.T) { minding(t, operator.in(t), second.in(t)) })
	})
}

// intrude has one company try everything on another.
func intrude(t *testing.T, mine, theirs *company) {
	operations := mine.operations()
	secrets := theirs.secrets(mine, operations)
	var callers []caller
	if !theirs.admin().db.Postgres() { // who may call is no matter of the database
		callers = mine.callers()
	}
	beside := theirs.admin()
	before := beside.rows(theirs.id.TenantID)
	for _, op := range operations {
		t.Run(op.name(), func(t *testing.T) {
			in := intruder{t, mine.in(t), theirs.in(t), beside, op, secrets}
			if op.Operator {
				in.operators()
				before = in.unharmed(before)
				return
			}
			in.paths()
			in.queries()
			in.cursors()
			in.bodies()
			in.header()
			in.others(callers)
			before = in.unharmed(before)
		})
	}
}

// minding has a company do everything with what is its own, by keys that carry
// the scope that is needed and no other.
func minding(t *testing.T, mine, theirs *company) {
	operations := mine.operations()
	secrets := theirs.secrets(mine, operations)
	keys := map[string]*node{}
	holding := func(op *operation) *node {
		if len(op.Scopes) == 0 || moreScopes[op.ID] != "" {
			return mine.node
		}
		scopes := []string{string(op.Scopes[0])}
		for _, more := range op.And {
			scopes = append(scopes, string(more))
		}
		name := strings.Join(scopes, " ")
		if keys[name] == nil {
			keys[name] = mine.keyed(scopes...)
		}
		return keys[name]
	}
	beside := theirs.admin()
	before := beside.rows(theirs.id.TenantID)
	slices.SortStableFunc(operations, deletionsLast)
	for _, op := range operations {
		if op.page || browserOnly[op.ID] || op.ID == neverSucceeds {
			continue
		}
		t.Run(op.name(), func(t *testing.T) {
			in := intruder{t, mine.in(t), theirs.in(t), beside, op, secrets}
			if op.Operator { // who sees every company
				in.secrets.ids, in.secrets.texts = nil, nil
			}
			k := in.mine.own(op)
			in.mine.node = in.mine.as(holding(op).key)
			if got := in.send(k); !op.okStatus(got.StatusCode) {
				t.Errorf("%s with everything one's own and the scopes %v: %d %s", op, op.Scopes, got.StatusCode, got.raw)
			}
			before = in.unharmed(before)
		})
	}
}

// moreScopes are operations that succeed only with more than the one scope of
// their row, and why.
var moreScopes = map[string]string{
	"createApiKey": "a key carries nothing that its maker's has not, and the new one is to carry something",
}

// deletionsLast orders operations: deletions after everything else, of what is
// in a thing before the thing.
func deletionsLast(a, b *operation) int {
	if d := isDelete(a) - isDelete(b); d != 0 || isDelete(a) == 0 {
		return d
	}
	return len(b.params) - len(a.params)
}

func isDelete(op *operation) int {
	switch {
	case op.ID == "logout": // revokes the key of the company
		return 3
	case op.ID == "transferTenantOwnership": // whoever did it is no owner any more
		return 2
	case op.Method == http.MethodDelete:
		return 1
	}
	return 0
}

// intruder tries one operation.
type intruder struct {
	*testing.T
	mine, theirs *company
	beside       *admin // of the database, whose rows nobody hides
	op           *operation
	secrets      secrets
}

// neverSucceeds is done by the server's first start.
const neverSucceeds = "bootstrap"

// operators tries what is the operator's alone. To the operator companies are
// there or not; whoever else asks does not learn that.
func (in intruder) operators() {
	k := in.mine.own(in.op)
	for _, id := range []string{in.theirs.id.TenantID, ident.New()} {
		for _, p := range in.op.params {
			k.path[p] = id
		}
		if !in.mine.operator() {
			in.op.isRefused(in.T, in.send(k, id), 403, "FORBIDDEN")
		} else if len(in.op.params) > 0 && id != in.theirs.id.TenantID {
			in.op.isRefused(in.T, k.send(in.mine.node), 404, "NOT_FOUND")
		}
	}
}

// paths puts the other company's ids into the path.
func (in intruder) paths() {
	for _, p := range in.op.params {
		if plainParameters[p] || opensByLink[in.op.ID] {
			continue
		}
		k := in.mine.own(in.op)
		for _, id := range in.theirs.ids[p] {
			in.absent(k, id, in.statusOf(p, 404), func(id string) { k.path[p] = id })
		}
	}
}

// statusOf is what an operation answers where a parameter or a field names
// nothing.
func (in intruder) statusOf(name string, otherwise int) int {
	if status, always := unconditional[in.op.ID+" "+name]; always {
		return status
	}
	return otherwise
}

// queries puts the other company's ids into filters: nothing matches.
func (in intruder) queries() {
	for _, q := range in.op.queries {
		if q == "tenant_id" && strings.HasPrefix(in.op.Path, "/api/v1/admin/audit") {
			continue // the operator may name any company: audit.TestReadingAnothersLog
		}
		target, known := references[q]
		if !known && !plainQueries[q] {
			in.Errorf("%s: no test knows whether the query parameter %s names things: add it to references or plainQueries in operation_test.go", in.op, q)
		}
		if plainQueries[q] {
			continue
		}
		k := in.mine.own(in.op)
		for _, id := range in.theirs.ids[target] {
			got := in.absent(k, id, in.statusOf(q, 200), func(id string) { k.query.Set(q, id) })
			items, _ := got.json["items"].([]any)
			if entries, _ := got.json["entries"].([]any); len(items)+len(entries) > 0 {
				in.Errorf("%s?%s= of another company: %s", in.op, q, got.raw)
			}
		}
	}
}

// cursors goes on in the other company's list.
func (in intruder) cursors() {
	if !slices.Contains(in.op.queries, "cursor") {
		return
	}
	k := in.theirs.own(in.op)
	k.query.Set("limit", "1")
	cursor, ok := k.send(in.theirs.node).json["cursor"].(string)
	if !ok {
		in.Fatalf("%s has no second page: have newCompany in company_test.go make two of them", in.op)
	}
	k = in.mine.own(in.op)
	k.query.Set("cursor", cursor)
	in.op.isRefused(in.T, in.send(k, cursor), 422, "INVALID_CURSOR")
}

// header names the other company or a thing of it: the chat routes refuse a
// company, the others act in the key's own; a thing is absent.
func (in intruder) header() {
	if in.op.chat || in.op.says {
		got := in.send(in.mine.own(in.op), in.theirs.id.TenantID, "X-Active-Tenant", in.theirs.id.TenantID)
		in.op.isRefused(in.T, got, 400, "INVALID_REQUEST")
	} else if in.op.Method == http.MethodGet && !in.op.page {
		k := in.mine.own(in.op)
		got := in.send(k, in.theirs.id.TenantID, "X-Active-Tenant", in.theirs.id.TenantID, "X-Tenant-Id", in.theirs.id.TenantID)
		if !in.op.okStatus(got.StatusCode) {
			in.Errorf("%s: %d %s", in.op, got.StatusCode, got.raw)
		}
	}
	for _, name := range in.op.headers {
		how, known := headerReferences[name]
		if !known {
			in.Errorf("%s: no test knows whether the header %s names things: add it to headerReferences in isolation_test.go", in.op, name)
		}
		k := in.mine.own(in.op)
		for _, id := range in.theirs.ids[how.target] {
			in.absent(k, id, how.status, func(id string) { k.headers = []string{name, fmt.Sprintf(how.format, id)} })
		}
	}
}

// headerReferences says what headers name, how, and what is answered where it
// is not there; no target: nothing.
var headerReferences = map[string]struct {
	target, format string
	status         int
}{
	"X-Sensor-Signature": {},
	"If-Match":           {}, "If-None-Match": {}, "Idempotency-Key": {},
	"X-SVC-Agent-Id": {"agentId", "%s", 404},
	"X-Agent-Id":     {"agentId", "%s", 404},
	"Last-Event-ID":  {"runId", "%s:1", 200},
}

// absent makes a call with the other company's id and with one that nobody
// has: the answers must be the same, but for the id.
func (in intruder) absent(k *call, id string, status int, set func(id string)) reply {
	in.Helper()
	got := in.alike(k, id, set)
	switch {
	case got.StatusCode != status:
		in.Errorf("%s with another company's %s: %d, want %d: %s", in.op, id, got.StatusCode, status, got.raw)
	case status == 404 && slices.Contains(in.mine.ids["model"], k.model()) && in.op.ID == "createResponse":
		in.op.isRefused(in.T, got, 404, "previous_response_not_found")
	case status == 404 && in.op.chat && !slices.Contains(in.op.params, "responseId"):
		in.op.isRefused(in.T, got, 404, "model_not_found")
	case status == 404:
		in.op.isRefused(in.T, got, 404, "NOT_FOUND")
	}
	return got
}

// model is the agent that a call of the chat routes asks.
func (k *call) model() string {
	body, _ := k.body.(object)
	model, _ := body["model"].(string)
	return model
}

// alike makes a call with the other company's id and with one that nobody has,
// and fails unless the answers are the same. It gives the first.
func (in intruder) alike(k *call, id string, set func(id string)) reply {
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
func (in intruder) send(k *call, sent ...string) reply {
	in.Helper()
	got := k.send(in.mine.node, append(sent[min(len(sent), 1):], k.headers...)...)
	var head strings.Builder
	_ = got.Header.Write(&head)
	all := head.String() + string(got.raw)
	for _, secret := range in.secrets.in(all) {
		if !slices.Contains(sent, secret) {
			in.Errorf("%s tells %q of another company: %s", in.op, secret, all)
		}
	}
	return got
}

// plain is an answer without what differs from one request to the next.
func plain(r reply, id string) string {
	h := maps.Clone(r.Header)
	request := h.Get("X-Request-Id")
	for _, name := range []string{"X-Request-Id", "Date", "X-Run-Id", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		delete(h, name)
	}
	var b strings.Builder
	fmt.Fprintln(&b, r.StatusCode)
	_ = h.Write(&b)
	b.Write(r.raw)
	text := strings.NewReplacer(id, "<id>", request, "<request>").Replace(b.String())
	return sentAt.ReplaceAllLiteralString(text, "<now>")
}

// sentAt is the time that a frame which is no event of the past bears.
var sentAt = regexp.MustCompile(`"timestamp":"[^"]*"`)
