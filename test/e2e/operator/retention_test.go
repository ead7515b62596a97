package operator

import (
	"testing"

	"agentd/internal/app/apptest"
)

// TestRetention sets for how long things are kept, refuses what is no number of whole days,
// and shows that a run whose events are gone, but for the last, is still read and its stream still ends.
func TestRetention(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		const path = "/api/v1/admin/config/retention"
		if got := n.Expect(200, "GET", path, nil); len(got) != 0 {
			t.Errorf("at first: %v", got)
		}
		set := object{"run_days": 400, "event_days": 30, "artifact_days": 60, "audit_days": 700, "feed_days": 90}
		n.Expect(200, "PUT", path, set)
		got := n.Expect(200, "PUT", path, object{"run_days": nil, "feed_days": 7})
		if _, kept := got["run_days"]; kept || got["feed_days"] != 7.0 || got["event_days"] != 30.0 || got["audit_days"] != 700.0 || got["artifact_days"] != 60.0 {
			t.Errorf("%v", got)
		}
		for _, bad := range []any{0, -1, 1.5, "7", 40000} {
			n.Do("PUT", path, object{"event_days": bad}).IsProblem(t, 422, "VALIDATION_ERROR")
		}
		_, other := n.CreateTenant(object{"name": "Other"})
		if r := other.Do("PUT", path, object{"run_days": 1}); r.StatusCode != 403 {
			t.Errorf("another company's admin sets it: %d", r.StatusCode)
		}
		id := n.StartRun(n.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}}), "hello", nil)
		n.WaitRun(id)
		n.Admin().Exec(`DELETE FROM run_events WHERE run_id = ? AND last_seq < (SELECT event_seq FROM runs WHERE run_id = ?)`, id, id)
		n.ReadStream("/api/v1/runs/"+id+"/events", "", func(f apptest.Frame) bool { return f.Name == "done" })
		if steps := n.Expect(200, "GET", "/api/v1/runs/"+id+"/steps", nil); len(steps["steps"].([]any)) == 0 {
			t.Errorf("%v", steps)
		}
		if got := n.Expect(200, "GET", "/api/v1/feed?types=run.completed", nil); got["total"] != 1.0 {
			t.Errorf("%v", got)
		}
		n.Admin().Exec(`UPDATE runs SET completed_at = completed_at - 691200000000 WHERE run_id = ?`, id)
		if got := n.Expect(200, "GET", "/api/v1/feed?types=run.completed", nil); got["total"] != 0.0 {
			t.Errorf("the feed goes back more than a week: %v", got)
		}
	})
}
