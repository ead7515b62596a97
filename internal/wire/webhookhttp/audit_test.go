package webhookhttp_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/kernel/audit"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/webhookhttp"
)

func TestAuditReceiver(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
	status := 200
	var events []string
	siem := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var sent struct {
			Type    string       `json:"type"`
			EventID string       `json:"event_id"`
			Entries []audit.Line `json:"entries"`
		}
		if err := json.Unmarshal(body, &sent); err != nil || len(sent.Entries) != 2 || sent.Entries[1].TargetID != "two" || sent.Entries[1].Cursor == "" {
			t.Errorf("%s, %v", body, err)
		}
		stamp := r.Header.Get("X-SVC-Timestamp")
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "." + string(body)))
		if want := "t=" + stamp + ",v1=sha256=" + hex.EncodeToString(mac.Sum(nil)); r.Header.Get("X-SVC-Signature-V2") != want {
			t.Errorf("signature %q, want %q", r.Header.Get("X-SVC-Signature-V2"), want)
		}
		if r.Header.Get("X-SVC-Event-Type") != "audit.entries" || r.Header.Get("Webhook-Signature") == "" || r.Header.Get("X-SVC-Event-Id") != sent.EventID {
			t.Errorf("%v", r.Header)
		}
		events = append(events, sent.EventID)
		w.WriteHeader(status)
	}))
	defer siem.Close()
	client := outbound.New(webhookhttp.OperatorConfig())
	defer client.Close()
	r := webhookhttp.AuditReceiver{Caller: webhookhttp.Caller{Client: client, Clock: clock.NewFake()}, URL: siem.URL, Secret: secret}
	at := time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
	lines := []audit.Line{audit.LineOf(audit.Record{EntryID: "1", TargetID: "one", At: at}), audit.LineOf(audit.Record{EntryID: "2", TargetID: "two", At: at})}
	if err := r.Push(t.Context(), lines); err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{500, 302, 404} {
		if err := r.Push(t.Context(), lines); err == nil {
			t.Errorf("status %d is no error", status)
		}
	}
	if len(events) != 4 || strings.Join(events, "") != "1111" {
		t.Errorf("events %v", events)
	}
	r.URL = "http://169.254.169.254/"
	if err := r.Push(t.Context(), lines); err == nil {
		t.Error("a metadata service is called")
	}
}
