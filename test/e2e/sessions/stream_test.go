package sessions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// withIDs returns the ids of frames that have one.
func withIDs(frames []apptest.Frame) (ids []string) {
	for _, f := range frames {
		if f.ID != "" {
			ids = append(ids, f.ID+" "+f.Name)
		}
	}
	return ids
}

func TestSessionStream(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "one two three"})), adjust)
		id := n.CreateSession(n.CreateAgent(nil), nil)
		path := "/api/v1/sessions/" + id
		first, second := n.SendMessage(id, "a"), n.SendMessage(id, "b")
		n.WaitRun(second)
		n.Expect(200, "DELETE", path, nil)
		frames := n.ReadStream(path+"/events", "", nil)
		if frames[0].Name != "session.connected" || frames[0].ID != "" || frames[len(frames)-1].Name != "session_closed" {
			t.Errorf("the stream is %v", apptest.FrameNames(frames))
		}
		counts := map[string]int{}
		for _, f := range frames {
			counts[f.Name]++
			o := f.Object(t)
			if o["session_id"] != id && f.Name != "done" {
				t.Errorf("%s is of session %v", f, o["session_id"])
			}
			if f.ID != "" && !strings.HasPrefix(f.ID, o["run_id"].(string)+":") {
				t.Errorf("%s has data of run %v", f, o["run_id"])
			}
		}
		for name, want := range map[string]int{"run_added": 2, "run.queued": 2, "run.started": 2, "llm.chunk": 6, "run.completed": 2, "done": 2} {
			if counts[name] != want {
				t.Errorf("%d frames %s, want %d: %v", counts[name], name, want, counts)
			}
		}
		all := withIDs(frames)
		for i, at := range all {
			cursor, name, _ := strings.Cut(at, " ")
			want := all[i+1:]
			if name == "run.completed" { // done has the same id, and comes again
				want = all[i+1:]
			} else if name == "done" {
				want = all[i:]
			}
			if diff := cmp.Diff(slices.Clone(want), slices.Clone(withIDs(n.ReadStream(path+"/events", cursor, nil)))); diff != "" {
				t.Fatalf("after %s (-want +got):\n%s", at, diff)
			}
		}
		if got := apptest.FrameNames(n.ReadStream(path+"/events", first+":99999", nil)); got[1] != "gap" || got[2] != "run_added" {
			t.Errorf("an unknown cursor gives %v", got[:3])
		}
		if got := apptest.FrameNames(n.ReadStream(path+"/events", "nonsense", nil)); got[1] != "gap" {
			t.Errorf("nonsense gives %v", got[:3])
		}
	})
}

// Two branches speak at once, on two nodes, and are followed on one of them:
// nothing is missing, nothing comes twice, and whoever resumes anywhere gets
// exactly what stands behind that place, of both.
func TestSessionStreamOfTwoBranches(t *testing.T) {
	t.Parallel()
	const words = 200
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		return modeltest.Answer{Text: modeltest.Tokens(words), Delay: 5 * time.Millisecond}
	}))
	a, b := pair(t, sim)
	id := a.CreateSession(a.CreateAgent(nil), nil)
	path := "/api/v1/sessions/" + id
	a.WaitRun(a.SendMessage(id, "first"))
	branch := a.Expect(201, "POST", path+"/branch", object{})["branch_id"].(string)
	live := make(chan []apptest.Frame, 1)
	go func() {
		left := 3
		live <- b.ReadStream(path+"/events", "", func(f apptest.Frame) bool {
			if f.Name == "done" {
				left--
			}
			return left == 0
		})
	}()
	a.SendMessage(id, "on main")
	a.Expect(200, "PUT", path+"/branches/"+branch+"/activate", nil)
	last := b.SendMessage(id, "on the branch")
	received := <-live
	b.WaitRun(last)
	a.Expect(200, "DELETE", path, nil)
	var replay []apptest.Frame
	for _, f := range a.ReadStream(path+"/events", "", nil) {
		if f.ID != "" {
			replay = append(replay, f)
		}
	}
	// Live, an event that comes too late for its place has no id; none is lost.
	count := func(frames []apptest.Frame) map[string]int {
		of := map[string]int{}
		for _, f := range frames {
			if o := f.Object(t); o["seq"] != nil {
				of[fmt.Sprintf("%s:%v %s", o["run_id"], o["seq"], f.Name)]++
			}
		}
		return of
	}
	if diff := cmp.Diff(count(replay), count(received)); diff != "" {
		t.Errorf("live and replay differ (-replay +live):\n%s", diff)
	}
	alternations := 0
	for i := 1; i < len(replay); i++ {
		if replay[i].ID[:36] != replay[i-1].ID[:36] {
			alternations++
		}
	}
	if alternations < 5 {
		t.Errorf("the branches did not speak at once: %d alternations in %v", alternations, apptest.FrameIDs(replay))
	}
	for i := 0; i < len(replay)-1; i += 37 {
		if replay[i+1].Name == "done" || replay[i].Name == "done" {
			continue
		}
		resumed := a.ReadStream(path+"/events", replay[i].ID, nil)
		if diff := cmp.Diff(apptest.FrameIDs(replay[i+1:]), withIDs(resumed)); diff != "" {
			t.Fatalf("resumed after %s (-want +got):\n%s", replay[i], diff)
		}
	}
}

// A reader that is there before anything is said hears it all as it happens.
func TestSessionStreamLive(t *testing.T) {
	t.Parallel()
	apptest.EachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "hello there"})), adjust)
		id := n.CreateSession(n.CreateAgent(nil), object{"expires_in_seconds": 3})
		path := "/api/v1/sessions/" + id + "/events"
		said := 0
		frames := n.ReadStream(path, "", func(f apptest.Frame) bool {
			if f.Name == "session.connected" || f.Name == "done" {
				if said++; said <= 3 {
					n.SendMessage(id, fmt.Sprint("message ", said))
				}
			}
			return false
		})
		got := apptest.FrameNames(frames)
		if said != 4 || got[len(got)-1] != "session_closed" || frames[len(frames)-1].Object(t)["status"] != "expired" {
			t.Errorf("received %d and %v", said, got)
		}
	})
}
