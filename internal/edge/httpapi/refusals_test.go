package httpapi

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/route"
)

const (
	showPath   = "/api/v1/toys/" + toyID
	stopPath   = showPath + "/stop"
	filePath   = "/api/v1/files/" + toyID + "/content"
	socketPath = "/api/v1/socket"
	factorPath = "/api/v1/factor"
)

// asked is a request by its headers, which may hold what a client library
// would not send.
type asked struct {
	name, method, path string
	headers            []string // names and values in turn
	status             int
	code               string // of the refusal
}

func bearer(key string) []string { return []string{"Authorization", "Bearer " + key} }

// ask passes a request through the chain, without a network that would
// correct or refuse an invalid one.
func (w *world) ask(a asked) *httptest.ResponseRecorder {
	r := httptest.NewRequest(a.method, a.path, nil)
	for i := 0; i+1 < len(a.headers); i += 2 {
		name := http.CanonicalHeaderKey(a.headers[i])
		r.Header[name] = append(r.Header[name], a.headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.edge.ServeHTTP(rec, r)
	return rec
}

// Whatever comes as a credential gets one exact answer.
func TestCredentialsOfEveryKind(t *testing.T) {
	t.Parallel()
	w := start(t)
	close(w.frames) // streams that open end at once
	const sse = "text/event-stream"
	socket := []string{"Connection", "keep-alive, Upgrade", "Upgrade", "websocket"}
	offer := func(protocols ...string) (h []string) {
		for _, p := range protocols {
			h = append(h, "Sec-WebSocket-Protocol", p)
		}
		return append(h, socket...)
	}
	encoded := "svc." + base64.StdEncoding.EncodeToString([]byte(ownerKey))
	session, keyed := "svc_session="+browser, "svc_auth_token="+ownerKey

	for _, tt := range []asked{
		// Malformed keys.
		{"one character too many", "GET", showPath, bearer(ownerKey + "0"), 401, "AUTH_ERROR"},
		{"one character too few", "GET", showPath, bearer(ownerKey[:len(ownerKey)-1]), 401, "AUTH_ERROR"},
		{"very long", "GET", showPath, bearer(strings.Repeat("a", 60_000)), 401, "AUTH_ERROR"},
		{"a control character", "GET", showPath, bearer(ownerKey + "\x00"), 401, "AUTH_ERROR"},
		{"a line break", "GET", showPath, bearer(ownerKey[:20] + "\n" + ownerKey[20:]), 401, "AUTH_ERROR"},
		{"unicode digits", "GET", showPath, bearer("svc_owner000_" + strings.Repeat("０", 32)), 401, "AUTH_ERROR"},
		{"no UTF-8", "GET", showPath, bearer("svc_\xff\xfe"), 401, "AUTH_ERROR"},
		{"percent encoded", "GET", showPath, bearer("svc%5fowner000%5f00000000000000000000000000000000"), 401, "AUTH_ERROR"},
		{"in quotes", "GET", showPath, bearer(`"` + ownerKey + `"`), 401, "AUTH_ERROR"},
		{"empty Bearer", "GET", showPath, bearer(""), 401, "AUTH_ERROR"},
		{"Bearer alone", "GET", showPath, []string{"Authorization", "Bearer"}, 401, "AUTH_ERROR"},
		{"Bearer and a tab", "GET", showPath, []string{"Authorization", "Bearer\t" + ownerKey}, 401, "AUTH_ERROR"},
		{"empty header", "GET", showPath, []string{"Authorization", ""}, 401, "AUTH_ERROR"},
		{"Basic", "GET", showPath, []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("api:"+ownerKey))}, 401, "AUTH_ERROR"},
		{"Digest", "GET", showPath, []string{"Authorization", `Digest username="x"`}, 401, "AUTH_ERROR"},
		{"key without a scheme", "GET", showPath, []string{"Authorization", ownerKey}, 401, "AUTH_ERROR"},
		{"two headers", "GET", showPath, append(bearer(ownerKey), bearer(ownerKey)...), 401, "AUTH_ERROR"},
		{"two headers, the second empty", "GET", showPath, append(bearer(ownerKey), "Authorization", ""), 401, "AUTH_ERROR"},
		{"joined by a comma", "GET", showPath, bearer(ownerKey + ", Bearer " + ownerKey), 401, "AUTH_ERROR"},
		{"two keys and a blank", "GET", showPath, bearer(ownerKey + " " + ownerKey), 401, "AUTH_ERROR"},
		{"session as Bearer", "GET", showPath, bearer(browser), 401, "AUTH_ERROR"},
		{"session as the key cookie", "GET", showPath, []string{"Cookie", "svc_auth_token=" + browser}, 401, "AUTH_ERROR"},
		{"two x-api-key", "POST", "/v1/messages", []string{"X-Api-Key", ownerKey, "X-Api-Key", ownerKey}, 401, "AUTH_ERROR"},
		{"session as x-api-key", "POST", "/v1/messages", []string{"X-Api-Key", browser}, 401, "AUTH_ERROR"},

		// Browser sessions.
		{"session", "GET", showPath, []string{"Cookie", session}, 200, ""},
		{"session in quotes", "GET", showPath, []string{"Cookie", `svc_session="` + browser + `"`}, 200, ""},
		{"session among many cookies", "GET", showPath, []string{"Cookie", strings.Repeat("a=b; ", 500) + session}, 200, ""},
		{"session in a second header", "GET", showPath, []string{"Cookie", "a=b", "Cookie", session}, 200, ""},
		{"session that ended", "GET", showPath, []string{"Cookie", "svc_session=svs_000000000000_00000000000000000000000000000000"}, 401, "AUTH_ERROR"},
		{"session twice", "GET", showPath, []string{"Cookie", session + "; " + session}, 401, "AUTH_ERROR"},
		{"session and another's", "GET", showPath, []string{"Cookie", session, "Cookie", "svc_session=svs_x"}, 401, "AUTH_ERROR"},
		{"empty session", "GET", showPath, []string{"Cookie", "svc_session="}, 401, "AUTH_ERROR"},
		{"huge session", "GET", showPath, []string{"Cookie", "svc_session=" + strings.Repeat("a", 60_000)}, 401, "AUTH_ERROR"},
		{"percent encoded session", "GET", showPath, []string{"Cookie", "svc_session=svs%5fbrowser"}, 401, "AUTH_ERROR"},
		{"session in the name's other case", "GET", showPath, []string{"Cookie", "SVC_SESSION=" + browser}, 401, "AUTH_ERROR"},
		{"key as a session", "GET", showPath, []string{"Cookie", "svc_session=" + ownerKey}, 401, "AUTH_ERROR"},
		{"stream token as a session", "GET", eventsPath, []string{"Cookie", "svc_session=" + streamKey, "Accept", sse}, 401, "AUTH_ERROR"},
		{"session and a wrong key", "GET", showPath, []string{"Cookie", session + "; svc_auth_token=x"}, 200, ""},
		{"wrong session and a key", "GET", showPath, []string{"Cookie", "svc_session=x; " + keyed}, 401, "AUTH_ERROR"},
		{"key cookie twice", "GET", showPath, []string{"Cookie", keyed + "; " + keyed}, 401, "AUTH_ERROR"},
		{"key cookie in quotes", "GET", showPath, []string{"Cookie", `svc_auth_token="` + ownerKey + `"`}, 200, ""},
		{"header before session", "GET", "/api/v1/admin", append(bearer(readerKey), "Cookie", session), 403, "FORBIDDEN"},
		{"wrong header before session", "GET", showPath, append(bearer("x"), "Cookie", session), 401, "AUTH_ERROR"},
		{"session before query", "GET", eventsPath + "?token=x", []string{"Cookie", session, "Accept", sse}, 200, ""},
		{"session where no stream", "GET", showPath, []string{"Cookie", session, "Sec-Fetch-Site", "cross-site"}, 200, ""},

		// Second factors.
		{"half open", "GET", showPath, []string{"Cookie", "svc_session=" + halfOpen}, 401, "mfa_required"},
		{"half open write", "POST", stopPath, []string{"Cookie", "svc_session=" + halfOpen}, 401, "mfa_required"},
		{"half open stream", "GET", eventsPath, []string{"Cookie", "svc_session=" + halfOpen}, 401, "mfa_required"},
		{"half open to its factor", "POST", factorPath, []string{"Cookie", "svc_session=" + halfOpen}, 200, ""},
		{"half open to its factor from elsewhere", "POST", factorPath, []string{"Cookie", "svc_session=" + halfOpen, "Sec-Fetch-Site", "cross-site"}, 403, "FORBIDDEN"},
		{"whole to that place", "POST", factorPath, []string{"Cookie", session}, 200, ""},

		// Other sites.
		{"write of our pages", "POST", stopPath, []string{"Cookie", session, "Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"write by the address bar", "POST", stopPath, []string{"Cookie", session, "Sec-Fetch-Site", "none"}, 200, ""},
		{"write of another site", "POST", stopPath, []string{"Cookie", session, "Sec-Fetch-Site", "cross-site"}, 403, "FORBIDDEN"},
		{"write of a sister site", "POST", stopPath, []string{"Cookie", session, "Sec-Fetch-Site", "same-site"}, 403, "FORBIDDEN"},
		{"write of another origin", "POST", stopPath, []string{"Cookie", session, "Origin", "https://evil.example"}, 403, "FORBIDDEN"},
		{"write of no origin", "POST", stopPath, []string{"Cookie", session, "Origin", "null"}, 403, "FORBIDDEN"},
		{"write of our origin", "POST", stopPath, []string{"Cookie", session, "Origin", "https://example.com"}, 200, ""},
		{"deletion of another site", "DELETE", showPath, []string{"Cookie", session, "Sec-Fetch-Site", "cross-site"}, 403, "FORBIDDEN"},
		{"wrong session of another site", "POST", stopPath, []string{"Cookie", "svc_session=x", "Sec-Fetch-Site", "cross-site"}, 403, "FORBIDDEN"},
		{"key and cookie of another site", "POST", stopPath, append(bearer(ownerKey), "Cookie", session, "Sec-Fetch-Site", "cross-site"), 200, ""},

		// Query tokens.
		{"query on a read", "GET", showPath + "?token=" + ownerKey, nil, 401, "AUTH_ERROR"},
		{"query on a write", "POST", stopPath + "?token=" + ownerKey, []string{"Accept", sse}, 401, "AUTH_ERROR"},
		{"query on a stream", "GET", eventsPath + "?token=" + ownerKey, []string{"Accept", sse}, 200, ""},
		{"several in the query", "GET", eventsPath + "?token=" + ownerKey + "&token=" + ownerKey, []string{"Accept", sse}, 401, "AUTH_ERROR"},
		{"an empty one before it", "GET", eventsPath + "?token=&token=" + ownerKey, []string{"Accept", sse}, 401, "AUTH_ERROR"},
		{"empty in the query", "GET", eventsPath + "?token=", []string{"Accept", sse}, 401, "AUTH_ERROR"},
		{"another case in the query", "GET", eventsPath + "?Token=" + ownerKey, []string{"Accept", sse}, 401, "AUTH_ERROR"},
		{"query on a download", "GET", filePath + "?token=" + ownerKey, nil, 200, ""},
		{"several on a download", "GET", filePath + "?token=" + ownerKey + "&token=x", nil, 401, "AUTH_ERROR"},
		{"query on HEAD", "HEAD", filePath + "?token=" + ownerKey, nil, 401, ""},
		{"session in the query", "GET", eventsPath + "?token=" + browser, []string{"Accept", sse}, 401, "AUTH_ERROR"},

		// Stream tokens.
		{"stream token in the query", "GET", eventsPath + "?token=" + streamKey, []string{"Accept", sse}, 200, ""},
		{"stream token in the header", "GET", eventsPath, bearer(streamKey), 200, ""},
		{"stream token in the cookie", "GET", eventsPath, []string{"Cookie", "svc_auth_token=" + streamKey}, 200, ""},
		{"stream token on a read", "GET", showPath, bearer(streamKey), 403, "STREAM_TOKEN_ONLY"},
		{"stream token on a read without scopes", "GET", "/api/v1/names/x", bearer(streamKey), 403, "STREAM_TOKEN_ONLY"},
		{"stream token on a write", "POST", stopPath, bearer(streamKey), 403, "STREAM_TOKEN_ONLY"},
		{"stream token cookie on a write", "POST", stopPath, []string{"Cookie", "svc_auth_token=" + streamKey}, 403, "STREAM_TOKEN_ONLY"},
		{"stream token on HEAD of a stream", "HEAD", eventsPath, bearer(streamKey), 403, ""},
		{"stream token on a download", "GET", filePath + "?token=" + streamKey, nil, 403, "STREAM_TOKEN_ONLY"},
		{"stream token on a streamed write", "POST", "/v1/stream", bearer(streamKey), 403, "STREAM_TOKEN_ONLY"},
		{"stream token as x-api-key", "POST", "/v1/messages", []string{"X-Api-Key", streamKey}, 403, "STREAM_TOKEN_ONLY"},
		{"stream token on a socket", "GET", socketPath + "?token=" + streamKey, socket, 403, "STREAM_TOKEN_ONLY"},
		{"unknown stream token", "POST", stopPath, bearer("svt_x"), 401, "AUTH_ERROR"},

		// WebSockets.
		{"socket by header", "GET", socketPath, append(bearer(ownerKey), socket...), 200, ""},
		{"socket by subprotocol", "GET", socketPath, offer(encoded), 200, ""},
		{"socket by subprotocol, bare", "GET", socketPath, offer(strings.TrimRight(encoded, "=")), 200, ""},
		{"socket by one of a list", "GET", socketPath, offer("bridge.v1, "+encoded, "other"), 200, ""},
		{"socket by query", "GET", socketPath + "?token=" + ownerKey, socket, 200, ""},
		{"socket by session", "GET", socketPath, append([]string{"Cookie", session, "Sec-Fetch-Site", "same-origin"}, socket...), 200, ""},
		{"socket of another site", "GET", socketPath, append([]string{"Cookie", session, "Origin", "https://evil.example"}, socket...), 403, "FORBIDDEN"},
		{"key of another site's socket", "GET", socketPath, append([]string{"Cookie", keyed, "Sec-Fetch-Site", "cross-site"}, socket...), 403, "FORBIDDEN"},
		{"subprotocol of another site", "GET", socketPath, append([]string{"Cookie", session, "Origin", "https://app.example"}, offer(encoded)...), 200, ""},
		{"two subprotocols with keys", "GET", socketPath, offer(encoded, encoded), 401, "AUTH_ERROR"},
		{"subprotocol that is no base64", "GET", socketPath, append([]string{"Cookie", session}, offer("svc.!")...), 401, "AUTH_ERROR"},
		{"subprotocol without a key", "GET", socketPath, offer("svc."), 401, "AUTH_ERROR"},
		{"session as a subprotocol", "GET", socketPath, offer("svc." + base64.StdEncoding.EncodeToString([]byte(browser+"x"))), 401, "AUTH_ERROR"},
		{"other subprotocol", "GET", socketPath, offer("bridge.v1"), 401, "AUTH_ERROR"},
		{"subprotocol without an upgrade", "GET", socketPath, []string{"Sec-WebSocket-Protocol", encoded}, 401, "AUTH_ERROR"},
		{"query without an upgrade", "GET", socketPath + "?token=" + ownerKey, nil, 401, "AUTH_ERROR"},
		{"subprotocol where nothing upgrades", "GET", showPath, offer(encoded), 401, "AUTH_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rec := w.ask(tt)
			if rec.Code != tt.status {
				t.Fatalf("got %d %s", rec.Code, rec.Body)
			}
			if got := rec.Header().Get("WWW-Authenticate"); (got == `Bearer realm="svc"`) != (tt.status == 401) {
				t.Errorf("WWW-Authenticate %q", got)
			}
			if tt.code == "" {
				return
			}
			var doc struct {
				Code  string `json:"code"`
				Error struct {
					Code string `json:"code"`
				} `json:"error"`
				Required bool   `json:"mfa_required"`
				Reason   string `json:"reason"`
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil || doc.Code+doc.Error.Code != tt.code {
				t.Errorf("got %s (%v)", rec.Body, err)
			}
			if (tt.code == "mfa_required") != doc.Required || doc.Required != (doc.Reason == "stale") {
				t.Errorf("the second factor: %s", rec.Body)
			}
			for _, secret := range []string{"00000000000000000000000000000000", "svt_", "svs_"} {
				if strings.Contains(rec.Body.String(), secret) {
					t.Errorf("the refusal repeats the credential: %s", rec.Body)
				}
			}
		})
	}
}

// A browser is sent its cookie again when the session says so, and never in
// place of the answer.
func TestSessionCookieIsRenewed(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.PublicURL = "https://agents.example.com" })
	for token, want := range map[string]string{
		browser:    "",
		oldBrowser: "__Host-svc_session=" + oldBrowser + "; Path=/; Max-Age=7776000; HttpOnly; Secure; SameSite=Lax",
	} {
		rec := w.ask(asked{method: "GET", path: showPath, headers: []string{"Cookie", "svc_session=" + token}})
		if got := rec.Header().Get("Set-Cookie"); got != want || rec.Code != 200 {
			t.Errorf("%d, cookie %q", rec.Code, got)
		}
	}
}

