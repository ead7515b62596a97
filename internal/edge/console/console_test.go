package console_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/internal/edge/console"
	"agentd/internal/edge/httpapi"
)

func serve(t *testing.T, publicURL string) http.Handler {
	t.Helper()
	api, err := httpapi.New(httpapi.Config{
		Auth: nobody{}, Raw: console.Console{PublicURL: func() string { return publicURL }}.Routes(), PublicURL: publicURL,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func get(t *testing.T, api http.Handler, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, req)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	inline    = regexp.MustCompile(`<script>|<style|\son[a-z]+=|style=`)
)

// The page names a base below the public URL and files relative to it, each of which is
// there; it has no inline script or style, and refers to nothing elsewhere.
func TestPage(t *testing.T) {
	t.Parallel()
	for publicURL, base := range map[string]string{"": "/", "https://agents.example.com": "/", "https://example.com/team": "/team/"} {
		api := serve(t, publicURL)
		for _, path := range []string{"/", "/agents", "/runs/01997c1e-6a5e-7c53-9d6c-3a1d5a0b7f10", "/settings/webhooks/x/y"} {
			res, page := get(t, api, path, "Accept", "text/html")
			if res.StatusCode != http.StatusOK || !strings.Contains(page, `<base href="`+base+`" />`) {
				t.Errorf("%s of %q: %d, %s", path, publicURL, res.StatusCode, page)
			}
			policy := res.Header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'; ") || strings.Contains(policy, "unsafe") {
				t.Errorf("%s has the policy %q", path, policy)
			}
			if found := inline.FindString(page); found != "" {
				t.Errorf("%s has %s, which its policy forbids", path, found)
			}
			for _, m := range reference.FindAllStringSubmatch(page, -1) {
				file, relative := strings.CutPrefix(m[1], "./")
				if !relative {
					continue // the base, and a link to a page of the API
				}
				if res, _ := get(t, api, "/"+file); res.StatusCode != http.StatusOK {
					t.Errorf("%s names %s, which is %d", path, m[1], res.StatusCode)
				}
			}
		}
	}
}

// What is no page of the console is what it was: a problem document. So is / for a
// program.
func TestOtherPathsAreNotPages(t *testing.T) {
	t.Parallel()
	api := serve(t, "")
	for _, path := range []string{"/", "/api/v1/nothing", "/v1/nothing", "/nothing", "/assets/nothing.js", "/runsx", "/index.html"} {
		accept := "text/html"
		if path == "/" {
			accept = "application/json"
		}
		res, body := get(t, api, path, "Accept", accept)
		if res.StatusCode != http.StatusNotFound || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

// Files are compressed once, and those whose names change with their content are asked
// for once. The scripts of the first view have at most 250 KB.
func TestFiles(t *testing.T) {
	t.Parallel()
	api := serve(t, "")
	_, page := get(t, api, "/agents", "Accept", "text/html")
	first := 0
	for _, m := range reference.FindAllStringSubmatch(page, -1) {
		file, relative := strings.CutPrefix(m[1], "./")
		if !relative {
			continue
		}
		res, body := get(t, api, "/"+file, "Accept-Encoding", "gzip")
		if res.Header.Get("Content-Encoding") != "gzip" || res.Header.Get("Etag") == "" {
			t.Errorf("%s is sent with %v", file, res.Header)
		}
		forever := strings.Contains(res.Header.Get("Cache-Control"), "immutable")
		if forever != strings.HasPrefix(file, "assets/") {
			t.Errorf("%s has Cache-Control %q", file, res.Header.Get("Cache-Control"))
		}
		if strings.HasSuffix(file, ".js") {
			first += len(body)
		}
		if z, err := gzip.NewReader(strings.NewReader(body)); err != nil {
			t.Errorf("%s: %v", file, err)
		} else if _, err := io.Copy(io.Discard, z); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if first == 0 || first > 250_000 {
		t.Errorf("the first view has %d bytes of scripts", first)
	}
}

// The built files are those of the sources; make web builds them again.
func TestBuildIsFresh(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	files := []string{"web/index.html", "web/package-lock.json", "web/vite.config.ts", "web/build.mjs"}
	for _, dir := range []string{"web/src", "web/public", "clients/typescript/src"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && path != "clients/typescript/src/schema.ts" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(files)
	sum := sha256.New()
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(slices.Concat([]byte(name), []byte{0}, content, []byte{0}))
	}
	built, err := os.ReadFile("dist/source.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if want := hex.EncodeToString(sum.Sum(nil)); strings.TrimSpace(string(built)) != want {
		t.Error("internal/edge/console/dist is older than its sources; run make web and commit what it changes")
	}
}

var codeRow = regexp.MustCompile("(?m)^\\| `([A-Za-z_]+)` \\| [^|]*(?:failed|timeout|cancelled|rejected|guardrail_blocked)[^|]* \\|")

// Every code that a run can end with has an explanation and a way on.
func TestCodesAreExplained(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", path))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	documented := codeRow.FindAllStringSubmatch(read("docs/errors.md"), -1)
	if len(documented) < 20 {
		t.Fatalf("docs/errors.md lists %d codes of runs", len(documented))
	}
	explained, words := read("web/src/explain.ts"), read("web/src/strings/en.ts")
	for _, m := range documented {
		if !strings.Contains(explained, "\n  "+m[1]+": {") || !strings.Contains(words, "\n      "+m[1]+": {") {
			t.Errorf("the console does not explain %s", m[1])
		}
	}
}
