package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrigins(t *testing.T) {
	t.Parallel()
	for origin, valid := range map[string]bool{
		"*": true, "https://www.example.com": true, "http://localhost:3000": true, "https://[::1]:8443": true,
		"": false, "https://www.example.com/": false, "www.example.com": false, "https://*.example.com/x": false,
		"ftp://example.com": false, "null": false, "https://user@example.com": false, "https://example.com?x": false,
		"javascript:alert(1)": false, "https:// example.com": false,
	} {
		if got := checkOrigins(&PublicConfig{AllowedOrigins: []string{origin}}) == nil; got != valid {
			t.Errorf("%q is valid: %t, want %t", origin, got, valid)
		}
	}
	if wrong := checkOrigins(&PublicConfig{AllowedOrigins: []string{"*", "x"}}); len(wrong) != 1 ||
		wrong[0].Field != "public_config.allowed_origins[1]" {
		t.Error(wrong)
	}
	got := map[string]bool{}
	p := &PublicConfig{AllowedOrigins: []string{"https://www.Example.com"}}
	for _, origin := range []string{"https://www.example.com", "https://example.com", "http://www.example.com", "null", ""} {
		got[origin] = p.Allows(origin)
	}
	if diff := cmp.Diff(map[string]bool{
		"https://www.example.com": true, "https://example.com": false, "http://www.example.com": false, "null": false, "": false,
	}, got); diff != "" {
		t.Error(diff)
	}
	if !(&PublicConfig{AllowedOrigins: []string{"*"}}).Allows("https://anywhere.example") || (&PublicConfig{}).Allows("https://a.example") {
		t.Error("* is any origin, and no list is none")
	}
}
