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

	"agentd/internal/ident"
	"agentd/internal/identity"
)

// Every operation is called with everything that belongs to another company,
// in every place that can name a thing. It must answer exactly as if there
// were no such thing, say nothing of the other company and change nothing of
// it. The operator's own company is no exception.
func TestIsolation(t *testing.T) {
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
	secrets := theirs.secrets(operations)
	before := theirs.admin().rows(theirs.id.TenantID)
	for _, op := range operations {
		t.Run(op.name(), func(t *testing.T) {
			in := intruder{t, mine.in(t), theirs.in(t), op, secrets}
			if op.Operator {
				in.operators()
				return
			}
			in.paths()
			in.queries()
			in.cursors()
			in.bodies()
			in.header()
		})
	}
	if diff := cmp.Diff(before, theirs.admin().rows(theirs.id.TenantID)); diff != "" {
		t.Errorf("something of the other company changed:\n%s", diff)
	}
}

// minding has a company do everything with what is its own.
func minding(t *testing.T, mine, theirs *company) {
	operations := mine.operations()
	secrets := theirs.secrets(operations)
	before := theirs.admin().rows(theirs.id.TenantID)
	slices.SortStableFunc(operations, deletionsLast)
	for _, op := range operations {
		if op.page || browserOnly[op.ID] || op.ID == neverSucceeds {
			continue
		}
		t.Run(op.name(), func(t *testing.T) {
			in := intruder{t, mine.in(t), theirs.in(t), op, secrets}
			if op.Operator { // who sees every company
				in.secrets = nil
			}
			if got := in.send(in.mine.own(op)); !op.okStatus(got.StatusCode) {
				t.Errorf("%s with everything one's own: %d %s", op, got.StatusCode, got.raw)
			}
		})
	}
	if diff := cmp.Diff(before, theirs.admin().rows(theirs.id.TenantID)); diff != "" {
		t.Errorf("something of the other company changed:\n%s", diff)
	}
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
	op           *operation
	secrets      []string
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
		status, always := unconditional[in.op.ID+" "+p]
		if !always {
			status = 404
		}
		for _, id := range in.theirs.ids[p] {
			in.absent(k, id, status, func(id string) { k.path[p] = id })
		}
	}
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
		k := in.mine.own(in.op)
		for _, id := range in.theirs.ids[target] {
			got := in.absent(k, id, 200, func(id string) { k.query.Set(q, id) })
			items, ok := got.json["items"].([]any)
			if !ok {
				items, ok = got.json["entries"].([]any)
			}
			if len(items) > 0 || !ok && !sums[in.op.ID] {
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

// bodies puts the other company's ids into the body.
func (in intruder) bodies() {
	fields := in.op.idFields()
	if in.op.ID == "createChatCompletion" {
		fields = append(fields, "model")
	}
	for _, field := range fields {
		name := field[strings.LastIndexByte(field, '.')+1:]
		target, known := references[field]
		if !known {
			target, known = references[name]
		}
		if !known {
			in.Errorf("%s: no test knows what the field %s of its body names: add it to references in operation_test.go", in.op, field)
		}
		k := in.mine.own(in.op)
		status := 404
		if strings.HasSuffix(name, "_ids") { // a list that is wrong in one place
			status = 422
		}
		for _, id := range in.theirs.ids[target] {
			in.absent(k, id, status, func(id string) { put(in.T, k.body, field, id) })
			if field == "model" {
				in.absent(k, id, 404, func(id string) { put(in.T, k.body, field, "agent/"+id) })
			}
		}
	}
}

// put sets a top-level field of a body. A reference that is deeper needs a
// path to be followed here.
func put(t *testing.T, body any, field, id string) {
	t.Helper()
	o, ok := body.(object)
	if ok && strings.HasSuffix(field, "_ids") {
		o[field] = []string{id}
		return
	}
	if !ok || strings.ContainsAny(field, ".[") {
		t.Fatalf("put does not know how to set %s", field)
	}
	o[field] = id
}

// header names the other company: the chat routes refuse, the others act in
// the key's own.
func (in intruder) header() {
	if in.op.chat {
		got := in.send(in.mine.own(in.op), in.theirs.id.TenantID, "X-Active-Tenant", in.theirs.id.TenantID)
		in.op.isRefused(in.T, got, 400, "INVALID_REQUEST")
	} else if in.op.Method == http.MethodGet && !in.op.page {
		k := in.mine.own(in.op)
		got := in.send(k, in.theirs.id.TenantID, "X-Active-Tenant", in.theirs.id.TenantID, "X-Tenant-Id", in.theirs.id.TenantID)
		if !in.op.okStatus(got.StatusCode) {
			in.Errorf("%s: %d %s", in.op, got.StatusCode, got.raw)
		}
	}
}

// absent makes a call with the other company's id and with one that nobody
// has: the answers must be the same, but for the id.
func (in intruder) absent(k *call, id string, status int, set func(id string)) reply {
	in.Helper()
	set(id)
	got := in.send(k, id)
	nobody := ident.New()
	set(nobody)
	want := in.send(k, nobody)
	if diff := cmp.Diff(alike(want, nobody), alike(got, id)); diff != "" {
		in.Errorf("%s tells another company's %s from one that nobody has (-nobody's +another's):\n%s", in.op, id, diff)
	}
	switch {
	case got.StatusCode != status:
		in.Errorf("%s with another company's %s: %d, want %d: %s", in.op, id, got.StatusCode, status, got.raw)
	case status == 404 && in.op.chat:
		in.op.isRefused(in.T, got, 404, "model_not_found")
	case status == 404:
		in.op.isRefused(in.T, got, 404, "NOT_FOUND")
	}
	return got
}

// send makes a call as the intruder and looks for the other company in the
// answer. sent are things of the other company that the call names itself.
func (in intruder) send(k *call, sent ...string) reply {
	in.Helper()
	got := k.send(in.mine.node, sent[min(len(sent), 1):]...)
	var head strings.Builder
	_ = got.Header.Write(&head)
	all := head.String() + string(got.raw)
	for _, secret := range in.secrets {
		if strings.Contains(all, secret) && !slices.Contains(sent, secret) {
			in.Errorf("%s tells %q of another company: %s", in.op, secret, all)
		}
	}
	return got
}

// alike is an answer without what differs from one request to the next.
func alike(r reply, id string) string {
	h := maps.Clone(r.Header)
	request := h.Get("X-Request-Id")
	for _, name := range []string{"X-Request-Id", "Date", "X-Run-Id"} {
		delete(h, name)
	}
	var b strings.Builder
	fmt.Fprintln(&b, r.StatusCode)
	_ = h.Write(&b)
	b.Write(r.raw)
	return strings.NewReplacer(id, "<id>", request, "<request>").Replace(b.String())
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// secrets are what nobody else may see: the company's mark and keys, and every
// id in whatever can be read of it.
func (c *company) secrets(operations []*operation) []string {
	c.t.Helper()
	found := map[string]bool{c.mark: true, string(c.id.RawKey): true, c.id.RawKey.Prefix(): true}
	for _, op := range operations {
		if op.Method != http.MethodGet || op.page || op.Operator {
			continue
		}
		got := c.own(op).send(c.node)
		if !op.okStatus(got.StatusCode) {
			c.t.Fatalf("%s: %d %s", op, got.StatusCode, got.raw)
		}
		for _, id := range anyID.FindAllString(string(got.raw), -1) {
			found[id] = true
		}
	}
	if len(found) < 20 {
		c.t.Errorf("a company of only %d ids proves little: %v", len(found), found)
	}
	return slices.Sorted(maps.Keys(found))
}
