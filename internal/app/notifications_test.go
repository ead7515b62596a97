package app_test

import (
	"slices"
	"testing"

	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

func TestNotifications(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		const path = "/api/v1/notifications"
		if got := n.want(200, "GET", path, nil)["notifications"].([]any); len(got) != 0 {
			t.Fatalf("a new company was told %v", got)
		}
		// The stream is open before anything is told; another comes later.
		opened, frames := make(chan struct{}), make(chan []frame)
		go func() {
			frames <- n.stream(path+"/stream", "", func(f frame) bool {
				if f.name == "ready" {
					close(opened)
				}
				return f.id == "2"
			})
		}()
		<-opened
		told := n.admin().notified(n.tenant(), "one", "two") // newest first
		all := n.want(200, "GET", path, nil)["notifications"].([]any)
		newest := all[0].(object)
		if len(all) != 2 || newest["id"] != told[0] || newest["title"] != "two" || newest["read"] != false || newest["priority"] != "info" || newest["user_id"] != nil {
			t.Errorf("%v", all)
		}
		live := <-frames
		if got := names(live); !slices.Equal(got, []string{"ready", "notification"}) || len(live) != 3 || live[2].object(t)["id"] != told[0] {
			t.Errorf("live: %v", live)
		}
		again := n.stream(path+"/stream", "1", func(f frame) bool { return f.id == "2" && f.name == "notification" })
		if len(again) != 2 || again[1].data != live[2].data {
			t.Errorf("resumed: %v", again)
		}

		n.want(200, "PUT", path+"/"+told[0]+"/read", nil)
		if got := n.want(200, "GET", path+"/unread", nil); got["unread_count"] != 1.0 || got["count"] != 1.0 {
			t.Errorf("%v", got)
		}
		if got := n.want(200, "GET", path+"?unread=true&limit=x", nil)["notifications"].([]any); len(got) != 1 || got[0].(object)["id"] != told[1] {
			t.Errorf("%v", got)
		}
		if got := n.want(200, "DELETE", path+"?scope=read", nil); got["deleted"] != 1.0 || got["scope"] != "read" {
			t.Errorf("%v", got)
		}
		if got := n.want(200, "PUT", path+"/read-all", nil); got["marked"] != 1.0 {
			t.Errorf("%v", got)
		}
		for _, id := range []string{told[1], told[1], ident.New()} {
			if got := n.want(200, "DELETE", path+"/"+id, nil); got["ok"] != true {
				t.Errorf("%v", got)
			}
		}
		checkCode(t, n.do("GET", path+"/"+told[1], nil), 405, "METHOD_NOT_ALLOWED")
		checkCode(t, n.do("DELETE", path+"?scope=unread", nil), 400, "INVALID_QUERY")
		checkCode(t, n.do("GET", path+"?unread=perhaps", nil), 400, "INVALID_QUERY")
	})
}

func TestAgentsSendNotifications(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if req.Chat().Last("tool") != "" {
			return modeltest.Answer{Text: "done"}
		}
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "send_notification", Arguments: `{"title":"Look","message":"There it is."}`}}}
	}))
	n := start(t, sim)
	run := n.run(n.agent(object{"built_in_tools": []string{"send_notification"}}), "tell them", nil)
	if got := n.ended(run); got["status"] != "completed" {
		t.Fatalf("%v", got)
	}
	all := n.want(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any)
	if len(all) != 1 {
		t.Fatalf("%v", all)
	}
	got := all[0].(object)
	if got["title"] != "Look" || got["message"] != "There it is." || got["type"] != "domain.agent.message" || got["source"].(object)["id"] != run {
		t.Errorf("%v", got)
	}
}

// eachRefusing runs a subtest on a node with each database, and with a model
// that refuses every call.
func eachRefusing(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	for _, engine := range engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Error: "no"})), onEngine(t, engine)))
		})
	}
}

func TestPeopleAreToldOfRuns(t *testing.T) {
	t.Parallel()
	eachRefusing(t, func(t *testing.T, n *node) {
		failing := n.agent(nil)
		echo := object{"provider": "custom", "model_ref": "builtin/echo"}
		careful := n.agent(object{"model": echo, "built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}})
		failed, waiting := n.run(failing, "hello", nil), n.run(careful, "calculate 6*7", nil)
		if got := n.ended(failed); got["status"] != "failed" {
			t.Fatalf("%v", got)
		}
		told := func() map[any]object {
			found := map[any]object{}
			for _, one := range n.want(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any) {
				found[one.(object)["type"]] = one.(object)
			}
			return found
		}
		eventually(t, func() bool { return len(told()) == 2 })
		for kind, run := range map[string]string{"run.failed": failed, "run.awaiting_approval": waiting} {
			one := told()[kind]
			if one["source"].(object)["id"] != run || one["priority"] != "warning" || one["action_url"] != "/api/v1/runs/"+run {
				t.Errorf("%s: %v", kind, one)
			}
			n.want(200, "GET", one["action_url"].(string), nil)
		}
	})
}
