package webhookhttp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of section 6, spelled as net/http keeps them, so that setting
// them looks nothing up.
const (
	headerTimestamp = "X-Svc-Timestamp"
	headerV2        = "X-Svc-Signature-V2"
	headerV1        = "X-Svc-Signature"
	headerType      = "X-Svc-Event-Type"
	headerEvent     = "X-Svc-Event-Id"
	headerDelivery  = "X-Svc-Delivery-Id"
)

// whsec begins the secrets of subscriptions.
const whsec = "whsec_"

// head makes the headers of a request: what it is, when it was signed, and,
// where there is a secret, both signatures (interface.md section 6). They are
// keyed with the secret as it is written.
func head(body []byte, secret string, at time.Time) http.Header {
	ms := strconv.AppendInt(make([]byte, 0, 20), at.UnixMilli(), 10)
	stamp := string(ms)
	h := make(http.Header, 16)
	h["Content-Type"] = []string{"application/json"}
	h["User-Agent"] = []string{"agentd"}
	h[headerTimestamp] = []string{stamp}
	if secret == "" {
		return h
	}
	key := []byte(secret)
	h[headerV2] = []string{"t=" + stamp + ",v1=sha256=" + hex.EncodeToString(sum(key, ms, []byte{'.'}, body))}
	h[headerV1] = []string{"sha256=" + hex.EncodeToString(sum(key, body))}
	return h
}

// standard adds the three headers of Standard Webhooks. They are keyed with the
// bytes that the secret spells (decisions.md D13).
func standard(h http.Header, id string, body []byte, secret string, at time.Time) {
	encoded, ok := strings.CutPrefix(secret, whsec)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return // a secret of another form has no signature of this one
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	h["Webhook-Id"] = []string{id}
	h["Webhook-Timestamp"] = []string{stamp}
	h["Webhook-Signature"] = []string{"v1," + base64.StdEncoding.EncodeToString(sum(key, []byte(id+"."+stamp+"."), body))}
}

func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}
