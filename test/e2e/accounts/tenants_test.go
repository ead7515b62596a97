package accounts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/execution/engine"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

func tenantIsChanged(t *testing.T, n *apptest.Server, id, noTenant string) {
	t.Helper()
	changed := n.Expect(200, "PATCH", apptest.TenantsPath+"/"+id, object{"name": "Acme Ltd.", "slug": "acme-ltd", "settings": object{"region": nil, "tier": 1}})
	if changed["name"] != "Acme Ltd." || changed["slug"] != "acme-ltd" || fmt.Sprint(changed["settings"]) != "map[tier:1]" {
		t.Errorf("%v", changed)
	}
	n.Expect(409, "PATCH", apptest.TenantsPath+"/"+id, object{"slug": "keyless"})
	n.Expect(422, "PATCH", apptest.TenantsPath+"/"+id, object{"slug": "-", "plan": "none", "name": "\u0001"})
	n.Expect(404, "PATCH", apptest.TenantsPath+"/"+noTenant, object{"name": "x"})
	n.Expect(404, "GET", apptest.TenantsPath+"/nonsense", nil)
}

func TestTenantsAreAdministered(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		made := n.Expect(201, "POST", apptest.TenantsPath, object{
			"name": "Acme Inc.", "slug": "acme", "owner_email": "Ann@example.com", "settings": object{"region": "eu"},
		})
		id, acme := made["tenant_id"].(string), n.WithKey(made["raw_key"].(string))
		for name, want := range map[string]any{
			"name": "Acme Inc.", "slug": "acme", "status": "active", "plan": "self_hosted", "primary_email": "ann@example.com",
			"purge_protection": false, "settings": object{"region": "eu"},
		} {
			if fmt.Sprint(made[name]) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", name, made[name], want)
			}
		}
		if limit, shown := made["quotas"].(object)["agents"]; !shown || limit != nil { // the plan limits nothing
			t.Errorf("quotas: %v", made["quotas"])
		}
		me := acme.Expect(200, "GET", "/api/v1/me", nil)
		if me["role"] != "owner" || me["user"].(object)["user_id"] != made["user_id"] {
			t.Errorf("the owner's key is of %v", me)
		}
		if p := n.Expect(409, "POST", apptest.TenantsPath, object{"name": "Acme", "slug": "acme"}); p["code"] != "ALREADY_EXISTS" {
			t.Errorf("%v", p)
		}
		keyless := n.Expect(201, "POST", apptest.TenantsPath, object{"name": "Keyless", "owner_email": "bob@example.com", "owner_key": false})
		if keyless["raw_key"] != nil || keyless["key_id"] != nil || keyless["user_id"] == nil {
			t.Errorf("%v", keyless)
		}
		wrong := n.Expect(422, "POST", apptest.TenantsPath, object{"name": " ", "slug": "Not a slug", "plan": "none", "owner_email": "nobody", "owner_key": true})
		if got := len(wrong["errors"].([]any)); got != 4 {
			t.Errorf("%d wrong fields: %v", got, wrong)
		}
		n.Expect(422, "POST", apptest.TenantsPath, object{"name": "x", "owner_key": false})

		read := n.Expect(200, "GET", apptest.TenantsPath+"/"+id, nil)
		if read["primary_email"] != "ann@example.com" || read["raw_key"] != nil {
			t.Errorf("%v", read)
		}
		tenantIsChanged(t, n, id, made["user_id"].(string))
		acme.WaitRun(acme.StartRun(acme.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}}), "hello", nil))
		used := n.Expect(200, "GET", apptest.TenantsPath+"/"+id+"/usage", nil)
		if used["tenant_id"] != id || used["period"] != time.Now().UTC().Format("2006-01") || used["usage"].(object)["runs_count"] != 1.0 {
			t.Errorf("%v", used)
		}
		n.Expect(422, "GET", apptest.TenantsPath+"/"+id+"/usage?period=soon", nil)
		n.Expect(404, "GET", apptest.TenantsPath+"/"+ident.New()+"/usage", nil)

		all := n.Expect(200, "GET", apptest.TenantsPath, nil)
		if all["total"] != 3.0 || all["has_more"] != nil || all["tenants"].([]any)[2].(object)["operator"] != true {
			t.Errorf("%v", all)
		}
		first := n.Expect(200, "GET", apptest.TenantsPath+"?limit=2", nil)
		rest := n.Expect(200, "GET", apptest.TenantsPath+"?limit=2&cursor="+first["cursor"].(string), nil)
		if len(first["tenants"].([]any)) != 2 || len(rest["tenants"].([]any)) != 1 || rest["has_more"] != false || rest["total"] != 3.0 {
			t.Errorf("%v, then %v", first, rest)
		}
		n.Expect(400, "GET", apptest.TenantsPath+"?status=trial", nil)
		n.Expect(422, "GET", apptest.TenantsPath+"?cursor=x", nil)

		// What was done stands in both logs; who of the operator's did it, in one.
		for _, reader := range []*apptest.Server{n, acme} {
			log := reader.Expect(200, "GET", "/api/v1/admin/audit/"+id, nil)
			var actions []string
			for _, e := range log["entries"].([]any) {
				actions = append(actions, e.(object)["action"].(string))
				if _, told := e.(object)["actor_key_id"]; told != (reader == n) {
					t.Errorf("%v", e)
				}
			}
			if fmt.Sprint(actions) != "[tenant.updated tenant.created]" {
				t.Errorf("%v", actions)
			}
		}
		if p := n.Expect(409, "POST", "/api/v1/bootstrap", nil); p["code"] != "already_bootstrapped" {
			t.Errorf("%v", p)
		}
	})
}

