package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/execution/engine"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

const tenants = "/api/v1/admin/tenants"

// found makes a company through the API.
func (n *node) found(fields object) (id string, its *node) {
	n.t.Helper()
	made := n.want(201, "POST", tenants, fields)
	return made["tenant_id"].(string), n.as(made["raw_key"].(string))
}

func tenantIsChanged(t *testing.T, n *node, id, noTenant string) {
	t.Helper()
	changed := n.want(200, "PATCH", tenants+"/"+id, object{"name": "Acme Ltd.", "slug": "acme-ltd", "settings": object{"region": nil, "tier": 1}})
	if changed["name"] != "Acme Ltd." || changed["slug"] != "acme-ltd" || fmt.Sprint(changed["settings"]) != "map[tier:1]" {
		t.Errorf("%v", changed)
	}
	n.want(409, "PATCH", tenants+"/"+id, object{"slug": "keyless"})
	n.want(422, "PATCH", tenants+"/"+id, object{"slug": "-", "plan": "none", "name": "\u0001"})
	n.want(404, "PATCH", tenants+"/"+noTenant, object{"name": "x"})
	n.want(404, "GET", tenants+"/nonsense", nil)
}

func TestTenantsAreAdministered(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		made := n.want(201, "POST", tenants, object{
			"name": "Acme Inc.", "slug": "acme", "owner_email": "Ann@example.com", "settings": object{"region": "eu"},
		})
		id, acme := made["tenant_id"].(string), n.as(made["raw_key"].(string))
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
		me := acme.want(200, "GET", "/api/v1/me", nil)
		if me["role"] != "owner" || me["user"].(object)["user_id"] != made["user_id"] {
			t.Errorf("the owner's key is of %v", me)
		}
		if p := n.want(409, "POST", tenants, object{"name": "Acme", "slug": "acme"}); p["code"] != "ALREADY_EXISTS" {
			t.Errorf("%v", p)
		}
		keyless := n.want(201, "POST", tenants, object{"name": "Keyless", "owner_email": "bob@example.com", "owner_key": false})
		if keyless["raw_key"] != nil || keyless["key_id"] != nil || keyless["user_id"] == nil {
			t.Errorf("%v", keyless)
		}
		wrong := n.want(422, "POST", tenants, object{"name": " ", "slug": "Not a slug", "plan": "none", "owner_email": "nobody", "owner_key": true})
		if got := len(wrong["errors"].([]any)); got != 4 {
			t.Errorf("%d wrong fields: %v", got, wrong)
		}
		n.want(422, "POST", tenants, object{"name": "x", "owner_key": false})

		read := n.want(200, "GET", tenants+"/"+id, nil)
		if read["primary_email"] != "ann@example.com" || read["raw_key"] != nil {
			t.Errorf("%v", read)
		}
		tenantIsChanged(t, n, id, made["user_id"].(string))
		acme.ended(acme.run(acme.agent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}}), "hello", nil))
		used := n.want(200, "GET", tenants+"/"+id+"/usage", nil)
		if used["tenant_id"] != id || used["period"] != time.Now().UTC().Format("2006-01") || used["usage"].(object)["runs_count"] != 1.0 {
			t.Errorf("%v", used)
		}
		n.want(422, "GET", tenants+"/"+id+"/usage?period=soon", nil)
		n.want(404, "GET", tenants+"/"+ident.New()+"/usage", nil)

		all := n.want(200, "GET", tenants, nil)
		if all["total"] != 3.0 || all["has_more"] != nil || all["tenants"].([]any)[2].(object)["operator"] != true {
			t.Errorf("%v", all)
		}
		first := n.want(200, "GET", tenants+"?limit=2", nil)
		rest := n.want(200, "GET", tenants+"?limit=2&cursor="+first["cursor"].(string), nil)
		if len(first["tenants"].([]any)) != 2 || len(rest["tenants"].([]any)) != 1 || rest["has_more"] != false || rest["total"] != 3.0 {
			t.Errorf("%v, then %v", first, rest)
		}
		n.want(400, "GET", tenants+"?status=trial", nil)
		n.want(422, "GET", tenants+"?cursor=x", nil)

		// What was done stands in both logs; who of the operator's did it, in one.
		for _, reader := range []*node{n, acme} {
			log := reader.want(200, "GET", "/api/v1/admin/audit/"+id, nil)
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
		if p := n.want(409, "POST", "/api/v1/bootstrap", nil); p["code"] != "already_bootstrapped" {
			t.Errorf("%v", p)
		}
	})
}

