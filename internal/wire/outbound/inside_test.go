package outbound

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Everything that somebody could write to reach this machine or its network.
// PORT is where something listens on all of its addresses.
var inside = []string{
	"http://127.0.0.1:PORT/", "http://127.0.0.1:PORT", "HTTP://127.0.0.1:PORT/", "http://127.1.2.3:PORT/", "http://127.255.255.254:PORT/",
	"http://0.0.0.0:PORT/", "http://0.0.0.1:PORT/", "http://localhost:PORT/", "http://LOCALHOST:PORT/", "http://localhost.:PORT/",
	"http://[::1]:PORT/", "http://[::]:PORT/", "http://[0:0:0:0:0:0:0:1]:PORT/", "http://[0000:0000:0000:0000:0000:0000:0000:0001]:PORT/",
	"http://[::ffff:127.0.0.1]:PORT/", "http://[::FFFF:7F00:1]:PORT/", "http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/", "http://[::127.0.0.1]:PORT/",
	"http://[::ffff:0:127.0.0.1]:PORT/", "http://[64:ff9b::127.0.0.1]:PORT/", "http://[64:ff9b:1::127.0.0.1]:PORT/", "http://[2002:7f00:1::]:PORT/",
	"http://[::1%25lo]:PORT/", "http://[::1%lo]:PORT/", "http://[fe80::1%25eth0]:PORT/", "http://[fe80::1]:PORT/", "http://[fec0::1]:PORT/",
	"http://[fc00::1]:PORT/", "http://[fd12:3456::1]:PORT/", "http://[ff02::1]:PORT/", "http://[::ffff:0.0.0.0]:PORT/",
	"http://2130706433:PORT/", "http://017700000001:PORT/", "http://0x7f000001:PORT/", "http://0X7F000001:PORT/", "http://0x7f.0x0.0x0.0x1:PORT/",
	"http://0177.0.0.1:PORT/", "http://0177.0.0.01:PORT/", "http://127.1:PORT/", "http://127.0.1:PORT/", "http://0x7f.1:PORT/", "http://0:PORT/", "http://0x0:PORT/",
	"http://4294967295:PORT/", "http://4294967297:PORT/", "http://127.0.0.1.:PORT/", "http://127.0.0.01:PORT/", "http://00127.0.0.1:PORT/", "http://127.0.0.1.0:PORT/",
	"http://１２７.0.0.1:PORT/", "http://１２７．０．０．１:PORT/", "http://127。0。0。1:PORT/", "http://①②⑦.0.0.1:PORT/", "http://𝟏𝟐𝟕.0.0.1:PORT/", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/",
	"http://loc\u00ADalhost:PORT/", "http://127.0.0.1\u200B:PORT/", "http://l\u043Ecalhost:PORT/", "http://%31%32%37.0.0.1:PORT/", "http://127%2e0.0.1:PORT/",
	"http://127.0.0.1%00:PORT/", "http://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1:PORT/", "http://127.0.0.1%0d%0a:PORT/",
	"http://user@127.0.0.1:PORT/", "http://user:pass@127.0.0.1:PORT/", "http://example.com@127.0.0.1:PORT/", "http://127.0.0.1:PORT@127.0.0.1:PORT/",
	"http://example.com:80@localhost:PORT/", "http://example.com\\@127.0.0.1:PORT/", "http://127.0.0.1\\:PORT/", "http:\\\\127.0.0.1:PORT/", "http:///127.0.0.1:PORT/",
	"http:/127.0.0.1:PORT/", "http:127.0.0.1:PORT/", "//127.0.0.1:PORT/", "127.0.0.1:PORT/", "http://127.0.0.1:PORT#@example.com/", "http://127.0.0.1:PORT?@example.com/",
	"\thttp://127.0.0.1:PORT/", "http://127.0.0.1:PORT/\n", "ht\ntp://127.0.0.1:PORT/", "http://127.0\t.0.1:PORT/", " http://127.0.0.1:PORT/", "http://127.0.0.1 :PORT/",
	"gopher://127.0.0.1:PORT/_x", "file:///etc/passwd", "unix:///var/run/docker.sock", "dict://127.0.0.1:PORT/", "ftp://127.0.0.1:PORT/", "ws://127.0.0.1:PORT/", "jar:http://127.0.0.1:PORT!/",
	"http://169.254.169.254/latest/meta-data/", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/latest", "http://168.63.129.16/", "http://2852039166/",
	"http://0xa9fea9fe/", "http://169.254.43518/", "http://10.0.0.1:PORT/", "http://172.16.0.1:PORT/", "http://192.168.0.1:PORT/", "http://100.64.0.1:PORT/",
	"http://224.0.0.1:PORT/", "http://255.255.255.255:PORT/", "http://240.0.0.1:PORT/", "http://198.18.0.1:PORT/", "http://192.0.2.1:PORT/",
}

