package mission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/teams/mission"
)

// A plan waits for authorization; a mission is paused between objectives, goes on where
// it was, and is aborted with its runs.
func TestHands(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	body := func() object {
		return object{"max_concurrency": 1, "plan": object{"requires_authorization": true, "objectives": []object{{"title": "a"}, {"title": "b"}, {"title": "c"}}}}
	}
	started := body()
	started["session_id"], started["goal"] = w.session, "g"
	made := w.must("POST", "/api/v1/missions", started)
	path := "/api/v1/missions/" + made["mission_id"].(string)
	if made["run_started"] != false || len(made["objective_ids"].([]any)) != 3 || made["classification"].(object)["classification"] != "mission" {
		t.Errorf("%v", made)
	}
	for w.Drive(mission.WorkKind, "n1", w.Handle) {
		continue
	}
	if len(w.Stored) != 0 {
		t.Errorf("%d runs without authorization", len(w.Stored))
	}
	for _, action := range []string{"run", "pause", "resume"} {
		if _, err := w.do("POST", path+"/"+action, nil); !fault.Is(err, fault.Conflict) {
			t.Errorf("%s before authorization: %v", action, err)
		}
	}
	if m := w.must("POST", path+"/authorize", nil); m["status"] != "executing" || m["run_started"] != true {
		t.Errorf("%v", m)
	}
	w.Drive(mission.WorkKind, "n1", w.Handle)
	if r := w.must("POST", path+"/run", nil); r["already_running"] != true || r["accepted"] != false {
		t.Errorf("%v", r)
	}
	if _, err := w.do("POST", path+"/resume", nil); fault.From(err).Code != "MISSION_ALREADY_RUNNING" {
		t.Errorf("%v", err)
	}
	if p := w.must("POST", path+"/pause", nil); p["pausing"] != true {
		t.Errorf("%v", p)
	}
	m := w.settle(path, mission.Paused)
	if s := w.states(path); s != "a completed, b pending, c pending" || m["result_code"] != "paused_by_operator" {
		t.Errorf("%s %v", s, m)
	}
	for _, c := range []struct{ method, path, code string }{
		{"POST", "/run", "MISSION_NOT_RUNNABLE"},
		{"POST", "/pause", "MISSION_NOT_RUNNING"},
		{"GET", "/aar", "AAR_NOT_AVAILABLE"},
	} {
		if _, err := w.do(c.method, path+c.path, nil); fault.From(err).Code != c.code || (c.method == "GET") != fault.Is(err, fault.NotFound) {
			t.Errorf("%s of a paused mission: %v", c.path, err)
		}
	}
	before := len(w.Stored)
	if r := w.must("POST", path+"/resume", nil); r["accepted"] != true || r["mission"].(object)["status"] != "executing" {
		t.Errorf("%v", r)
	}
	w.settle(path, mission.Executing)
	w.Settle(mission.WorkKind, w.Handle, func() bool { return len(w.Stored) > before && len(w.Open()) == 1 })
	hanging := w.Open()[0]
	w.abort(path, hanging)
}

// abort aborts the mission of TestHands while a run of it is under way.
func (w *world) abort(path, hanging string) {
	w.T.Helper()
	if a := w.must("POST", path+"/abort", object{"reason": "enough"}); a["status"] != "aborted" || a["outcome"] != "aborted" {
		w.T.Errorf("%v", a)
	}
	for w.Drive(mission.WorkKind, "n1", w.Handle) {
		continue
	}
	got := w.must("GET", path, nil)
	if got["status"] != "aborted" || !strings.Contains(got["result_summary"].(string), "enough") || w.Stored[hanging].Status != run.Cancelled {
		w.T.Errorf("%v, its run is %s", got, w.Stored[hanging].Status)
	}
	aar := w.must("GET", path+"/aar", nil)
	if causes := aar["failure_analysis"].(object)["root_causes"].([]any); len(causes) == 0 || aar["outcome"] != "aborted" {
		w.T.Errorf("%v", aar)
	}
	if diff := cmp.Diff([]string{"recon", "authorize", "execute"}, slices.DeleteFunc(phasesOf(aar), func(p string) bool { return p == "plan" })); diff != "" {
		w.T.Errorf("phases %s", diff)
	}
}
