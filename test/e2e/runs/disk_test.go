package runs

import (
	"io"
	"os"
	"path/filepath"
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
