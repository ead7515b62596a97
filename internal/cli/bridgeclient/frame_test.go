package bridgeclient

import (
	"path/filepath"
	"testing"
	"time"

	"agentd/internal/base/ident"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"type":"welcome","heartbeat_seconds":30}`:                                              true,
		`{"type":"task","task":{"task_id":"01a21dd4-6ac5-769d-90e2-d6c25bba37a5"}}`:              true,
		`{"type":"task","task":{"task_id":"01a21dd4-6ac5-769d-90e2-d6c25bba37a5","newer":true}}`: true,
		`{"type":"cancel","task_id":"x"}`:                                                        true,
		`{"type":"task"}`:                                                                        false,
		`{"type":"task","task":{"task_id":"../../etc/passwd"}}`:                                  false,
		`{"type":"task","task":"x"}`:                                                             false,
		`nonsense`:                                                                               false,
	} {
		if _, ok := decode([]byte(text)); ok != want {
			t.Errorf("%s: %t", text, ok)
		}
	}
	for seconds, want := range map[int]time.Duration{-1: time.Second, 0: time.Second, 30: 30 * time.Second, 1 << 62: time.Hour} {
		if got := (&frame{Heartbeat: seconds}).heartbeatEvery(); got != want {
			t.Errorf("a heartbeat every %d seconds is sent every %s", seconds, got)
		}
	}
}

// A frame of a server that cannot be trusted names no file outside of the machine's
// folder, and sets no interval that keeps the machine busy.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"type":"welcome","heartbeat_seconds":30}`, `{"type":"task","task":{"task_id":"01a21dd4-6ac5-769d-90e2-d6c25bba37a5","input":{"message":"x"}}}`,
		`{"type":"cancel","task_id":"x"}`, `{"type":"task","task":{"task_id":"../x"}}`, `{"type":"receipt","id":"1","events_stored":2}`, `{}`, `null`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	state := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, ok := decode(data)
		if !ok {
			return
		}
		if every := frame.heartbeatEvery(); every < time.Second || every > time.Hour {
			t.Errorf("a heartbeat every %s", every)
		}
		if frame.Type != "task" {
			return
		}
		j := openJournal(state, frame.Task)
		if filepath.Dir(j.path) != filepath.Clean(state) || !ident.Valid(j.Task.TaskID) {
			t.Errorf("%q is stored as %s", data, j.path)
		}
	})
}
