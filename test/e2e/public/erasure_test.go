package public

import (
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// What a visitor said is erased by the id of the session, and nothing of another visitor.
func TestVisitorsAreErased(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "hello"})))
	agent := publish(n, nil, nil)
	ids := map[string]string{}
	for _, text := range []string{"I am Ada", "I am Grace"} {
		v := visit(n, agent)
		run := v.expect(202, "POST", "/messages", object{"content": text})["run_id"].(string)
		n.WaitRun(run)
		ids[text] = v.id
	}
	path := "/api/v1/data-subject/access?subject_id=" + ids["I am Ada"]
	if about := n.Expect(200, "GET", path, nil); about["kind"] != "visitor" || about["counts"].(object)["runs"] != 1.0 {
		t.Errorf("%v", about)
	}
	done := n.Expect(200, "POST", "/api/v1/data-subject/erasure", object{"subject_id": ids["I am Ada"]})
	if erased := done["erased"].(object); done["status"] != "completed" || erased["runs"] != 1.0 || erased["sessions"] != 1.0 {
		t.Errorf("%v", done)
	}
	n.Expect(404, "GET", path, nil)
	n.Expect(404, "GET", "/api/v1/sessions/"+ids["I am Ada"], nil)
	n.Expect(200, "GET", "/api/v1/sessions/"+ids["I am Grace"], nil)
}
