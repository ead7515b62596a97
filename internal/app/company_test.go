package app_test

import (
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
	"time"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/config"
	"agentd/internal/base/txn"
	"agentd/internal/content/artifact"
	"agentd/internal/content/artifact/artifactsql"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/notification/notificationsql"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/blobsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// engines are the databases that a test is played on. What the race detector
// can see it sees on SQLite.
func engines() []sqldbtest.Engine {
	if racing {
		return []sqldbtest.Engine{sqldbtest.SQLite}
	}
	return sqldbtest.Engines
}

// eachEngine runs a subtest on a node with each database, but for the race
// detector, to which one is like the other.
func eachEngine(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	for _, engine := range engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			test(t, start(t, modeltest.New(t, silent), onEngine(t, engine), embedding, searching(t), withCorp(t)))
		})
	}
}

// embedding has the simulated model embed, speak and listen.
func embedding(c *config.Config) {
	c.Models.EmbeddingModel, c.Models.SpeechModel, c.Models.TranscriptionModel = "sim-embedding", "sim-speech", "sim-transcription"
}

// silent is a model that lets runs run until somebody ends them, but for those
// that are to wait: it calls the tool that the message begins with. Who asks it
// by another name than agents do asks without a run, and is answered.
var silent = modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
	messages := req.Chat().Messages
	if len(messages) == 0 {
		return modeltest.Answer{Status: 400, Error: "no messages"}
	}
	if req.Chat().Model != "sim-model" {
		return modeltest.Answer{Text: "Hello."}
	}
	switch last := messages[len(messages)-1]; {
	case last.Role != "user":
	case strings.HasPrefix(last.Text(), "calculator"):
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "calculator", Arguments: `{"expression":"1+1"}`}}}
	case strings.HasPrefix(last.Text(), "slowly"):
		return modeltest.Answer{Text: "At last.", TTFT: 500 * time.Millisecond}
	case strings.HasPrefix(last.Text(), "ask_user"):
		return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "ask_user", Arguments: `{"question":"Which?"}`}}}
	}
	return modeltest.Answer{HangFirst: true}
})

// waits makes a run that waits, for approval of a call of calculator or for
// the answer to a call of ask_user.
func (c *company) waits(tool string) string {
	c.t.Helper()
	id := c.run(c.ids["agentId"][3], tool+" "+c.mark, nil)
	c.waiting(id, map[string]string{"calculator": "awaiting_approval", "ask_user": "paused"}[tool])
	return id
}

func onEngine(tb testing.TB, engine sqldbtest.Engine) func(*config.Config) {
	tb.Helper()
	cfg := sqldbtest.Config(tb, engine)
	return func(c *config.Config) { c.Storage.DatabaseURL = config.NewURL(cfg.URL) }
}

// admin is what an operator can do beside a running server: `agentd admin`
// works like this, on connections of its own.
type admin struct {
	*identity.Service
	tb testing.TB
	db *sqldb.DB

	tenanted []string // tables with rows of companies, once they were looked for
}

func (n *node) admin() *admin {
	n.t.Helper()
	c := sqldb.Config{URL: n.cfg.Storage.DatabaseURL.Reveal(), Logger: slog.New(slog.DiscardHandler)}
	if c.URL == "" {
		c.Dir = n.cfg.Storage.DataDir
	}
	db, err := sqldb.Open(n.t.Context(), c)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { db.Close() })
	people := identity.New(identity.Config{DB: db, Store: identitysql.New(db), Clock: clock.System{}, Log: c.Logger})
	return &admin{Service: people, tb: n.t, db: db}
}

// exec changes what no operation changes yet.
func (a *admin) exec(query string, args ...any) {
	a.tb.Helper()
	err := a.db.Write(a.tb.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(query, args...)
		return err
	})
	if err != nil {
		a.tb.Fatal(err)
	}
}

// key makes a member with a role and a key with scopes.
func (a *admin) key(tenant string, role authz.Role, scopes ...authz.Scope) identity.Grant {
	a.tb.Helper()
	if scopes == nil {
		scopes = []authz.Scope{}
	}
	g, err := a.GrantKey(a.tb.Context(), tenant, role, scopes, string(role), "")
	if err != nil {
		a.tb.Fatal(err)
	}
	return g
}

