package accounts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/wire/oidcclient/oidctest"
	"agentd/internal/wire/smtpmail/smtptest"
)

// seen lists the entries of the newest page of a log: what was done, by which
// operation and refusal, and how often.
func seen(n *apptest.Server, key string) map[string]float64 {
	n.T.Helper()
	all := map[string]float64{}
	for _, e := range n.WithKey(key).Expect(200, "GET", "/api/v1/admin/audit?limit=500", nil)["entries"].([]any) {
		entry := e.(map[string]any)
		details := entry["details"].(map[string]any)
		if count, ok := details["count"].(float64); ok {
			all[fmt.Sprintf("%v %v %v %v", entry["method"], entry["action"], details["operation"], details["code"])] += count
		}
	}
	return all
}

// Refused sign-ins, credentials and calls, downloads and exports are in the audit
// log: counted, without what was entered, and stored when the server stops.
func TestRefusalsAndDownloadsAreAudited(t *testing.T) {
	t.Parallel()
	people(t, func(n *apptest.Server, _ *smtptest.Server, _ *oidctest.Provider) {
		_, acme := n.CreateTenant(apptest.Object{"name": "Acme"})
		narrow := acme.WithScopes("agents:read")
		revoked := acme.Expect(201, "POST", "/api/v1/tenants/me/keys", apptest.Object{"name": "old"})
		acme.Expect(200, "DELETE", "/api/v1/tenants/me/keys/"+revoked["key_id"].(string), nil)
		file := acme.Expect(201, "POST", "/api/v1/files", apptest.Object{"filename": "a.txt", "data": "YQ==", "mime_type": "text/plain"})["file_id"].(string)
		agent := acme.CreateAgent(apptest.Object{"name": "a"})
		session := acme.CreateSession(agent, nil)

		send := func(want int, n *apptest.Server, method, path string, body any) {
			n.T.Helper()
			if got := n.Do(method, path, body); got.StatusCode != want {
				n.T.Fatalf("%s %s: %d %s", method, path, got.StatusCode, got.Body)
			}
		}
		stranger := n.WithKey("")
		for range 3 {
			send(400, stranger, "POST", "/api/v1/auth/verify-code", apptest.Object{"email": "mallory@evil.example", "code": "987654"})
		}
		send(400, stranger, "POST", "/api/v1/auth/oauth/exchange", apptest.Object{"code": "no-such-code", "code_verifier": strings.Repeat("v", 43)})
		send(400, stranger, "GET", "/api/v1/auth/oauth/corp/callback?state=no-such-state&code=x", nil)
		send(401, n.WithKey("svc_abcdefgh_"+strings.Repeat("z", 32)), "GET", "/api/v1/agents", nil)
		send(401, n.WithKey(revoked["raw_key"].(string)), "GET", "/api/v1/agents", nil)
		send(403, narrow, "POST", "/api/v1/agents", apptest.Object{"name": "b"})
		send(403, narrow, "POST", "/api/v1/agents", apptest.Object{"name": "c"})
		send(403, acme, "GET", "/api/v1/admin/audit?tenant_id="+n.TenantID(), nil)
		for range 2 {
			send(200, acme, "GET", "/api/v1/files/"+file+"/content", nil)
		}
		send(200, acme, "GET", "/api/v1/sessions/"+session+"/export", nil)
		// None of these is worth an entry.
		send(401, stranger, "GET", "/api/v1/agents", nil)
		send(404, acme, "GET", "/api/v1/files/"+session+"/content", nil)
		send(404, stranger, "GET", "/no/such/page", nil)
		send(422, acme, "POST", "/api/v1/agents", apptest.Object{})

		n.Stop()
		n2 := apptest.Restart(t, n.Config)
		want := map[string]float64{
			"anonymous auth.sign_in_failed verifyOtpCode VERIFICATION_FAILED": 3,
			"anonymous auth.sign_in_failed exchangeOAuthAppCode OAUTH_FAILED": 1,
			"anonymous auth.sign_in_failed completeOAuthLogin OAUTH_FAILED":   1,
			"anonymous auth.credential_refused listAgents AUTH_ERROR":         1,
		}
		if diff := cmp.Diff(want, seen(n2, apptest.OwnerKey)); diff != "" {
			t.Errorf("the operator's log: %s", diff)
		}
		want = map[string]float64{
			"api_key auth.credential_refused listAgents AUTH_ERROR": 1,
			"api_key access.refused createAgent MISSING_SCOPE":      2,
			"api_key access.refused listAuditEntries FORBIDDEN":     1,
			"api_key file.downloaded downloadFileContent <nil>":     2,
			"api_key session.exported exportSession <nil>":          1,
		}
		if diff := cmp.Diff(want, seen(n2, acme.Key)); diff != "" {
			t.Errorf("the company's log: %s", diff)
		}
		beside := n2.Admin()
		downloads := beside.Query(`SELECT target_type, target_id, ip_address FROM audit_log WHERE action = 'file.downloaded'`)
		if diff := cmp.Diff([]map[string]any{{"target_type": "file", "target_id": file, "ip_address": "127.0.0.1"}}, downloads); diff != "" {
			t.Error(diff)
		}
		everything := fmt.Sprint(beside.Query(`SELECT * FROM audit_log WHERE action IN ('auth.sign_in_failed', 'auth.credential_refused')`))
		for _, entered := range []string{"mallory", "987654", "no-such", "zzzz", revoked["raw_key"].(string)} {
			if strings.Contains(everything, entered) {
				t.Errorf("the log has %q, which was entered", entered)
			}
		}
	})
}

