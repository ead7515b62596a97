package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func newProxies(networks ...string) (proxies, error) {
	var p proxies
	for _, text := range networks {
		if !strings.Contains(text, "/") {
			text += "/32"
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		p = append(p, network)
	}
	return p, nil
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	trusted, err := newProxies("10.0.0.0/8", "fd00::/8")
	if err != nil {
		t.Fatal(err)
	}
	const proxy = "10.0.0.1:4711"
	for name, tt := range map[string]struct {
		peer string
		sent []string
		want string
	}{
		"direct":                  {"192.0.2.9:1", nil, "192.0.2.9"},
		"direct IPv6":             {"[2001:db8::9]:1", nil, "2001:db8::9"},
		"a socket":                {"@", []string{"192.0.2.1"}, "@"},
		"not trusted":             {"192.0.2.9:1", []string{"192.0.2.1"}, "192.0.2.9"},
		"a proxy by itself":       {proxy, nil, "10.0.0.1"},
		"trusted":                 {proxy, []string{"192.0.2.1"}, "192.0.2.1"},
		"trusted IPv6":            {"[fd00::1]:1", []string{"2001:db8::1"}, "2001:db8::1"},
		"trusted, mapped":         {"[::ffff:10.0.0.1]:1", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		"the last counts":         {proxy, []string{"192.0.2.7, 192.0.2.1"}, "192.0.2.1"},
		"the last line counts":    {proxy, []string{"192.0.2.7", "192.0.2.1"}, "192.0.2.1"},
		"proxies are skipped":     {proxy, []string{"192.0.2.7, 192.0.2.1", "10.1.1.1,10.2.2.2"}, "192.0.2.1"},
		"proxies alone":           {proxy, []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		"with ports":              {proxy, []string{"192.0.2.1:80, [fd00::2]:90, 10.2.2.2:1"}, "192.0.2.1"},
		"not in canonical form":   {proxy, []string{"2001:DB8:0:0::1"}, "2001:db8::1"},
		"empty":                   {proxy, []string{""}, "10.0.0.1"},
		"no address":              {proxy, []string{"unknown"}, "10.0.0.1"},
		"no address behind one":   {proxy, []string{"192.0.2.1, x, 10.2.2.2"}, "10.2.2.2"},
		"no address before one":   {proxy, []string{"x, 192.0.2.1"}, "192.0.2.1"},
		"an end without address":  {proxy, []string{"192.0.2.1,"}, "10.0.0.1"},
		"a zone":                  {proxy, []string{"fe80::1%eth0"}, "fe80::1"},
		"brackets without a port": {proxy, []string{"[2001:db8::1]"}, "10.0.0.1"},
		"too long a port":         {proxy, []string{"192.0.2.1:99999"}, "10.0.0.1"},
		"a line break":            {proxy, []string{"192.0.2.1\n192.0.2.2"}, "10.0.0.1"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.sent}}
		if got := trusted.client(r); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if got := proxies(nil).client(r); got != host(tt.peer) {
			t.Errorf("%s, without proxies: %q", name, got)
		}
	}
}

// Whatever is sent, the address is one that a proxy or the connection vouches
// for: what an untrusted client puts before it does not count.
func FuzzClientAddress(f *testing.F) {
	for _, sent := range []string{"192.0.2.1", "a, 10.0.0.1", "[::1]:80,10.1.1.1:1", "", ",,,", "::ffff:10.0.0.1", "fe80::1%25x", "999.1.1.1"} {
		f.Add(sent, "192.0.2.7")
		f.Add("192.0.2.7", sent)
	}
	trusted, err := newProxies("10.0.0.0/8")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		r := &http.Request{RemoteAddr: "10.0.0.1:99", Header: http.Header{"X-Forwarded-For": {first, second}}}
		got := trusted.client(r)
		if address, err := netip.ParseAddr(got); err != nil || address.String() != got {
			t.Fatalf("%q is no address", got)
		}
		r.Header = http.Header{"X-Forwarded-For": {first, second, "192.0.2.77"}}
		if got := trusted.client(r); got != "192.0.2.77" {
			t.Errorf("a client says that it is %q", got)
		}
		r.RemoteAddr = "192.0.2.88:1"
		if got := trusted.client(r); got != "192.0.2.88" {
			t.Errorf("a stranger says that it is %q", got)
		}
	})
}
