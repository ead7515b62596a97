package limits

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/app"
	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/store/sqldb/sqldbtest"
)

func rates(text string) func(*config.Config) {
	return func(c *config.Config) { c.Server.RateLimits = text }
}

// allowance checks the headers of an answer and gives what is left.
func allowance(t *testing.T, what string, r apptest.Reply, limit string) int {
	t.Helper()
	left, err := strconv.Atoi(r.Header.Get("X-RateLimit-Remaining"))
	if err != nil || r.Header.Get("X-RateLimit-Limit") != limit {
		t.Errorf("%s: X-RateLimit-Limit %q, -Remaining %q", what, r.Header.Get("X-RateLimit-Limit"), r.Header.Get("X-RateLimit-Remaining"))
	}
	reset, err := strconv.ParseInt(r.Header.Get("X-RateLimit-Reset"), 10, 64)
	if in := time.Until(time.Unix(reset, 0)); err != nil || in < -time.Second || in > time.Hour+2*time.Second {
		t.Errorf("%s: X-RateLimit-Reset %q", what, r.Header.Get("X-RateLimit-Reset"))
	}
	return left
}

// usedUp checks an answer to a request beyond a limit.
func usedUp(t *testing.T, what string, r apptest.Reply, bucket string) {
	t.Helper()
	wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("X-RateLimit-Bucket") != bucket || err != nil || wait < 1 || wait > 3600 {
		t.Errorf("%s: %d %v %s", what, r.StatusCode, r.Header, r.Body)
	}
}

// Every answer to an authenticated caller reports the remaining allowance.
func TestRateHeaders(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, rates("tenant=40/h,key=30/h,endpoint=12/h"))
	echo := object{"name": "echo", "model": object{"provider": "custom", "model_ref": "builtin/echo"}}
	agent := n.CreateAgent(echo)
	run := n.StartRun(agent, "hello", nil)
	reader := n.WithKey(string(n.Admin().CreateKey(n.TenantID(), "viewer", "agents:read").RawKey))
	chat := func(fields object) object {
		fields["messages"] = []object{{"role": "user", "content": "hello"}}
		return fields
	}
	for _, c := range []struct {
		what   string
		reply  apptest.Reply
		status int
		left   int
	}{
		{"read", n.Do("GET", "/api/v1/agents/"+agent, nil), 200, 11},
		{"absent", n.Do("GET", "/api/v1/runs/"+agent, nil), 404, 11},
		{"invalid", n.Do("POST", "/api/v1/agents", object{"name": 1}), 422, 10},
		{"written", n.Do("POST", "/api/v1/agents", `{"name":"once"}`, "Idempotency-Key", "one"), 201, 9},
		{"replayed", n.Do("POST", "/api/v1/agents", `{"name":"once"}`, "Idempotency-Key", "one"), 201, 8},
		{"models", n.Do("GET", "/v1/models", nil), 200, 11},
		{"chat", n.Do("POST", "/v1/chat/completions", chat(object{"model": agent})), 200, 11},
		{"chat stream", n.Do("POST", "/v1/chat/completions", chat(object{"model": agent, "stream": true})), 200, 10},
		{"chat refused", n.Do("POST", "/v1/chat/completions", chat(object{"model": "none"})), 404, 9},
		{"run stream", n.Do("GET", "/api/v1/runs/"+run+"/events", nil, "Accept", "text/event-stream"), 200, 11},
		{"missing scope", reader.Do("POST", "/api/v1/agents", echo), 403, 7},
		{"another key", reader.Do("GET", "/api/v1/agents", nil), 200, 11},
	} {
		if c.reply.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.what, c.reply.StatusCode, c.reply.Body)
		}
		if left := allowance(t, c.what, c.reply, "12"); left != c.left {
			t.Errorf("%s: %d left, want %d", c.what, left, c.left)
		}
		if c.reply.Header.Get("X-RateLimit-Bucket") != "" {
			t.Errorf("%s: names a bucket though none ran out", c.what)
		}
	}
	for _, path := range []string{"/healthz", "/metrics", "/api/v1/openapi.json", "/api/v1/nothing"} {
		if r := n.Do("GET", path, nil); r.Header.Get("X-RateLimit-Limit") != "" {
			t.Errorf("%s is for everybody, and not counted: %v", path, r.Header)
		}
	}
	off := apptest.Start(t, nil)
	if r := off.Do("GET", "/api/v1/me", nil); r.StatusCode != 200 || r.Header.Get("X-RateLimit-Limit")+r.Header.Get("X-RateLimit-Remaining")+r.Header.Get("X-RateLimit-Reset") != "" {
		t.Errorf("with limits off: %d %v", r.StatusCode, r.Header)
	}
}