func TestSuspension(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		id, acme := n.CreateTenant(object{"name": "Acme"})
		acme.Expect(200, "GET", "/api/v1/me", nil)
		for range 2 { // again is no error
			answer := n.Expect(200, "PUT", apptest.TenantsPath+"/"+id+"/suspend", object{"reason": "unpaid"})
			if answer["suspended"] != true || answer["tenant_id"] != id || answer["reason"] != "unpaid" {
				t.Errorf("%v", answer)
			}
			if p := acme.Expect(403, "GET", "/api/v1/me", nil); p["code"] != "TENANT_SUSPENDED" {
				t.Errorf("%v", p)
			}
		}
		got := n.Expect(200, "GET", apptest.TenantsPath+"?status=suspended", nil)["tenants"].([]any)
		if len(got) != 1 || got[0].(object)["suspension_reason"] != "unpaid" || got[0].(object)["suspended_at"] == nil {
			t.Errorf("%v", got)
		}
		for range 2 {
			if answer := n.Expect(200, "PUT", apptest.TenantsPath+"/"+id+"/reactivate", nil); answer["reactivated"] != true || answer["tenant_id"] != id {
				t.Errorf("%v", answer)
			}
			acme.Expect(200, "GET", "/api/v1/me", nil)
		}
		n.Expect(200, "PUT", apptest.TenantsPath+"/"+id+"/suspend", nil) // without a reason
		n.Expect(422, "PUT", apptest.TenantsPath+"/"+id+"/suspend", object{"reason": strings.Repeat("x", 2001)})
		own := n.TenantID()
		n.Expect(403, "PUT", apptest.TenantsPath+"/"+own+"/suspend", object{})
		n.Expect(403, "DELETE", apptest.TenantsPath+"/"+own, object{"confirm": own})
		n.Expect(404, "PUT", apptest.TenantsPath+"/"+ident.New()+"/suspend", object{})
	})
}

// toolThenText calls a tool after a while, and then says something.
var toolThenText = modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
	messages := req.Chat().Messages
	if messages[len(messages)-1].Role == "tool" {
		return modeltest.Answer{Text: "Done."}
	}
	return modeltest.Answer{TTFT: 700 * time.Millisecond, ToolCalls: []model.ToolCall{{ID: "call_1", Name: "calculator", Arguments: `{"expression":"1+1"}`}}}
})

