package runs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestFullDiskUnderRuns fills SQLite's disk while models answer: writes are refused and
// reads answered meanwhile, and every answer that was paid for is stored once there is
// room. It needs root, to mount a small disk.
func TestFullDiskUnderRuns(t *testing.T) {
	t.Parallel()
	apptest.SkipUnderRace(t)
	const runs, rounds = 20, 2
	lasts := 5 * time.Second
	if longOutages {
		lasts = time.Minute
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { // after the server, which ends before
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	var answered atomic.Int64
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		answered.Add(1)
		a := modeltest.ToolRounds(rounds, modeltest.Answer{Text: "Done."})(req)
		a.TTFT = time.Second
		return a
	}))
	empty := filepath.Join(sqldbtest.Migrated(t, sqldbtest.SQLite).Dir, "agentd.db")
	dir := filepath.Join(disk, "data")
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(empty))); err != nil {
		t.Fatal(err)
	}
	n := apptest.Start(t, sim, func(c *config.Config) { c.Storage.DataDir = dir })
	agent := n.CreateAgent(object{"built_in_tools": []string{"calculator"}})
	var ids []string
	for range runs {
		ids = append(ids, n.StartRun(agent, "Go.", nil))
	}
	ballast := fill(t, disk)
	full := time.Now()
	for n.Do("POST", "/api/v1/agents", object{"name": "One more."}).StatusCode != 503 {
		if time.Since(full) > 20*time.Second {
			t.Fatal("writes go on though the disk is full")
		}
	}
	<-time.After(time.Until(full.Add(lasts)))
	n.Expect(200, "GET", "/api/v1/runs/"+ids[0], nil)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if r := n.WaitRun(id); r["status"] != "completed" {
			t.Errorf("run %s is %v: %v", id, r["status"], r["error"])
		}
	}
	if got, want := answered.Load(), int64(len(ids)*(rounds+1)); got != want {
		t.Errorf("%d answers for %d steps: some were lost, or paid for twice", got, want)
	}
}

// Before the disk is full, new runs are refused while everything else goes on.
func TestLowDiskTakesNoRuns(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t), func(c *config.Config) { c.Server.DiskReserveMiB = 1 << 40 })
	agent := n.CreateAgent(nil)
	for path, body := range map[string]object{
		"/api/v1/runs":         {"agent_id": agent, "input": object{"message": "Go."}},
		"/v1/chat/completions": {"model": agent, "messages": []object{{"role": "user", "content": "Go."}}},
	} {
		res := n.Do("POST", path, body)
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(string(res.Body), "disk is nearly full") {
			t.Errorf("%s: %d %s", path, res.StatusCode, res.Body)
		}
	}
	n.Expect(200, "GET", "/health/ready", nil)
	if h := n.Expect(200, "GET", "/health", nil); fmt.Sprint(h["degraded"]) != "[disk_low]" || h["status"] != "healthy" {
		t.Errorf("health %v", h)
	}
	metrics := string(n.Do("GET", "/metrics", nil).Body)
	if !strings.Contains(metrics, "\nagentd_disk_low 1\n") || !strings.Contains(metrics, "\nagentd_disk_free_bytes ") {
		t.Error("the metrics do not say that the disk is low")
	}
}

// fill writes a file until the disk has no room, and returns its path.
func fill(t *testing.T, disk string) string {
	t.Helper()
	path := filepath.Join(disk, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, zeros{}); err == nil {
		t.Fatal("the disk is never full")
	}
	return path
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
