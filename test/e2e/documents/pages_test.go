package documents

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
)

// The pages for browsers load nothing from elsewhere, run no script that stands in
// them, and all that they refer to exists.
func TestPages(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	get := func(path, accept string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", n.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(body)
	}
	const html = "text/html,application/xhtml+xml,*/*;q=0.8"
	references := regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	inline := regexp.MustCompile(`<script>|<style|\son[a-z]+=|style=`)
	for path, says := range map[string]string{"/": `<base href="/" />`, "/docs": "swagger-ui-bundle.js", "/docs/": "swagger-ui-bundle.js"} {
		res, body := get(path, html)
		policy := res.Header.Get("Content-Security-Policy")
		if res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") || !strings.Contains(body, says) {
			t.Errorf("%s: %d %v\n%s", path, res.StatusCode, res.Header, body)
		}
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") ||
			res.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s has the policy %s", path, policy)
		}
		if found := inline.FindString(body); found != "" {
			t.Errorf("%s has %s, which its policy forbids", path, found)
		}
		for _, m := range references.FindAllStringSubmatch(body, -1) {
			ref := m[1]
			if path == "/" {
				ref = "/" + strings.TrimPrefix(strings.TrimPrefix(ref, "."), "/") // of the console, relative to its base
			}
			if res, text := get(ref, html); !strings.HasPrefix(ref, "/") || res.StatusCode != 200 || text == "" {
				t.Errorf("%s refers to %s: %d", path, ref, res.StatusCode)
			}
		}
	}
	if res, body := get("/docs/swagger-ui-bundle.js", "*/*"); !strings.Contains(body, "SwaggerUIBundle") || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/javascript") {
		t.Errorf("Swagger UI: %v, %d bytes", res.Header, len(body))
	}
	if res, body := get("/docs/LICENSE", "*/*"); res.StatusCode != 200 || !strings.Contains(body, "Apache License") {
		t.Errorf("the licence: %d", res.StatusCode)
	}
	// Programs get what they get at any path that does not exist.
	if res, body := get("/", "application/json"); res.StatusCode != 404 || !strings.Contains(body, "openapi.json") {
		t.Errorf("a program gets %d %s", res.StatusCode, body)
	}
}
