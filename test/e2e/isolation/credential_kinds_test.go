package isolation

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// streamTokens is the operation that makes tokens for event streams.
const streamTokens = "/api/v1/auth/sse-tokens"

// Nothing that opens one door opens another: what is no key, or a key in the
// wrong place, is refused by every operation before anything else.
func TestWrongKindsOfCredentials(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.Embedding, apptest.WebSearch(t))
	c := contracttest.NewOwnCompany(t, n)
	c.Grant.TenantID = n.TenantID()
	g := &apptest.RoleKeys{Server: n, Admin: n.Admin(), Tenant: c.Grant.TenantID, Keys: map[string]string{}}
	expired := g.Admin.CreateKey(g.Tenant, authz.Owner, authz.Wildcard)
	g.Admin.Exec(`UPDATE api_keys SET expires_at = 1 WHERE key_id = ?`, expired.KeyID)
	hash := g.Admin.Query(`SELECT secret_hash FROM api_keys WHERE key_id = ?`, expired.KeyID)[0]["secret_hash"].([]byte)
	cursor := n.Expect(200, "GET", "/api/v1/agents?limit=1", nil)["cursor"].(string)
	user := n.Expect(200, "GET", "/api/v1/me", nil)["user"].(object)["user_id"].(string)

	bearers := map[string]string{
		"expired_key":        string(expired.RawKey),
		"hash_of_a_key":      base64.StdEncoding.EncodeToString(hash),
		"id_of_a_key":        c.IDs["keyId"][0],
		"prefix_alone":       apptest.OwnerKey[:13],
		"two_keys":           apptest.OwnerKey + " " + apptest.OwnerKey,
		"key_of_nobody":      "svc_aaaaaaaa_" + strings.Repeat("b", 32),
		"share_of_a_session": c.IDs["shareId"][0],
		"cursor":             cursor,
		"user":               user,
		"tenant":             c.Grant.TenantID,
		"jwt":                "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIiwidGVuYW50X2lkIjoiMSJ9.",
		"uuid":               ident.New(),
		"code_of_a_mail":     "123456",
		"wildcard":           "*",
	}
	headers := map[string][]string{
		"basic":          {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("owner:"+apptest.OwnerKey))},
		"no_scheme":      {"Authorization", apptest.OwnerKey},
		"token_scheme":   {"Authorization", "Token " + apptest.OwnerKey},
		"two_headers":    {"Authorization", "Bearer " + apptest.OwnerKey, "Authorization", "Bearer " + apptest.OwnerKey},
		"proxy":          {"Proxy-Authorization", "Bearer " + apptest.OwnerKey},
		"other_cookie":   {"Cookie", "session=" + apptest.OwnerKey},
		"key_as_session": {"Cookie", "svc_session=" + apptest.OwnerKey},
		"key_in_another": {"X-Auth-Token", apptest.OwnerKey},
	}
	for name, bearer := range bearers {
		headers["bearer_"+name] = []string{"Authorization", "Bearer " + bearer}
		headers["cookie_"+name] = []string{"Cookie", "svc_auth_token=" + strings.ReplaceAll(bearer, " ", "%20")}
	}
	operations := contracttest.Operations(n)
	// A stream token lasts a minute, the walk may last longer.
	var minted time.Time
	token := ""
	streamToken := func() string {
		if time.Since(minted) > 20*time.Second {
			minted, token = time.Now(), n.Expect(200, "POST", streamTokens, nil)["token"].(string)
		}
		return token
	}
	for _, op := range operations {
		if op.Public {
			continue
		}
		t.Run(op.TestName(), func(t *testing.T) {
			for name, sent := range headers {
				r := callWithout(g, t, op, "", sent...)
				if op.CheckRefusal(t, r, 401, "AUTH_ERROR"); t.Failed() {
					t.Fatalf("with %s", name)
				}
				if strings.Contains(string(r.Body), apptest.OwnerKey[13:]) {
					t.Errorf("the answer to %s tells the key: %s", name, r.Body)
				}
			}
			if !takesKeyHeader(op) {
				op.CheckRefusal(t, callWithout(g, t, op, "", "X-Api-Key", apptest.OwnerKey), 401, "AUTH_ERROR")
			}
			if op.Method != http.MethodGet {
				op.CheckRefusal(t, callWithout(g, t, op, "", "Cookie", "svc_auth_token="+apptest.OwnerKey, "Sec-Fetch-Site", "cross-site"), 403, "FORBIDDEN")
				op.CheckRefusal(t, callWithout(g, t, op, "", "Cookie", "svc_auth_token="+apptest.OwnerKey, "Origin", "https://evil.example"), 403, "FORBIDDEN")
			}
			if !op.AnswersFile { // nor where only Accept would make it count
				k := callOfUnknown(g, op)
				k.Query.Set("token", apptest.OwnerKey)
				quiet := g.WithKey("")
				quiet.T = t
				op.CheckRefusal(t, quiet.SendHeaders(op.Method, k.Target(), ""), 401, "AUTH_ERROR")
			}
			if !takesStreamTokens(op) && !(op.Streams && op.Method == http.MethodGet) {
				op.CheckRefusal(t, callWithout(g, t, op, "", "Authorization", "Bearer "+streamToken()), 403, "STREAM_TOKEN_ONLY")
			}
		})
	}
}

// takesStreamTokens reports whether an operation is one for pages, which hold stream
// tokens: of AG-UI and of the AI SDK.
func takesStreamTokens(o *contracttest.Operation) bool {
	return strings.HasPrefix(o.Path, "/agui/") || strings.HasPrefix(o.Path, "/api/v1/agents/{agentId}/ui")
}

// takesKeyHeader reports whether an operation accepts a key in x-api-key: only
// the messages routes do.
func takesKeyHeader(o *contracttest.Operation) bool { return strings.HasPrefix(o.Path, "/v1/messages") }
