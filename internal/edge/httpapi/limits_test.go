package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/kernel/ratelimit"
)

// withLimits starts the edge with the operator's limits.
func withLimits(t testing.TB, text string, change ...func(*Config)) *world {
	t.Helper()
	limits, err := ratelimit.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, append(change, func(c *Config) { c.Limiter = ratelimit.New(limits) })...)
}

// checkRate checks the rate-limit headers of an answer, limit "" meaning that
// there must be none.
func checkRate(t testing.TB, what string, res *http.Response, limit, remaining string) {
	t.Helper()
	h := res.Header
	if got := h.Get("X-RateLimit-Limit"); got != limit {
		t.Errorf("%s: X-RateLimit-Limit %q, want %q", what, got, limit)
	}
	if got := h.Get("X-RateLimit-Remaining"); got != remaining {
		t.Errorf("%s: X-RateLimit-Remaining %q, want %q", what, got, remaining)
	}
	reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if limit == "" {
		if h.Get("X-RateLimit-Reset") != "" {
			t.Errorf("%s: X-RateLimit-Reset %q", what, h.Get("X-RateLimit-Reset"))
		}
		return
	}
	if left := time.Until(time.Unix(reset, 0)); err != nil || left < -time.Second || left > time.Hour+2*time.Second {
		t.Errorf("%s: X-RateLimit-Reset %q", what, h.Get("X-RateLimit-Reset"))
	}
}

// checkTooMany checks a 429.
func checkTooMany(t testing.TB, what string, res *http.Response, body, bucket string) {
	t.Helper()
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if res.StatusCode != 429 || res.Header.Get("X-RateLimit-Bucket") != bucket || err != nil || seconds < 1 {
		t.Errorf("%s: %d %v %s", what, res.StatusCode, res.Header, body)
	}
}

func TestRateHeaders(t *testing.T) {
	t.Parallel()
	w := withLimits(t, "tenant=1000/h,key=100/h")
	reader := header("Authorization", "Bearer "+readerKey)
	left := map[string]int{"owner": 100, "reader": 100}
	for _, tt := range []struct {
		what, method, path, body string
		status                   int
		who                      string
	}{
		{"success", "GET", "/api/v1/toys/" + toyID, "", 200, "owner"},
		{"created", "POST", "/api/v1/toys", `{"name":"a"}`, 201, "owner"},
		{"no body", "DELETE", "/api/v1/toys/" + toyID, "", 204, "owner"},
		{"malformed id", "GET", "/api/v1/toys/7", "", 404, "owner"},
		{"bad body", "POST", "/api/v1/toys", `{`, 400, "owner"},
		{"failed", "GET", "/api/v1/broken", "", 500, "owner"},
		{"panic", "GET", "/api/v1/panic", "", 500, "owner"},
		{"quota", "GET", "/api/v1/limited", "", 429, "owner"},
		{"missing scope", "POST", "/api/v1/toys", `{"name":"a"}`, 403, "reader"},
		{"role too low", "GET", "/api/v1/admin", "", 403, "reader"},
		{"raw", "POST", "/v1/messages", `{}`, 200, "owner"},
		{"raw stream", "POST", "/v1/stream", "", 200, "owner"},
		{"raw refusal", "POST", "/v1/messages", `{}`, 403, "reader"},
		{"stream refused", "POST", "/api/v1/toys/" + toyID + "/events", "", 405, ""},
		{"anonymous", "GET", "/api/v1/public", "", 200, ""},
		{"probe", "GET", "/healthz", "", 200, ""},
		{"nowhere", "GET", "/api/v1/nothing", "", 404, ""},
	} {
		var as []func(*http.Request)
		if tt.who == "reader" {
			as = append(as, reader)
		}
		res, body := w.call(t, tt.method, tt.path, tt.body, as...)
		if res.StatusCode != tt.status {
			t.Errorf("%s: %d %s", tt.what, res.StatusCode, body)
		}
		if tt.who == "" {
			checkRate(t, tt.what, res, "", "")
			continue
		}
		left[tt.who]--
		checkRate(t, tt.what, res, "100", strconv.Itoa(left[tt.who]))
		if tt.status != 429 && res.Header.Get("X-RateLimit-Bucket") != "" {
			t.Errorf("%s: names a bucket though none ran out", tt.what)
		}
	}
	go close(w.frames)
	res, _ := w.call(t, "GET", "/api/v1/toys/"+toyID+"/events", "")
	checkRate(t, "stream", res, "100", strconv.Itoa(left["owner"]-1))
	res, _ = w.call(t, "GET", "/api/v1/toys/"+toyID, "", header("Authorization", "Bearer wrong"))
	checkRate(t, "unauthenticated", res, "", "")
}

