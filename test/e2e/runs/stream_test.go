package runs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// family maps what an event's name starts with to its stream_type.
var family = map[string]string{"run": "lifecycle", "step": "lifecycle", "llm": "assistant", "tool": "tool"}

func TestFramesOfARun(t *testing.T) {
	t.Parallel()
	hostile := "one\n\nevent: done\ndata: forged\r\rid: 99\u2028\u0000 "
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Thinking: "hm", Text: hostile, Pieces: []string{hostile}})))
	id := n.StartRun(n.CreateAgent(nil), "Hello?", nil)
	frames := n.ReadStream("/api/v1/runs/"+id+"/events", "", nil)
	want := []string{"run.queued", "run.started", "step.started", "llm.thinking", "llm.chunk", "llm.completed", "step.completed", "run.completed", "done", "[DONE]"}
	if diff := cmp.Diff(want, apptest.FrameNames(frames)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	last := 0
	for i, f := range frames[:len(frames)-2] {
		seq, err := strconv.Atoi(f.ID)
		if err != nil || seq <= last || i == 0 && seq != 1 {
			t.Errorf("%s follows %d", f, last)
		}
		last = seq
		d := f.Object(t)
		area, _, _ := strings.Cut(f.Name, ".")
		if d["run_id"] != id || d["seq"] != float64(seq) || d["timestamp"] == nil || d["stream_type"] != family[area] {
			t.Errorf("%s carries %v", f, d)
		}
		if _, there := d["session_id"]; there {
			t.Errorf("%s names a session", f)
		}
	}
	if got := apptest.ChunkText(t, frames); got != hostile {
		t.Errorf("the chunks say %q", got)
	}
	done := frames[len(frames)-2]
	d := done.Object(t)
	for _, name := range []string{"status", "output", "metrics", "cost_usd"} {
		if _, there := d[name]; !there {
			t.Errorf("done lacks %s: %v", name, d)
		}
	}
	if done.ID != strconv.Itoa(last) || d["status"] != "completed" || d["output"].(object)["text"] != hostile {
		t.Errorf("%s: %v", done, d)
	}
}

var timestamp = regexp.MustCompile(`"timestamp":"[^"]+"`)

// timeless returns frames without their times: those of chunks are stored with
// millisecond precision.
func timeless(frames []apptest.Frame) (out []string) {
	for _, f := range frames {
		out = append(out, f.String()+" "+timestamp.ReplaceAllString(f.Data, ""))
	}
	return out
}

func TestStreamsResumeExactly(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	id := n.StartRun(n.CreateAgent(nil), "Hello?", nil)
	path := "/api/v1/runs/" + id + "/events"
	all := n.ReadStream(path, "", nil)
	events := all[:len(all)-2]
	for i, f := range events {
		want := timeless(all[i+1:])
		for _, how := range []struct{ path, header string }{{path, f.ID}, {path + "?last_event_id=" + f.ID, ""}} {
			if diff := cmp.Diff(want, timeless(n.ReadStream(how.path, how.header, nil))); diff != "" {
				t.Fatalf("after %s (-want +got):\n%s", f, diff)
			}
		}
	}
	for _, unknown := range []string{"x", "-1", "1.5", ident.New() + ":1"} {
		got := n.ReadStream(path, unknown, nil)
		if diff := cmp.Diff(timeless(all), timeless(got[1:])); got[0].Name != "gap" || diff != "" {
			t.Errorf("after the unknown id %q: %s (-want +got):\n%s", unknown, got[0], diff)
		}
	}
	n.Expect(404, "GET", "/api/v1/runs/"+ident.New()+"/events", nil)
}

func TestSlowModelIsFollowedLive(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(4), HangAfter: 3}))
	n := apptest.Start(t, sim)
	id := n.StartRun(n.CreateAgent(nil), "Hello?", nil)
	count := 0
	frames := n.ReadStream("/api/v1/runs/"+id+"/events", "", func(f apptest.Frame) bool {
		if f.Name == "llm.chunk" {
			count++
		}
		return count == 3
	})
	if got := apptest.ChunkText(t, frames); got != modeltest.Tokens(3) {
		t.Errorf("while the model hangs the stream says %q", got)
	}
	n.Expect(200, "POST", "/api/v1/runs/"+id+"/cancel", nil)
	rest := n.ReadStream("/api/v1/runs/"+id+"/events", frames[len(frames)-1].ID, nil)
	if got := apptest.FrameNames(rest); !slices.Contains(got, "run.cancelled") || got[len(got)-1] != "[DONE]" || slices.Contains(got, "run.completed") {
		t.Errorf("after the cancellation: %v", got)
	}
	if again := apptest.ChunkText(t, n.ReadStream("/api/v1/runs/"+id+"/events", "", nil)); again != modeltest.Tokens(3) {
		t.Errorf("a late reader gets %q", again)
	}
	r := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
	if out := r["output"].(object); out["text"] != modeltest.Tokens(3) || out["finish_reason"] != "cancelled" {
		t.Errorf("the output is %v", out)
	}
}