// A link or a signature that is not accepted leaves an entry like a wrong
// credential: in the log of the company that it names, or in the operator's.
func TestRefusedLinksAndSignaturesAreAudited(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	_, acme := n.CreateTenant(apptest.Object{"name": "Acme"})
	session := acme.CreateSession(acme.CreateAgent(nil), nil)
	share := func(body any) string {
		made := acme.Expect(200, "POST", "/api/v1/sessions/"+session+"/share", body)
		return strings.TrimPrefix(made["share_url"].(string), n.URL)
	}
	sensor := acme.Expect(201, "POST", "/api/v1/webhooks/sensors", apptest.Object{"agent_id": acme.CreateAgent(nil)})
	call := strings.TrimPrefix(sensor["url"].(string), n.URL)

	stranger := n.WithKey("")
	send := func(want int, method, path string) {
		t.Helper()
		if got := stranger.Do(method, path, nil); got.StatusCode != want {
			t.Fatalf("%s %s: %d %s", method, path, got.StatusCode, got.Body)
		}
	}
	replaced := share(nil)
	send(200, "GET", replaced)
	expired := share(apptest.Object{"expires_in_hours": 1})
	send(404, "GET", replaced)
	n.Admin().Exec(`UPDATE session_shares SET expires_at = 1`)
	for range 2 {
		send(404, "GET", expired)
	}
	send(404, "GET", "/api/v1/shared/made-up-token")
	for range 3 {
		send(401, "POST", call)
	}
	send(404, "POST", call[:len(call)-36]+session)
	send(404, "GET", "/api/v1/notifications/unsubscribe?token=made-up-token")

	n.Stop()
	n2 := apptest.Restart(t, n.Config)
	want := map[string]float64{
		"anonymous session.share_refused getSharedSession NOT_FOUND":                       2,
		"anonymous sensor.call_refused sensorWebhook NOT_FOUND":                            1,
		"anonymous notification_target.link_refused showNotificationUnsubscribe NOT_FOUND": 1,
	}
	if diff := cmp.Diff(want, seen(n2, apptest.OwnerKey)); diff != "" {
		t.Errorf("the operator's log: %s", diff)
	}
	want = map[string]float64{
		"anonymous session.share_refused getSharedSession NOT_FOUND": 2,
		"anonymous sensor.call_refused sensorWebhook AUTH_ERROR":     3,
	}
	if diff := cmp.Diff(want, seen(n2, acme.Key)); diff != "" {
		t.Errorf("the company's log: %s", diff)
	}
	targets := n2.Admin().Query(`SELECT action, target_type, target_id FROM audit_log WHERE action LIKE '%_refused' AND target_id <> '' ORDER BY action`)
	if diff := cmp.Diff([]map[string]any{
		{"action": "sensor.call_refused", "target_type": "sensor", "target_id": sensor["webhook_id"]},
		{"action": "session.share_refused", "target_type": "session", "target_id": session},
	}, targets); diff != "" {
		t.Error(diff)
	}
	everything := fmt.Sprint(n2.Admin().Query(`SELECT * FROM audit_log`))
	for _, link := range []string{replaced, expired, "made-up-token"} {
		if token := link[strings.LastIndex(link, "/")+1:]; strings.Contains(everything, token) {
			t.Errorf("the log has %q, which was entered", token)
		}
	}
}

// Whatever is open to strangers by a link or a signature leaves an entry when it
// refuses one.
func TestRefusalsOfPublicOperationsAreWatched(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	routes, _ := n.App.Routes()
	watched := 0
	for _, r := range routes {
		refuses := slices.ContainsFunc(r.Errors, func(status int) bool { return status == 401 || status == 403 || status == 404 })
		if r.Public && refuses && r.Refused == "" && !r.SignIn {
			t.Errorf("%s refuses strangers and leaves no entry: set Refused in its row", r.ID)
		}
		if r.Refused != "" {
			watched++
		}
	}
	if watched < 6 {
		t.Errorf("%d operations are watched", watched)
	}
}

// Whatever hands out data as a whole leaves an entry that says so; what is public does
// not.
func TestDownloadsAreWatched(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	routes, _ := n.App.Routes()
	watched := 0
	for _, r := range routes {
		download := r.Out != nil && strings.HasSuffix(r.Out.String(), "route.Content")
		if export := strings.HasPrefix(r.ID, "export"); (download || export) && r.Reads == "" && !r.Public {
			t.Errorf("%s hands out data and leaves no entry: set Reads in its row", r.ID)
		}
		if r.Reads != "" {
			watched++
		}
	}
	if watched < 4 {
		t.Errorf("%d operations are watched", watched)
	}
}