// A run of a tenant that is suspended stops before its next model call, keeps
// its place, and goes on when the tenant is let in again. What is queued waits,
// and no schedule fires.
func TestRunsOfASuspendedTenant(t *testing.T) {
	t.Parallel()
	for _, kind := range apptest.Engines() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t, toolThenText)
			n := apptest.Start(t, sim, apptest.OnEngine(t, kind))
			id, acme := n.CreateTenant(object{"name": "Acme"})
			agent := acme.CreateAgent(object{"built_in_tools": []string{"calculator"}})
			acme.Expect(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": "0 0 1 1 *", "input": object{"message": "x"}})
			session := acme.CreateSession(agent, object{})
			under := acme.SendMessage(session, "first")
			queued := acme.SendMessage(session, "second") // its turn comes when the first ends
			apptest.Eventually(t, func() bool { return sim.Calls() == 1 })
			n.Expect(200, "PUT", apptest.TenantsPath+"/"+id+"/suspend", object{"reason": "a test"})
			n.MakeScheduleDue(agent)

			beside := n.Admin()
			held := func() int {
				return len(beside.Query(`SELECT work_key FROM work WHERE kind = ? AND work_key = ? AND due_at > ?`, engine.WorkKind, under, int64(1e18)))
			}
			apptest.Eventually(t, func() bool { return held() == 1 })
			rows := beside.Query(`SELECT status FROM runs WHERE tenant_id = ? ORDER BY run_id`, id)
			if len(rows) != 2 || rows[0]["status"] != "running" || rows[1]["status"] != "queued" {
				t.Errorf("%v", rows)
			}
			if steps := beside.Query(`SELECT type FROM run_steps WHERE run_id = ?`, under); len(steps) != 2 {
				t.Errorf("the run stopped after %v", steps)
			}
			// Another node does not take it up either, and a start does not.
			n.Stop()
			n = apptest.Restart(t, n.Config)
			beside = n.Admin()
			apptest.Eventually(t, func() bool {
				return fmt.Sprint(beside.Query(`SELECT skip_reason FROM schedules WHERE agent_id = ?`, agent)) == "[map[skip_reason:tenant_suspended]]"
			})
			if sim.Calls() != 1 || held() != 1 {
				t.Errorf("%d calls of the model, %d items held back", sim.Calls(), held())
			}

			n.Expect(200, "PUT", apptest.TenantsPath+"/"+id+"/reactivate", nil)
			acme = n.WithKey(acme.Key)
			for _, run := range []string{under, queued} {
				r := acme.WaitRun(run)
				if r["status"] != "completed" || r["metrics"].(object)["llm_calls_count"] != 2.0 || r["metrics"].(object)["tool_calls_count"] != 1.0 {
					t.Errorf("%v", r)
				}
			}
		})
	}
}

// unfilled are tables with a tenant_id of which a company in this test has no
// rows, with the reason.
var unfilled = map[string]string{
	"mcp_grants": "an authorization server would be needed", "mcp_pending": "the same", "blob_loose": "only while something is uploaded",
	"ledger_unsealed": "only for seconds, until entries are sealed",
	"search_marks":    "not a tenant's: where the search of all of them stands",
	"usage_entries":   "they move to the counters within a second", "usage_events": "a plan would have to limit something", "usage_locks": "the same",
	"browser_sessions": "somebody would have to sign in", "signin_factors": "of members without an email alone",
}

// fillBeside inserts rows of a company that only other services, other companies, visitors or
// certain moments would.
func fillBeside(beside *apptest.Admin, id string) {
	for _, insert := range []string{
		`INSERT INTO a2a_errands (tenant_id, task_id, team_run_id, cancel, body, created_at) VALUES (?, 't', 'r', 0, '{}', 1)`,
		`INSERT INTO billing_accounts (tenant_id, customer_id, subscription_id, status, plan, trial_ends_at, plan_at, status_at)
		 VALUES (?, 'cus_1', 'sub_1', 'active', 'pro', 0, 1, 1)`,
		`INSERT INTO feed_entries (tenant_id, at, feed_id, event_type, company_id, team_id, body) VALUES (?, 1, 'f', 'team.round_start', '', 't', '{}')`,
		`INSERT INTO integration_documents (tenant_id, integration_id, document) VALUES (?, 'i', '')`,
		`INSERT INTO marketplace_favourites (tenant_id, user_id, listing_id) VALUES (?, 'u', 'l')`,
		`INSERT INTO marketplace_published (tenant_id, shelf, listing_id, rating, popularity, published_at) VALUES (?, '', 'walrus', 0, 0, 1)`,
		`INSERT INTO marketplace_words (tenant_id, begin, listing_id) VALUES (?, 'walr', 'walrus')`,
		`INSERT INTO objective_tasks (tenant_id, owner_id, seq, applied, body) VALUES (?, 'o', 1, 0, '{}')`,
		`INSERT INTO run_checkpoints (tenant_id, run_id, checkpoint_id, step_seq, status, metrics, created_by, created_at)
		 VALUES (?, 'r', 'c', 1, 'running', '{}', 'u', 1)`,
		`INSERT INTO session_messages (tenant_id, session_id, turn, reply, messages) VALUES (?, 's', 1, 'r', '[]')`,
		`INSERT INTO session_states (tenant_id, session_id, state, step_id) VALUES (?, 's', '{}', '')`,
		`INSERT INTO reconciliations (tenant_id, body) VALUES (?, '{}')`,
		`INSERT INTO retention_marks (tenant_id, kind, at, run_id) VALUES (?, 'event', 1, 'r')`,
		`INSERT INTO visitor_files (tenant_id, file_id, session_id, created_at) VALUES (?, 'walrus', 's', 1)`,
	} {
		beside.Exec(insert, id)
	}
}

