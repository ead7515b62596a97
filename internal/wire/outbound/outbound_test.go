package outbound

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/base/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, handler http.HandlerFunc) (base, port string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, server.URL[strings.LastIndexByte(server.URL, ':')+1:]
}

func client(t *testing.T, allow string) *Client {
	t.Helper()
	a, err := ParseAllow(allow)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Allow: a, HeaderTimeout: 10 * time.Second, MaxHeaderBytes: 4 << 10})
	t.Cleanup(c.Close)
	return c
}

// Names and every notation of an address are refused when they are dialled,
// whatever they resolve to.
func TestClientRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	_, port := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	c := client(t, "")
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "0x7f.0.0.1"} {
		resp, err := c.HTTP().Get("http://" + host + ":" + port)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s answers", host)
		}
	}
	_, err := c.HTTP().Get("http://localhost:" + port)
	if e := fault.From(err); !IsDenied(err) || e.Code != "EGRESS_DENIED" || strings.Contains(e.Detail, "127.0.0.1") {
		t.Errorf("error = %v", err)
	}
}

func TestClientReachesWhatIsAllowed(t *testing.T) {
	t.Parallel()
	base, port := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	for _, allow := range []string{"127.0.0.1:" + port, "127.0.0.0/8"} {
		resp, err := client(t, allow).HTTP().Get(base)
		if err != nil {
			t.Errorf("%s: %v", allow, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "hello" {
			t.Errorf("body = %q", body)
		}
	}
}

// A redirect is the answer; it is not followed, and leads nowhere inside.
func TestClientFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	inside, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	base, port := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside, http.StatusFound) })
	resp, err := client(t, "127.0.0.1:"+port).HTTP().Get(base)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Not parallel: the environment is the process's.
func TestClientUsesNoProxy(t *testing.T) {
	proxy, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	base, port := serve(t, func(http.ResponseWriter, *http.Request) {})
	resp, err := client(t, "127.0.0.1:"+port).HTTP().Get(base)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func TestClientBoundsHeaders(t *testing.T) {
	t.Parallel()
	base, port := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Long", strings.Repeat("x", 64<<10)) })
	resp, err := client(t, "127.0.0.1:"+port).HTTP().Get(base)
	if err == nil {
		resp.Body.Close()
		t.Error("64 KiB of headers are accepted")
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"https://example.com", "http://example.com:8080/v1?x=y", "https://EXAMPLE.com./", "https://93.184.216.34/", "http://127.0.0.1:9100/v1",
		"http://[2606:4700::1111]:80/", "https://bücher.example/", "http://my_host/", "https://1password.com", "https://0x0.st", "https://a.b-c.d1",
		"https://example.com/a%20b#part",
	} {
		if err := CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, wrong := range []string{
		"", "example.com", "//example.com", "ftp://example.com", "file:///etc/passwd", "javascript:alert(1)", "http:example.com", "http://", "http:///x",
		"https://user@example.com", "https://user:pass@example.com", "https://@example.com", "http://:80/", "http://example.com:/", "http://example.com:0/",
		"http://example.com:99999/", "http://example.com:http/", "http://exa mple.com", "http://example.com\r\nHost: x", " http://example.com", "http://example.com\\@evil",
		"http://2130706433/", "http://0x7f000001/", "http://0X7F.1/", "http://017700000001/", "http://127.1/", "http://0177.0.0.1/", "http://127.0.0.01/",
		"http://0/", "http://0x/", "http://127.0.0.1./", "http://１２７.0.0.1./", "http://①②⑦.1/", "http://127。1/", "http://example.256", "http://.",
		"http://[fe80::1%25eth0]/", "http://[::1", "http://%zz/", "https://" + strings.Repeat("a", 3000) + ".example",
	} {
		if err := CheckURL(wrong); err == nil || !fault.Is(err, fault.Invalid) || fault.From(err).Detail == "" {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func FuzzCheckURL(f *testing.F) {
	f.Add("https://example.com:80/a?b")
	f.Add("http://①②⑦.1/")
	f.Fuzz(func(t *testing.T, raw string) {
		if CheckURL(raw) != nil {
			return
		}
		req, err := http.NewRequest(http.MethodGet, raw, nil)
		if err != nil || req.URL.Host == "" || req.URL.User != nil {
			t.Errorf("%q is accepted, but no request can be made of it: %v", raw, err)
		}
	})
}