// A request beyond a limit gets 429 and the name of the exhausted bucket.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, rates("tenant=8/h,key=5/h,endpoint=3/h"))
	admin := n.Admin()
	tenant := n.TenantID() // asks who it is
	second := n.WithKey(string(admin.CreateKey(tenant, "owner", "*").RawKey))
	for range 2 {
		n.Expect(200, "GET", "/api/v1/me", nil)
	}
	r := n.Do("GET", "/api/v1/me", nil)
	usedUp(t, "endpoint", r, "endpoint")
	if left := allowance(t, "endpoint", r, "3"); left != 0 || r.JSON["code"] != "rate_limit_exceeded" || r.JSON["title"] != "Too Many Requests" || r.JSON["detail"] == "" {
		t.Errorf("%d left, %s", left, r.Body)
	}
	usedUp(t, "it is the tenant's", second.Do("GET", "/api/v1/me", nil), "endpoint")
	n.Expect(200, "GET", "/api/v1/agents", nil)
	n.Expect(200, "GET", "/api/v1/runs", nil)
	r = n.Do("GET", "/v1/models", nil)
	usedUp(t, "key", r, "api_key")
	if got, _ := r.JSON["error"].(object); got["code"] != "rate_limit_exceeded" || got["type"] != "rate_limit_error" {
		t.Errorf("the chat routes' envelope: %s", r.Body)
	}
	usedUp(t, "stream", n.Do("GET", "/api/v1/runs/"+tenant+"/events", nil, "Accept", "text/event-stream"), "api_key")
	for range 2 {
		second.Expect(200, "GET", "/v1/models", nil)
	}
	second.Expect(200, "GET", "/api/v1/runs", nil)
	usedUp(t, "tenant", second.Do("GET", "/api/v1/notifications", nil), "tenant")

	// Another tenant feels nothing of that.
	other, err := admin.Tenants.Create(t.Context(), "Other", "")
	if err != nil {
		t.Fatal(err)
	}
	stranger := n.WithKey(string(admin.CreateKey(other.TenantID, "owner", "*").RawKey))
	if r := stranger.Do("GET", "/api/v1/me", nil); r.StatusCode != 200 || allowance(t, "another tenant", r, "3") != 2 {
		t.Errorf("another tenant: %d %s", r.StatusCode, r.Body)
	}
	metrics := string(stranger.Do("GET", "/metrics", nil).Body)
	for bucket, count := range map[string]int{"endpoint": 2, "api_key": 2, "tenant": 1} {
		if line := fmt.Sprintf("agentd_rate_limited_requests_total{bucket=%q} %d", bucket, count); !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// Whose keys fail too often is refused before anybody looks at them; the address
// is the one that a trusted proxy names.
func TestFailedKeysAreLimited(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, rates("tenant=100000/h"), func(c *config.Config) { c.Server.TrustedProxies = "127.0.0.1" })
	const wrong = "Bearer svc_wrongkey_0123456789abcdefghijklmnopqrstuv"
	from := func(address, key string) apptest.Reply {
		return n.SendHeaders("GET", "/api/v1/me", "", "Authorization", key, "X-Forwarded-For", "192.0.2.200, "+address)
	}
	var last apptest.Reply
	for range 1000 {
		if last = from("192.0.2.1", wrong); last.StatusCode != http.StatusUnauthorized {
			break
		}
	}
	usedUp(t, "guessing", last, "endpoint")
	if r := from("192.0.2.2", wrong); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("another address: %d", r.StatusCode)
	}
	if r := from("192.0.2.2", "Bearer "+apptest.OwnerKey); r.StatusCode != http.StatusOK {
		t.Errorf("a right key: %d", r.StatusCode)
	}
	if r := from("192.0.2.1", "Bearer "+apptest.OwnerKey); r.StatusCode != http.StatusOK {
		t.Errorf("a key that worked a moment ago, from the address of whoever guesses: %d", r.StatusCode)
	}
}