// Under https the cookie has a name that no other host can set. The one of before
// opens its session until that ends, and not where the new one is sent too.
func TestSessionCookieHasThePrefixOfItsHost(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *Config) { c.TLS = true })
	for cookie, want := range map[string]int{
		"__Host-svc_session=" + browser:                         200,
		"svc_session=" + browser:                                200,
		"svc_session=svs_x; __Host-svc_session=" + browser:      200,
		"svc_session=" + browser + "; __Host-svc_session=svs_x": 401,
		"__Host-svc_auth_token=" + ownerKey:                     401,
	} {
		if rec := w.ask(asked{method: "GET", path: showPath, headers: []string{"Cookie", cookie}}); rec.Code != want {
			t.Errorf("%s: %d, want %d", cookie, rec.Code, want)
		}
	}
	rec := httptest.NewRecorder()
	(&operation{https: true}).setCookie(rec, &route.Cookie{Name: sessionCookie})
	if got := strings.Join(rec.Header().Values("Set-Cookie"), "\n"); strings.Count(got, "Max-Age=0") != 2 || !strings.Contains(got, "\n__Host-svc_session=;") {
		t.Errorf("signing out leaves a cookie: %s", got)
	}
}

// However many streams a credential opened, in whatever way, it is looked up
// once; a stream by a token lives as long as what made the token.
func TestStreamsAreCheckedByWhoOpenedThem(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, headers := range [][2]string{
		{"Authorization", "Bearer " + ownerKey}, {"Authorization", "Bearer " + streamKey}, {"Cookie", "svc_auth_token=" + ownerKey},
		{"Cookie", "svc_session=" + browser},
	} {
		w.stream(t, eventsPath, header("Authorization", ""), header(headers[0], headers[1]))
	}
	groups := w.edge.streams.byCredential()
	if len(groups) != 2 || len(groups[credentialKey{"t1", "u1", "k1", ""}]) != 3 || len(groups[credentialKey{"t1", "u1", "", "s1"}]) != 1 {
		t.Errorf("groups %v", groups)
	}
	w.keys.revoke(ownerKey)
	w.edge.streams.checkAll(nil)
	w.keys.mu.Lock()
	defer w.keys.mu.Unlock()
	if w.keys.checks != 2 {
		t.Errorf("%d look-ups", w.keys.checks)
	}
	for who, same := range groups {
		for _, st := range same {
			if ended := st.Context().Err() != nil; ended != (who.session == "") {
				t.Errorf("a stream of %+v ended: %v", who, ended)
			}
		}
	}
}

// A path with an empty part is mostly a variable of a shell that is not set.
func TestEmptyPartsOfPathsAreNamed(t *testing.T) {
	t.Parallel()
	w := start(t)
	for path, named := range map[string]bool{
		"/api/v1/toys/": true, "/api/v1//toys": true, "/api/v1/nothing": false, "/": false,
	} {
		res, body := w.call(t, "GET", path, "")
		if got := strings.Contains(body, "a part of which is empty"); res.StatusCode != 404 || got != named {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}
