package content

import (
	"net/url"
	"slices"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/kernel/model/modeltest"
)

// searchHits searches, and gives "type title" of each result and the ids.
func searchHits(n *apptest.Server, query string) (titles, ids []string) {
	n.T.Helper()
	for _, one := range n.Expect(200, "GET", "/api/v1/search?"+query, nil)["results"].([]any) {
		r := one.(object)
		titles, ids = append(titles, r["type"].(string)+" "+r["title"].(string)), append(ids, r["id"].(string))
		if n.Do("GET", r["href"].(string), nil).StatusCode != 200 {
			n.T.Errorf("nothing is at %v", r["href"])
		}
	}
	return titles, ids
}

func checkFinds(n *apptest.Server, query string, want ...string) {
	n.T.Helper()
	var got []string
	apptest.Eventually(n.T, func() bool {
		got, _ = searchHits(n, query)
		return slices.Equal(got, want)
	})
}

func TestSearch(t *testing.T) {
	t.Parallel()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "Crème brûlée, of course."}))
			n := apptest.Start(t, sim, apptest.OnEngine(t, engine))
			for _, q := range []string{"", "q=", "q=x", "q=%20x%20", "q=nothing", "q=nothing&type=run&limit=x"} {
				if got, _ := searchHits(n, q); len(got) != 0 {
					t.Errorf("%s finds %v", q, got)
				}
			}
			apptest.CheckCode(t, n.Do("GET", "/api/v1/search?q=ab&type=file", nil), 400, "INVALID_QUERY")

			cook := n.CreateAgent(object{"name": "Dessert cook", "description": "Knows the kitchen of Lyon."})
			session := n.Expect(201, "POST", "/api/v1/sessions", object{"agent_id": cook, "metadata": object{"title": "Sunday lunch"}})["session_id"].(string)
			checkFinds(n, "q=lyon", "agent Dessert cook")
			checkFinds(n, "q=sunday", "session Sunday lunch")
			run := n.StartRun(cook, "What dessert goes with wine?", object{"session_id": session})
			n.WaitRun(run)
			checkFinds(n, "q=creme+brulee", "session Sunday lunch", "run What dessert goes with wine?")
			checkFinds(n, "q=brulee+wine&type=run", "run What dessert goes with wine?")
			checkFinds(n, "q=dess&limit=1", "agent Dessert cook")
			checkFinds(n, "q=all&type=all")

			n.Expect(200, "PATCH", "/api/v1/agents/"+cook, object{"name": "Patissier"})
			checkFinds(n, "q=dessert+cook")
			checkFinds(n, "q=patis", "agent Patissier")
			n.Expect(200, "PUT", "/api/v1/sessions/"+session, object{"metadata": object{"title": "Monday"}})
			checkFinds(n, "q=sunday")
			checkFinds(n, "q=monday", "session Monday")

			// Others find nothing of it, and a key only what it may read.
			other, err := n.Admin().Tenants.Create(t.Context(), "other", "")
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := searchHits(n.WithKey(string(other.RawKey)), "q=brulee"); len(got) != 0 {
				t.Errorf("another company finds %v", got)
			}
			tenant := n.TenantID()
			for _, tt := range []struct {
				scopes []authz.Scope
				want   []string
			}{
				{[]authz.Scope{"search:read"}, nil},
				{[]authz.Scope{"search:read", "runs:read"}, []string{"run What dessert goes with wine?"}},
			} {
				g := n.Admin().CreateKey(tenant, authz.Viewer, tt.scopes...)
				if got, _ := searchHits(n.WithKey(string(g.RawKey)), "q=brulee"); !slices.Equal(got, tt.want) {
					t.Errorf("%v find %v", tt.scopes, got)
				}
			}
			g := n.Admin().CreateKey(tenant, authz.Owner, "runs:read")
			apptest.CheckCode(t, n.WithKey(string(g.RawKey)).Do("GET", "/api/v1/search?q="+url.QueryEscape("a b"), nil), 403, "MISSING_SCOPE")

			n.Expect(200, "DELETE", "/api/v1/sessions/"+session, nil)
			checkFinds(n, "q=brulee", "run What dessert goes with wine?")
			n.Do("DELETE", "/api/v1/agents/"+cook, nil)
			checkFinds(n, "q=patis")

			// What is stored is found again by a node that starts over it.
			n.Stop()
			checkFinds(apptest.Restart(t, n.Config), "q=brulee", "run What dessert goes with wine?")
		})
	}
}
