package mcp

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var goodName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func TestNames(t *testing.T) {
	t.Parallel()
	n := NewNamer([]string{"calculator", "read_file"})
	long := strings.Repeat("long.", 30)
	wanted := []struct{ slug, own, want string }{
		{"a", "search", "a_search"},
		{"b", "search", "b_search"},
		{"b", "calculator", "b_calculator"},
		{"b", "get weather!", "get_weather"},
		{"b", "twice.", "b_twice"},
		{"b", "twice!", "b_twice_2"},
		{"b", "Ünï", "n"},
		{"b", "???", "tool"},
		{"b", "b_read_file", "b_read_file"},
		{"b", "read_file", "b_read_file_2"},
		{"b", long, strings.TrimSuffix(strings.ReplaceAll(long, ".", "_"), "_")[:64]},
	}
	for _, w := range wanted {
		n.Announce(w.own)
	}
	for _, w := range wanted {
		if got := n.Name(w.slug, w.own); got != w.want {
			t.Errorf("%q of %s is %q, want %q", w.own, w.slug, got, w.want)
		}
	}
}

// Whatever servers call their tools, each gets a name that is good, its own,
// and no built-in tool's.
func FuzzNames(f *testing.F) {
	f.Add("weather", "calculator", "calculator", "x")
	f.Add("", "\x00", strings.Repeat("é", 100), strings.Repeat("a", 64))
	f.Fuzz(func(t *testing.T, server, a, b, c string) {
		builtin := []string{"calculator", ToolName(c)}
		n := NewNamer(builtin)
		for _, own := range []string{a, b, a} {
			n.Announce(own)
		}
		var given []string
		for _, own := range []string{a, b, a} {
			name := n.Name(SlugOf(server), own)
			if !goodName.MatchString(name) || slices.Contains(given, name) || slices.Contains(builtin, name) {
				t.Errorf("%q of %q is called %q beside %v", own, server, name, given)
			}
			given = append(given, name)
		}
	})
}

func TestEgressRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url  string
		rule Egress
		want bool
	}{
		{"https://api.example.com/mcp", Egress{HostPattern: "api.example.com"}, true},
		{"https://API.example.com/mcp", Egress{HostPattern: "*.Example.com"}, true},
		{"https://example.com/mcp", Egress{HostPattern: "*.example.com"}, false},
		{"https://evilexample.com/mcp", Egress{HostPattern: "*.example.com"}, false},
		{"http://api.example.com/mcp", Egress{HostPattern: "api.example.com"}, false},
		{"http://api.example.com/mcp", Egress{HostPattern: "api.example.com", Protocol: "http", Ports: []int{80}}, true},
		{"https://api.example.com:8443/mcp", Egress{HostPattern: "api.example.com"}, false},
		{"https://api.example.com:8443/mcp", Egress{HostPattern: "api.example.com", Ports: []int{443, 8443}}, true},
	} {
		if got := allowed(c.url, []Egress{c.rule}); got != c.want {
			t.Errorf("%s under %+v: %t", c.url, c.rule, got)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for _, same := range [][2]string{
		{"https://example.com/a", "https://EXAMPLE.com:443/b?c"},
		{"http://example.com", "http://example.com:80/x"},
	} {
		if origin(same[0]) != origin(same[1]) {
			t.Errorf("%v are two origins", same)
		}
	}
	for _, other := range []string{"http://example.com", "https://example.com:444", "https://a.example.com", "https://example.com.evil.org"} {
		if origin(other) == origin("https://example.com/a") {
			t.Errorf("%s is the same origin", other)
		}
	}
}
