package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/idempotency"
	"agentd/internal/store/idempotencysql"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A row that is Attached has its effect once, and answers repetitions from the
// place that the first one told.
func TestAttached(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.Engines[0])
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	keeper := idempotency.NewManager(idempotency.Config{Store: idempotencysql.New(db), Writer: db, Box: box, Clock: clock.NewFake(), Log: slog.New(slog.DiscardHandler)})
	var effects atomic.Int64
	var wrong atomic.Bool
	raw := Raw{
		Row: route.Row{Method: "POST", Path: "/v1/attached", ID: "attach", Repeats: true}, ReplayByRef: true,
		Serve: func(w http.ResponseWriter, r *http.Request, _ authz.Caller) error {
			_, release, err := ReadBody(r)
			release()
			if err != nil {
				return err
			}
			place := ""
			err = db.Write(r.Context(), func(tx txn.Tx) error {
				if wrong.Load() {
					return fault.New(fault.Invalid, "WRONG", "It is wrong today.")
				}
				place = fmt.Sprint("place ", effects.Add(1))
				return txn.Answer(tx, ResultRef(place))
			})
			if err != nil {
				before, err := EarlierResult(w, r, err)
				if err != nil {
					return err
				}
				place = "again " + string(before)
			}
			return JSON(w, 200, place)
		},
	}
	w := start(t, func(c *Config) {
		c.Raw, c.Idempotency, c.RepeatWait = append(c.Raw, raw), keeper, 50*time.Millisecond
	})
	post := func(body string, keys ...string) (*http.Response, string) {
		return w.call(t, "POST", "/v1/attached", body, func(r *http.Request) {
			for _, key := range keys {
				r.Header.Add(keyHeader, key)
			}
		})
	}
	for i, tt := range []struct {
		body     string
		keys     []string
		wrong    bool
		status   int
		says     string
		replayed bool
	}{
		{`{}`, nil, false, 200, `"place 1"`, false},
		{`{}`, []string{"a"}, false, 200, `"place 2"`, false},
		{`{}`, []string{"a"}, false, 200, `"again place 2"`, true},
		{`{}`, []string{"b"}, true, 422, "WRONG", false},
		{`{}`, []string{"b"}, false, 200, `"place 3"`, false}, // a refusal is not kept
		{`{}`, []string{"b"}, true, 200, `"again place 3"`, true},
		{`{ }`, []string{"a"}, false, 422, "IDEMPOTENCY_KEY_REUSED", false},
		{`{}`, []string{"a/b"}, false, 400, "INVALID_IDEMPOTENCY_KEY", false},
		{`{}`, []string{"a", "b"}, false, 400, "INVALID_IDEMPOTENCY_KEY", false},
	} {
		wrong.Store(tt.wrong)
		res, body := post(tt.body, tt.keys...)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.says) || (res.Header.Get(replayedHeader) == "true") != tt.replayed {
			t.Errorf("%d: %d %v %s", i, res.StatusCode, res.Header, body)
		}
	}

	who, err := w.keys.Authenticate(t.Context(), ownerKey)
	if err != nil {
		t.Fatal(err)
	}
	under, err := keeper.Begin(idempotency.Request{
		ID: idempotency.ID{Tenant: who.TenantID, Credential: who.KeyID, Key: "c"}, Target: idempotency.Target("POST", "/v1/attached"),
		Body: func(bool) (hash idempotency.Hash, ok bool) { return hash, false },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, body := post(`{}`, "c")
	if res.StatusCode != 503 || !strings.Contains(body, "request_in_progress") || res.Header.Get("Retry-After") != "1" {
		t.Errorf("while the first one has no place yet: %d %v %s", res.StatusCode, res.Header, body)
	}
	under.Close()
	if res, body := post(`{}`, "c"); res.StatusCode != 200 || body != `"place 4"` {
		t.Errorf("after it was given up: %d %s", res.StatusCode, body)
	}
}
