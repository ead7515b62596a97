package app_test

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/ident"
)

// nasty are texts that storage, templates, shells, logs and terminals have
// stumbled over elsewhere.
var nasty = []string{
	"", " ", "\x00", "a\x00b", "\u0001", "\u001b[2J", "\r\nX-Injected: 1", "\u2028", "\u202e", "\ufeff", "\ufffd", "\uffff", "\U0001f600", "é́", "İ", "ß",
	"' OR '1'='1", `"; DROP TABLE runs; --`, "%s%d%n", "${jndi:ldap://x}", "{{7*7}}", "../../../etc/passwd", `\\server\share`, "<script>alert(1)</script>",
	"null", "true", "NaN", "-0", "1e999", "9223372036854775808", "0x10", "data: x\n\nevent: done", "[DONE]", "*", "agent/", "svc_", "http://169.254.169.254/",
	ident.New(), strings.Repeat("a", 300), strings.Repeat("ü", 300), strings.Repeat("{", 100),
}

// misfits are values that are no text.
var misfits = []any{nil, true, 0, -1, 1.5, 1e300, []any{}, []any{nil}, []any{[]any{"x"}}, object{}, object{"": nil}, object{"name": object{"name": 1}}}

// answered fails unless an answer is one that the operation promises: a
// published success, or a refusal in its form that keeps our inside to itself.
func (o *operation) answered(t testing.TB, r reply, sent string) {
	t.Helper()
	o.checkPublished(t, r.StatusCode)
	switch {
	case o.okAnswer(r.StatusCode):
		if schema := o.answers[strconv.Itoa(r.StatusCode)]; schema != nil && !o.streams && r.Header.Get("Content-Type") == "application/json" {
			for _, complaint := range o.compare(schema, r.value(), "") {
				t.Errorf("%s: %s\n%s", o, complaint, r.raw)
			}
		}
		return
	case r.StatusCode > 500 && r.StatusCode <= 504: // a dependency, or nothing that is switched on here; it is published
	case r.StatusCode < 400 || r.StatusCode >= 500:
		t.Errorf("%s: %d %s", o, r.StatusCode, r.raw)
		return
	}
	r.raw = inside.ReplaceAllFunc(r.raw, func(leak []byte) []byte {
		if strings.Contains(sent, `\u`) || strings.Contains(strings.ToLower(sent), strings.ToLower(string(leak))) {
			return nil // the caller's own words
		}
		return leak
	})
	o.checkForm(t, r)
}

// fields lists the fields of the body, as dotted paths; not those in arrays.
func (o *operation) fields() []string {
	found := map[string]bool{}
	o.walk(o.body, "", 0, func(path, _ string, _ *apiSchema) {
		if !strings.Contains(path, "[") {
			found[path] = true
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// variants are bodies of an operation with one field after the other set to
// something that does not belong there. A field gets a part of the values, its
// neighbour the next; NUL, which PostgreSQL does not store, comes to all.
func (k *call) variants() (all []object) {
	body, _ := k.body.(object)
	part := 5
	if k.op.Method != http.MethodPost { // the fields of a creation once more
		part = 20
	}
	for i, field := range k.op.fields() {
		for j, value := range misfits {
			if (i+j)%part < 2 {
				all = append(all, with(body, field, value))
			}
		}
		for j, value := range nasty {
			turn := i + j
			if turn%part == 0 || strings.Contains(value, "\x00") {
				all = append(all, with(body, field, value))
			}
			if turn%(3*part) == 0 {
				all = append(all, with(body, field, []string{value}), with(body, field, object{value: value}))
			}
		}
	}
	return all
}

// spare points a call at things that may be changed and spoilt: not the agent
// that the others run, and nothing is deleted.
func (k *call) spare(c *company) *call {
	if k.op.Method == http.MethodDelete || k.op.ID == "transferTenantOwnership" {
		for p := range k.path {
			k.path[p] = ident.New()
		}
	} else if k.op.Method != http.MethodGet && k.path["agentId"] != "" {
		k.path["agentId"] = c.ids["agentId"][1]
	}
	return k
}

// Whatever stands in a field, the operation takes it or says what is wrong, on
// each database.
func TestNastyFields(t *testing.T) {
	heavy(t)
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		c := owned(t, n)
		for _, op := range c.operations() {
			if op.body == nil {
				continue
			}
			t.Run(op.name(), func(t *testing.T) {
				c := c.in(t)
				k := c.vague(op)
				for _, body := range k.variants() {
					text, err := json.Marshal(body)
					if err != nil {
						t.Fatal(err)
					}
					k.body = string(text)
					if op.answered(t, k.send(c.node), k.body.(string)); t.Failed() {
						t.Fatalf("after %.300s", text)
					}
				}
			})
		}
		// What was taken does no harm later on.
		echoing := "/api/v1/runs?limit=100&agent_id=" + c.ids["agentId"][0]
		eventually(t, func() bool { return len(ids(t, n.want(200, "GET", echoing+"&status=running", nil), "run_id")) == 0 })
		for _, item := range n.want(200, "GET", echoing+"&status=failed", nil)["items"].([]any) {
			t.Errorf("a run failed: %v", item)
		}
	})
}

// Whatever stands in a path or a query, no operation fails.
func TestNastyParameters(t *testing.T) {
	heavy(t)
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		c := owned(t, n)
		for _, op := range c.operations() {
			for turn, text := range append(slices.Clone(nasty), "\xff", "\xed\xa0\x80", "%", "%2F", "a/b", "?", "#") {
				for _, p := range op.params {
					if turn%3 != 0 && utf8.ValidString(text) && !strings.Contains(text, "\x00") {
						continue // few handlers see what is no id
					}
					k := c.vague(op)
					k.path[p] = text
					if text != "" { // another path
						op.answered(t, k.send(c.node), text)
					}
				}
				for _, q := range op.queries {
					if q == "timeout_sec" {
						continue
					}
					k := c.vague(op)
					k.query.Set(q, text)
					op.answered(t, k.send(c.node), text)
				}
			}
		}
	})
}
