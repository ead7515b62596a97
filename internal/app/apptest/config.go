package apptest

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats-server/v2/server"

	"agentd/internal/base/config"
	"agentd/internal/base/secret"
)

// AddressPerRequest lets every request come from an address of its own, so that
// limits per address do not apply to the tests.
func AddressPerRequest(c *config.Config) { c.Server.TrustedProxies = "127.0.0.1" }

// SharedSecretKey configures the secret key that all nodes over one database need.
func SharedSecretKey(c *config.Config) {
	c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
}

// FreeAddress returns a local address that nothing listens on at the moment.
func FreeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ExternalNATS starts a NATS server and returns the setting that uses it.
func ExternalNATS(t *testing.T) func(*config.Config) {
	t.Helper()
	bus, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	bus.Start()
	t.Cleanup(func() { bus.Shutdown(); bus.WaitForShutdown() })
	if !bus.ReadyForConnections(5 * time.Second) {
		t.Fatal("NATS does not start")
	}
	return func(c *config.Config) { c.Bus.NATSURL = config.NewURL(bus.ClientURL()) }
}

// Corp is a sign-in provider that CorpProvider configures and no test uses.
const Corp = "corp"

// CorpProvider configures the sign-in provider Corp.
func CorpProvider(tb testing.TB) func(*config.Config) {
	tb.Helper()
	return Providers(tb, `[{"id": "corp", "issuer": "https://id.example.com", "client_id": "agentd"}]`)
}

// Providers configures the sign-in providers of a file with this text.
func Providers(tb testing.TB, file string) func(*config.Config) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "providers.json")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		tb.Fatal(err)
	}
	return func(c *config.Config) { c.SignIn.OIDCProviders = path }
}

// WebSearch starts a simulated SearXNG and returns the setting that uses it.
func WebSearch(t testing.TB) func(*config.Config) {
	t.Helper()
	hold := make(chan struct{})
	sim := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.FormValue("q") {
		case "broken":
			w.WriteHeader(500)
		case "slow":
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		default:
			_ = json.MarshalWrite(w, Object{"results": []Object{
				{"url": "https://example.com/a", "title": "About " + r.FormValue("q"), "content": "one"},
				{"url": "https://example.com/b", "title": "b", "content": "two"},
			}}, jsontext.AllowInvalidUTF8(true))
		}
	}))
	t.Cleanup(sim.Close)
	t.Cleanup(func() { close(hold) })
	return func(c *config.Config) { c.Search.Provider, c.Search.URL = "searxng", sim.URL }
}
