package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// measureLists prints the time of each list while two clients write, and the time
// of the writes with and without them.
func (m *machine) measureLists(s settings, of things) error {
	stop := m.write()
	time.Sleep(5 * time.Second)
	before := stop()
	stop = m.write()
	from, to := of.old()
	fmt.Println("| List | p50 ms | p99 ms |\n|---|--:|--:|")
	for _, path := range []string{
		"/runs", "/runs?status=failed", "/runs?status=completed", "/runs?status=running",
		"/runs?agent_id=" + of.busyAgent, "/runs?agent_id=" + of.rareAgent,
		"/runs?session_id=" + of.longSession, "/runs?session_id=" + of.ofSession, "/runs?status=failed&agent_id=" + of.busyAgent,
		"/runs?status=running&agent_id=" + of.busyAgent, "/runs?status=failed&session_id=" + of.longSession,
		"/runs?status=failed,timeout", "/runs?status=failed,timeout&agent_id=" + of.busyAgent,
		"/runs?error_code=model_error", "/runs?error_code=none.such",
		"/runs?created_after=" + from + "&created_before=" + to, "/runs?status=failed&created_after=" + from + "&created_before=" + to,
		"/runs?status=failed&created_before=" + from, "/runs?created_after=" + to + "&order=asc",
		"/runs?metadata[order]=" + of.order, "/runs?metadata[channel]=web", "/runs?metadata[channel]=web&status=failed",
		"/runs?metadata[channel]=web&metadata[order]=" + of.order, "/runs?started_by=key:none", "/runs?fields=summary",
		"/runs?fields=summary&status=failed&agent_id=" + of.busyAgent,
		"/sessions?status=active", "/sessions?created_after=" + from + "&created_before=" + to,
		"/sessions", "/sessions?agent_id=" + of.busyAgent, "/sessions?agent_id=" + of.rareAgent,
		"/approvals", "/approvals?status=pending", "/admin/audit", "/admin/audit?action=key.created", "/admin/audit?action=none.such",
		"/admin/audit?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z", "/notifications",
		"/notifications?unread=true", "/notifications/unread", "/agents",
	} {
		times, err := m.list(path, s.requests)
		if err != nil {
			return err
		}
		fmt.Printf("| `%s` | %.1f | %.1f |\n", short(path, of), percentile(times, 50), percentile(times, 99))
	}
	during := stop()
	fmt.Println("\n| `POST` of a run, two clients | p50 ms | p99 ms |\n|---|--:|--:|")
	fmt.Printf("| alone | %.1f | %.1f |\n| beside the lists | %.1f | %.1f |\n",
		percentile(before, 50), percentile(before, 99), percentile(during, 50), percentile(during, 99))
	return nil
}

// list asks for pages of a list, one after the other from the newest on, and again
// from there when it ends.
func (m *machine) list(path string, n int) ([]time.Duration, error) {
	var times []time.Duration
	cursor := ""
	for range n {
		var page struct {
			Next string `json:"cursor"`
		}
		target := "/api/v1" + path
		if cursor != "" {
			target += sep(path) + "cursor=" + cursor
		}
		start := time.Now()
		if err := m.server.call(http.MethodGet, target, "", &page); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		cursor = page.Next
	}
	return times, nil
}

func sep(path string) string {
	if slices.Contains([]byte(path), '?') {
		return "&"
	}
	return "?"
}

