package webhookhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/webhook"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

// got is a request as a receiver had it.
type got struct {
	method, path, body string
	header             http.Header
}

// mailbox receives requests one by one.
func mailbox(t *testing.T) (url string, c webhookhttp.Caller, next func() got) {
	t.Helper()
	last := make(chan got, 1)
	url, c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last <- got{r.Method, r.URL.String(), string(body), r.Header}
		w.WriteHeader(http.StatusAccepted)
	})
	return url, c, func() got { return <-last }
}

// at is a clock that shows one moment.
type at time.Time

func (a at) Now() time.Time { return time.Time(a) }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// The example of the Standard Webhooks specification, and the headers of
// section 6 beside it.
func TestSendSigns(t *testing.T) {
	t.Parallel()
	const body, ms = `{"test": 2432232314}`, "1614265330123"
	url, c, next := mailbox(t)
	c.Clock = at(time.UnixMilli(1614265330123))
	o := c.Send(t.Context(), webhook.Request{
		URL: url + "/hooks?a=b", Secret: secret, DeliveryID: "d1", EventID: "msg_p5jXN8AQM9LWM0D4loKWxJek", EventType: "run.completed", Body: []byte(body),
	})
	if o.Status != http.StatusAccepted || o.Failure != "" || o.Latency <= 0 {
		t.Fatalf("%+v", o)
	}
	r := next()
	if r.method != "POST" || r.path != "/hooks?a=b" || r.body != body {
		t.Errorf("%s %s with %s", r.method, r.path, r.body)
	}
	want := map[string]string{
		"Content-Type": "application/json", "User-Agent": "agentd", "Content-Length": "20", "Accept-Encoding": "",
		"X-SVC-Event-Type": "run.completed", "X-SVC-Event-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "X-SVC-Delivery-Id": "d1", "X-SVC-Timestamp": ms,
		"X-SVC-Signature-V2": "t=" + ms + ",v1=" + signed(secret, ms+"."+body), "X-SVC-Signature": signed(secret, body),
		"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
		"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		"Idempotency-Key":   "", "Accept": "",
	}
	for name, value := range want {
		if has := strings.Join(r.header.Values(name), " and "); has != value {
			t.Errorf("%s is %q, want %q", name, has, value)
		}
	}
	for name := range r.header {
		if _, known := want[name]; !known && !strings.HasPrefix(name, "X-Svc-") && !strings.HasPrefix(name, "Webhook-") {
			t.Errorf("%s is sent too", name)
		}
	}
}

// Each attempt is signed when it is sent; what is signed stays the same.
func TestEachAttemptIsSigned(t *testing.T) {
	t.Parallel()
	url, c, next := mailbox(t)
	clk := clock.NewFake()
	c.Clock = clk
	a := attempt(url)
	var stamps []string
	for range 2 {
		if o := c.Send(t.Context(), a); o.Failure != "" {
			t.Fatalf("%+v", o)
		}
		r := next()
		stamp := r.header.Get("X-SVC-Timestamp")
		if want := "t=" + stamp + ",v1=" + signed(a.Secret, stamp+"."+r.body); r.header.Get("X-SVC-Signature-V2") != want {
			t.Errorf("V2 is %s, want %s", r.header.Get("X-SVC-Signature-V2"), want)
		}
		stamps = append(stamps, stamp)
		clk.Advance(time.Minute)
	}
	if stamps[0] == stamps[1] {
		t.Error("the second attempt has the first one's timestamp")
	}
}

// A secret of another form still makes the signatures that need none.
func TestSecretsOfAnotherForm(t *testing.T) {
	t.Parallel()
	url, c, next := mailbox(t)
	for _, s := range []string{"plain", "whsec_!!!", "whsec"} {
		a := attempt(url)
		a.Secret = s
		if o := c.Send(t.Context(), a); o.Failure != "" {
			t.Fatalf("%+v", o)
		}
		r := next()
		if r.header.Get("webhook-signature") != "" || r.header.Get("X-SVC-Signature") != signed(s, r.body) {
			t.Errorf("%s: %v", s, r.header)
		}
	}
}

func TestPost(t *testing.T) {
	t.Parallel()
	url, c, next := mailbox(t)
	ids := map[string]bool{}
	for range 2 {
		status, err := c.Post(t.Context(), notification.Post{URL: url, Secret: "hush", Body: []byte(`{}`), EventID: "n1", Type: "run.failed"})
		if err != nil || status != http.StatusAccepted {
			t.Fatal(status, err)
		}
		r := next()
		if r.header.Get("X-SVC-Event-Id") != "n1" || r.header.Get("X-SVC-Event-Type") != "run.failed" || r.header.Get("X-SVC-Signature") != signed("hush", "{}") {
			t.Errorf("%v", r.header)
		}
		ids[r.header.Get("X-SVC-Delivery-Id")] = true
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("delivery ids %v", ids)
	}
	if _, err := caller(t, "").Post(t.Context(), notification.Post{URL: url}); !outbound.IsDenied(err) {
		t.Errorf("a private address: %v", err)
	}
}

// BenchmarkSend delivers to one receiver of the same process, whose half of the
// work is in the numbers.
func BenchmarkSend(b *testing.B) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n.Add(1)
	}))
	b.Cleanup(server.Close)
	allow, err := outbound.ParseAllow(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	client := outbound.New(webhookhttp.ClientConfig(allow))
	b.Cleanup(client.Close)
	c := webhookhttp.Caller{Client: client, Clock: clock.System{}}
	a := attempt(server.URL)
	a.Body = []byte(`{"event_id":"e","data":"` + strings.Repeat("x", 1000) + `"}`)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if o := c.Send(context.Background(), a); o.Failure != "" {
				b.Error(o.Failure)
				return
			}
		}
	})
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "deliveries/s")
}
