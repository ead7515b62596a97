package captcha_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"agentd/internal/wire/captcha"
	"agentd/internal/wire/outbound"
)

func TestVerify(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"solved": `{"success":true,"hostname":"example.com"}`, "wrong": `{"success":false,"error-codes":["invalid-input-response"]}`,
		"broken": `<html>`, "other": `{"success":"yes"}`,
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.PostFormValue("secret") != "s3cret" || r.PostFormValue("remoteip") != "192.0.2.1" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, answers[r.PostFormValue("response")])
	}))
	defer service.Close()
	allow, err := outbound.ParseAllow(netip.MustParseAddrPort(service.Listener.Addr().String()).String())
	if err != nil {
		t.Fatal(err)
	}
	client := outbound.New(outbound.Config{Allow: allow})
	defer client.Close()
	v := captcha.Verifier{Client: client}
	for _, tt := range []struct {
		answer, secret string
		solved, fails  bool
	}{
		{"solved", "s3cret", true, false}, {"wrong", "s3cret", false, false}, {"broken", "s3cret", false, true},
		{"other", "s3cret", false, true}, {"solved", "another", false, true},
	} {
		solved, err := v.Verify(t.Context(), service.URL, tt.secret, tt.answer, "192.0.2.1")
		if solved != tt.solved || err != nil != tt.fails {
			t.Errorf("%s with %s: %t, %v", tt.answer, tt.secret, solved, err)
		}
	}
	guarded := outbound.New(outbound.Config{})
	defer guarded.Close()
	if _, err := (captcha.Verifier{Client: guarded}).Verify(t.Context(), service.URL, "s3cret", "solved", ""); !outbound.IsDenied(err) {
		t.Errorf("a private address that is not allowed: %v", err)
	}
}
