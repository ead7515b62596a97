package accounts

import (
	"fmt"
	"slices"
	"time"

	"agentd/internal/app/apptest"
)

// arrivalsAreShown checks what the operator sees when one person has signed up, which is
// also a sign-in. A company that the operator makes is no sign-up.
func arrivalsAreShown(n *apptest.Server, user any) {
	t := n.T
	t.Helper()
	n.Expect(201, "POST", "/api/v1/admin/tenants", object{"name": "Made by the operator"})
	for _, event := range []string{"landing_visit", "landing_visit", "page_view", "app_open", "pricing.viewed"} {
		n.WithKey("").Expect(204, "POST", "/api/v1/public/track", object{"event": event})
	}
	got := n.Expect(200, "GET", "/api/v1/admin/analytics/overview?days=2", nil)
	days := got["timeseries"].([]any)
	const want = "map[app_open:1 landing_visit:2 login:1 page_view:1 signup:1]"
	if text := fmt.Sprint(got["totals"]); text != want || len(days) != 2 || got["signups_30d"] != 1.0 || got["conversion_rate"] != 0.5 {
		t.Errorf("%v", got)
	}
	today, before := days[1].(object), days[0].(object)
	if today["date"] != time.Now().UTC().Format(time.DateOnly) || today["signup"] != 1.0 || today["landing_visit"] != 2.0 || before["signup"] != 0.0 {
		t.Errorf("%v", days)
	}
	for query, want := range map[string][]string{
		"": {"login", "signup"}, "type=signup": {"signup"}, "type=login&days=30": {"login"}, "type=page_view": nil, "limit=1": {"login"},
	} {
		list := n.Expect(200, "GET", "/api/v1/admin/analytics/events?"+query, nil)
		var types []string
		for _, one := range list["items"].([]any) {
			types = append(types, one.(object)["type"].(string))
			if one.(object)["visitor_id"] != user || one.(object)["tenant_id"] == "" {
				t.Errorf("%v", one)
			}
		}
		if query == "" {
			slices.Sort(types) // both are of one moment
		}
		if query != "limit=1" && !slices.Equal(types, want) || float64(len(want)) != list["count"] {
			t.Errorf("%q: %v, want %v", query, types, want)
		}
	}
	for _, query := range []string{"overview?days=91", "events?days=31"} {
		if r := n.Do("GET", "/api/v1/admin/analytics/"+query, nil); r.StatusCode/100 != 4 {
			t.Errorf("%s: %d", query, r.StatusCode)
		}
	}
	n.WithKey("").Expect(401, "GET", "/api/v1/admin/analytics/events", nil)
}
