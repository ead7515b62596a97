package delivery

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
)

// A company invokes what another one offers: the run is the owner's, and the caller sees
// its answer alone.
func TestMarketplaceAcrossCompanies(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		const market = "/api/v1/marketplace"
		_, buyer := n.CreateTenant(object{"name": "Buyer"})
		agent := n.CreateAgent(object{"name": "Translator", "prompts": object{"system": "the secret of the seller"}, "model": apptest.EchoModel})
		n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"description": "a second version"})
		listing := n.Expect(201, "POST", market+"/listings", object{
			"agent_id": agent, "name": "Translator", "category": "productivity", "publish": true, "agent_version": "1",
			"pricing": object{"model": "per_run", "price_per_run_usd": 0.5},
		})["listing_id"].(string)
		found := buyer.Expect(200, "GET", market+"/search?q=transl", nil)["items"].([]any)
		if len(found) != 1 || found[0].(object)["listing_id"] != listing {
			t.Fatalf("found %v", found)
		}
		made := buyer.Expect(202, "POST", market+"/listings/"+listing+"/invoke", object{"input": object{"message": "Good morning"}})
		id := made["invocation_id"].(string)
		var got object
		apptest.Eventually(t, func() bool {
			got = buyer.Expect(200, "GET", market+"/invocations/"+id, nil)
			return got["status"] == "completed"
		})
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "Good morning") || strings.Contains(string(text), "secret of the seller") {
			t.Errorf("the buyer sees %s", text)
		}
		buyer.Do("GET", "/api/v1/runs/"+id, nil).IsProblem(t, 404, "NOT_FOUND")
		buyer.Do("GET", "/api/v1/agents/"+agent, nil).IsProblem(t, 404, "NOT_FOUND")
		run := n.Expect(200, "GET", "/api/v1/runs/"+id, nil)
		if run["agent_version"] != 1.0 || run["metadata"].(object)["source"] != "marketplace" {
			t.Errorf("the owner's run: %v", run)
		}
		if got := n.Expect(200, "GET", market+"/revenue", nil)["earned_usd"]; got != 0.5 {
			t.Errorf("the owner earned %v", got)
		}
		n.Expect(200, "DELETE", "/api/v1/agents/"+agent, nil)
		apptest.Eventually(t, func() bool {
			return buyer.Expect(200, "GET", market+"/listings/"+listing, nil)["status"] == "deprecated"
		})
	})
}
