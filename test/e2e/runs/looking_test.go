package runs

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

// Runs and sessions are found by times, states, errors and metadata, alone and
// together, on pages of any size.
func TestLookingForThings(t *testing.T) {
	t.Parallel()
	onEngines(t, modeltest.New(t, modeltest.Respond(func(r modeltest.Request) modeltest.Answer {
		if r.Chat().Messages[len(r.Chat().Messages)-1].Text() == "fail" {
			return modeltest.Answer{Status: 400}
		}
		return modeltest.Answer{Text: "Done."}
	})), func(t *testing.T, n *apptest.Server) {
		agent := n.CreateAgent(nil)
		long := strings.Repeat("x", 1<<16)
		start := func(message string, metadata object) string {
			id := n.StartRun(agent, message, object{"metadata": metadata})
			n.WaitRun(id)
			return id
		}
		a := start("go", object{"order": "4711", "n": 1.5, "paid": true, "größe": "süß & groß", "long": long, "deep": object{"x": 1}})
		b := start("fail", object{"order": "4711", "n": 2})
		c := start("go", object{"order": "4712"})
		between := n.Expect(200, "GET", "/api/v1/runs/"+b, nil)["created_at"].(string)
		code := n.Expect(200, "GET", "/api/v1/runs/"+b, nil)["error_code"].(string)
		future := time.Now().Add(time.Hour).Format(time.RFC3339)
		for _, q := range []struct {
			query []string
			want  []string
		}{
			{nil, []string{c, b, a}},
			{[]string{"created_after", between}, []string{c, b}},
			{[]string{"created_before", between}, []string{a}},
			{[]string{"created_after", between, "created_before", between}, nil},
			{[]string{"created_after", future}, nil},
			{[]string{"status", "completed,failed"}, []string{c, b, a}},
			{[]string{"status", "failed,timeout"}, []string{b}},
			{[]string{"status", "completed", "created_after", between}, []string{c}},
			{[]string{"error_code", code}, []string{b}},
			{[]string{"error_code", "nobody_knows"}, nil},
			{[]string{"metadata[order]", "4711"}, []string{b, a}},
			{[]string{"metadata[order]", "4711", "metadata[n]", "1.5", "metadata[paid]", "true"}, []string{a}},
			{[]string{"metadata[order]", "4711", "status", "completed,cancelled", "agent_id", agent}, []string{a}},
			{[]string{"metadata[order]", "4711", "created_after", between}, []string{b}},
			{[]string{"metadata[größe]", "süß & groß"}, []string{a}},
			{[]string{"metadata[long]", long}, []string{a}},
			{[]string{"metadata[order]", "471"}, nil},
			{[]string{"metadata[deep]", "1"}, nil},
		} {
			query := url.Values{}
			for pair := range slices.Chunk(q.query, 2) {
				query.Set(pair[0], pair[1])
			}
			if len(query.Get("metadata[long]")) > 4096 {
				continue // longer than a request line may be; sessions test the hash
			}
			for _, limit := range []string{"1", "20"} {
				query.Set("limit", limit)
				if diff := gocmp.Diff(q.want, allIDs(n, "/api/v1/runs?"+query.Encode(), "run_id")); diff != "" {
					t.Errorf("%v, pages of %s (-want +got):\n%s", q.query, limit, diff)
				}
			}
		}
		for query, status := range map[string]int{
			"created_after=yesterday": 400, "status=done": 400,
			"created_after=2026-01-02T00:00:00Z&created_before=2026-01-01T00:00:00Z": 422,
			"metadata[a]=1&metadata[b]=1&metadata[c]=1&metadata[d]=1":                400,
		} {
			got := n.Do("GET", "/api/v1/runs?"+query, nil)
			if got.StatusCode != status {
				t.Errorf("%s: %d %s", query, got.StatusCode, got.Body)
			}
			apptest.CheckProblem(t, got)
		}
		lookForSessions(t, n, agent)
	})
}

func lookForSessions(t *testing.T, n *apptest.Server, agent string) {
	t.Helper()
	create := func(metadata object) string {
		return n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": agent, "metadata": metadata})["session_id"].(string)
	}
	one, two := create(object{"customer": "a"}), create(object{"customer": strings.Repeat("b", 300)})
	n.Expect(200, "PUT", "/api/v1/sessions/"+one, object{"metadata": object{"customer": "c", "tier": 1}})
	n.Expect(200, "DELETE", "/api/v1/sessions/"+two, nil)
	created := n.Expect(200, "GET", "/api/v1/sessions/"+two, nil)["created_at"].(string)
	for query, want := range map[string][]string{
		"metadata[customer]=a":                                nil,
		"metadata[customer]=c":                                {one},
		"metadata[customer]=c&metadata[tier]=1&status=active": {one},
		"metadata[customer]=" + strings.Repeat("b", 300):      {two},
		"status=closed":                                       {two},
		"status=closed,active":                                {two, one},
		"created_after=" + url.QueryEscape(created):           {two},
	} {
		if diff := gocmp.Diff(want, allIDs(n, "/api/v1/sessions?limit=1&"+query, "session_id")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

// allIDs reads all pages of a list.
func allIDs(n *apptest.Server, path, id string) (ids []string) {
	n.T.Helper()
	for next := path; next != ""; {
		page := n.Expect(200, "GET", next, nil)
		items, _ := page["items"].([]any)
		if items == nil {
			items, _ = page["sessions"].([]any)
		}
		for _, item := range items {
			ids = append(ids, item.(object)[id].(string))
		}
		next = ""
		if cursor, ok := page["cursor"].(string); ok {
			next = path + "&cursor=" + cursor
		}
	}
	return ids
}