// However an address inside is written, either the URL is refused when it is
// saved, or the connection when it is dialled; a URL that was never checked is
// not dialled either.
func TestNothingInsideIsReached(t *testing.T) {
	t.Parallel()
	if len(inside) < 60 {
		t.Fatalf("only %d addresses", len(inside))
	}
	accepted, at := counting(t, "", 0, http.NotFoundHandler()) // all addresses of both families
	port := strconv.Itoa(int(at.Port()))
	c := New(Config{Resolver: resolver(t, nil)})
	t.Cleanup(c.Close)
	checker := NewChecker(Config{Resolver: resolver(t, nil)})
	for _, raw := range inside {
		raw = strings.ReplaceAll(raw, "PORT", port)
		saved := CheckURL(raw) == nil
		if checker.Check(t.Context(), raw) == nil && !nameless(raw) {
			t.Errorf("%q is saved where addresses are looked at", raw)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, raw, nil)
		if err != nil {
			if saved {
				t.Errorf("%q is saved, and cannot be called: %v", raw, err)
			}
			continue
		}
		for name, call := range map[string]func() (*http.Response, error){
			"checked": func() (*http.Response, error) { return c.Do(req, Limits{Time: 10 * time.Second}) },
			"bare":    func() (*http.Response, error) { return c.Transport().RoundTrip(req) },
			"client":  func() (*http.Response, error) { return c.HTTP().Do(req) },
		} {
			resp, err := call()
			if err == nil {
				resp.Body.Close()
				t.Errorf("%q answers when it is called %s", raw, name)
			}
		}
	}
	if n := accepted.Load(); n != 0 {
		t.Errorf("%d connections were accepted", n)
	}
}

// nameless reports whether a URL's host only looks like one of this machine: it
// is written with a Cyrillic letter.
func nameless(raw string) bool { return strings.Contains(raw, "l\u043Ecalhost") }

// The test above would not notice a listener that nobody can reach.
func TestInsideCouldBeReached(t *testing.T) {
	t.Parallel()
	accepted, at := counting(t, "", 0, http.NotFoundHandler())
	allow, err := ParseAllow("127.0.0.0/8,::1")
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Allow: allow})
	t.Cleanup(c.Close)
	for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1.2.3", "localhost"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":"+strconv.Itoa(int(at.Port())), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req, Limits{})
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		resp.Body.Close()
	}
	if accepted.Load() != 5 {
		t.Errorf("%d connections", accepted.Load())
	}
}

// dialled returns a client that never connects: it records the addresses that
// its guard would allow.
func dialled(tb testing.TB) (c *Client, passed func() []netip.AddrPort) {
	tb.Helper()
	var mu sync.Mutex
	var list []netip.AddrPort
	stop := errors.New("the test connects to nobody")
	g := newGuard(Allow{})
	nowhere := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, stop }}
	c = build(Config{Resolver: nowhere}, func(network, address string, raw syscall.RawConn) error {
		if err := g.control(network, address, raw); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		list = append(list, netip.MustParseAddrPort(address))
		return stop
	})
	tb.Cleanup(c.Close)
	return c, func() []netip.AddrPort {
		mu.Lock()
		defer mu.Unlock()
		taken := list
		list = nil
		return taken
	}
}

// FuzzDial is the guard seen from outside: whatever URL is called, an address
// that is let through is public by the standard library's own judgement, and a
// host that is saved as a literal address is dialled as that address.
func FuzzDial(f *testing.F) {
	for _, raw := range inside {
		f.Add(strings.ReplaceAll(raw, "PORT", "80"))
	}
	f.Add("http://8.8.8.8/")
	f.Add("https://[2606:4700::1111]/")
	c, passed := dialled(f)
	private := []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("::/8"),
		netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("3fff::/20"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("192.0.2.0/24"),
		netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	}
	f.Fuzz(func(t *testing.T, raw string) {
		saved := CheckURL(raw) == nil
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, raw, nil)
		if err != nil {
			if saved {
				t.Errorf("%q is saved, but no request can be made of it: %v", raw, err)
			}
			return
		}
		resp, err := c.Transport().RoundTrip(req)
		if err == nil {
			resp.Body.Close()
			t.Fatalf("%q answers", raw)
		}
		for _, to := range passed() {
			a := to.Addr()
			if a.Is4In6() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || !a.IsGlobalUnicast() || a.Zone() != "" || metadataAddrs[a] {
				t.Errorf("%q would be dialled at %s", raw, to)
			}
			for _, p := range private {
				if p.Contains(a) {
					t.Errorf("%q would be dialled at %s, which is of %s", raw, to, p)
				}
			}
			if u, err := url.Parse(raw); saved && err == nil {
				if literal, err := netip.ParseAddr(u.Hostname()); err == nil && literal.Unmap() != a {
					t.Errorf("%q is dialled at %s", raw, to)
				}
			}
		}
	})
}