func (a *admin) query(query string, args ...any) (all []map[string]any) {
	a.tb.Helper()
	rows, err := a.db.Query(a.tb.Context(), query, args...)
	if err != nil {
		a.tb.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		a.tb.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			a.tb.Fatal(err)
		}
		row := map[string]any{}
		for i, name := range columns {
			row[name] = values[i]
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		a.tb.Fatal(err)
	}
	return all
}

// paused makes a run that was paused by hand, with its answer held.
func (c *company) paused() string {
	c.t.Helper()
	id := c.run(c.ids["agentId"][3], "slowly "+c.mark, nil)
	c.want(200, "POST", "/api/v1/runs/"+id+"/pause", nil)
	c.waiting(id, "paused")
	return id
}

// company is a tenant that has some of everything that routes name.
type company struct {
	*node
	mark string // part of every name and text that is the company's own
	id   identity.Grant

	// ids are what the parameters of paths may be. The first is in the usual
	// state; the others are in further ones that a caller could meddle with.
	ids map[string][]string
}

// newCompany fills a tenant with two of everything, so that every list has a
// second page. What a new slice keeps is added here.
func newCompany(n *node, mark string, id identity.Grant) *company {
	n.t.Helper()
	c := &company{node: n.as(string(id.RawKey)), mark: mark, id: id, ids: map[string][]string{}}
	add := func(parameter, id string) { c.ids[parameter] = append(c.ids[parameter], id) }

	agent := c.agent(object{
		"name": mark + " agent", "description": mark, "prompts": object{"system": mark}, "metadata": object{"note": mark},
		"model": object{"provider": "custom", "model_ref": "builtin/echo"}, "built_in_tools": []string{"calculator"},
	})
	c.want(200, "PATCH", "/api/v1/agents/"+agent, object{"description": mark + " again"})
	suspended := c.agent(object{"name": mark + " suspended"})
	c.want(200, "POST", "/api/v1/agents/"+suspended+"/suspend", object{"reason": mark})
	waiting := c.agent(object{"name": mark + " waiting"})
	careful := c.agent(object{"name": mark + " careful", "built_in_tools": []string{"calculator", "ask_user"}, "approval_required_tools": []string{"calculator"}})
	for _, id := range []string{agent, suspended, waiting, careful} {
		add("agentId", id)
		add("model", id)
	}
	add("versionNum", "2")
	add("subordinate", c.subordinate())

	ended := c.run(agent, "calculate 6*7 "+mark, object{"metadata": object{"note": mark}})
	if r := c.ended(ended); r["status"] != "completed" {
		c.t.Fatalf("a run that was to complete: %v", r)
	}
	add("runId", ended)
	add("runId", c.run(waiting, mark, nil))

	for range 2 {
		id := c.waits("calculator")
		add("runId", id)
		pending := c.want(200, "GET", "/api/v1/runs/"+id, nil)["pending_approvals"].([]any)
		add("approvalId", pending[0].(object)["approval_id"].(string))
	}

	for range 2 {
		add("responseId", c.want(200, "POST", responsesPath, object{"model": agent, "instructions": mark, "input": mark})["id"].(string))
	}
	c.populate(add)
	c.converse(agent, add)
	for _, name := range []string{" first", " second"} {
		made := c.want(201, "POST", "/api/v1/tenants/me/keys", object{"name": mark + name})
		add("keyId", made["key_id"].(string))
		customer := c.want(201, "POST", "/api/v1/commerce/customers", object{"name": mark + name, "note": mark}, "Idempotency-Key", "made-once"+strings.TrimSpace(name))
		add("customerId", customer["id"].(string))
		guard := c.want(201, "POST", "/api/v1/guardrails", object{
			"name": mark + name, "webhook_url": "https://example.com/" + mark, "phase": "both", "secret": mark,
		})
		add("guardrailId", guard["guardrail_id"].(string))
	}
	add("keyId", id.KeyID)

	for _, id := range []string{agent, waiting} {
		c.want(200, "PUT", "/api/v1/agents/"+id+"/schedule", object{"cron": "0 0 1 1 *", "input": object{"message": mark}})
	}
	for _, id := range c.admin().notified(c.tenant(), mark+" first", mark+" second") {
		add("notificationId", id)
	}
	for _, name := range []string{" first", " second"} {
		made := c.want(201, "POST", "/api/v1/notifications/targets", object{
			"label": mark + name, "config": object{"kind": "webhook", "url": "https://example.com/" + mark},
		})
		add("targetId", made["id"].(string))
	}
	c.store(add)
	c.hooks(agent, add)
	c.remember(agent, add)
	c.mcpServers(add)
	c.sensors(agent, add)
	c.want(200, "PUT", "/api/v1/llm-credentials/mine", object{"api_key": "sk-" + mark + "-0123456789", "endpoint_url": "https://127.0.0.1:9/" + mark})
	return c
}