func TestSuspension(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		id, acme := n.found(object{"name": "Acme"})
		acme.want(200, "GET", "/api/v1/me", nil)
		for range 2 { // again is no error
			answer := n.want(200, "PUT", tenants+"/"+id+"/suspend", object{"reason": "unpaid"})
			if answer["suspended"] != true || answer["tenant_id"] != id || answer["reason"] != "unpaid" {
				t.Errorf("%v", answer)
			}
			if p := acme.want(403, "GET", "/api/v1/me", nil); p["code"] != "TENANT_SUSPENDED" {
				t.Errorf("%v", p)
			}
		}
		got := n.want(200, "GET", tenants+"?status=suspended", nil)["tenants"].([]any)
		if len(got) != 1 || got[0].(object)["suspension_reason"] != "unpaid" || got[0].(object)["suspended_at"] == nil {
			t.Errorf("%v", got)
		}
		for range 2 {
			if answer := n.want(200, "PUT", tenants+"/"+id+"/reactivate", nil); answer["reactivated"] != true || answer["tenant_id"] != id {
				t.Errorf("%v", answer)
			}
			acme.want(200, "GET", "/api/v1/me", nil)
		}
		n.want(200, "PUT", tenants+"/"+id+"/suspend", nil) // without a reason
		n.want(422, "PUT", tenants+"/"+id+"/suspend", object{"reason": strings.Repeat("x", 2001)})
		own := n.tenant()
		n.want(403, "PUT", tenants+"/"+own+"/suspend", object{})
		n.want(403, "DELETE", tenants+"/"+own, object{"confirm": own})
		n.want(404, "PUT", tenants+"/"+ident.New()+"/suspend", object{})
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
	for _, kind := range engines() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			sim := modeltest.New(t, toolThenText)
			n := start(t, sim, onEngine(t, kind))
			id, acme := n.found(object{"name": "Acme"})
			agent := acme.agent(object{"built_in_tools": []string{"calculator"}})
			acme.want(200, "PUT", "/api/v1/agents/"+agent+"/schedule", object{"cron": "0 0 1 1 *", "input": object{"message": "x"}})
			session := acme.session(agent, object{})
			under := acme.say(session, "first")
			queued := acme.say(session, "second") // its turn comes when the first ends
			eventually(t, func() bool { return sim.Calls() == 1 })
			n.want(200, "PUT", tenants+"/"+id+"/suspend", object{"reason": "a test"})
			n.overdue(agent)

			beside := n.admin()
			held := func() int {
				return len(beside.query(`SELECT work_key FROM work WHERE kind = ? AND work_key = ? AND due_at > ?`, engine.WorkKind, under, int64(1e18)))
			}
			eventually(t, func() bool { return held() == 1 })
			rows := beside.query(`SELECT status FROM runs WHERE tenant_id = ? ORDER BY run_id`, id)
			if len(rows) != 2 || rows[0]["status"] != "running" || rows[1]["status"] != "queued" {
				t.Errorf("%v", rows)
			}
			if steps := beside.query(`SELECT type FROM run_steps WHERE run_id = ?`, under); len(steps) != 2 {
				t.Errorf("the run stopped after %v", steps)
			}
			// Another node does not take it up either, and a start does not.
			n.stop()
			n = restart(t, n.cfg)
			beside = n.admin()
			eventually(t, func() bool {
				return fmt.Sprint(beside.query(`SELECT skip_reason FROM schedules WHERE agent_id = ?`, agent)) == "[map[skip_reason:tenant_suspended]]"
			})
			if sim.Calls() != 1 || held() != 1 {
				t.Errorf("%d calls of the model, %d items held back", sim.Calls(), held())
			}

			n.want(200, "PUT", tenants+"/"+id+"/reactivate", nil)
			acme = n.as(acme.key)
			for _, run := range []string{under, queued} {
				r := acme.ended(run)
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
	"search_marks": "not a tenant's: where the search of all of them stands",
	"usage_events": "a plan would have to limit something", "usage_locks": "the same",
	"browser_sessions": "somebody would have to sign in", "signin_factors": "of members without an email alone",
}

// After a purge nothing in the database has the tenant's id, whatever table
// there is, and nothing of others is missing.
func TestPurge(t *testing.T) {
	heavy(t)
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		id, _ := n.found(object{"name": "Walrus and Sons", "slug": "walrus"})
		grant, err := n.admin().GrantKey(t.Context(), id, "owner", []authz.Scope{"*"}, "test", "walrus@example.com")
		if err != nil {
			t.Fatal(err)
		}
		walrus := newCompany(n, "walrus", grant)
		otherID, other := n.found(object{"name": "Zebra"})
		other.ended(other.run(other.agent(object{"model": object{"provider": "custom", "model_ref": "builtin/echo"}}), "hello", nil))
		beside := n.admin()
		walrus.run(walrus.ids["agentId"][2], "walrus", object{"resource_limits": object{"max_cost_usd": 1}}) // has a budget
		walrus.want(200, "PUT", "/api/v1/notifications/prefs", object{"muted_types": []string{"made.by.a.test"}})
		walrus.want(200, "PUT", "/api/v1/billing/budget", object{"limit_usd": 1000})
		walrus.want(201, "POST", "/api/v1/agents", object{"name": "walrus"}, "Idempotency-Key", "walrus")
		walrus.want(200, "POST", "/api/v1/webhooks/sensor/"+walrus.ids["sensorId"][1], object{}, "Webhook-Id", "walrus")
		n.overdue(walrus.ids["agentId"][2]) // its schedule makes a run
		eventually(t, func() bool { return len(beside.query(`SELECT run_id FROM schedule_runs WHERE tenant_id = ?`, id)) == 1 })
		for _, table := range beside.tenantTables() {
			rows := beside.query(`SELECT COUNT(*) AS n FROM `+table+` WHERE tenant_id = ?`, id)
			if _, excused := unfilled[table]; fmt.Sprint(rows[0]["n"]) == "0" && !excused {
				t.Errorf("the company has nothing in %s, so that this test proves nothing of it: have newCompany fill it", table)
			}
		}
		for _, table := range beside.strangers() {
			t.Errorf("%s has no column tenant_id; if it holds what is a tenant's, no purge finds that", table)
		}

		// Who is not sure deletes nothing.
		path := tenants + "/" + id
		for _, confirm := range []object{{}, {"confirm": "Walrus"}, {"confirm": ""}} {
			if p := n.want(422, "DELETE", path, confirm); len(p["errors"].([]any)) != 1 {
				t.Errorf("%v", p)
			}
		}
		dry := n.want(200, "DELETE", path+"?dry_run=true&confirm=walrus", nil)
		if dry["purged"] != false || dry["dry_run"] != true || dry["counts"].(object)["documents/agent"].(float64) < 4 {
			t.Errorf("%v", dry)
		}
		n.want(200, "PATCH", path+"/settings", object{"purge_protection": true})
		if p := n.want(409, "DELETE", path, object{"confirm": id}); p["code"] != "PURGE_PROTECTED" {
			t.Errorf("%v", p)
		}
		n.want(200, "PATCH", path+"/settings", object{"purge_protection": false})
		kept := beside.rows(otherID)

		if answer := n.want(200, "DELETE", path, object{"confirm": "Walrus and Sons"}); answer["purged"] != true || answer["tenant_id"] != id {
			t.Errorf("%v", answer)
		}
		// It is gone at once for everybody.
		walrus.want(401, "GET", "/api/v1/me", nil)
		n.want(404, "GET", path, nil)
		n.want(404, "DELETE", path, object{"confirm": id})
		n.want(404, "GET", "/api/v1/admin/audit?tenant_id="+id, nil)
		n.found(object{"name": "Another", "slug": "walrus"}) // its slug is free
		eventually(t, func() bool { return len(beside.query(`SELECT tenant_id FROM tenants WHERE tenant_id = ?`, id)) == 0 })
		if left := beside.rows(id); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if now := beside.rows(otherID); fmt.Sprint(now) != fmt.Sprint(kept) {
			t.Errorf("another company's rows changed:\n%v\n%v", kept, now)
		}
		log := n.want(200, "GET", "/api/v1/admin/audit/"+id+"?type=tenant", nil)["entries"].([]any)
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

// tenantTables lists the tables that keep things of tenants, the tenants apart.
func (a *admin) tenantTables() []string {
	a.tb.Helper()
	return a.tables(true)
}

// strangers lists the tables that have no tenant_id and that nobody says may
// have none.
func (a *admin) strangers() []string {
	a.tb.Helper()
	excused := []string{
		"goose_db_version", // of the schema
		"sqlite_sequence",  // SQLite's own, for the table before
		"tenant_purges",    // ends with a last look
		// A person is an email address, which companies have in common; codes and
		// tickets last for minutes.
		"signin_codes", "signin_links", "signin_tickets",
	}
	return slices.DeleteFunc(a.tables(false), func(table string) bool {
		return slices.Contains(excused, table) || strings.HasPrefix(table, "search_words") // which go with search_docs
	})
}

func (a *admin) tables(with bool) (names []string) {
	a.tb.Helper()
	all := `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`
	columns := `SELECT name AS col FROM pragma_table_info(?)`
	if a.db.Postgres() {
		all = `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY 1`
		columns = `SELECT column_name AS col FROM information_schema.columns WHERE table_schema = 'public' AND table_name = ?`
	}
	for _, row := range a.query(all) {
		name := row["name"].(string)
		has := slices.ContainsFunc(a.query(columns, name), func(c map[string]any) bool { return c["col"] == "tenant_id" })
		if has == with && name != "tenants" {
			names = append(names, name)
		}
	}
	return names
}

// A node that dies in the middle of a purge leaves it to the next.
func TestPurgeGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, n *node) {
		id, acme := n.found(object{"name": "Acme"})
		for range 3 {
			acme.agent(nil)
		}
		n.stop()
		// As a node leaves it that was killed when the purge had just begun.
		beside := n.admin()
		beside.exec(`UPDATE tenants SET status = 'deleted' WHERE tenant_id = ?`, id)
		beside.exec(`INSERT INTO tenant_purges (subject_id, name, asked_by, asked_at, counts, told) VALUES (?, 'Acme', '{"tenant_id":"gone"}', 1, '{"runs":7}', FALSE)`, id)
		beside.exec(`INSERT INTO work (kind, work_key, tenant_id, due_at, epoch, attempt, owner) VALUES ('tenancy', ?, 'x', 1, 5, 1, 'a dead node')`, "purge/"+id)
		n = restart(t, n.cfg)
		beside = n.admin()
		eventually(t, func() bool { return len(beside.rows(id)) == 0 })
		eventually(t, func() bool {
			return len(beside.query(`SELECT entry_id FROM audit_log WHERE target_id = ? AND action = 'tenant.purged' AND details LIKE '%"runs":7%'`, id)) == 1
		})
	})
}
