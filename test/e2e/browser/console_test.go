// Package browser uses the console as people do: in a browser, against a whole server.
package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/internal/accounts/identity"
	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
)

// A browser signs in, makes an agent, talks with it, decides what waits, looks at every page, and
// sees what happens elsewhere. `make test-console` installs what drives the browser where
// AGENTD_TEST_CONSOLE says; without it, or without Chromium, the tests are skipped.
func TestConsole(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	dir := os.Getenv("AGENTD_TEST_CONSOLE")
	if dir == "" {
		t.Skip("AGENTD_TEST_CONSOLE names no directory with Playwright; make test-console does")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium in PATH")
	}
	scripts, err := filepath.Glob("../../console/*.mjs")
	if err != nil {
		t.Fatal(err)
	}
	// Modules are looked for beside the file that wants them.
	for _, script := range scripts {
		content, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(script)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, script := range scripts {
		name, isTest := strings.CutSuffix(filepath.Base(script), ".test.mjs")
		if !isTest {
			continue
		}
		// A browser mostly waits: the scripts run at once, each with a server of its own.
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := apptest.Start(t, nil)
			cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", filepath.Join(dir, filepath.Base(script)))
			cmd.Env = append(os.Environ(), "AGENTD_URL="+n.URL, "AGENTD_KEY="+n.Key, "CHROMIUM="+chromium)
			if name == "views" { // it does what only people can
				tenant, user := n.Me()
				_, cookie := n.Admin().OpenBrowserSession(tenant, user, identity.Device{})
				cmd.Env = append(cmd.Env, "AGENTD_COOKIE="+cookie[1])
			}
			if name == "console" {
				cmd.Env = append(cmd.Env, "PREFIXED="+prefixed(t))
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", out) // how long each test took
		})
	}
}

// prefixed starts a server behind a proxy that serves it below a path, and returns that
// address.
func prefixed(t *testing.T) string {
	t.Helper()
	var proxy http.Handler
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { proxy.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	n := apptest.Start(t, nil, func(c *config.Config) { c.Server.PublicURL = front.URL + "/team" })
	back, err := url.Parse(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy = http.StripPrefix("/team", httputil.NewSingleHostReverseProxy(back))
	return front.URL + "/team"
}