// store fills a company with files, workspaces and artifacts.
func (c *company) store(add func(parameter, id string)) {
	c.t.Helper()
	for _, name := range []string{"first", "second"} {
		text := c.mark + " " + name
		file := c.want(201, "POST", "/api/v1/files", object{"data": base64.StdEncoding.EncodeToString([]byte(text)), "mime_type": "text/plain", "filename": text + ".txt"})
		add("fileId", file["file_id"].(string))
		workspace := c.want(201, "POST", "/api/v1/workspaces", object{"name": text})["workspace_id"].(string)
		add("workspaceId", workspace)
		for _, path := range []string{"docs/a.txt", "docs/b.txt", "move.txt", c.mark + ".txt"} {
			c.want(201, "PUT", "/api/v1/workspaces/"+workspace+"/files?path="+path, text, "Content-Type", "text/plain")
		}
		add("artifactId", c.admin().artifact(c.id.TenantID, c.ids["runId"][0], text+".txt"))
	}
	for _, relation := range []string{"assign", "share"} {
		c.want(200, "POST", "/api/v1/workspaces/"+c.ids["workspaceId"][0]+"/"+relation, object{"agent_id": c.ids["agentId"][1]})
	}
}

// hooks makes subscriptions and has an event be delivered to them, in vain.
func (c *company) hooks(agent string, add func(parameter, id string)) {
	c.t.Helper()
	for _, name := range []string{"/first", "/second"} {
		made := c.want(201, "POST", "/api/v1/webhooks", object{"url": "https://" + c.mark + ".invalid" + name, "events": []string{"agent.updated"}})
		add("webhookId", made["webhook_id"].(string))
	}
	c.want(200, "PATCH", "/api/v1/agents/"+agent, object{"description": c.mark + " told"})
	for _, id := range c.ids["webhookId"] {
		eventually(c.t, func() bool {
			log := c.want(200, "GET", "/api/v1/webhooks/"+id+"/deliveries?limit=1", nil)["deliveries"].([]any)
			return log[0].(object)["status"] == "pending" && log[0].(object)["attempt_number"] == 2.0
		})
		for _, d := range c.want(200, "GET", "/api/v1/webhooks/"+id+"/deliveries", nil)["deliveries"].([]any) {
			add("deliveryId", d.(object)["delivery_id"].(string))
			add("eventId", d.(object)["event_id"].(string))
		}
	}
}

// artifact adds a file to a run that has ended.
func (a *admin) artifact(tenant, run, name string) string {
	a.tb.Helper()
	if tenant == "" {
		tenant = a.query(`SELECT tenant_id FROM runs WHERE run_id = ?`, run)[0]["tenant_id"].(string)
	}
	blobs := &blob.Store{Table: blobsql.New(a.db), Writer: a.db, Clock: clock.System{}}
	s := &artifact.Service{Table: artifactsql.New(a.db), Blobs: blobs, Clock: clock.System{}}
	made, op, err := s.Save(a.tb.Context(), tenant, run, []tool.File{{Name: name, MimeType: "text/plain", Data: []byte(name)}})
	if err == nil {
		err = a.db.Write(a.tb.Context(), op)
	}
	if err != nil {
		a.tb.Fatal(err)
	}
	return made[0].ArtifactID
}

