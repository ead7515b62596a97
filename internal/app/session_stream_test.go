package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// withIDs gives the ids of frames that have one.
func withIDs(frames []frame) (ids []string) {
	for _, f := range frames {
		if f.id != "" {
			ids = append(ids, f.id+" "+f.name)
		}
	}
	return ids
}

func TestSessionStream(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "one two three"})), adjust)
		id := n.session(n.agent(nil), nil)
		path := "/api/v1/sessions/" + id
		first, second := n.say(id, "a"), n.say(id, "b")
		n.ended(second)
		n.want(200, "DELETE", path, nil)
		frames := n.stream(path+"/events", "", nil)
		if frames[0].name != "session.connected" || frames[0].id != "" || frames[len(frames)-1].name != "session_closed" {
			t.Errorf("the stream is %v", names(frames))
		}
		counts := map[string]int{}
		for _, f := range frames {
			counts[f.name]++
			o := f.object(t)
			if o["session_id"] != id && f.name != "done" {
				t.Errorf("%s is of session %v", f, o["session_id"])
			}
			if f.id != "" && !strings.HasPrefix(f.id, o["run_id"].(string)+":") {
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
			if diff := cmp.Diff(slices.Clone(want), slices.Clone(withIDs(n.stream(path+"/events", cursor, nil)))); diff != "" {
				t.Fatalf("after %s (-want +got):\n%s", at, diff)
			}
		}
		if got := names(n.stream(path+"/events", first+":99999", nil)); got[1] != "gap" || got[2] != "run_added" {
			t.Errorf("an unknown cursor gives %v", got[:3])
		}
		if got := names(n.stream(path+"/events", "nonsense", nil)); got[1] != "gap" {
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
	id := a.session(a.agent(nil), nil)
	path := "/api/v1/sessions/" + id
	a.ended(a.say(id, "first"))
	branch := a.want(201, "POST", path+"/branch", object{})["branch_id"].(string)
	live := make(chan []frame, 1)
	go func() {
		left := 3
		live <- b.stream(path+"/events", "", func(f frame) bool {
			if f.name == "done" {
				left--
			}
			return left == 0
		})
	}()
	a.say(id, "on main")
	a.want(200, "PUT", path+"/branches/"+branch+"/activate", nil)
	last := b.say(id, "on the branch")
	heard := <-live
	b.ended(last)
	a.want(200, "DELETE", path, nil)
	var replay []frame
	for _, f := range a.stream(path+"/events", "", nil) {
		if f.id != "" {
			replay = append(replay, f)
		}
	}
	// Live, an event that comes too late for its place has no id; none is lost.
	count := func(frames []frame) map[string]int {
		of := map[string]int{}
		for _, f := range frames {
			if o := f.object(t); o["seq"] != nil {
				of[fmt.Sprintf("%s:%v %s", o["run_id"], o["seq"], f.name)]++
			}
		}
		return of
	}
	if diff := cmp.Diff(count(replay), count(heard)); diff != "" {
		t.Errorf("live and replay differ (-replay +live):\n%s", diff)
	}
	alternations := 0
	for i := 1; i < len(replay); i++ {
		if replay[i].id[:36] != replay[i-1].id[:36] {
			alternations++
		}
	}
	if alternations < 5 {
		t.Errorf("the branches did not speak at once: %d alternations in %v", alternations, frameIDs(replay))
	}
	for i := 0; i < len(replay)-1; i += 37 {
		if replay[i+1].name == "done" || replay[i].name == "done" {
			continue
		}
		resumed := a.stream(path+"/events", replay[i].id, nil)
		if diff := cmp.Diff(frameIDs(replay[i+1:]), withIDs(resumed)); diff != "" {
			t.Fatalf("resumed after %s (-want +got):\n%s", replay[i], diff)
		}
	}
}

// A reader that is there before anything is said hears it all as it happens.
func TestSessionStreamLive(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, adjust func(*config.Config)) {
		n := start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "hello there"})), adjust)
		id := n.session(n.agent(nil), object{"expires_in_seconds": 3})
		path := "/api/v1/sessions/" + id + "/events"
		said := 0
		frames := n.stream(path, "", func(f frame) bool {
			if f.name == "session.connected" || f.name == "done" {
				if said++; said <= 3 {
					n.say(id, fmt.Sprint("message ", said))
				}
			}
			return false
		})
		got := names(frames)
		if said != 4 || got[len(got)-1] != "session_closed" || frames[len(frames)-1].object(t)["status"] != "expired" {
			t.Errorf("heard %d and %v", said, got)
		}
	})
}
