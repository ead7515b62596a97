package outbound

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// zone answers the questions of a resolver: for each name lists of addresses,
// one list for each time that it is asked, the last one for ever after.
type zone struct {
	mu    sync.Mutex
	names map[string][][]string
	asked map[string]int // by name and type
}

// resolver serves a zone, on a socket of the test's own.
func resolver(t *testing.T, names map[string][][]string) *net.Resolver {
	t.Helper()
	z := &zone{names: names, asked: map[string]int{}}
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, from, err := socket.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer, err := z.answer(buf[:n]); err == nil {
				_, _ = socket.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { socket.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

func (z *zone) answer(query []byte) ([]byte, error) {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	z.mu.Lock()
	name := strings.TrimSuffix(q.Name.String(), ".")
	key := name + " " + q.Type.String()
	lists, known := z.names[name]
	var list []string
	if known {
		list = lists[min(z.asked[key], len(lists)-1)]
	}
	z.asked[key]++
	z.mu.Unlock()
	code := dnsmessage.RCodeSuccess
	if !known {
		code = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true, RCode: code})
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0}
	for _, text := range list {
		addr := netip.MustParseAddr(text)
		if q.Type == dnsmessage.TypeA && addr.Is4() {
			err = b.AResource(rh, dnsmessage.AResource{A: addr.As4()})
		} else if q.Type == dnsmessage.TypeAAAA && addr.Is6() {
			err = b.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: addr.As16()})
		}
		if err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// counting listens on an address and counts who connects; the port is one of
// the caller's choice, or 0.
func counting(t *testing.T, host string, port int, serve http.Handler) (accepted *atomic.Int32, at netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int32)
	server := &http.Server{Handler: serve, ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			accepted.Add(1)
		}
	}}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return accepted, netip.MustParseAddrPort(l.Addr().String())
}

// In these tests 127.0.0.2 is what a public address would be, because it is
// allowed, and 127.0.0.1 is private. Both listen at the same port.
func TestNamesThatLeadInside(t *testing.T) {
	t.Parallel()
	closing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	outside, at := counting(t, "127.0.0.2", 0, closing)
	inside, _ := counting(t, "127.0.0.1", int(at.Port()), closing)
	inside6, _ := counting(t, "::1", int(at.Port()), closing)
	_, elsewhere := counting(t, "127.0.0.1", 0, closing)
	const public, private, private6 = "127.0.0.2", "127.0.0.1", "::1"
	names := map[string][][]string{
		"rebinds.example":    {{public}, {private}},
		"private.example":    {{private}},
		"mapped.example":     {{"::ffff:127.0.0.1"}},
		"mixed.example":      {{public, private}},
		"mixed-last.example": {{private, public}},
		"many.example":       {{private, private, private, public}},
		"six.example":        {{private6}},
		"six-first.example":  {{private6, public}},
		"all.example":        {{private, private6}},
		"zero.example":       {{"0.0.0.0"}},
		"any6.example":       {{"::"}},
		"metadata.example":   {{"169.254.169.254"}},
		"nat64.example":      {{"64:ff9b::7f00:1"}},
		"empty.example":      {{}},
	}
	allow, err := ParseAllow(public)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Allow: allow, Resolver: resolver(t, names)})
	t.Cleanup(c.Close)
	get := func(name string, port uint16) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+name+":"+strconv.Itoa(int(port)), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req, Limits{Time: 10 * time.Second})
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get("rebinds.example", at.Port()); err != nil {
		t.Errorf("the first answer is public: %v", err)
	}
	for range 3 {
		if err := get("rebinds.example", at.Port()); !IsDenied(err) {
			t.Errorf("the second answer is private: %v", err)
		}
	}
	for _, name := range []string{"private", "mapped", "six", "all", "zero", "any6", "metadata", "nat64"} {
		if err := get(name+".example", at.Port()); !IsDenied(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	before := outside.Load()
	for _, name := range []string{"mixed", "mixed-last", "many", "six-first"} {
		if err := get(name+".example", at.Port()); err != nil && !IsDenied(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if outside.Load() == before {
		t.Error("no mixed answer leads to its public address")
	}
	// Where the public address does not answer, the private one is no way out.
	for _, name := range []string{"mixed", "mixed-last", "six-first"} {
		if err := get(name+".example", elsewhere.Port()); err == nil {
			t.Errorf("%s answers at a port where only the private address listens", name)
		}
	}
	unknown, private1 := get("nowhere.example", at.Port()), get("private.example", at.Port())
	if IsDenied(unknown) || Reason(unknown) != Reason(private1) || Reason(unknown) != Reason(get("empty.example", at.Port())) {
		t.Errorf("%q and %q tell which names are known inside", Reason(unknown), Reason(private1))
	}
	if inside.Load() != 0 || inside6.Load() != 0 {
		t.Errorf("%d and %d connections arrived inside", inside.Load(), inside6.Load())
	}
}

// A redirect to a name is checked on what the name leads to.
func TestRedirectsThatLeadInside(t *testing.T) {
	t.Parallel()
	var to atomic.Value
	outside, at := counting(t, "127.0.0.2", 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to.Load().(string), http.StatusFound)
	}))
	inside, in := counting(t, "127.0.0.1", int(at.Port()), http.NotFoundHandler())
	allow, err := ParseAllow(at.String())
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Allow: allow, Resolver: resolver(t, map[string][][]string{"inside.example": {{"127.0.0.1"}}})})
	t.Cleanup(c.Close)
	port := strconv.Itoa(int(in.Port()))
	for _, target := range []string{
		"http://127.0.0.1:" + port, "http://inside.example:" + port, "http://localhost:" + port, "http://[::ffff:7f00:1]:" + port, "//127.0.0.1:" + port,
		"http://0x7f.1:" + port, "http://2130706433:" + port, "http://１２７.0.0.1:" + port, "http://0.0.0.0:" + port, "file:///etc/passwd", "http://a:b@127.0.0.1:" + port,
	} {
		to.Store(target)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req, Limits{Hops: 5})
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s is followed", target)
		}
	}
	if inside.Load() != 0 || outside.Load() == 0 {
		t.Errorf("%d connections inside, %d outside", inside.Load(), outside.Load())
	}
}
