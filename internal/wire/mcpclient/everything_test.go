package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/mcp"
	"agentd/internal/wire/sandbox"
)

// The public reference server, which is none of ours: npm's package
// @modelcontextprotocol/server-everything, over both transports. Where node or
// the package cannot be had the test is skipped, or fails if
// AGENTD_TEST_REQUIRE_NODE=1.
func TestReferenceServer(t *testing.T) {
	t.Parallel()
	node, script := everything(t)
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		reference(t, &mcp.Target{
			TenantID: "t", ServerID: "everything", Name: "Everything", Fingerprint: "stdio", Transport: mcp.STDIO,
			Command: "everything",
		}, func(c *Config) {
			// The package is where only this user can read it.
			me := strconv.Itoa(os.Getuid())
			var err error
			if c.Sandbox, err = sandbox.New(sandbox.Config{User: me}); err != nil {
				t.Fatal(err)
			}
			packages := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(script))))
			c.Commands = map[string]sandbox.Command{"everything": {Path: node, Args: []string{script, "stdio"}, Read: []string{packages}}}
		})
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		port := freePort(t)
		cmd := exec.CommandContext(t.Context(), node, script, "streamableHttp")
		cmd.Env = append(os.Environ(), "PORT="+port)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		url := "http://127.0.0.1:" + port + "/mcp"
		gone(t, func() bool { // until it listens
			resp, err := http.Get(url)
			if err != nil {
				return false
			}
			resp.Body.Close()
			return true
		})
		http.DefaultClient.CloseIdleConnections()
		reference(t, &mcp.Target{TenantID: "t", ServerID: "everything", Name: "Everything", Fingerprint: "http", Transport: mcp.HTTP, URL: url})
	})
}

// reference has a conversation with the reference server.
func reference(t *testing.T, target *mcp.Target, adjust ...func(*Config)) {
	t.Helper()
	m := manager(t, append(adjust, func(c *Config) { c.ConnectTimeout = 30 * time.Second })...)
	l, err := m.List(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]mcp.RemoteTool{}
	for _, tool := range l.Tools {
		has[tool.Name] = tool
	}
	for _, name := range []string{"echo", "get-sum", "get-tiny-image", "get-structured-content", "get-resource-links", "trigger-long-running-operation"} {
		if has[name].Description == "" || !strings.Contains(string(has[name].Schema), `"object"`) {
			t.Errorf("the tool %s is %+v", name, has[name])
		}
	}
	for _, capability := range []string{"tools", "resources", "prompts", "logging"} {
		if !strings.Contains(fmt.Sprint(l.Capabilities), capability) {
			t.Errorf("capabilities %v lack %s", l.Capabilities, capability)
		}
	}
	if res := call(t, m, target, "echo", `{"message":"hello"}`); res.Output != "Echo: hello" {
		t.Errorf("echo = %+v", res)
	}
	if res := call(t, m, target, "get-sum", `{"a":2,"b":40}`); !strings.Contains(res.Output, "42") {
		t.Errorf("get-sum = %+v", res)
	}
	if res := call(t, m, target, "get-sum", `{"a":"x"}`); !res.Failed || res.Output == "" {
		t.Errorf("get-sum of nonsense = %+v", res)
	}
	image := call(t, m, target, "get-tiny-image", `{}`)
	if len(image.Files) != 1 || image.Files[0].MimeType != "image/png" || len(image.Files[0].Data) < 100 || !strings.Contains(image.Output, "image-1.png") {
		t.Errorf("get-tiny-image = %.200q, %d files", image.Output, len(image.Files))
	}
	if res := call(t, m, target, "get-structured-content", `{"location":"New York"}`); !strings.Contains(res.Output, "temperature") {
		t.Errorf("get-structured-content = %+v", res)
	}
	if res := call(t, m, target, "get-resource-links", `{"count":2}`); strings.Count(res.Output, "[link: ") != 2 {
		t.Errorf("get-resource-links = %+v", res)
	}
	if res := call(t, m, target, "trigger-long-running-operation", `{"duration":1,"steps":4}`); res.Failed {
		t.Errorf("a long operation = %+v", res)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := m.Call(ctx, target, "trigger-long-running-operation", jsontext.Value(`{"duration":60,"steps":60}`), mcp.CallKey{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that the caller gives up: %v", err)
	}
	if res := call(t, m, target, "echo", `{"message":"still there"}`); res.Output != "Echo: still there" {
		t.Errorf("after that: %+v", res)
	}
	if res, err := m.Read(t.Context(), target, "demo://resource/dynamic/text/1"); err != nil || res.Failed || !strings.Contains(res.Output, "demo://resource/dynamic/text/1") {
		t.Errorf("a resource = %+v, %v", res, err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// everything returns the paths of node and of the server's script, which is
// installed once per user; CI does so beforehand.
func everything(t *testing.T) (node, script string) {
	t.Helper()
	lack := t.Skip
	if os.Getenv("AGENTD_TEST_REQUIRE_NODE") == "1" {
		lack = t.Fatal
	}
	node, err := exec.LookPath("node")
	if err != nil {
		lack("node is not installed: ", err)
	}
	if node, err = filepath.EvalSymlinks(node); err != nil {
		lack(err)
	}
	version, err := os.ReadFile("testdata/server-everything.version")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		lack("there is no place to install to: ", err)
	}
	name := strings.TrimSpace(string(version))
	dir := filepath.Join(cache, "agentd-test", "server-everything-"+name)
	script = filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	if _, err := os.Stat(script); err == nil {
		return node, script
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		lack(err)
	}
	install := exec.CommandContext(ctx, "npm", "install", "--prefix", dir, "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund",
		"@modelcontextprotocol/server-everything@"+name)
	install.Stdout, install.Stderr = io.Discard, t.Output()
	if err := install.Run(); err != nil {
		lack("the reference server cannot be had: ", err)
	}
	return node, script
}
