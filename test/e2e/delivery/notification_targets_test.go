package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// A run fails, and a subscribed webhook target gets one signed notification.
func TestNotificationsReachTargets(t *testing.T) {
	t.Parallel()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			type got struct {
				*http.Request
				body string
			}
			received := make(chan got, 10)
			hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				received <- got{r, string(body)}
			}))
			t.Cleanup(hook.Close)
			n := apptest.Start(t, modeltest.New(t, modeltest.Default(modeltest.Answer{Status: 400, Error: "no"})), apptest.OnEngine(t, engine),
				func(c *config.Config) { c.Security.EgressAllow = strings.TrimPrefix(hook.URL, "http://") })
			const path = "/api/v1/notifications"

			made := n.Expect(201, "POST", path+"/targets", object{"label": "Ops", "config": object{"kind": "webhook", "url": hook.URL + "/x?key=hush"}})
			key := made["config"].(object)["signing_secret"].(string)
			if list := n.Do("GET", path+"/targets", nil); strings.Contains(string(list.Body), "hush") || strings.Contains(string(list.Body), key) {
				t.Errorf("the list tells secrets: %s", list.Body)
			}
			prefs := n.Expect(200, "GET", path+"/prefs", nil)
			prefs["priority_channels"].(object)["warning"] = []string{"webhook"}
			n.Expect(200, "PUT", path+"/prefs", prefs)

			run := n.StartRun(n.CreateAgent(nil), "hello", nil)
			n.WaitRun(run)
			one := <-received
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(one.Header.Get("X-SVC-Timestamp") + "." + one.body))
			if want := "t=" + one.Header.Get("X-SVC-Timestamp") + ",v1=sha256=" + hex.EncodeToString(mac.Sum(nil)); one.Header.Get("X-SVC-Signature-V2") != want {
				t.Errorf("the signature is %s", one.Header.Get("X-SVC-Signature-V2"))
			}
			told := n.Expect(200, "GET", path, nil)["notifications"].([]any)[0].(object)
			if one.URL.String() != "/x?key=hush" || one.Header.Get("X-SVC-Event-Id") != told["id"] || one.Header.Get("X-SVC-Event-Type") != "run.failed" || !strings.Contains(one.body, run) {
				t.Errorf("%s %v: %s", one.URL, one.Header, one.body)
			}
			last := func() any {
				l, _ := n.Expect(200, "GET", path+"/targets", nil)["targets"].([]any)[0].(object)["last_delivery"].(object)
				return l["status"]
			}
			apptest.Eventually(t, func() bool { return last() == "delivered" })

			n.Expect(200, "POST", path+"/targets/"+made["id"].(string)+"/test", nil)
			if one := <-received; !strings.Contains(one.body, `"title":"Test notification"`) {
				t.Errorf("the test was %s", one.body)
			}
			for _, tt := range []struct {
				config object
				status int
				code   string
			}{
				{object{"kind": "webhook", "url": "http://example.com"}, 422, "VALIDATION_ERROR"},
				{object{"kind": "webhook", "url": "http://127.0.0.1:1"}, 422, "VALIDATION_ERROR"},
				{object{"kind": "email"}, 501, "FEATURE_DISABLED"},
				{object{"kind": "web_push"}, 501, "FEATURE_DISABLED"},
				{object{"kind": "pigeon"}, 422, "VALIDATION_ERROR"},
			} {
				apptest.CheckCode(t, n.Do("POST", path+"/targets", object{"config": tt.config}), tt.status, tt.code)
			}
			apptest.CheckCode(t, n.Do("PUT", path+"/prefs", object{"quiet_hours": object{"start_local": "x", "end_local": "y", "timezone": "z"}}), 422, "VALIDATION_ERROR")

			if got := n.Expect(200, "DELETE", path+"/targets/"+made["id"].(string), nil); got["deleted"] != true {
				t.Errorf("%v", got)
			}
			apptest.CheckCode(t, n.Do("POST", path+"/targets/"+made["id"].(string)+"/test", nil), 404, "NOT_FOUND")
			if len(received) != 0 {
				t.Errorf("received %d more", len(received))
			}
		})
	}
}
