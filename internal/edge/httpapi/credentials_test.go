package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	w := start(t)
	show, events, file := "/api/v1/toys/"+toyID, "/api/v1/toys/"+toyID+"/events", "/api/v1/files/"+toyID+"/content"
	sse := "text/event-stream"
	type headers map[string]string
	tests := map[string]struct {
		method, path string
		headers      headers
		status       int
	}{
		"bearer":                             {"GET", show, headers{"Authorization": "Bearer " + ownerKey}, 200},
		"scheme in any case":                 {"GET", show, headers{"Authorization": "bEARER " + ownerKey}, 200},
		"other scheme":                       {"GET", show, headers{"Authorization": "Basic " + ownerKey}, 401},
		"no scheme":                          {"GET", show, headers{"Authorization": ownerKey}, 401},
		"empty token":                        {"GET", show, headers{"Authorization": "Bearer "}, 401},
		"unknown key":                        {"GET", show, headers{"Authorization": "Bearer svc_x"}, 401},
		"oversized":                          {"GET", show, headers{"Authorization": "Bearer " + strings.Repeat("a", 2000)}, 401},
		"nothing":                            {"GET", show, nil, 401},
		"cookie":                             {"GET", show, headers{"Cookie": "a=b; svc_auth_token=" + ownerKey}, 200},
		"other cookie":                       {"GET", show, headers{"Cookie": "token=" + ownerKey}, 401},
		"wrong header before right cookie":   {"GET", show, headers{"Authorization": "Bearer x", "Cookie": "svc_auth_token=" + ownerKey}, 401},
		"right header before wrong cookie":   {"GET", show, headers{"Authorization": "Bearer " + ownerKey, "Cookie": "svc_auth_token=x"}, 200},
		"x-api-key where it is not taken":    {"GET", show, headers{"X-Api-Key": ownerKey}, 401},
		"query token on a plain read":        {"GET", show + "?token=" + ownerKey, nil, 401},
		"query token, accept, plain read":    {"GET", show + "?token=" + ownerKey, headers{"Accept": sse}, 401},
		"query token on a stream, no accept": {"GET", events + "?token=" + ownerKey, nil, 401},
		"wrong cookie before query token":    {"GET", events + "?token=" + ownerKey, headers{"Accept": sse, "Cookie": "svc_auth_token=x"}, 401},
		"wrong query token":                  {"GET", events + "?token=x", headers{"Accept": sse}, 401},
		"query token on a download":          {"GET", file + "?token=" + ownerKey, nil, 200},
		"cookie write of our pages": {
			"POST",
			show + "/stop",
			headers{"Cookie": "svc_auth_token=" + ownerKey, "Sec-Fetch-Site": "same-origin"},
			200,
		},
		"cookie write from elsewhere": {
			"POST",
			show + "/stop",
			headers{"Cookie": "svc_auth_token=" + ownerKey, "Sec-Fetch-Site": "cross-site"},
			403,
		},
		"cookie write of an older browser": {
			"POST",
			show + "/stop",
			headers{"Cookie": "svc_auth_token=" + ownerKey, "Origin": "https://evil.example"},
			403,
		},
		"cookie write of no browser": {"POST", show + "/stop", headers{"Cookie": "svc_auth_token=" + ownerKey}, 200},
		"cookie read from elsewhere": {
			"GET",
			show,
			headers{"Cookie": "svc_auth_token=" + ownerKey, "Sec-Fetch-Site": "cross-site"},
			200,
		},
		"bearer write from elsewhere": {
			"POST",
			show + "/stop",
			headers{"Authorization": "Bearer " + ownerKey, "Sec-Fetch-Site": "cross-site"},
			200,
		},
		"missing scope":                       {"POST", show + "/stop", headers{"Authorization": "Bearer " + readerKey}, 403},
		"role too low":                        {"GET", "/api/v1/admin", headers{"Authorization": "Bearer " + readerKey}, 403},
		"scope is checked before the id":      {"DELETE", "/api/v1/toys/7", headers{"Authorization": "Bearer " + readerKey}, 403},
		"credential is checked before the id": {"GET", "/api/v1/toys/7", nil, 401},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, body := w.call(t, tt.method, tt.path, "", func(r *http.Request) {
				r.Header.Del("Authorization")
				for name, value := range tt.headers {
					r.Header.Set(name, value)
				}
			})
			if res.StatusCode != tt.status {
				t.Fatalf("got %d %s", res.StatusCode, body)
			}
			if tt.status < 400 {
				return
			}
			doc := problemOf(t, res, body)
			if tt.status != 401 {
				return
			}
			if doc["code"] != "AUTH_ERROR" || res.Header.Get("WWW-Authenticate") != `Bearer realm="svc"` ||
				!strings.Contains(doc["detail"].(string), "svc_session") {
				t.Errorf("%v %s", res.Header, body)
			}
		})
	}
}