// remember has an agent remember and know things, and waits until they are
// embedded and can be searched, so that nothing changes any more by itself.
func (c *company) remember(agent string, add func(parameter, id string)) {
	c.t.Helper()
	memory, bases := "/api/v1/agents/"+agent+"/memory", "/api/v1/knowledge-bases"
	for _, name := range []string{" first", " second"} {
		entry := c.want(201, "POST", memory, object{"content": c.mark + name, "entity_name": "somebody", "tags": []string{c.mark}})
		add("entryId", entry["entry_id"].(string))
		base := c.want(201, "POST", bases, object{"name": c.mark + name})
		add("knowledgeBaseId", base["id"].(string))
		document := c.want(201, "POST", bases+"/"+c.ids["knowledgeBaseId"][0]+"/documents", object{"content": c.mark + name})
		add("documentId", document["document_id"].(string))
	}
	c.want(200, "PUT", memory+"/core/human", object{"content": c.mark})
	add("label", "human")
	add("provider", corp)
	add("entity", "somebody")
	beside := c.admin()
	eventually(c.t, func() bool {
		return len(beside.query(`SELECT work_key FROM work WHERE kind IN ('embed', 'change') OR kind = 'search' AND work_key <> 'runs'`)) == 0
	})
}

func (n *node) tenant() string {
	n.t.Helper()
	return n.want(200, "GET", "/api/v1/me", nil)["tenant"].(object)["tenant_id"].(string)
}

// notified tells a company something, and gives the ids of the notifications.
func (a *admin) notified(tenant string, titles ...string) (ids []string) {
	a.tb.Helper()
	store := notificationsql.New(a.db)
	s := notification.New(notification.Deps{Store: store, Writer: a.db, Clock: clock.System{}, Hub: event.NewHub()})
	for _, title := range titles {
		err := a.db.Write(a.tb.Context(), func(tx txn.Tx) error {
			return s.Notify(tx, notification.Notification{TenantID: tenant, Type: notification.SystemAlert, Title: title})
		})
		if err != nil {
			a.tb.Fatal(err)
		}
	}
	all, err := store.List(a.tb.Context(), tenant, "", false, len(titles))
	if err != nil {
		a.tb.Fatal(err)
	}
	for _, n := range all {
		ids = append(ids, n.ID)
	}
	return ids
}

// operator says whether the company runs the platform.
func (c *company) operator() bool { return c.key == ownerKey }

// subordinate makes a company that the operator can do things with.
func (c *company) subordinate() string {
	c.t.Helper()
	made, err := c.admin().CreateTenant(c.t.Context(), "Subordinate", "")
	if err != nil {
		c.t.Fatal(err)
	}
	return made.TenantID
}

// in is the same company in a subtest.
func (c *company) in(t testing.TB) *company {
	inside := *c
	inside.node = c.as(c.key)
	inside.t = t
	return &inside
}

// converse makes sessions: one in use, one that is shared, one that is closed.
func (c *company) converse(agent string, add func(parameter, id string)) {
	c.t.Helper()
	var ids []string
	for _, message := range []string{"calculate 6*7 ", "calculate 6*7 ", "say "} {
		id := c.session(agent, object{"metadata": object{"note": c.mark}})
		c.ended(c.say(id, message+c.mark))
		ids = append(ids, id)
		add("sessionId", id)
	}
	path := "/api/v1/sessions/" + ids[0]
	for _, name := range []string{" first", " second"} {
		add("branchId", c.want(201, "POST", path+"/branch", object{"name": c.mark + name})["branch_id"].(string))
		add("annotationId", c.want(201, "POST", path+"/annotations", object{"message_id": c.mark, "content": c.mark + name})["id"].(string))
	}
	for _, status := range []string{"pending", "pending_confirmation"} {
		todo := object{"title": c.mark, "status": status, "assign_agent_id": agent, "due_at": nil}
		add("todoId", c.want(201, "POST", path+"/todos", todo)["todo_id"].(string))
	}
	url := c.want(200, "POST", "/api/v1/sessions/"+ids[1]+"/share", object{"role": "viewer"})["share_url"].(string)
	add("shareId", url[strings.LastIndexByte(url, '/')+1:])
	c.want(200, "DELETE", "/api/v1/sessions/"+ids[2], nil)
}