// write has two clients start runs until stop is called, which returns their times.
func (m *machine) write() (stop func() []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var stopped atomic.Bool
	var times []time.Duration
	for range 2 {
		wg.Go(func() {
			for !stopped.Load() {
				start := time.Now()
				err := m.server.call(http.MethodPost, "/api/v1/runs", fmt.Sprintf(`{"agent_id":%q,"input":{"message":"hello"}}`, m.agent), nil)
				took := time.Since(start)
				if err != nil {
					fmt.Fprintln(os.Stderr, "growth: a write failed:", err)
					return
				}
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return func() []time.Duration {
		stopped.Store(true)
		wg.Wait()
		return times
	}
}

func percentile(times []time.Duration, p int) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return float64(sorted[min(len(sorted)-1, len(sorted)*p/100)].Microseconds()) / 1000
}

// short returns a path with names in place of ids.
func short(path string, of things) string {
	from, to := of.old()
	path = strings.NewReplacer(from, "FROM", to, "TO", of.order, "one").Replace(path)
	for id, name := range map[string]string{of.busyAgent: "busy", of.rareAgent: "rare", of.longSession: "long", of.ofSession: "short"} {
		for i := 0; i+len(id) <= len(path); i++ {
			if path[i:i+len(id)] == id {
				path = path[:i] + name + path[i+len(id):]
			}
		}
	}
	return path
}

// measureTurns prints the time of a turn of a short and of a long conversation,
// from the request to the end of its run. The first turn is printed apart: sessions
// are filled with turns that were never shortened to the model's window, so it has to
// read and sum up all of them, which turns that were really taken do bit by bit.
func (m *machine) measureTurns(of things) error {
	fmt.Println("\n| A turn of a session | first, ms | p50 ms | p99 ms |\n|---|--:|--:|--:|")
	sessions := []struct{ name, id string }{
		{fmt.Sprintf("with %d turns", fewTurns), of.fiftyTurns}, {fmt.Sprintf("with %d turns", longTurns), of.longSession},
	}
	times := map[string][]time.Duration{}
	for range 50 { // in turn, so that both have the same machine
		for _, s := range sessions {
			start := time.Now()
			var sent struct {
				RunID string `json:"run_id"`
			}
			if err := m.server.call(http.MethodPost, "/api/v1/sessions/"+s.id+"/messages", `{"content":"hello"}`, &sent); err != nil {
				return err
			}
			if err := m.server.call(http.MethodGet, "/api/v1/runs/"+sent.RunID+"/wait", "", nil); err != nil {
				return err
			}
			times[s.name] = append(times[s.name], time.Since(start))
		}
	}
	for _, s := range sessions {
		first, rest := times[s.name][:1], slices.Clone(times[s.name][1:])
		fmt.Printf("| %s | %.1f | %.1f | %.1f |\n", s.name, percentile(first, 50), percentile(rest, 50), percentile(rest, 99))
	}
	return nil
}

// measureRestart kills the server while runs are under way and starts it again.
func (m *machine) measureRestart() error {
	stop := m.write()
	time.Sleep(time.Second)
	stop()
	if err := m.server.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = m.server.cmd.Wait() // killed
	start := time.Now()
	if err := m.startServer(); err != nil {
		return err
	}
	fmt.Printf("\nRestart after kill -9: %.0f ms until the first answer.\n", float64(time.Since(start).Milliseconds()))
	return nil
}

// measureBytes compares the files with the JSON of runs and steps.
func (m *machine) measureBytes(s settings, of things) error {
	const sample = 200
	data, cursor, n := 0, "", 0
	for n < sample {
		var page struct {
			Runs []struct {
				ID string `json:"run_id"`
			} `json:"items"`
			Next string `json:"cursor"`
		}
		path := "/api/v1/runs?limit=100&order=asc&session_id=" + of.longSession
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		if err := m.server.call(http.MethodGet, path, "", &page); err != nil {
			return err
		}
		for _, r := range page.Runs {
			for _, part := range []string{"", "/steps"} {
				status, answer, err := m.server.ask(http.MethodGet, "/api/v1/runs/"+r.ID+part, "")
				if err != nil || status != http.StatusOK {
					return fmt.Errorf("run %s%s: %d, %w", r.ID, part, status, err)
				}
				data += len(answer)
			}
			n++
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if n == 0 {
		return errors.New("the long session has no runs")
	}
	files, err := s.bytes()
	if err != nil {
		return err
	}
	each, onDisk := data/n, files/int64(s.runs)
	fmt.Printf("\nA run and its steps are %d bytes as JSON, and %d bytes of file and log, with its session and an audit entry: %.2f times.\n",
		each, onDisk, float64(onDisk)/float64(each))
	return nil
}

// bytes returns what the database has on disk.
func (s settings) bytes() (files int64, err error) {
	if s.postgres != "" {
		return postgresBytes(s.postgres)
	}
	for _, name := range []string{"agentd.db", "agentd.db-wal"} {
		if info, err := os.Stat(filepath.Join(s.dir, "data", name)); err == nil {
			files += info.Size()
		}
	}
	return files, nil
}
