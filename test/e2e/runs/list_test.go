package runs

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model/modeltest"
)

// Runs are listed newest first, in the order that is asked for, by what they
// have.
func TestRunListFilters(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.HangingModel))
	one, two := n.CreateAgent(object{"model": apptest.EchoModel}), n.CreateAgent(nil)
	var ended []string
	for range 3 {
		id := n.StartRun(one, "hello", nil)
		n.WaitRun(id)
		ended = append(ended, id)
	}
	waiting := n.StartRun(two, "wait", nil)
	newest := []string{waiting, ended[2], ended[1], ended[0]}
	oldest := slices.Clone(newest)
	slices.Reverse(oldest)
	for query, want := range map[string][]string{
		"": newest, "?order=desc": newest, "?order=asc": oldest, "?order=": newest,
		"?agent_id=" + one: newest[1:], "?agent_id=" + two: newest[:1], "?agent_id=" + ident.New(): {}, "?agent_id=x": {},
		"?status=completed": newest[1:], "?status=running": newest[:1], "?status=failed": {},
		"?status=completed&agent_id=" + two: {}, "?status=completed&order=asc": oldest[:3],
		"?session_id=" + ident.New(): {}, "?unknown=1": newest, "?agent_id=": newest,
	} {
		if diff := cmp.Diff(want, apptest.IDs(t, n.Expect(200, "GET", "/api/v1/runs"+query, nil), "run_id")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"?order=up", "?order=ASC", "?status=done", "?status=Completed", "?limit=%zz"} {
		apptest.CheckCode(t, n.Do("GET", "/api/v1/runs"+query, nil), 400, "INVALID_QUERY")
	}
}

// Pages of the list hold each run once, in both orders.
func TestRunsAreListed(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t))
	one, other := n.CreateAgent(nil), n.CreateAgent(nil)
	var ids []string
	for i := range 25 {
		ids = append(ids, n.StartRun([]string{one, other}[i%2], "Hello?", nil))
	}
	for _, id := range ids {
		n.WaitRun(id)
	}
	list := func(query string) (got []string, page object) {
		t.Helper()
		page = n.Expect(200, "GET", "/api/v1/runs"+query, nil)
		for _, r := range page["items"].([]any) {
			got = append(got, r.(object)["run_id"].(string))
		}
		return got, page
	}
	newest := slices.Clone(ids)
	slices.Reverse(newest)
	var even []string
	for i, id := range newest {
		if i%2 == 0 {
			even = append(even, id)
		}
	}
	queries := map[string][]string{
		"": newest[:20], "?order=asc": ids[:20], "?order=desc&limit=3": newest[:3], "?limit=0": newest[:1], "?limit=x": newest[:20],
		"?limit=9999&agent_id=" + one: even, "?status=completed&limit=100": newest, "?status=failed": nil,
	}
	for query, want := range queries {
		if got, _ := list(query); !slices.Equal(got, want) {
			t.Errorf("%q gives %d runs, want %d: %v", query, len(got), len(want), got)
		}
	}
	for _, order := range []string{"asc", "desc"} {
		var got []string
		cursor := ""
		for {
			ids, page := list("?limit=7&order=" + order + "&cursor=" + cursor)
			got = append(got, ids...)
			if page["has_more"] == false {
				if page["cursor"] != nil {
					t.Errorf("the last page has the cursor %v", page["cursor"])
				}
				break
			}
			cursor = page["cursor"].(string)
		}
		if want := map[string][]string{"asc": ids, "desc": newest}[order]; !slices.Equal(got, want) {
			t.Errorf("walking %s gives %v", order, got)
		}
		if p := n.Expect(422, "GET", "/api/v1/runs?order=asc&status=completed&cursor="+cursor, nil); p["code"] != "INVALID_CURSOR" || p["errors"] != nil {
			t.Errorf("a foreign cursor: %v", p)
		}
	}
	n.Expect(400, "GET", "/api/v1/runs?order=up", nil)
	if p := n.Expect(200, "GET", "/api/v1/runs?status=failed", nil); p["items"] == nil || p["cursor"] != nil || p["has_more"] != false {
		t.Errorf("an empty page: %v", p)
	}
}