func TestBadLimitsRefuseToStart(t *testing.T) {
	t.Parallel()
	for name, adjust := range map[string]func(*config.Config){
		"AGENTD_RATE_LIMITS: tenant":                          rates("tenant=many"),
		"AGENTD_TRUSTED_PROXIES: \"everybody\" is no network": func(c *config.Config) { c.Server.TrustedProxies = "everybody" },
	} {
		cfg := config.Config{}
		cfg.Server.Listen = "127.0.0.1:0"
		cfg.Storage.DataDir = t.TempDir()
		adjust(&cfg)
		a, err := app.Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err == nil {
			a.Stop(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// Two nodes under one load admit together what the limit says, to 5 %, though
// both are asked far more often.
func TestRateLimitsOverTwoNodes(t *testing.T) {
	t.Parallel()
	database := sqldbtest.Migrated(t, sqldbtest.Postgres)
	outside := apptest.ExternalNATS(t)
	const perMinute = 600
	shared := func(c *config.Config) {
		c.Storage.DatabaseURL = config.NewURL(database.URL)
		c.Security.SecretKey = secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
		c.Server.RateLimits = fmt.Sprintf("key=%d/m", perMinute)
	}
	nodes := []*apptest.Server{apptest.Start(t, nil, shared, outside), apptest.Start(t, nil, shared, outside)}

	// Each hears what the other admits.
	for i, n := range nodes {
		other := nodes[1-i]
		apptest.Eventually(t, func() bool {
			for range 20 {
				n.Expect(200, "GET", "/api/v1/me", nil)
			}
			return allowance(t, "other node", other.Do("GET", "/api/v1/me", nil), strconv.Itoa(perMinute)) < perMinute-20*(i+1)
		})
	}
	// Both know of each other; a key that nobody used gets a whole allowance.
	key := string(nodes[0].Admin().CreateKey(nodes[0].TenantID(), "owner", "*").RawKey)
	const span = 6 * time.Second
	var admitted, refused atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range 8 {
		n := nodes[i%2]
		all.Go(func() {
			web := &http.Client{Transport: &http.Transport{}}
			defer web.CloseIdleConnections()
			tick := time.NewTicker(4 * time.Millisecond)
			defer tick.Stop()
			for time.Since(began) < span {
				switch status, err := ask(web, n.URL+"/api/v1/me", key); {
				case err != nil:
					t.Error(err)
					return
				case status == http.StatusOK:
					admitted.Add(1)
				case status == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("status %d", status)
				}
				<-tick.C
			}
		})
	}
	all.Wait()
	want := perMinute + perMinute*time.Since(began).Minutes()
	got := float64(admitted.Load())
	t.Logf("%.0f admitted, %d refused; the limit says %.0f", got, refused.Load(), want)
	if got > want*1.05 || got < want*.95 || refused.Load() == 0 {
		t.Errorf("%.0f admitted, %d refused; the limit says %.0f", got, refused.Load(), want)
	}
}

func ask(web *http.Client, url, key string) (status int, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
