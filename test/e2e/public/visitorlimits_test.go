package public

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// Strangers have limits of their own, which an operator changes at once.
func TestVisitorsAreLimited(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel))
	agent := publish(n, object{"daily_message_limit": 3}, nil)
	n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", object{"sessions_per_address_per_minute": 3, "messages_per_minute": 2})
	first, second := visit(n, agent), visit(n, agent)
	say := func(v visitor) apptest.Reply {
		r := v.do("POST", "/messages", object{"content": "hello"})
		if id, ok := r.JSON["run_id"].(string); ok {
			n.WaitRun(id)
		}
		return r
	}
	for i, want := range []int{202, 202, 429} {
		if r := say(first); r.StatusCode != want || want == 429 && r.Header.Get("Retry-After") == "" {
			t.Fatalf("message %d: %d %s", i, r.StatusCode, r.Body)
		}
	}
	if r := say(second); r.StatusCode != 202 { // the third message of the agent's day
		t.Fatal(string(r.Body))
	}
	say(second).IsProblem(t, 429, "DAILY_LIMIT")
	visit(n, agent)
	stranger := n.WithKey("")
	stranger.Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "rate_limit_exceeded")
	n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", object{"sessions_per_address_per_minute": 1000})
	apptest.Eventually(t, func() bool { // the bucket of the address, which is empty, fills at the new rate
		return stranger.Do("POST", sessions, object{"agent_id": agent, "fresh": true}).StatusCode == 201
	})
	for _, wrong := range []object{{"session_minutes": 0}, {"captcha_verify_url": "ftp://x"}, {"captcha_verify_url": "https://c.example"}} {
		n.Expect(422, "PUT", "/api/v1/admin/config/public-chat", wrong)
	}
	// A message whose run the plan refuses counts in no limit, and says nothing of the plan.
	n.WithKey("").Expect(401, "GET", "/api/v1/admin/config/public-chat", nil)
}

// Each limit of the operator is obeyed at once.
func TestSettingsOfVisitors(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel))
	agent, stranger := publish(n, nil, nil), n.WithKey("")
	set := func(fields object) { n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", fields) }
	say := func(v visitor) apptest.Reply {
		r := v.do("POST", "/messages", object{"content": "hello"})
		if id, ok := r.JSON["run_id"].(string); ok {
			n.WaitRun(id)
		}
		return r
	}
	set(object{"session_minutes": 1, "messages_per_session": 1, "sessions_per_agent": 3})
	v := visit(n, agent)
	view := v.expect(200, "GET", "", nil)
	inside := n.Expect(200, "GET", "/api/v1/sessions/"+v.id, nil)
	lasts := moment(t, view["expires_at"]).Sub(moment(t, inside["created_at"]))
	if lasts.Round(time.Second) != time.Minute || view["messages_remaining"] != 1.0 {
		t.Errorf("a session of a minute: %v, %v", lasts, view)
	}
	say(v)
	say(v).IsProblem(t, 429, "MESSAGE_LIMIT")
	second := visit(n, agent)
	visit(n, agent)
	stranger.Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "ANON_BUSY")
	set(object{"sessions_per_agent": 100, "sessions_per_address_per_hour": 1})
	stranger.Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "rate_limit_exceeded")
	set(object{"messages_per_address_per_minute": 1})
	say(second).IsProblem(t, 429, "rate_limit_exceeded")
	set(object{"streams_per_address_per_minute": 1})
	n.OpenStream(t, sessions+"/"+second.id+"/events?token="+second.token)
	second.do("GET", "/events", nil).IsProblem(t, 429, "rate_limit_exceeded")
}

func moment(t *testing.T, value any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, value.(string))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// What a company sets for its agent holds where it is narrower than the operator's.
func TestLimitsOfAgents(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel))
	agent := publish(n, object{"rate_limit_sessions_per_ip": 2, "rate_limit_messages_per_min": 1}, nil)
	v := visit(n, agent)
	id := v.expect(202, "POST", "/messages", object{"content": "hello"})["run_id"].(string)
	n.WaitRun(id)
	v.do("POST", "/messages", object{"content": "again"}).IsProblem(t, 429, "rate_limit_exceeded")
	visit(n, agent)
	n.WithKey("").Do("POST", sessions, object{"agent_id": agent, "fresh": true}).IsProblem(t, 429, "rate_limit_exceeded")
	visit(n, publish(n, nil, nil)) // of another agent there is room
}

func TestCaptchas(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		solved := r.PostFormValue("secret") == "the secret" && r.PostFormValue("response") == "solved"
		_, _ = fmt.Fprintf(w, `{"success":%t}`, solved)
	}))
	t.Cleanup(service.Close)
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest, func(c *config.Config) {
		c.Security.EgressAllow = service.Listener.Addr().String()
	})
	agent, stranger := publish(n, nil, nil), n.WithKey("")
	set := n.Expect(200, "PUT", "/api/v1/admin/config/public-chat", object{
		"captcha_verify_url": service.URL, "captcha_site_key": "the site", "captcha_secret": "the secret",
	})
	if set["captcha_secret"] == "the secret" {
		t.Error("the secret is shown")
	}
	if card := stranger.Expect(200, "GET", "/api/v1/public/agents/"+agent, nil); card["captcha_site_key"] != "the site" {
		t.Errorf("the card: %v", card)
	}
	for answer, status := range map[string]int{"": 422, "wrong": 422, "solved": 201} {
		stranger.Expect(status, "POST", sessions, object{"agent_id": agent, "captcha_token": answer})
	}
	service.Close()
	stranger.Do("POST", sessions, object{"agent_id": agent, "captcha_token": "solved"}).IsProblem(t, 503, "SERVICE_UNAVAILABLE")
}
