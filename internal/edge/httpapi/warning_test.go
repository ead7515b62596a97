package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
)

// What of a request had no effect is said, and refuses nothing.
func TestUnknownNamesAreWarnedOf(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		want                     []string
	}{
		{"nothing", "POST", "/api/v1/toys", `{"name":"a"}`, 201, nil},
		{"a slip", "POST", "/api/v1/toys", `{"name":"a","knid":"doll"}`, 201, []string{`unknown field "knid"; did you mean "kind"?`}},
		{"another case", "POST", "/api/v1/toys", `{"name":"a","Kind":"doll"}`, 201, []string{`unknown field "Kind"; did you mean "kind"?`}},
		{"nothing near", "POST", "/api/v1/toys", `{"name":"a","colour":1}`, 201, []string{`unknown field "colour"`}},
		{"a refusal as well", "POST", "/api/v1/toys", `{"nme":"a"}`, 422, []string{`unknown field "nme"; did you mean "name"?`}},
		{
			"forged", "POST", "/api/v1/toys", `{"name":"a","x\r\nSet-Cookie: y":1}`, 201,
			[]string{`unknown field "x\r\nSet-Cookie: y"`},
		},
		{"a long name", "POST", "/api/v1/toys", `{"name":"a","` + strings.Repeat("ü", 5000) + `":1}`, 201,
			[]string{`unknown field "` + strings.Repeat(`\u00fc`, 79) + `\u2026"`}},
		{"query", "GET", "/api/v1/toys?limt=3&order=asc&token=x", "", 200, []string{`unknown query parameter "limt"; did you mean "limit"?`}},
		{"query of a route without any", "GET", showPath + "?deep=1&b=2", "", 200,
			[]string{`unknown query parameter "b"`, `unknown query parameter "deep"`}},
		{"broken query of a route without any", "GET", showPath + "?%zz", "", 200, nil},
	} {
		res, body := w.call(t, tt.method, tt.path, tt.body)
		if res.StatusCode != tt.status {
			t.Errorf("%s: %d %s", tt.name, res.StatusCode, body)
		}
		if diff := cmp.Diff(tt.want, res.Header[warningHeader]); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	w := start(t)
	fields, query := `{"name":"a"`, "/api/v1/toys?x"
	for i := range 200 {
		n := strings.Repeat("z", i%9+1) + string(rune('a'+i%26))
		fields += `,"` + n + strings.Repeat("q", i) + `":1`
		query += "&" + n + "=1"
	}
	if res, body := w.call(t, "POST", "/api/v1/toys", fields+"}"); res.StatusCode != 201 || len(res.Header[warningHeader]) != maxWarnings {
		t.Errorf("%d with %d warnings: %s", res.StatusCode, len(res.Header[warningHeader]), body)
	}
	if res, body := w.call(t, "GET", query, ""); res.StatusCode != 200 || len(res.Header[warningHeader]) != maxWarnings {
		t.Errorf("%d with %d warnings: %s", res.StatusCode, len(res.Header[warningHeader]), body)
	}
}

// Clients repeat some refusals by themselves. Those that waiting cannot change
// say so.
func TestLastingRefusalsSayThatRetryingIsNoUse(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, tt := range []struct {
		method, path, body, key string
		status                  int
		want                    string
	}{
		{"GET", "/api/v1/toys/x", "", ownerKey, 404, "false"},
		{"POST", "/api/v1/toys", "{}", ownerKey, 422, "false"},
		{"POST", "/api/v1/toys", `{"name":"a"}`, readerKey, 403, "false"},
		{"GET", "/api/v1/limited", "", ownerKey, 429, ""},
		{"GET", "/api/v1/broken", "", ownerKey, 500, ""},
		{"GET", "/api/v1/public", "", ownerKey, 200, ""},
	} {
		res, body := w.call(t, tt.method, tt.path, tt.body, header("Authorization", "Bearer "+tt.key))
		if got := res.Header.Get("X-Should-Retry"); res.StatusCode != tt.status || got != tt.want {
			t.Errorf("%s %s: %d with X-Should-Retry %q: %s", tt.method, tt.path, res.StatusCode, got, body)
		}
	}
	for _, tt := range []struct {
		status int
		passes bool
		want   bool
	}{
		{http.StatusConflict, false, true}, {http.StatusConflict, true, false}, {http.StatusPaymentRequired, false, true},
		{http.StatusGone, false, true}, {http.StatusPreconditionFailed, false, true}, {http.StatusServiceUnavailable, true, false},
	} {
		e := fault.New(fault.Conflict, "", "It is busy.")
		if tt.passes {
			e = fault.Changed("toy")
		}
		if got := lasts(tt.status, e); got != tt.want {
			t.Errorf("%d that passes %t: lasts %t", tt.status, tt.passes, got)
		}
	}
}