// After a purge nothing in the database has the tenant's id, whatever table
// there is, and nothing of others is missing.
func TestPurge(t *testing.T) {
	apptest.SkipUnderRace(t)
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		id, _ := n.CreateTenant(object{"name": "Walrus and Sons", "slug": "walrus"})
		grant, err := n.Admin().Keys.Grant(t.Context(), id, "owner", []authz.Scope{"*"}, "test", "walrus@example.com")
		if err != nil {
			t.Fatal(err)
		}
		walrus := contracttest.NewCompany(n, "walrus", grant)
		otherID, other := n.CreateTenant(object{"name": "Zebra"})
		other.WaitRun(other.StartRun(other.CreateAgent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}}), "hello", nil))
		beside := n.Admin()
		walrus.StartRun(walrus.IDs["agentId"][2], "walrus", object{"resource_limits": object{"max_cost_usd": 1}}) // has a budget
		walrus.Expect(200, "PUT", "/api/v1/notifications/prefs", object{"muted_types": []string{"made.by.a.test"}})
		walrus.Expect(200, "PUT", "/api/v1/billing/budget", object{"limit_usd": 1000})
		walrus.Expect(201, "POST", "/api/v1/agents", object{"name": "walrus"}, "Idempotency-Key", "walrus")
		walrus.Expect(200, "POST", "/api/v1/webhooks/sensor/"+walrus.IDs["sensorId"][1], object{}, "Webhook-Id", "walrus")
		beside.Exec(`INSERT INTO notification_mail (tenant_id, subject, since, sent) VALUES (?, 'notice', 1, 1)`, id) // no mail is sent here
		beside.Exec(`INSERT INTO model_waits (tenant_id, run_id, endpoint) VALUES (?, ?, 'down')`, id, ident.New())   // the model answers here
		beside.Exec(`INSERT INTO notification_optouts (tenant_id, address_hash, created_at) VALUES (?, ?, 1)`, id, []byte("hash"))
		beside.Exec(`INSERT INTO audit_unsent (tenant_id, at, entry_id) VALUES (?, 1, ?)`, id, ident.New()) // nothing is pushed here
		fillBeside(beside, id)
		n.MakeScheduleDue(walrus.IDs["agentId"][2]) // its schedule makes a run
		apptest.Eventually(t, func() bool { return len(beside.Query(`SELECT run_id FROM schedule_runs WHERE tenant_id = ?`, id)) == 1 })
		for _, table := range beside.TenantTables() {
			rows := beside.Query(`SELECT COUNT(*) AS n FROM `+table+` WHERE tenant_id = ?`, id)
			if _, excused := unfilled[table]; fmt.Sprint(rows[0]["n"]) == "0" && !excused {
				t.Errorf("the company has nothing in %s, so that this test proves nothing of it: have newCompany fill it", table)
			}
		}
		for _, table := range beside.SharedTables() {
			t.Errorf("%s has no column tenant_id; if it holds what is a tenant's, no purge finds that", table)
		}

		// Who is not sure deletes nothing.
		path := apptest.TenantsPath + "/" + id
		for _, confirm := range []object{{}, {"confirm": "Walrus"}, {"confirm": ""}} {
			if p := n.Expect(422, "DELETE", path, confirm); len(p["errors"].([]any)) != 1 {
				t.Errorf("%v", p)
			}
		}
		dry := n.Expect(200, "DELETE", path+"?dry_run=true&confirm=walrus", nil)
		if dry["purged"] != false || dry["dry_run"] != true || dry["counts"].(object)["documents/agent"].(float64) < 4 {
			t.Errorf("%v", dry)
		}
		if again := n.Expect(200, "DELETE", path, object{"dry_run": true, "confirm": "walrus"}); again["purged"] != false || again["dry_run"] != true {
			t.Errorf("%v", again)
		}
		n.Expect(200, "PATCH", path+"/settings", object{"purge_protection": true})
		if p := n.Expect(409, "DELETE", path, object{"confirm": id}); p["code"] != "PURGE_PROTECTED" {
			t.Errorf("%v", p)
		}
		n.Expect(200, "PATCH", path+"/settings", object{"purge_protection": false})
		held := n.Expect(200, "PATCH", path+"/settings", object{"legal_hold": true, "max_retention_days": 30})["settings"].(object)
		if held["legal_hold"] != true || held["max_retention_days"] != 30.0 || held["purge_protection"] != false {
			t.Errorf("%v", held)
		}
		if p := n.Expect(423, "DELETE", path, object{"confirm": id}); p["code"] != "LEGAL_HOLD" {
			t.Errorf("%v", p)
		}
		held = n.Expect(200, "PATCH", path+"/settings", object{"legal_hold": false})["settings"].(object)
		if held["legal_hold"] != false || held["max_retention_days"] != 30.0 {
			t.Errorf("what was not sent did not stay: %v", held)
		}
		n.Expect(422, "PATCH", path+"/settings", object{"max_retention_days": -1})
		// Usage is summed a little later; what is summed meanwhile is no trace of the purge.
		apptest.Eventually(t, func() bool {
			return len(beside.Query(`SELECT entry_id FROM usage_entries WHERE tenant_id = ?`, otherID)) == 0
		})
		// So are the comparisons of counters with runs, which the server makes by itself.
		rowsOfOther := func() []string {
			return slices.DeleteFunc(beside.Rows(otherID), func(row string) bool { return strings.HasPrefix(row, "reconciliationsmap[") })
		}
		kept := rowsOfOther()

		if answer := n.Expect(200, "DELETE", path, object{"confirm": "Walrus and Sons"}); answer["purged"] != true || answer["tenant_id"] != id {
			t.Errorf("%v", answer)
		}
		// It is gone at once for everybody.
		walrus.Expect(401, "GET", "/api/v1/me", nil)
		n.Expect(404, "GET", path, nil)
		n.Expect(404, "DELETE", path, object{"confirm": id})
		n.Expect(404, "GET", "/api/v1/admin/audit?tenant_id="+id, nil)
		n.CreateTenant(object{"name": "Another", "slug": "walrus"}) // its slug is free
		apptest.Eventually(t, func() bool { return len(beside.Query(`SELECT tenant_id FROM tenants WHERE tenant_id = ?`, id)) == 0 })
		if left := beside.Rows(id); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if now := rowsOfOther(); fmt.Sprint(now) != fmt.Sprint(kept) {
			t.Errorf("another company's rows changed:\n%v\n%v", kept, now)
		}
		log := n.Expect(200, "GET", "/api/v1/admin/audit/"+id+"?type=tenant", nil)["entries"].([]any)
		last := log[0].(object)
		details := last["details"].(object)
		if last["action"] != "tenant.purged" || details["name"] != "Walrus and Sons" || details["counts"].(object)["runs"].(float64) < 5 ||
			last["actor_key_id"] == nil || last["ip_address"] != "127.0.0.1" {
			t.Errorf("%v", last)
		}
		if before := log[1].(object); before["action"] != "tenant.purge_started" {
			t.Errorf("%v", before)
		}
	})
}

