package public

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/kernel/model/modeltest"
)

func TestPublicProfiles(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest)
	_, owner := n.CreateTenant(object{"name": "Bakery Ada", "slug": "bakery-ada"})
	_, hidden := n.CreateTenant(object{"name": "Hidden"})
	agent, private := publish(owner, nil, nil), owner.CreateAgent(object{"name": "inside"})
	stranger := n.WithKey("")
	const profile = "/api/v1/public/tenants/bakery-ada"
	stranger.Expect(404, "GET", profile, nil)
	logo := owner.Expect(201, "POST", "/api/v1/files", object{
		"data": base64.StdEncoding.EncodeToString([]byte(png)), "mime_type": "image/png", "filename": "logo.png",
	})["file_id"].(string)
	content := "/api/v1/public/files/" + logo + "/content"
	stranger.Expect(404, "GET", content, nil)

	for _, wrong := range []object{
		{"branding": object{"primary_color": "red"}}, {"branding": object{"primary_color": "#fff;} * {x:y}"}}, {"branding": object{"a_color": 1}},
		{"public_settings": object{"tags": []string{strings.Repeat("x", 51)}}},
	} {
		owner.Expect(422, "PATCH", "/api/v1/tenants/me", wrong)
	}
	theirs := hidden.CreateAgent(object{"name": "theirs"})
	for _, wrong := range []object{{"public_agent_id": theirs}, {"published_agent_ids": []string{agent, theirs}}, {"published_agent_ids": []string{"x"}}} {
		owner.Expect(404, "PATCH", "/api/v1/tenants/me", wrong)
	}
	set := owner.Expect(200, "PATCH", "/api/v1/tenants/me", object{
		"public": true, "public_agent_id": agent, "published_agent_ids": []string{agent, private}, "description": "Bread for everybody",
		"public_settings": object{"category": "food", "tagline": "Since 1815", "tags": []string{"vegan"}},
		"branding":        object{"primary_color": "#1F5FBF", "font": `"; } body { display: none`}, "logo_url": "https://agents.example.com" + content,
	})
	if set["public"] != true || set["published_at"] == nil || set["public_settings"].(object)["category"] != "food" {
		t.Errorf("the company: %v", set)
	}
	got := stranger.Expect(200, "GET", profile, nil)
	want := []any{object{"agent_id": agent, "name": "Ada", "description": "Answers questions."}}
	if diff := cmp.Diff(want, got["agents"]); diff != "" || got["public_agent_id"] != agent || got["tagline"] != "Since 1815" {
		t.Errorf("the profile: %s %v", diff, got)
	}
	for _, inside := range []string{"settings", "plan", "status", "quotas"} {
		if got[inside] != nil {
			t.Errorf("the profile has %s", inside)
		}
	}
	css := stranger.Do("GET", profile+"/style.css", nil)
	if css.StatusCode != 200 || css.Header.Get("Content-Type") != "text/css; charset=utf-8" || css.Header.Get("ETag") == "" ||
		!strings.Contains(string(css.Body), "--brand-primary-color: #1F5FBF;") || strings.Count(string(css.Body), "}") != 1 {
		t.Errorf("the style sheet: %d %v %s", css.StatusCode, css.Header, css.Body)
	}
	if again := stranger.Do("GET", profile+"/style.css", nil, "If-None-Match", css.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("an unchanged style sheet: %d", again.StatusCode)
	}
	// The list is answered from memory for some seconds.
	apptest.Eventually(t, func() bool {
		return len(stranger.Expect(200, "GET", "/api/v1/public/tenants", nil)["items"].([]any)) == 1
	})
	for query, total := range map[string]float64{
		"?search=bread+vegan": 1, "?search=meat": 0, "?category=FOOD&sort=agents": 1, "?category=tools": 0, "?sort=name&limit=1": 1,
	} {
		if got := stranger.Expect(200, "GET", "/api/v1/public/tenants"+query, nil)["total"]; got != total {
			t.Errorf("%s: %v", query, got)
		}
	}
	stranger.Expect(400, "GET", "/api/v1/public/tenants?sort=rating", nil)
	stranger.Expect(200, "GET", content, nil)
	if card := stranger.Expect(200, "GET", "/api/v1/public/agents/"+agent, nil); card["company"].(object)["slug"] != "bakery-ada" {
		t.Errorf("the card: %v", card)
	}
	owner.Expect(200, "PATCH", "/api/v1/tenants/me", object{"public": false, "public_agent_id": nil, "public_settings": nil, "published_agent_ids": []string{}})
	stranger.Expect(404, "GET", profile, nil)
	plans := stranger.Expect(200, "GET", "/api/v1/public/plans", nil)["plans"].([]any)
	if p := plans[0].(object); p["id"] != "self_hosted" || p["quotas"] == nil || p["price_currency"] != "usd" {
		t.Errorf("plans: %v", plans)
	}
}

func TestEventsAreCounted(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, apptest.AddressPerRequest)
	stranger := n.WithKey("")
	for range 3 {
		stranger.Expect(204, "POST", "/api/v1/public/track", object{"event": "pricing.viewed", "properties": object{"plan": "pro"}})
	}
	stranger.Expect(422, "POST", "/api/v1/public/track", object{"event": "Bad Name"})
	stranger.Expect(422, "POST", "/api/v1/public/track", object{"event": "pricing.viewed", "properties": 1})
	stranger.Expect(401, "GET", "/api/v1/admin/public-events", nil)
	got := n.Expect(200, "GET", "/api/v1/admin/public-events?days=2", nil)["events"].([]any)
	want := []any{object{"day": time.Now().UTC().Format(time.DateOnly), "event": "pricing.viewed", "number": 3.0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