func TestTwoAuthorizationHeaders(t *testing.T) {
	t.Parallel()
	w := start(t)
	res, _ := w.call(t, "GET", "/api/v1/toys/"+toyID, "", func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+ownerKey) })
	if res.StatusCode != 401 {
		t.Errorf("got %d", res.StatusCode)
	}
}

func TestMissingScopeIsNamed(t *testing.T) {
	t.Parallel()
	w := start(t)
	res, body := w.call(t, "POST", "/api/v1/toys", `{`, header("Authorization", "Bearer "+readerKey))
	if doc := problemOf(t, res, body); doc["code"] != "MISSING_SCOPE" || !strings.Contains(body, "agents:write") {
		t.Errorf("%s", body)
	}
	res, body = w.call(t, "GET", "/api/v1/admin", "", header("Authorization", "Bearer "+readerKey))
	if doc := problemOf(t, res, body); doc["code"] != "FORBIDDEN" {
		t.Errorf("%s", body)
	}
}

func TestCallerMethod(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, body := w.call(t, "GET", "/api/v1/admin", "")
	if body != `"api_key"` {
		t.Errorf("by header: %s", body)
	}
	_, body = w.call(t, "GET", "/api/v1/admin", "", header("Authorization", ""), header("Cookie", "svc_auth_token="+ownerKey))
	if body != `"cookie"` {
		t.Errorf("by cookie: %s", body)
	}
}

func TestAuthenticatorThatIsDown(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.keys.down = true
	res, body := w.call(t, "GET", "/api/v1/toys/"+toyID, "")
	if problemOf(t, res, body); res.StatusCode != 503 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

func TestOwnPublicURLIsTheSameOrigin(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.PublicURL = "https://agents.example.com" })
	res, body := w.call(t, "POST", "/api/v1/toys/"+toyID+"/stop", "", header("Authorization", ""),
		header("Cookie", "svc_auth_token="+ownerKey), header("Origin", "https://agents.example.com"))
	if res.StatusCode != 200 || res.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%d %s %v", res.StatusCode, body, res.Header)
	}
	if _, err := New(Config{PublicURL: "agents"}); err == nil {
		t.Error("a public URL that is none was taken")
	}
}

func TestRawRoutes(t *testing.T) {
	t.Parallel()
	w := start(t)
	tests := map[string]struct {
		body   string
		change func(*http.Request)
		status int
		want   string
	}{
		"x-api-key": {`{"a":1}`, func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Header.Set("x-api-key", ownerKey)
		}, 200, `{"bytes":7,"user":"u1"}`},
		"Authorization decides": {
			`{}`,
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer x"); r.Header.Set("x-api-key", ownerKey) },
			401,
			`{"error":{"code":"AUTH_ERROR"`,
		},
		"own envelope for scopes": {`{}`, header("Authorization", "Bearer "+readerKey), 403, `{"error":{"code":"MISSING_SCOPE"`},
		"own envelope for media":  {`{}`, header("Content-Type", "text/plain"), 415, `{"error":{"code":"UNSUPPORTED_MEDIA_TYPE"`},
		"own envelope for length": {`{}`, unknownLength, 411, `{"error":{"code":"LENGTH_REQUIRED"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, body := w.call(t, "POST", "/v1/messages", tt.body, tt.change)
			if res.StatusCode != tt.status || !strings.HasPrefix(body, tt.want) {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			if tt.status == 401 && res.Header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
			if res.Header.Get("X-API-Version") == "" || res.Header.Get("X-Request-Id") == "" {
				t.Errorf("the chain was left out: %v", res.Header)
			}
		})
	}
	if _, body := w.call(t, "GET", "/api/v1/files/a%20b/content", ""); body != "file a b" {
		t.Errorf("path parameter: %s", body)
	}
}
