package limits

import (
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
)

// A page of large things ends early, with a cursor: whoever follows it sees
// each of them once.
func TestPagesOfLargeThings(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		note := object{"note": strings.Repeat("a", 3<<20)}
		agent := n.CreateAgent(object{"model": apptest.EchoModel})
		for path, list := range map[string]struct {
			id   string
			body object
		}{
			"/api/v1/agents":             {"agent_id", object{"name": "large", "metadata": note}},
			"/api/v1/commerce/customers": {"id", object{"name": "large", "metadata": note}},
			"/api/v1/runs":               {"run_id", object{"agent_id": agent, "input": object{"message": "x"}, "metadata": note}},
		} {
			t.Run(path[len("/api/v1/"):], func(t *testing.T) {
				n := n.WithKey(n.Key)
				n.T = t
				var made, seen []string
				for range 4 {
					r := n.Do("POST", path, list.body)
					if r.StatusCode > 299 {
						t.Fatalf("%d %.300s", r.StatusCode, r.Body)
					}
					made = append(made, r.JSON[list.id].(string))
				}
				cursor, pages := "", 0
				for more := true; more; pages++ {
					r := n.Do("GET", path+"?limit=100&cursor="+cursor, nil)
					if r.StatusCode != 200 || len(r.Body) > 9<<20 {
						t.Fatalf("%d, %d bytes: %.300s", r.StatusCode, len(r.Body), r.Body)
					}
					seen = append(seen, apptest.IDs(t, r.JSON, list.id)...)
					more = r.JSON["has_more"].(bool)
					cursor, _ = r.JSON["cursor"].(string)
					if more != (cursor != "") {
						t.Fatalf("has_more is %t, the cursor %q", more, cursor)
					}
				}
				if pages < 4 {
					t.Errorf("%d pages", pages)
				}
				slices.Reverse(made)
				if seen = seen[:min(len(made), len(seen))]; !slices.Equal(made, seen) {
					t.Errorf("the pages have %v, want %v", seen, made)
				}
			})
		}
	})
}
