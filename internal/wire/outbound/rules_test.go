package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/wire/outbound"
)

func TestRulesAllow(t *testing.T) {
	t.Parallel()
	allow, err := outbound.ParseAllow("10.1.0.0/16,127.0.0.1:9100")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := outbound.ParseRules([]string{
		"api.example.com", "*.partner.example", "mail.example.com:8443", "203.1.113.0/24", "10.1.2.0/24", "127.0.0.1:9100", "bücher.example",
		"[2606:4700::1111]",
	}, allow)
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]bool{
		"https://api.example.com/x":       true,
		"http://API.Example.COM:8080":     true,
		"https://api.example.com./":       true,
		"https://x.api.example.com":       false,
		"https://api.example.com.evil.io": false,
		"https://evilapi.example.com":     false,
		"https://a.b.partner.example":     true,
		"https://partner.example":         false,
		"https://evilpartner.example":     false,
		"https://mail.example.com:8443/":  true,
		"https://mail.example.com/":       false,
		"https://203.1.113.9":             true,
		"https://[::ffff:203.1.113.9]":    true,
		"https://203.1.114.9":             false,
		"https://10.1.2.3":                true,
		"https://10.1.3.3":                false,
		"http://127.0.0.1:9100":           true,
		"http://127.0.0.1:9101":           false,
		"https://xn--bcher-kva.example":   true,
		"https://bücher.example":          true,
		"https://[2606:4700::1111]":       true,
		"https://user@api.example.com":    false,
		"ftp://api.example.com":           false,
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := rules.Allows(u); got != want {
			t.Errorf("%s: %t, want %t", raw, got, want)
		}
	}
	none, err := outbound.ParseRules(nil, allow)
	if u, _ := url.Parse("https://any.example"); err != nil || !none.Allows(u) || !(*outbound.Rules)(nil).Allows(u) {
		t.Errorf("no rules allow every host: %v", err)
	}
}

func TestRulesRefuseEntries(t *testing.T) {
	t.Parallel()
	allow, err := outbound.ParseAllow("10.1.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	for entry, says := range map[string]string{
		"":                        "is none of",
		"*":                       "is none of",
		"a.*.example":             "is none of",
		"https://api.example.com": "port",
		"api.example.com/path":    "is none of",
		"api.example.com:0":       "port",
		"api.example.com:70000":   "port",
		"10.0.0.0/8":              "not public",
		"10.2.0.0/16":             "not public",
		"127.0.0.1":               "not public",
		"127.0.0.1:80":            "not public",
		"0.0.0.0/0":               "not public",
		"::/0":                    "not public",
		"2000::/3":                "not public",
		"169.254.169.254":         "not public",
		"::ffff:10.1.0.0/112":     "IPv4",
		"203.1.113.7/24":          "write it as 203.1.113.0/24",
		"2130706433":              "is none of",
		"0x7f.1":                  "is none of",
		strings.Repeat("a", 301):  "is none of",
		"exa mple.com":            "is none of",
	} {
		_, err := outbound.ParseRules([]string{"ok.example", entry}, allow)
		bad, ok := errors.AsType[*outbound.RuleError](err)
		if !ok || bad.Index != 1 || !strings.Contains(bad.Reason, says) {
			t.Errorf("%q: %v, want entry 1 and %q", entry, err, says)
		}
	}
}

// A call obeys the rules of its own tenant: at the first address, at each
// redirect, and where another tenant's connection is still open.
func TestRulesHoldForEveryRequest(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	there, elsewhere := httptest.NewServer(mux), httptest.NewServer(mux)
	defer there.Close()
	defer elsewhere.Close()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	allow, err := outbound.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	ruled, err := outbound.ParseRules([]string{strings.TrimPrefix(there.URL, "http://")}, allow)
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("the database is gone")
	client := outbound.New(outbound.Config{Allow: allow, Rules: func(_ context.Context, tenant string) (*outbound.Rules, error) {
		switch tenant {
		case "ruled":
			return ruled, nil
		case "broken":
			return nil, gone
		}
		return nil, nil
	}})
	defer client.Close()
	call := func(tenant, url string) error {
		req, err := http.NewRequestWithContext(authz.WithTenant(t.Context(), tenant), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req, outbound.Limits{Hops: 3})
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for _, url := range []string{there.URL, elsewhere.URL, there.URL + "/away"} {
		if err := call("free", url); err != nil {
			t.Errorf("a tenant without rules: %v", err)
		}
	}
	if err := call("ruled", there.URL); err != nil {
		t.Errorf("what is allowed: %v", err)
	}
	for _, url := range []string{elsewhere.URL, there.URL + "/away"} {
		err := call("ruled", url)
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Kind != fault.Forbidden || e.Code != "EGRESS_DENIED" || !strings.Contains(outbound.Reason(err), "egress_allowlist") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if err := call("broken", there.URL); !errors.Is(err, gone) {
		t.Errorf("rules that cannot be read: %v", err)
	}
	if err := call("", there.URL); err == nil {
		t.Error("a call of nobody passes")
	}
}

func FuzzParseRules(f *testing.F) {
	for _, entry := range []string{"a.example", "*.a.example:443", "203.0.113.0/24", "[::1]:80", "\xff", "*.", ":", "a:"} {
		f.Add(entry)
	}
	inside := []string{"http://127.0.0.1", "http://10.0.0.1", "http://[::1]", "http://169.254.169.254"}
	f.Fuzz(func(t *testing.T, entry string) {
		rules, err := outbound.ParseRules([]string{entry}, outbound.Allow{})
		if err != nil {
			return
		}
		for _, raw := range inside {
			if u, err := url.Parse(raw); err == nil && rules.Allows(u) {
				t.Errorf("%q allows %s", entry, raw)
			}
		}
	})
}
