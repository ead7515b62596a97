package model_test

import (
	"net/url"
	"strings"
	"testing"

	"agentd/internal/kernel/model"
)

func TestNormalEndpoint(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://api.example/v1":                      "https://api.example/v1",
		"https://api.example/v1/":                     "https://api.example/v1",
		"https://api.example/v1//":                    "https://api.example/v1",
		"HTTPS://API.Example:443/v1":                  "https://api.example/v1",
		"https://api.example/v1/chat/completions":     "https://api.example/v1",
		"https://api.example":                         "https://api.example",
		"https://api.example/":                        "https://api.example",
		"http://api.example:80/v1":                    "http://api.example/v1",
		"http://api.example:443/v1":                   "http://api.example:443/v1",
		"https://api.example:80/v1":                   "https://api.example:80/v1",
		"http://127.0.0.1:8000/v1":                    "http://127.0.0.1:8000/v1",
		"http://[2001:DB8::1]:8000/v1":                "http://[2001:db8::1]:8000/v1",
		"https://api.example/V1":                      "https://api.example/V1", // paths have a case
		"https://generativelanguage.example/v1beta/x": "https://generativelanguage.example/v1beta/x",

		"":                                     "",
		"api.example/v1":                       "",
		"//api.example/v1":                     "",
		"ftp://api.example/v1":                 "",
		"https:api.example/v1":                 "",
		"https:///v1":                          "",
		"https://user@api.example/v1":          "",
		"https://user:p@api.example/v1":        "",
		"https://@api.example/v1":              "",
		"https://api.example:/v1":              "",
		"https://api.example:0/v1":             "",
		"https://api.example:0443/v1":          "",
		"https://api.example:99999/v1":         "",
		"https://api.example/v1?key=1":         "",
		"https://api.example/v1?":              "",
		"https://api.example/v1#part":          "",
		"https://api.example/v1#":              "",
		"https://api.example/a/../v1":          "",
		"https://api.example/./v1":             "",
		"https://api.example/..":               "",
		"https://api.example//v1":              "",
		"https://api.example/%2e%2e/v1":        "",
		"https://api.example/v%31":             "",
		"https://api.example/v1;x":             "",
		`https://api.example\@evil/v1`:         "",
		"https://api.example/v1\r\nX: y":       "",
		" https://api.example/v1":              "",
		"https://api.example./v1":              "",
		"https://api..example/v1":              "",
		"https://\u212Aapi.example/v1":         "", // lower case of the Kelvin sign is k
		"https://api.exämple/v1":               "",
		"https://[::1%25eth0]/v1":              "",
		"https://" + strings.Repeat("a", 3000): "",
	} {
		got, ok := model.NormalizeEndpoint(raw)
		if got != want || ok != (want != "") {
			t.Errorf("%q becomes %q, %t; want %q", raw, got, ok, want)
		}
		if ok && !model.SameEndpoint(raw, got) {
			t.Errorf("%q is not the same as its own form %q", raw, got)
		}
		if model.SameEndpoint(raw, raw) != ok {
			t.Errorf("%q is the same as itself: %t", raw, !ok)
		}
	}
}

func TestPublicProviders(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range model.Publics() {
		if at, ok := model.NormalizeEndpoint(p.Endpoint); !ok || at != p.Endpoint || p.Name == "" || seen[p.ID] {
			t.Errorf("%+v: normal is %q", p, at)
		}
		if !p.Local && !strings.HasPrefix(p.Endpoint, "https://") {
			t.Errorf("%s is not reached over TLS", p.ID)
		}
		seen[p.ID] = true
		if got, ok := model.PublicProvider(p.ID); !ok || got != p {
			t.Errorf("%s is found as %+v", p.ID, got)
		}
	}
	if _, ok := model.PublicProvider("nobody"); ok {
		t.Error("nobody is a provider")
	}
}

// Whatever two addresses look like, they are the same only where every reader
// of addresses sees the same place, and the form of one is its own form.
func FuzzSameEndpoint(f *testing.F) {
	for _, pair := range [][2]string{
		{"https://api.example/v1", "HTTPS://api.example:443/v1/"},
		{"https://api.example/v1", "https://api.example.evil/v1"},
		{"https://api.example/v1", "https://api.example@evil/v1"},
		{"https://api.example/v1", "https://api.example/v1/../v2"},
		{"http://[::1]:80/v1", "http://[::1]/v1"},
		{"https://api.example/v1", `https://api.example\.evil/v1`},
		{"https://api.example/v1/chat/completions", "https://api.example/v1/chat/completions/chat/completions"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, raw := range []string{a, b} {
			form, ok := model.NormalizeEndpoint(raw)
			if !ok {
				continue
			}
			again, still := model.NormalizeEndpoint(form)
			u, err := url.Parse(form)
			if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host == "" || strings.ContainsAny(form, "@\\%?# \r\n\t") {
				t.Fatalf("%q becomes %q, which is no plain address", raw, form)
			}
			if !still || again != form {
				t.Fatalf("%q becomes %q becomes %q", raw, form, again)
			}
		}
		if !model.SameEndpoint(a, b) {
			return
		}
		x, errX := url.Parse(a)
		y, errY := url.Parse(b)
		if errX != nil || errY != nil {
			t.Fatalf("%q and %q are no addresses", a, b)
		}
		port := func(u *url.URL) string {
			if p := u.Port(); p != "" {
				return p
			}
			return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
		}
		if !strings.EqualFold(x.Scheme, y.Scheme) || !strings.EqualFold(x.Hostname(), y.Hostname()) || port(x) != port(y) {
			t.Fatalf("%q and %q are not at one place", a, b)
		}
	})
}
