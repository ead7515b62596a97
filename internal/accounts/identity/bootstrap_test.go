package identity

import (
	"regexp"
	"strings"
	"testing"
)

func TestSlug(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Acme":                  "acme",
		"  Acme & Söhne GmbH  ": "acme-s-hne-gmbh",
		"a__b--c":               "a-b-c",
		"0123456789 0123456789 0123456789 0123456789 0123456789": "0123456789-0123456789-0123456789-0123456789-0123",
		"0123456789 0123456789 0123456789 0123456789 012 456789": "0123456789-0123456789-0123456789-0123456789-012",
	} {
		if got := slug(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := slug("世界"); !regexp.MustCompile(`^tenant-[a-z0-9]{6}$`).MatchString(got) {
		t.Errorf("no letters: %q", got)
	}
}

func TestReadEmail(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", " Ann@Example.COM ": "ann@example.com", "a+b@x.org": "a+b@x.org",
	} {
		if got, wrong := readEmail(in); got != want || wrong != "" {
			t.Errorf("%q: %q %q", in, got, wrong)
		}
	}
	for _, in := range []string{"ann", "ann@", "Ann <ann@example.com>", "a@b@c", "a b@c.de", "ann@example.com\nx: y", "\"a\x00\"@b.c",
		"a\xff@b.c", strings.Repeat("a", 200) + "@b.c"} {
		if got, wrong := readEmail(in); wrong == "" {
			t.Errorf("%q was taken as %q", in, got)
		}
	}
}
