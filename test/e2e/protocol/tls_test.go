package protocol

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
)

// writeCertificate writes a certificate of 127.0.0.1 for itself.
func writeCertificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// agentd speaks TLS itself: answers and streams, and takes a new certificate
// without a restart; metrics and the build are on a listener of their own.
func TestTLSAndMetricsListener(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, "first")
	n := apptest.Start(t, nil, func(c *config.Config) {
		c.Server.TLSCert, c.Server.TLSKey, c.Server.MetricsListen = cert, key, "127.0.0.1:0"
	})
	client := func(versions ...uint16) *http.Client {
		cfg := &tls.Config{InsecureSkipVerify: true} // the name is checked below
		if versions != nil {
			cfg.MaxVersion = versions[0]
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true, ForceAttemptHTTP2: true}, Timeout: 30 * time.Second}
	}
	get := func(c *http.Client, url, accept string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+n.Key)
		req.Header.Set("Accept", accept)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		return resp, string(body)
	}
	https := "https://" + n.App.Address()

	resp, body := get(client(), https+"/health", "*/*")
	if resp.StatusCode != 200 || resp.TLS.Version < tls.VersionTLS12 || resp.Header.Get("Strict-Transport-Security") == "" || strings.Contains(body, "build_sha") {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if resp, body := get(client(), https+"/health/sse", "text/event-stream"); resp.StatusCode != 200 || !strings.Contains(body, "[DONE]") {
		t.Errorf("a stream over TLS: %d %s", resp.StatusCode, body)
	}
	if resp, _ := get(client(), https+"/metrics", "*/*"); resp.StatusCode != 404 {
		t.Errorf("metrics are on the public listener: %d", resp.StatusCode)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, https+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client(tls.VersionTLS11).Do(req); err == nil {
		resp.Body.Close()
		t.Error("TLS 1.1 is spoken")
	}

	private := "http://" + n.App.MetricsAddress()
	if resp, body := get(client(), private+"/metrics", "*/*"); resp.StatusCode != 200 || !strings.Contains(body, "agentd_http_requests_total") {
		t.Errorf("metrics: %d", resp.StatusCode)
	}
	if resp, body := get(client(), private+"/health", "*/*"); resp.StatusCode != 200 || !strings.Contains(body, `"status":"healthy"`) {
		t.Errorf("health: %d %s", resp.StatusCode, body)
	}
	if resp, body := get(client(), private+"/debug/pprof/goroutine?debug=1", "*/*"); resp.StatusCode != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("profile: %d %s", resp.StatusCode, body)
	}
	for _, url := range []string{https + "/debug/pprof/", private + "/debug/pprof/cmdline"} {
		if resp, _ := get(client(), url, "*/*"); resp.StatusCode != 404 {
			t.Errorf("%s: %d", url, resp.StatusCode)
		}
	}
	if resp, _ := get(client(), private+"/api/v1/agents", "*/*"); resp.StatusCode != 404 {
		t.Errorf("the API is on the listener of metrics: %d", resp.StatusCode)
	}

	if err := os.WriteFile(key, []byte("half"), 0o600); err != nil { // the files are not changed at the same moment
		t.Fatal(err)
	}
	get(client(), https+"/health", "*/*")
	writeCertificate(t, dir, "second")
	for deadline := time.Now().Add(20 * time.Second); ; {
		resp, _ := get(client(), https+"/health", "*/*")
		if resp.TLS.PeerCertificates[0].Subject.CommonName == "second" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not used")
		}
	}
}
