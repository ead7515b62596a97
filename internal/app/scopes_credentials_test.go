package app_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// streamTokens is the operation that makes tokens for event streams.
const streamTokens = "/api/v1/auth/sse-tokens"

// Nothing that opens one door opens another: what is no key, or a key in the
// wrong place, is refused by every operation before anything else.
func TestWrongKindsOfCredentials(t *testing.T) {
	heavy(t)
	t.Parallel()
	n := start(t, modeltest.New(t, silent), embedding, searching(t))
	c := owned(t, n)
	c.id.TenantID = n.tenant()
	g := &gate{node: n, admin: n.admin(), tenant: c.id.TenantID, keys: map[string]string{}}
	expired := g.admin.key(g.tenant, authz.Owner, authz.Wildcard)
	g.admin.exec(`UPDATE api_keys SET expires_at = 1 WHERE key_id = ?`, expired.KeyID)
	hash := g.admin.query(`SELECT secret_hash FROM api_keys WHERE key_id = ?`, expired.KeyID)[0]["secret_hash"].([]byte)
	cursor := n.want(200, "GET", "/api/v1/agents?limit=1", nil)["cursor"].(string)
	user := n.want(200, "GET", "/api/v1/me", nil)["user"].(object)["user_id"].(string)

	bearers := map[string]string{
		"expired_key":        string(expired.RawKey),
		"hash_of_a_key":      base64.StdEncoding.EncodeToString(hash),
		"id_of_a_key":        c.ids["keyId"][0],
		"prefix_alone":       ownerKey[:13],
		"two_keys":           ownerKey + " " + ownerKey,
		"key_of_nobody":      "svc_aaaaaaaa_" + strings.Repeat("b", 32),
		"share_of_a_session": c.ids["shareId"][0],
		"cursor":             cursor,
		"user":               user,
		"tenant":             c.id.TenantID,
		"jwt":                "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIiwidGVuYW50X2lkIjoiMSJ9.",
		"uuid":               ident.New(),
		"code_of_a_mail":     "123456",
		"wildcard":           "*",
	}
	headers := map[string][]string{
		"basic":          {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("owner:"+ownerKey))},
		"no_scheme":      {"Authorization", ownerKey},
		"token_scheme":   {"Authorization", "Token " + ownerKey},
		"two_headers":    {"Authorization", "Bearer " + ownerKey, "Authorization", "Bearer " + ownerKey},
		"proxy":          {"Proxy-Authorization", "Bearer " + ownerKey},
		"other_cookie":   {"Cookie", "session=" + ownerKey},
		"key_as_session": {"Cookie", "svc_session=" + ownerKey},
		"key_in_another": {"X-Auth-Token", ownerKey},
	}
	for name, bearer := range bearers {
		headers["bearer_"+name] = []string{"Authorization", "Bearer " + bearer}
		headers["cookie_"+name] = []string{"Cookie", "svc_auth_token=" + strings.ReplaceAll(bearer, " ", "%20")}
	}
	operations := n.operations()
	streamToken := ""
	if slices.ContainsFunc(operations, func(op *operation) bool { return op.Path == streamTokens }) {
		streamToken = n.want(200, "POST", streamTokens, nil)["token"].(string)
	}
	for _, op := range operations {
		if op.Public {
			continue
		}
		t.Run(op.name(), func(t *testing.T) {
			for name, sent := range headers {
				r := g.knock(t, op, "", sent...)
				if op.isRefused(t, r, 401, "AUTH_ERROR"); t.Failed() {
					t.Fatalf("with %s", name)
				}
				if strings.Contains(string(r.raw), ownerKey[13:]) {
					t.Errorf("the answer to %s tells the key: %s", name, r.raw)
				}
			}
			if !op.takesKeyHeader() {
				op.isRefused(t, g.knock(t, op, "", "X-Api-Key", ownerKey), 401, "AUTH_ERROR")
			}
			if op.Method != http.MethodGet {
				op.isRefused(t, g.knock(t, op, "", "Cookie", "svc_auth_token="+ownerKey, "Sec-Fetch-Site", "cross-site"), 403, "FORBIDDEN")
				op.isRefused(t, g.knock(t, op, "", "Cookie", "svc_auth_token="+ownerKey, "Origin", "https://evil.example"), 403, "FORBIDDEN")
			}
			if !op.bytes { // nor where only Accept would make it count
				k := g.call(op)
				k.query.Set("token", ownerKey)
				quiet := g.as("")
				quiet.t = t
				op.isRefused(t, quiet.send(op.Method, k.target(), ""), 401, "AUTH_ERROR")
			}
			if streamToken != "" && !(op.streams && op.Method == http.MethodGet) {
				op.isRefused(t, g.knock(t, op, "", "Authorization", "Bearer "+streamToken), 403, "STREAM_TOKEN_ONLY")
			}
		})
	}
}

// takesKeyHeader says whether a key may come in x-api-key: on the messages
// routes alone.
func (o *operation) takesKeyHeader() bool { return strings.HasPrefix(o.Path, "/v1/messages") }
