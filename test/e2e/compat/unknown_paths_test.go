package compat

import (
	"testing"

	"agentd/internal/app/apptest"
)

// Clients of the compatible routes read only the errors of their own family, also
// where nothing answers.
func TestUnknownPathsOfFamilies(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	for _, c := range []struct {
		name, method, path, media string
		status                    int
		member, kind              string // of the envelope: where its error stands, its type
		code                      any
	}{
		{"openai", "GET", "/v1/fine_tuning/jobs", "application/json", 404, "error", "invalid_request_error", "NOT_FOUND"},
		{"openai_root", "GET", "/v1", "application/json", 404, "error", "invalid_request_error", "NOT_FOUND"},
		{"openai_write", "POST", "/v1/images/generations", "application/json", 404, "error", "invalid_request_error", "NOT_FOUND"},
		{"openai_method", "DELETE", "/v1/chat/completions", "application/json", 405, "error", "invalid_request_error", "METHOD_NOT_ALLOWED"},
		{"messages", "POST", "/v1/messages/batches", "application/json", 404, "error", "invalid_request_error", nil},
		{"messages_escaped", "GET", "/v1/messages/a%2Fb", "application/json", 404, "error", "invalid_request_error", nil},
		{"messages_method", "GET", "/v1/messages", "application/json", 405, "error", "invalid_request_error", nil},
		{"begins_alike", "GET", "/v1/messages2", "application/json", 404, "error", "invalid_request_error", "NOT_FOUND"},
		{"no_family", "GET", "/v10/models", "application/problem+json", 404, "", "", "NOT_FOUND"},
		{"platform", "GET", "/api/v1/nothing", "application/problem+json", 404, "", "", "NOT_FOUND"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := n.Do(c.method, c.path, nil)
			said := r.JSON
			if c.member != "" {
				said, _ = r.JSON[c.member].(object)
			}
			if r.StatusCode != c.status || r.Header.Get("Content-Type") != c.media || said["code"] != c.code {
				t.Fatalf("%d %s: %s", r.StatusCode, r.Header.Get("Content-Type"), r.Body)
			}
			if c.kind != "" && (said["type"] != c.kind || said["message"] == "") {
				t.Errorf("the error is %s", r.Body)
			}
			// Only Anthropic's envelope has a type beside the error, and no code.
			if messages := c.kind != "" && c.code == nil; messages != (r.JSON["type"] == "error" && r.JSON["request_id"] != nil) {
				t.Errorf("the envelope is %s", r.Body)
			}
			if (r.Header.Get("Allow") != "") != (c.status == 405) {
				t.Errorf("Allow: %q", r.Header.Get("Allow"))
			}
			if want := map[int]string{404: "false"}[c.status]; r.Header.Get("X-Should-Retry") != want {
				t.Errorf("X-Should-Retry: %q", r.Header.Get("X-Should-Retry"))
			}
		})
	}
}
