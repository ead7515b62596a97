package app_test

import (
	"net/url"
	"slices"
	"testing"

	"agentd/internal/base/authz"
	"agentd/internal/kernel/model/modeltest"
)

// hits searches, and gives "type title" of each result and the ids.
func (n *node) hits(query string) (titles, ids []string) {
	n.t.Helper()
	for _, one := range n.want(200, "GET", "/api/v1/search?"+query, nil)["results"].([]any) {
		r := one.(object)
		titles, ids = append(titles, r["type"].(string)+" "+r["title"].(string)), append(ids, r["id"].(string))
		if n.do("GET", r["href"].(string), nil).StatusCode != 200 {
			n.t.Errorf("nothing is at %v", r["href"])
		}
	}
	return titles, ids
}

func (n *node) finds(query string, want ...string) {
	n.t.Helper()
	var got []string
	eventually(n.t, func() bool {
		got, _ = n.hits(query)
		return slices.Equal(got, want)
	})
}

func TestSearch(t *testing.T) {
	t.Parallel()
	for _, engine := range engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "Crème brûlée, of course."}))
			n := start(t, sim, onEngine(t, engine))
			for _, q := range []string{"", "q=", "q=x", "q=%20x%20", "q=nothing", "q=nothing&type=run&limit=x"} {
				if got, _ := n.hits(q); len(got) != 0 {
					t.Errorf("%s finds %v", q, got)
				}
			}
			checkCode(t, n.do("GET", "/api/v1/search?q=ab&type=file", nil), 400, "INVALID_QUERY")

			cook := n.agent(object{"name": "Dessert cook", "description": "Knows the kitchen of Lyon."})
			session := n.want(201, "POST", "/api/v1/sessions", object{"agent_id": cook, "metadata": object{"title": "Sunday lunch"}})["session_id"].(string)
			n.finds("q=lyon", "agent Dessert cook")
			n.finds("q=sunday", "session Sunday lunch")
			run := n.run(cook, "What dessert goes with wine?", object{"session_id": session})
			n.ended(run)
			n.finds("q=creme+brulee", "session Sunday lunch", "run What dessert goes with wine?")
			n.finds("q=brulee+wine&type=run", "run What dessert goes with wine?")
			n.finds("q=dess&limit=1", "agent Dessert cook")
			n.finds("q=all&type=all")

			n.want(200, "PATCH", "/api/v1/agents/"+cook, object{"name": "Patissier"})
			n.finds("q=dessert+cook")
			n.finds("q=patis", "agent Patissier")
			n.want(200, "PUT", "/api/v1/sessions/"+session, object{"metadata": object{"title": "Monday"}})
			n.finds("q=sunday")
			n.finds("q=monday", "session Monday")

			// Others find nothing of it, and a key only what it may read.
			other, err := n.admin().CreateTenant(t.Context(), "other", "")
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := n.as(string(other.RawKey)).hits("q=brulee"); len(got) != 0 {
				t.Errorf("another company finds %v", got)
			}
			tenant := n.tenant()
			for _, tt := range []struct {
				scopes []authz.Scope
				want   []string
			}{
				{[]authz.Scope{"search:read"}, nil},
				{[]authz.Scope{"search:read", "runs:read"}, []string{"run What dessert goes with wine?"}},
			} {
				g := n.admin().key(tenant, authz.Viewer, tt.scopes...)
				if got, _ := n.as(string(g.RawKey)).hits("q=brulee"); !slices.Equal(got, tt.want) {
					t.Errorf("%v find %v", tt.scopes, got)
				}
			}
			g := n.admin().key(tenant, authz.Owner, "runs:read")
			checkCode(t, n.as(string(g.RawKey)).do("GET", "/api/v1/search?q="+url.QueryEscape("a b"), nil), 403, "MISSING_SCOPE")

			n.want(200, "DELETE", "/api/v1/sessions/"+session, nil)
			n.finds("q=brulee", "run What dessert goes with wine?")
			n.do("DELETE", "/api/v1/agents/"+cook, nil)
			n.finds("q=patis")

			// What is stored is found again by a node that starts over it.
			n.stop()
			restart(t, n.cfg).finds("q=brulee", "run What dessert goes with wine?")
		})
	}
}
