package delivery

import (
	"slices"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

func TestNotifications(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		const path = "/api/v1/notifications"
		if got := n.Expect(200, "GET", path, nil)["notifications"].([]any); len(got) != 0 {
			t.Fatalf("a new company was told %v", got)
		}
		// One stream is open before the first notification; another opens later.
		opened, frames := make(chan struct{}), make(chan []apptest.Frame)
		go func() {
			frames <- n.ReadStream(path+"/stream", "", func(f apptest.Frame) bool {
				if f.Name == "ready" {
					close(opened)
				}
				return f.ID == "2"
			})
		}()
		<-opened
		told := n.Admin().Notify(n.TenantID(), "one", "two") // newest first
		all := n.Expect(200, "GET", path, nil)["notifications"].([]any)
		newest := all[0].(object)
		if len(all) != 2 || newest["id"] != told[0] || newest["title"] != "two" || newest["read"] != false || newest["priority"] != "info" || newest["user_id"] != nil {
			t.Errorf("%v", all)
		}
		live := <-frames
		if got := apptest.FrameNames(live); !slices.Equal(got, []string{"ready", "notification"}) || len(live) != 3 || live[2].Object(t)["id"] != told[0] {
			t.Errorf("live: %v", live)
		}
		again := n.ReadStream(path+"/stream", "1", func(f apptest.Frame) bool { return f.ID == "2" && f.Name == "notification" })
		if len(again) != 2 || again[1].Data != live[2].Data {
			t.Errorf("resumed: %v", again)
		}

		n.Expect(200, "PUT", path+"/"+told[0]+"/read", nil)
		if got := n.Expect(200, "GET", path+"/unread", nil); got["unread_count"] != 1.0 || got["count"] != 1.0 {
			t.Errorf("%v", got)
		}
		if got := n.Expect(200, "GET", path+"?unread=true&limit=x", nil)["notifications"].([]any); len(got) != 1 || got[0].(object)["id"] != told[1] {
			t.Errorf("%v", got)
		}
		if got := n.Expect(200, "DELETE", path+"?scope=read", nil); got["deleted"] != 1.0 || got["scope"] != "read" {
			t.Errorf("%v", got)
		}
		if got := n.Expect(200, "PUT", path+"/read-all", nil); got["marked"] != 1.0 {
			t.Errorf("%v", got)
		}
		for _, id := range []string{told[1], told[1], ident.New()} {
			if got := n.Expect(200, "DELETE", path+"/"+id, nil); got["ok"] != true {
				t.Errorf("%v", got)
			}
		}
		apptest.CheckCode(t, n.Do("GET", path+"/"+told[1], nil), 405, "METHOD_NOT_ALLOWED")
		apptest.CheckCode(t, n.Do("DELETE", path+"?scope=unread", nil), 400, "INVALID_QUERY")
		apptest.CheckCode(t, n.Do("GET", path+"?unread=perhaps", nil), 400, "INVALID_QUERY")
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
	n := apptest.Start(t, sim)
	run := n.StartRun(n.CreateAgent(object{"built_in_tools": []string{"send_notification"}}), "tell them", nil)
	if got := n.WaitRun(run); got["status"] != "completed" {
		t.Fatalf("%v", got)
	}
	all := n.Expect(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any)
	if len(all) != 1 {
		t.Fatalf("%v", all)
	}
	got := all[0].(object)
	if got["title"] != "Look" || got["message"] != "There it is." || got["type"] != "domain.agent.message" || got["source"].(object)["id"] != run {
		t.Errorf("%v", got)
	}
}

func TestPeopleAreToldOfRuns(t *testing.T) {
	t.Parallel()
	apptest.EachEngineRefusing(t, func(t *testing.T, n *apptest.Server) {
		failing := n.CreateAgent(nil)
		echo := object{"provider": "custom", "model_ref": "builtin/echo"}
		careful := n.CreateAgent(object{"model": echo, "built_in_tools": []string{"calculator"}, "approval_required_tools": []string{"calculator"}})
		failed, waiting := n.StartRun(failing, "hello", nil), n.StartRun(careful, "calculate 6*7", nil)
		if got := n.WaitRun(failed); got["status"] != "failed" {
			t.Fatalf("%v", got)
		}
		told := func() map[any]object {
			found := map[any]object{}
			for _, one := range n.Expect(200, "GET", "/api/v1/notifications", nil)["notifications"].([]any) {
				found[one.(object)["type"]] = one.(object)
			}
			return found
		}
		apptest.Eventually(t, func() bool { return len(told()) == 2 })
		for kind, run := range map[string]string{"run.failed": failed, "run.awaiting_approval": waiting} {
			one := told()[kind]
			if one["source"].(object)["id"] != run || one["priority"] != "warning" || one["action_url"] != "/api/v1/runs/"+run {
				t.Errorf("%s: %v", kind, one)
			}
			n.Expect(200, "GET", one["action_url"].(string), nil)
		}
	})
}