func TestRateLimitRefuses(t *testing.T) {
	t.Parallel()
	w := withLimits(t, "key=2/h,endpoint=1/h")
	call := func(method, path string, change ...func(*http.Request)) (*http.Response, string) {
		t.Helper()
		return w.call(t, method, path, "", change...)
	}
	if res, body := call("GET", "/api/v1/toys"); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	res, body := call("GET", "/api/v1/toys")
	doc := problemOf(t, res, body)
	checkTooMany(t, "endpoint", res, body, "endpoint")
	checkRate(t, "endpoint", res, "1", "0")
	if doc["code"] != "rate_limit_exceeded" || doc["title"] != "Too Many Requests" {
		t.Errorf("%s", body)
	}
	if res, body = call("GET", "/api/v1/toys/"+toyID); res.StatusCode != 200 {
		t.Errorf("another operation: %d %s", res.StatusCode, body)
	}
	res, body = call("GET", "/api/v1/names/x")
	checkTooMany(t, "key", res, body, "api_key")
	checkRate(t, "key", res, "2", "0")

	// A raw route renders it in its own way.
	if res, body = call("POST", "/v1/stream"); !strings.HasPrefix(body, `{"error":{`) || !strings.Contains(body, "rate_limit_exceeded") {
		t.Errorf("raw: %s", body)
	}
	checkTooMany(t, "raw", res, body, "api_key")
	checkRate(t, "raw", res, "2", "0")

	// The limit comes before scope and body.
	reader := header("Authorization", "Bearer "+readerKey)
	call("GET", "/api/v1/admin", reader)
	call("GET", "/api/v1/pages/1", reader)
	res, body = w.call(t, "POST", "/api/v1/toys", "{", reader)
	checkTooMany(t, "before scope", res, body, "api_key")

	metrics := metricsText(t, w)
	for _, want := range []string{
		`agentd_rate_limited_requests_total{bucket="endpoint"} 1`, `agentd_rate_limited_requests_total{bucket="api_key"} 3`,
		`agentd_rate_limited_requests_total{bucket="tenant"} 0`, `agentd_rate_limited_requests_total{bucket="failed_credentials"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestTenantsAreCountedApart(t *testing.T) {
	t.Parallel()
	w := withLimits(t, "tenant=2/h")
	w.keys.known["svc_foreign"] = authz.Caller{TenantID: "t2", UserID: "u9", KeyID: "k9", Role: authz.Owner, Scopes: []authz.Scope{"*"}}
	w.call(t, "GET", "/api/v1/toys", "")
	w.call(t, "GET", "/api/v1/toys", "", header("Authorization", "Bearer "+readerKey))
	for _, key := range []string{ownerKey, readerKey} {
		res, body := w.call(t, "GET", "/api/v1/toys", "", header("Authorization", "Bearer "+key))
		checkTooMany(t, "tenant", res, body, "tenant")
	}
	if res, body := w.call(t, "GET", "/api/v1/toys", "", header("Authorization", "Bearer svc_foreign")); res.StatusCode != 200 {
		t.Errorf("another tenant: %d %s", res.StatusCode, body)
	}
}

func TestSessionCountsAsAKey(t *testing.T) {
	t.Parallel()
	w := withLimits(t, "key=1/h")
	for _, session := range []string{"s1", "s2"} {
		w.keys.known[session] = authz.Caller{TenantID: "t1", UserID: "u1", SessionID: session, Role: authz.Owner, Scopes: []authz.Scope{"*"}}
	}
	w.keys.known["other"] = authz.Caller{TenantID: "t2", UserID: "u2", Role: authz.Owner} // neither: the person counts
	w.keys.known["third"] = authz.Caller{TenantID: "t2", UserID: "u3", Role: authz.Owner}
	for _, session := range []string{"s1", "s2", "other", "third"} {
		as := header("Authorization", "Bearer "+session)
		if res, body := w.call(t, "GET", "/api/v1/names/x", "", as); res.StatusCode != 200 {
			t.Errorf("%s: %d %s", session, res.StatusCode, body)
		}
		res, body := w.call(t, "GET", "/api/v1/toys", "", as)
		checkTooMany(t, session, res, body, "api_key")
	}
}

// Limits of a row hold though the operator set none.
func TestRowsLimits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"off", "tenant=1000/h"} {
		w := withLimits(t, text, func(c *Config) {
			limits := []route.Limit{{N: 2, Per: time.Minute}, {N: 3, Per: time.Hour}}
			say := func(context.Context, authz.Caller, *nilIn) (string, error) { return "hello", nil }
			c.Routes = append(c.Routes,
				route.Action(route.Row{Method: "POST", Path: "/api/v1/code", ID: "code", Public: true, Limits: limits}, say),
				route.Action(route.Row{Method: "POST", Path: "/api/v1/publish", ID: "publish", Limits: limits}, say))
			proxies, err := newProxies("127.0.0.0/8")
			if err != nil {
				t.Fatal(err)
			}
			c.Proxies = proxies
		})
		for name, tt := range map[string]struct {
			path          string
			first, second func(*http.Request)
		}{
			"by address":    {"/api/v1/code", header("X-Forwarded-For", "192.0.2.1"), header("X-Forwarded-For", "192.0.2.2")},
			"by network":    {"/api/v1/code", header("X-Forwarded-For", "2001:db8::1"), header("X-Forwarded-For", "2001:db8:0:1::1")},
			"by credential": {"/api/v1/publish", header("Authorization", "Bearer "+ownerKey), header("Authorization", "Bearer "+readerKey)},
		} {
			for i := range 2 {
				res, body := w.call(t, "POST", tt.path, "", tt.first)
				if res.StatusCode != 200 {
					t.Fatalf("%s, %s: %d %s", text, name, res.StatusCode, body)
				}
				if text == "off" {
					checkRate(t, name, res, "", "")
				} else {
					checkRate(t, name, res, "2", strconv.Itoa(1-i))
				}
			}
			res, body := w.call(t, "POST", tt.path, "", tt.first)
			checkTooMany(t, name, res, body, "endpoint")
			if text == "off" {
				checkRate(t, name, res, "", "")
			}
			if res, body := w.call(t, "POST", tt.path, "", tt.second); res.StatusCode != 200 {
				t.Errorf("%s, somebody else: %d %s", name, res.StatusCode, body)
			}
		}
	}
}

// counting is an Authenticator that counts what it is asked.
type counting struct {
	*keys
	mu    sync.Mutex
	asked int
}

func (c *counting) Authenticate(ctx context.Context, raw string) (authz.Caller, error) {
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	return c.keys.Authenticate(ctx, raw)
}

func TestGuessingIsLimited(t *testing.T) {
	t.Parallel()
	// Ten come back in a second, so that a slow machine needs many more.
	const most, more = 600, 400
	for _, text := range []string{"tenant=100000/h", "off"} {
		auth := &counting{keys: newKeys()}
		w := withLimits(t, text, func(c *Config) {
			c.Auth = auth
			proxies, err := newProxies("127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			c.Proxies = proxies
		})
		from := func(address, key string) (*http.Response, string) {
			t.Helper()
			return w.call(t, "GET", "/api/v1/toys", "", header("X-Forwarded-For", address), header("Authorization", "Bearer "+key))
		}
		from("192.0.2.1", readerKey)
		refused := 0
		for i := range most + more {
			res, body := from("192.0.2.1", "svc_wrong"+strconv.Itoa(i))
			switch res.StatusCode {
			case 401:
			case 429:
				if refused++; refused == 1 {
					checkTooMany(t, "guess", res, body, "endpoint")
					checkRate(t, "guess", res, "", "")
					problemOf(t, res, body)
				}
			default:
				t.Fatalf("%d %s", res.StatusCode, body)
			}
		}
		if text == "off" {
			if refused != 0 {
				t.Errorf("with limits off %d guesses were refused", refused)
			}
			continue
		}
		if refused == 0 || auth.asked != most+more+1-refused {
			t.Fatalf("%d refused, %d looked at", refused, auth.asked)
		}
		var res *http.Response
		for res, _ = from("192.0.2.1", "svc_wrong"); res.StatusCode == 401; {
			res, _ = from("192.0.2.1", "svc_wrong")
		}
		if res, body := from("192.0.2.1", readerKey); res.StatusCode != 200 {
			t.Errorf("a key that worked before is locked out: %d %s", res.StatusCode, body)
		}
		if res, body := from("192.0.2.2", ownerKey); res.StatusCode != 200 {
			t.Errorf("another address: %d %s", res.StatusCode, body)
		}
		for name, change := range map[string]func(*http.Request){
			"no credential": header("Authorization", ""), "another scheme": header("Authorization", "Basic x"),
		} {
			res, body := w.call(t, "GET", "/api/v1/toys", "", header("X-Forwarded-For", "192.0.2.1"), change)
			if res.StatusCode != 401 {
				t.Errorf("%s guesses nothing: %d %s", name, res.StatusCode, body)
			}
		}
	}
}
