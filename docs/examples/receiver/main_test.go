package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agentd/internal/delivery/webhook"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// shifted is a clock that is wrong.
type shifted time.Duration

func (s shifted) Now() time.Time { return time.Now().Add(time.Duration(s)) }

// send delivers an event as agentd does, and gives the answer's status.
func send(t *testing.T, url, id, key string, clock shifted) int {
	t.Helper()
	allow, err := outbound.ParseAllow("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	client := outbound.New(webhookhttp.ClientConfig(allow))
	defer client.Close()
	o := webhookhttp.Caller{Client: client, Clock: clock}.Send(t.Context(), webhook.Request{
		URL: url, Secret: key, DeliveryID: "d-" + id, EventID: id, EventType: "run.completed",
		Body: []byte(`{"event_id":"` + id + `","event_type":"run.completed","tenant_id":"t","timestamp":"2026-09-10T12:00:00.000Z","data":{"note":"ü"}}`),
	})
	return o.Status
}

// captured is a delivery as it comes over the wire, to be changed.
func captured(t *testing.T, id string) (http.Header, string) {
	t.Helper()
	var h http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		h = r.Header.Clone()
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	if status := send(t, server.URL, id, secret, 0); status != http.StatusOK {
		t.Fatal(status)
	}
	return h, string(body)
}

// verifies tries a receiver that runs at an address. worked gives the ids of
// the events that it worked on, as they come.
func verifies(t *testing.T, url string, worked <-chan string) {
	t.Helper()
	for name, try := range map[string]struct {
		key    string
		clock  time.Duration
		status int
	}{
		"good":         {secret, 0, 204},
		"a-bit-old":    {secret, -290 * time.Second, 204},
		"old":          {secret, -301 * time.Second, 401},
		"future":       {secret, 302 * time.Second, 401},
		"wrong-secret": {"whsec_c29tZWJvZHkgZWxzZQ==", 0, 401},
		"half-secret":  {strings.TrimPrefix(secret, "whsec_"), 0, 401},
	} {
		if status := send(t, url, name, try.key, shifted(try.clock)); status != try.status {
			t.Errorf("%s: %d, want %d", name, status, try.status)
		}
		if try.status == 204 {
			if id := <-worked; id != name {
				t.Errorf("it worked on %s, not on %s", id, name)
			}
		}
	}

	h, body := captured(t, "wire")
	post := func(change func(h http.Header), body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = h.Clone()
		change(req.Header)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	unchanged := func(http.Header) {}
	signature := func(change func(old string) string) func(http.Header) {
		return func(h http.Header) { h.Set("X-SVC-Signature-V2", change(h.Get("X-SVC-Signature-V2"))) }
	}
	old := h.Get("X-SVC-Signature-V2")
	stamp, sum, _ := strings.Cut(old, ",")
	for name, try := range map[string]struct {
		change func(http.Header)
		body   string
	}{
		"tampered":        {unchanged, strings.Replace(body, "completed", "failed", 1)},
		"longer":          {unchanged, body + " "},
		"empty":           {unchanged, ""},
		"without":         {func(h http.Header) { h.Del("X-SVC-Signature-V2") }, body},
		"older-form-only": {signature(func(string) string { return h.Get("X-SVC-Signature") }), body},
		"another-time":    {signature(func(s string) string { return strings.Replace(s, "t=1", "t=2", 1) }), body},
		"no-time":         {signature(func(string) string { return "t=," + sum }), body},
		"no-sum":          {signature(func(string) string { return stamp + ",v1=sha256=" }), body},
		"half-a-sum":      {signature(func(s string) string { return s[:len(s)-2] }), body},
		"no-hex":          {signature(func(s string) string { return s[:len(s)-2] + "zz" }), body},
		"garbage":         {signature(func(string) string { return "%%%" }), body},
	} {
		if status := post(try.change, try.body); status != 401 {
			t.Errorf("%s: %d, want 401", name, status)
		}
	}
	if status := post(unchanged, strings.Repeat("x", 2<<20)); status/100 == 2 {
		t.Errorf("too large: %d", status)
	}
	// As it was, twice, and once more with an id in the header that nobody signed.
	for i, change := range []func(http.Header){unchanged, unchanged, func(h http.Header) { h.Set("X-SVC-Event-Id", "other") }} {
		if status := post(change, body); status != 204 {
			t.Errorf("replay %d: %d", i, status)
		}
	}
	if status := send(t, url, "last", secret, 0); status != 204 {
		t.Errorf("the last one: %d", status)
	}
	if a, b := <-worked, <-worked; a != "wire" && b != "wire" || a != "last" && b != "last" {
		t.Errorf("it worked on %s and %s; an event is worked on once", a, b)
	}
}

func TestReceiver(t *testing.T) {
	t.Parallel()
	worked := make(chan string, 16)
	server := httptest.NewServer(newReceiver(secret, func(e event) { worked <- e.ID }))
	t.Cleanup(server.Close)
	verifies(t, server.URL, worked)
}

func TestEventsAreForgottenInTheEnd(t *testing.T) {
	t.Parallel()
	r := newReceiver(secret, nil)
	now := time.Now()
	r.now = func() time.Time { return now }
	for _, step := range []struct {
		id    string
		later time.Duration
		first bool
	}{{"a", 0, true}, {"a", 0, false}, {"b", 23 * time.Hour, true}, {"a", 0, false}, {"a", 2 * time.Hour, true}, {"b", 0, false}} {
		now = now.Add(step.later)
		if got := r.first(step.id); got != step.first {
			t.Errorf("%s: first %v", step.id, got)
		}
	}
}

// Where node cannot be had the test is skipped, or fails if
// AGENTD_TEST_REQUIRE_NODE=1.
func TestReceiverInJavaScript(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("AGENTD_TEST_REQUIRE_NODE") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "../receiver.mjs")
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret, "PORT=0")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	worked := make(chan string, 16)
	done := make(chan struct{})
	t.Cleanup(func() { cmd.Process.Kill(); <-done; cmd.Wait() })
	lines := bufio.NewScanner(out)
	var port string
	if lines.Scan() {
		port = strings.TrimPrefix(lines.Text(), "listening ")
	}
	go func() {
		defer close(done)
		defer close(worked)
		for lines.Scan() {
			_, id, _ := strings.Cut(lines.Text(), " ")
			worked <- id
		}
	}()
	if port == "" {
		t.Fatal("it does not listen")
	}
	verifies(t, "http://127.0.0.1:"+port, worked)
}

// The page shows the programs as they are run here.
func TestPageShowsTheReceivers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../webhooks-receivers.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, language := range map[string]string{"main.go": "go", "../receiver.mjs": "js"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(page, []byte("```"+language+"\n"+string(text)+"```\n")) {
			t.Errorf("docs/webhooks-receivers.md does not show %s as it is", file)
		}
	}
}
