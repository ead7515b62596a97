package contract

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/ident"
	"agentd/internal/store/sqldb/sqldbtest"
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

// checkAnswer fails unless an answer is one that the operation promises: a
// published success, or a refusal in its form that keeps our inside to itself.
func checkAnswer(o *contracttest.Operation, t testing.TB, r apptest.Reply, sent string) {
	t.Helper()
	o.CheckPublished(t, r.StatusCode)
	switch {
	case acceptable(o, r.StatusCode):
		if schema := o.AnswerSchemas[strconv.Itoa(r.StatusCode)]; schema != nil && !o.Streams && r.Header.Get("Content-Type") == "application/json" {
			for _, complaint := range compareWithSchema(o, schema, r.Value(), "") {
				t.Errorf("%s: %s\n%s", o, complaint, r.Body)
			}
		}
		return
	case r.StatusCode > 500 && r.StatusCode <= 504: // a dependency, or nothing that is switched on here; it is published
	case r.StatusCode < 400 || r.StatusCode >= 500:
		t.Errorf("%s: %d %s", o, r.StatusCode, r.Body)
		return
	}
	r.Body = apptest.Internals.ReplaceAllFunc(r.Body, func(leak []byte) []byte {
		if strings.Contains(sent, `\u`) || strings.Contains(strings.ToLower(sent), strings.ToLower(string(leak))) {
			return nil // the caller's own words
		}
		return leak
	})
	o.CheckForm(t, r)
}

// fieldsOf lists the fields of the body, as dotted paths; not those in arrays.
func fieldsOf(o *contracttest.Operation) []string {
	found := map[string]bool{}
	o.WalkFields(o.BodySchema, "", 0, func(path, _ string, _ *contracttest.Schema) {
		if !strings.Contains(path, "[") {
			found[path] = true
		}
	})
	return slices.Sorted(maps.Keys(found))
}

// bodyVariants are bodies of an operation with one field after the other set to
// something that does not belong there. A field gets a part of the values, its
// neighbour the next; NUL, which PostgreSQL does not store, comes to all.
func bodyVariants(k *contracttest.Call, shift int) (all []object) {
	body, _ := k.Body.(object)
	part := 8
	if k.Operation.Method != http.MethodPost { // the fields of a creation once more
		part = 20
	}
	for i, field := range fieldsOf(k.Operation) {
		for j, value := range misfits {
			if (i+j+shift)%part < 2 {
				all = append(all, contracttest.WithField(body, field, value))
			}
		}
		for j, value := range nasty {
			turn := i + j + shift
			if turn%part == 0 || strings.Contains(value, "\x00") {
				all = append(all, contracttest.WithField(body, field, value))
			}
			if turn%(3*part) == 0 {
				all = append(all, contracttest.WithField(body, field, []string{value}), contracttest.WithField(body, field, object{value: value}))
			}
		}
	}
	return all
}

// spareCall points a call at things that may be changed and spoilt: not the agent
// that the others run, and nothing is deleted.
func spareCall(k *contracttest.Call, c *contracttest.Company) *contracttest.Call {
	if k.Operation.Method == http.MethodDelete || k.Operation.ID == "transferTenantOwnership" {
		for p := range k.Path {
			k.Path[p] = ident.New()
		}
	} else if k.Operation.Method != http.MethodGet && k.Path["agentId"] != "" {
		k.Path["agentId"] = c.IDs["agentId"][1]
	}
	return k
}

// Whatever stands in a field, the operation takes it or says what is wrong, on
// each database.
func TestNastyFields(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		c, shift := contracttest.NewOwnCompany(t, n), 2*shift(t)
		for _, op := range contracttest.Operations(c.Server) {
			if op.BodySchema == nil {
				continue
			}
			t.Run(op.TestName(), func(t *testing.T) {
				c := c.WithT(t)
				k := callWithUnknownIDs(c, op)
				for _, body := range bodyVariants(k, shift) {
					text, err := json.Marshal(body)
					if err != nil {
						t.Fatal(err)
					}
					k.Body = string(text)
					if checkAnswer(op, t, k.Send(c.Server), k.Body.(string)); t.Failed() {
						t.Fatalf("after %.300s", text)
					}
				}
			})
		}
		// What was taken does no harm later on.
		echoing := "/api/v1/runs?limit=100&agent_id=" + c.IDs["agentId"][0]
		apptest.Eventually(t, func() bool {
			return len(apptest.IDs(t, n.Expect(200, "GET", echoing+"&status=running", nil), "run_id")) == 0
		})
		for _, item := range n.Expect(200, "GET", echoing+"&status=failed", nil)["items"].([]any) {
			t.Errorf("a run failed: %v", item)
		}
	})
}

// everyone reports whether each parameter gets a text: what PostgreSQL does not store,
// and what is no text. Of the others each gets a third, its neighbour the next.
func everyone(text string) bool { return strings.Contains(text, "\x00") || !utf8.ValidString(text) }

// shift has one database go through other thirds than the other one.
func shift(t *testing.T) int {
	if strings.HasSuffix(t.Name(), "/"+string(sqldbtest.Postgres)) {
		return 1
	}
	return 0
}

// Whatever stands in a path or a query, no operation fails.
func TestNastyParameters(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		c, shift := contracttest.NewOwnCompany(t, n), shift(t)
		for _, op := range contracttest.Operations(c.Server) {
			for turn, text := range append(slices.Clone(nasty), "\xff", "\xed\xa0\x80", "%", "%2F", "a/b", "?", "#") {
				for _, p := range op.PathParams {
					if !everyone(text) && (turn+shift)%3 != 0 {
						continue // few handlers see what is no id
					}
					k := callWithUnknownIDs(c, op)
					k.Path[p] = text
					if text != "" { // another path
						checkAnswer(op, t, k.Send(c.Server), text)
					}
				}
				for i, q := range op.QueryParams {
					if q == "timeout_sec" || !everyone(text) && (turn+i+shift)%3 != 0 {
						continue
					}
					k := callWithUnknownIDs(c, op)
					k.Query.Set(q, text)
					checkAnswer(op, t, k.Send(c.Server), text)
				}
			}
		}
	})
}