// A node that dies in the middle of a purge leaves it to the next.
func TestPurgeGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	apptest.EachEngine(t, func(t *testing.T, n *apptest.Server) {
		id, acme := n.CreateTenant(object{"name": "Acme"})
		for range 3 {
			acme.CreateAgent(nil)
		}
		n.Stop()
		// As a node leaves it that was killed when the purge had just begun.
		beside := n.Admin()
		beside.Exec(`UPDATE tenants SET status = 'deleted' WHERE tenant_id = ?`, id)
		beside.Exec(`INSERT INTO tenant_purges (subject_id, name, asked_by, asked_at, counts, told) VALUES (?, 'Acme', '{"tenant_id":"gone"}', 1, '{"runs":7}', FALSE)`, id)
		beside.Exec(`INSERT INTO work (kind, work_key, tenant_id, due_at, epoch, attempt, owner) VALUES ('tenancy', ?, 'x', 1, 5, 1, 'a dead node')`, "purge/"+id)
		n = apptest.Restart(t, n.Config)
		beside = n.Admin()
		apptest.Eventually(t, func() bool { return len(beside.Rows(id)) == 0 })
		apptest.Eventually(t, func() bool {
			return len(beside.Query(`SELECT entry_id FROM audit_log WHERE target_id = ? AND action = 'tenant.purged' AND details LIKE '%"runs":7%'`, id)) == 1
		})
	})
}
