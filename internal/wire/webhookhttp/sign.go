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

// The headers of deliveries, in the canonical form of net/http, so that setting
// them needs no conversion.
const (
	headerTimestamp = "X-Svc-Timestamp"
	headerV2        = "X-Svc-Signature-V2"
	headerV1        = "X-Svc-Signature"
	headerType      = "X-Svc-Event-Type"
	headerEvent     = "X-Svc-Event-Id"
	headerDelivery  = "X-Svc-Delivery-Id"
)

// secretPrefix begins the secrets of subscriptions.
const secretPrefix = "whsec_"

// signedHeader returns the headers of a request: its media type, when it was
// signed, and both signatures if there is a secret. Their key is the secret as it
// is written, prefix included.
func signedHeader(body []byte, secret string, at time.Time) http.Header {
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

// addStandardHeaders adds the three headers of Standard Webhooks. The key of their
// signature is the bytes that the secret encodes.
func addStandardHeaders(h http.Header, id string, body []byte, secret string, at time.Time) {
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil {
		return // a secret of another form cannot sign these
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
