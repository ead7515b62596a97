package accounts

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/signin"
	"agentd/internal/accounts/signin/signinsql"
	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/model/modeltest"
)

// TestSignInWithLinkAndKey signs a browser in without an email: with the link that the
// operator made, and with a key.
func TestSignInWithLinkAndKey(t *testing.T) {
	t.Parallel()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.OnEngine(t, engine))
			tenant, user := n.Me()
			keys, err := n.Config.MasterKeys()
			if err != nil {
				t.Fatal(err)
			}
			box, err := secret.NewBox(keys...)
			if err != nil {
				t.Fatal(err)
			}
			db := n.Admin().DB
			links := signin.OneTimeLinks{Store: signinsql.New(db), Box: box, Clock: clock.System{}}
			var token string
			err = db.Write(t.Context(), func(tx txn.Tx) (err error) {
				token, _, err = links.Create(tx, authz.Caller{}, identity.Member{TenantID: tenant, UserID: user})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			owner := newBrowser(n)
			if methods := owner.want(200, "GET", "/api/v1/auth/methods", ""); methods["link"] != true || methods["email_code"] != false {
				t.Error(methods)
			}
			got := owner.want(200, "POST", "/api/v1/auth/link", `{"token":"`+token+`","device_label":"Laptop"}`)
			if got["user"].(object)["user_id"] != user || got["mfa_required"] != false {
				t.Error(got)
			}
			if me := owner.want(200, "GET", "/api/v1/me", ""); me["auth_method"] != "cookie" || me["role"] != "owner" {
				t.Error(me)
			}
			newBrowser(n).want(400, "POST", "/api/v1/auth/link", `{"token":"`+token+`"}`)

			// A narrow key: its session may do no more, and ends with it.
			key := owner.want(201, "POST", "/api/v1/tenants/me/keys", `{"name":"narrow","scopes":["agents:read"]}`)
			narrow := newBrowser(n)
			r := narrow.send("POST", "/api/v1/auth/session", `{"device_label":"Kiosk"}`,
				"Content-Type", "application/json", "Authorization", "Bearer "+key["raw_key"].(string))
			if r.StatusCode != 200 || r.JSON["api_key"] != nil {
				t.Fatalf("%d %s", r.StatusCode, r.Body)
			}
			narrow.want(200, "GET", "/api/v1/agents", "")
			narrow.want(403, "GET", "/api/v1/runs", "")
			narrow.want(403, "GET", "/api/v1/me/tenants", "")
			narrow.want(409, "POST", "/api/v1/auth/session", `{}`)
			var labels []string
			for _, device := range owner.want(200, "GET", "/api/v1/me/sessions", "")["items"].([]any) {
				if d := device.(object); d["kind"] == "session" {
					scopes, _ := json.Marshal(d["scopes"])
					labels = append(labels, d["name"].(string)+" "+string(scopes))
				}
			}
			if len(labels) != 2 || labels[0] == labels[1] {
				t.Error(labels)
			}
			owner.want(200, "DELETE", "/api/v1/tenants/me/keys/"+key["key_id"].(string), "")
			for deadline := time.Now().Add(5 * time.Second); narrow.send("GET", "/api/v1/agents", "").StatusCode != 401; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the session outlives its key")
				}
			}
		})
	}
}
