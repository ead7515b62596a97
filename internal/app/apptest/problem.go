package apptest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"
)

// CheckProblem fails unless an answer is a problem document that reveals nothing of
// the implementation (Internals).
func CheckProblem(t testing.TB, r Reply) {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q: %s", got, r.Body)
	}
	title := http.StatusText(r.StatusCode)
	switch r.StatusCode {
	case 413:
		title = "Payload Too Large"
	case 422:
		title = "Validation Error"
	}
	id := r.Header.Get("X-Request-Id")
	for field, want := range map[string]any{
		"type": "about:blank", "title": title, "status": float64(r.StatusCode), "correlation_id": id, "correlationId": id,
	} {
		if r.JSON[field] != want {
			t.Errorf("%s is %v, want %v: %s", field, r.JSON[field], want, r.Body)
		}
	}
	checkSentence(t, r, r.JSON)
	if r.JSON["code"] != "VALIDATION_ERROR" && r.JSON["errors"] != nil {
		t.Errorf("errors beside the code %v: %s", r.JSON["code"], r.Body)
	}
	CheckHeaders(t, r)
}

// CheckRPCError fails unless an answer is a JSON-RPC error of the MCP endpoint.
func CheckRPCError(t testing.TB, r Reply) {
	t.Helper()
	failure, _ := r.JSON["error"].(Object)
	if r.JSON["jsonrpc"] != "2.0" || failure["message"] == "" || failure["code"] == nil {
		t.Errorf("this is no JSON-RPC error: %d %s", r.StatusCode, r.Body)
	}
}

// CheckChatError fails unless an answer is an error in the envelope of the chat
// routes.
func CheckChatError(t testing.TB, r Reply) {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q: %s", got, r.Body)
	}
	var envelope struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	err := json.Unmarshal(r.Body, &envelope, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(true))
	if err != nil || envelope.Error.Type == "" {
		t.Errorf("no envelope: %v: %s", err, r.Body)
		return
	}
	doc := r.JSON["error"].(Object)
	checkSentence(t, r, Object{"detail": doc["message"], "code": doc["code"]})
	CheckHeaders(t, r)
}

// CheckMessagesError fails unless an answer is an error of the messages routes: in
// their envelope, or one of the errors that stay problem documents there.
func CheckMessagesError(t testing.TB, r Reply) {
	t.Helper()
	if r.Header.Get("Content-Type") == "application/problem+json" {
		code := r.JSON["code"]
		if code != "MISSING_SCOPE" && code != "FORBIDDEN" && r.StatusCode != 413 &&
			(r.StatusCode != 429 || r.Header.Get("X-RateLimit-Bucket") == "") {
			t.Errorf("a problem document for %d %v", r.StatusCode, code)
		}
		CheckProblem(t, r)
		return
	}
	var envelope struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	err := json.Unmarshal(r.Body, &envelope, json.RejectUnknownMembers(true))
	if err != nil || envelope.Type != "error" || envelope.RequestID != r.Header.Get("X-Request-Id") ||
		r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("no envelope: %v: %s", err, r.Body)
		return
	}
	if !slices.Contains([]string{"billing_error", MessagesErrorType(r.StatusCode)}, envelope.Error.Type) {
		t.Errorf("type %s with the status %d", envelope.Error.Type, r.StatusCode)
	}
	if len(envelope.Error.Message) < 10 {
		t.Errorf("the message is no sentence: %s", r.Body)
	}
	checkSentence(t, r, Object{"detail": "A" + envelope.Error.Message, "code": envelope.Error.Type})
	CheckHeaders(t, r)
}

// MessagesErrorType returns the error type in the messages envelope for a status.
func MessagesErrorType(status int) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 403:
		return "permission_error"
	case status == 429:
		return "rate_limit_error"
	case status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}

// checkSentence checks the detail and the code of an error, and that the answer
// reveals nothing of the implementation.
func checkSentence(t testing.TB, r Reply, doc Object) {
	t.Helper()
	detail, _ := doc["detail"].(string)
	if len(detail) < 10 || unicode.IsLower([]rune(detail)[0]) {
		t.Errorf("the detail is no sentence: %q", detail)
	}
	if code, _ := doc["code"].(string); code == "" {
		t.Errorf("there is no code: %s", r.Body)
	}
	if leak := Internals.Find(r.Body); leak != nil {
		t.Errorf("%q of our inside is in %s", leak, r.Body)
	}
	if r.StatusCode == 401 && r.Header.Get("WWW-Authenticate") != `Bearer realm="svc"` {
		t.Errorf("WWW-Authenticate is %q", r.Header.Get("WWW-Authenticate"))
	}
}

// Internals matches what no caller may see: SQL, paths and types of this program,
// and the error texts of its libraries and databases.
var Internals = regexp.MustCompile(`(?i:SELECT |INSERT INTO|UPDATE .* SET|WHERE |SQLSTATE|` +
	`sqlite|postgres|pgx|constraint|runtime error|nil pointer)|` +
	`\.go:\d|goroutine |panic|/internal/|/tmp/|/home/|/work/|/root/|jsontext|json: |sqldb|` +
	`\b(?:agent|run|identity|resource|schema|fault|commerce|httpapi|openai|engine|reflect|huma|time|url|http)\.[A-Z]|` +
	`map\[|interface \{|struct \{|\bu?int\d|\bfloat64\b|Go (?:type|struct)`)

// CheckHeaders fails unless an answer has the headers that every answer has.
func CheckHeaders(t testing.TB, r Reply) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Api-Version": "2026-09-10", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if id := r.Header.Get("X-Request-Id"); !requestID.MatchString(id) {
		t.Errorf("X-Request-Id is %q", id)
	}
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{7,127}$`)

// CheckCode fails unless an answer is a problem document with a status and a
// code; below /v1 it may be the error object of OpenAI or Anthropic with it.
func CheckCode(t testing.TB, r Reply, status int, code string) {
	t.Helper()
	_, ofFamily := r.JSON["error"]
	if path := r.Request.URL.Path; ofFamily && (path == "/v1" || strings.HasPrefix(path, "/v1/")) {
		checkFamilyCode(t, r, status, code)
		return
	}
	if r.StatusCode != status || r.JSON["code"] != code {
		t.Errorf("%s %s: %d %v, want %d %s: %s", r.Request.Method, r.Request.URL.Path, r.StatusCode, r.JSON["code"], status, code, r.Body)
		return
	}
	CheckProblem(t, r)
}

func checkFamilyCode(t testing.TB, r Reply, status int, code string) {
	t.Helper()
	e, _ := r.JSON["error"].(Object)
	said, ofAnthropic := e["code"], r.JSON["type"] == "error" // which has types only
	if message, _ := e["message"].(string); r.StatusCode != status || message == "" || !ofAnthropic && said != code {
		t.Errorf("%s %s: %d, want %d %s: %s", r.Request.Method, r.Request.URL.Path, r.StatusCode, status, code, r.Body)
	}
}

// ParseObject parses a JSON object.
func ParseObject(t testing.TB, text string) Object {
	t.Helper()
	var o Object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// IDs returns a field of each item of a page, such as run_id.
func IDs(t testing.TB, page Object, field string) []string {
	t.Helper()
	items, ok := page["items"].([]any)
	if !ok {
		t.Fatalf("no items: %v", page)
	}
	found := make([]string, len(items))
	for i, item := range items {
		found[i] = item.(Object)[field].(string)
	}
	return found
}
