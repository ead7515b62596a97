//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What agentd was given is not to be had from the system, by the commands that
// it starts or by other processes of its user; and with a kill -9 of agentd the
// commands end, with what they started.
func TestSecretsLeaveTheProcess(t *testing.T) {
	t.Parallel()
	const secretKey, modelKey = "c2VjcmV0LWtleS1vZi0zMi1ieXRlcy1mb3ItdGVzdHM=", "model-key-of-the-operator"
	m := newMachine(t).with("AGENTD_SECRET_KEY="+secretKey, "AGENTD_SEARCH_API_KEY=search-key-of-the-operator", "AGENTD_SEARCH_PROVIDER=brave",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=collector-key", "AGENTD_LISTEN=127.0.0.1:0")
	seconds := strconv.Itoa(5000 + os.Getpid())
	commands := filepath.Join(m.dir, "commands.json")
	if err := os.WriteFile(commands, fmt.Appendf(nil, `[{"name": "sleeper", "command": "/bin/sh",
		"args": ["-c", "sleep %s & sleep %s"]}]`, seconds, seconds), 0o600); err != nil {
		t.Fatal(err)
	}
	server := m.with("AGENTD_MCP_STDIO_COMMANDS=" + commands).start(
		"bin/agentd serve --model-base-url=http://127.0.0.1:1/v1 --model=x --model-api-key=" + modelKey)
	server.says(" is ready.")
	server.says("bin/agentd run ")
	pid := server.cmd.Process.Pid
	key := regexp.MustCompile(`AGENTD_KEY=(svc_\w+)`).FindStringSubmatch(server.out.String())[1]
	where := regexp.MustCompile(`API +(http://[^/]+)/`).FindStringSubmatch(server.out.String())[1]
	words := []string{secretKey, modelKey, "search-key-of-the-operator", "collector-key", key}
	searchProcess(t, pid, words)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan struct{})
	go func() { // it does not speak, and is answered when agentd dies
		defer close(asked)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, where+"/api/v1/mcp/servers",
			strings.NewReader(`{"name": "x", "transport": "stdio", "command": "sleeper"}`))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	server.until(func() bool { return len(sleepers(t, seconds)) == 2 }, "starts the command")
	for _, child := range sleepers(t, seconds) {
		searchProcess(t, child, append(words, "AGENTD_"))
	}
	if strings.Contains(server.errs.String(), "namespaces (") {
		t.Skip("without namespaces only the command itself ends with agentd, not what it started")
	}
	server.signal(syscall.SIGKILL)
	server.wait()
	<-asked
	server.until(func() bool { return len(sleepers(t, seconds)) == 0 }, "ends the command")
}

// searchProcess fails where what the kernel shows of a process holds one of
// some words.
func searchProcess(t *testing.T, pid int, words []string) {
	t.Helper()
	for _, file := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil && !errors.Is(err, os.ErrPermission) {
			t.Error(err)
		}
		for _, word := range words {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s of process %d holds %s", file, pid, word)
			}
		}
	}
}

// sleepers returns the processes that sleep for so long.
func sleepers(t *testing.T, seconds string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && string(text) == "sleep\x00"+seconds+"\x00" {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
		}
	}
	return all
}
