package webhookhttp_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/agents/guardrail"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, handler http.HandlerFunc) (url string, c webhookhttp.Caller) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, caller(t, strings.TrimPrefix(server.URL, "http://"))
}

func caller(t *testing.T, allow string) webhookhttp.Caller {
	t.Helper()
	allowed, err := outbound.ParseAllow(allow)
	if err != nil {
		t.Fatal(err)
	}
	client := outbound.New(webhookhttp.ClientConfig(allowed))
	t.Cleanup(client.Close)
	return webhookhttp.Caller{Client: client, Clock: clock.System{}}
}

func signed(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestCall(t *testing.T) {
	t.Parallel()
	const body = `{"text":"héllo"}`
	var got *http.Request
	var sent []byte
	url, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		sent, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, `{"allowed":true}`)
	})
	before := time.Now()
	r, err := c.Call(t.Context(), guardrail.Call{URL: url + "/check?x=1", Secret: "hush", Body: []byte(body), Timeout: 10 * time.Second, MaxAnswer: 16})
	if err != nil || r.Status != http.StatusTeapot || string(r.Body) != `{"allowed":true}` {
		t.Fatalf("%d %s, %v", r.Status, r.Body, err)
	}
	at := got.Header.Get("X-SVC-Timestamp")
	if got.Method != "POST" || got.URL.String() != "/check?x=1" || string(sent) != body || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("asked by %s %s with %s", got.Method, got.URL, sent)
	}
	if want := "t=" + at + ",v1=" + signed("hush", at+"."+body); got.Header.Get("X-SVC-Signature-V2") != want {
		t.Errorf("V2 is %s, want %s", got.Header.Get("X-SVC-Signature-V2"), want)
	}
	if want := signed("hush", body); got.Header.Get("X-SVC-Signature") != want {
		t.Errorf("the older signature is %s, want %s", got.Header.Get("X-SVC-Signature"), want)
	}
	if ms, err := strconv.ParseInt(at, 10, 64); err != nil || ms < before.UnixMilli() || ms > time.Now().UnixMilli() {
		t.Errorf("the timestamp is %s", at)
	}

	if _, err = c.Call(t.Context(), guardrail.Call{URL: url, Body: []byte(body), Timeout: 10 * time.Second, MaxAnswer: 16}); err != nil {
		t.Fatal(err)
	}
	if got.Header.Get("X-SVC-Signature-V2") != "" || got.Header.Get("X-SVC-Signature") != "" {
		t.Error("signed without a secret")
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	url, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			io.WriteString(w, strings.Repeat("x", 101))
		case "/hang":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/drip":
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/elsewhere":
			http.Redirect(w, r, "/large", http.StatusFound)
		}
	})
	call := func(ctx context.Context, c webhookhttp.Caller, path string, timeout time.Duration) (guardrail.Reply, error) {
		return c.Call(ctx, guardrail.Call{URL: url + path, Body: []byte("{}"), Timeout: timeout, MaxAnswer: 100})
	}
	if _, err := call(t.Context(), c, "/large", 10*time.Second); !errors.Is(err, outbound.ErrTooLarge) {
		t.Errorf("a large answer: %v", err)
	}
	for _, path := range []string{"/hang", "/drip"} {
		if _, err := call(t.Context(), c, path, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := call(t.Context(), c, "/cut", 10*time.Second); err == nil {
		t.Error("a cut answer is taken")
	}
	if r, err := call(t.Context(), c, "/elsewhere", 10*time.Second); err != nil || r.Status != http.StatusFound {
		t.Errorf("a redirect gives %d, %v", r.Status, err)
	}
	if _, err := call(t.Context(), caller(t, ""), "/", 10*time.Second); !outbound.IsDenied(err) || !fault.Is(err, fault.Forbidden) {
		t.Errorf("a private address: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := call(ctx, c, "/", 10*time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	if _, err := c.Call(t.Context(), guardrail.Call{URL: "http://[", Timeout: time.Second}); err == nil {
		t.Error("a URL that is none is called")
	}
}

// A call carries the key by which its receiver recognizes it (rule D22-keys).
func TestGuardrailCallsCarryTheirKey(t *testing.T) {
	t.Parallel()
	var keys []string
	url, c := serve(t, func(_ http.ResponseWriter, r *http.Request) { keys = append(keys, r.Header.Get("Idempotency-Key")) })
	for _, key := range []string{"s1/g1/input", ""} {
		if _, err := c.Call(t.Context(), guardrail.Call{URL: url, Key: key, Body: []byte("{}"), Timeout: 10 * time.Second, MaxAnswer: 16}); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 2 || keys[0] != "s1/g1/input" || keys[1] != "" {
		t.Errorf("the keys are %q", keys)
	}
}
