package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

func TestCORS(t *testing.T) {
	t.Parallel()
	listed := start(t, func(c *Config) { c.Origins = func() []string { return []string{"https://app.example.com"} } })
	anyone := start(t, func(c *Config) { c.Origins = func() []string { return []string{"*"} } })
	closed := start(t)
	preflight := func(r *http.Request) {
		r.Header.Del("Authorization")
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Access-Control-Request-Headers", "authorization, content-type,idempotency-key")
	}
	for _, tt := range []struct {
		name   string
		on     *world
		origin string
		want   string
	}{
		{"listed", listed, "https://app.example.com", "https://app.example.com"},
		{"another", listed, "https://evil.example.com", ""},
		{"a longer name", listed, "https://app.example.com.evil.com", ""},
		{"another scheme", listed, "http://app.example.com", ""},
		{"null", listed, "null", ""},
		{"any", anyone, "https://evil.example.com", "*"},
		{"none", closed, "https://app.example.com", ""},
		{"no browser", listed, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			from := func(r *http.Request) {
				if tt.origin != "" {
					r.Header.Set("Origin", tt.origin)
				}
			}
			res, _ := tt.on.call(t, "GET", "/api/v1/toys", "", from)
			h := res.Header
			if res.StatusCode != 200 || h.Get("Access-Control-Allow-Origin") != tt.want || h.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%d %v", res.StatusCode, h)
			}
			if (tt.want != "") != strings.Contains(h.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
				t.Errorf("exposed: %v", h)
			}
			if (tt.on != closed) != (h.Get("Vary") == "Origin") {
				t.Errorf("Vary: %v", h["Vary"])
			}
			res, _ = tt.on.call(t, "OPTIONS", "/api/v1/toys", "", from, preflight)
			h = res.Header
			if res.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != tt.want {
				t.Errorf("the preflight: %d %v", res.StatusCode, h)
			}
			if (tt.want != "") != (h.Get("Access-Control-Allow-Headers") == "authorization, content-type,idempotency-key") ||
				(tt.want != "") != strings.Contains(h.Get("Access-Control-Allow-Methods"), "DELETE") {
				t.Errorf("the preflight allows: %v", h)
			}
		})
	}
	// Refusals can be read too, so that a page can show why.
	res, _ := listed.call(t, "GET", "/api/v1/toys", "", header("Authorization", ""), header("Origin", "https://app.example.com"))
	if res.StatusCode != 401 || res.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	// Cookies of this origin never act for a page of another one.
	res, _ = listed.call(t, "POST", "/api/v1/toys", `{"name":"a","kind":"doll"}`, header("Authorization", ""),
		header("Origin", "https://app.example.com"), header("Sec-Fetch-Site", "cross-site"), header("Cookie", sessionCookie+"="+browser))
	if res.StatusCode < 400 {
		t.Errorf("a cookie acts for another origin: %d", res.StatusCode)
	}
	res, _ = anyone.call(t, "OPTIONS", "/api/v1/toys", "", header("Origin", "https://a"), header("Access-Control-Request-Method", "GET"),
		header("Access-Control-Request-Headers", "x-a;b"))
	if got := res.Header.Get("Access-Control-Allow-Headers"); got != "" {
		t.Errorf("a strange name is repeated: %q", got)
	}
}
