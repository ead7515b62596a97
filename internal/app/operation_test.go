package app_test

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/mcp"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/mcpserver"
)

// operation is a row of the route table with what the tests of the whole
// table know of it.
type operation struct {
	route.Row

	streams bool
	bytes   bool     // answers a file
	chat    bool     // refuses in the chat envelope
	says    bool     // refuses in the messages envelope, but for what keeps the problem document
	rpc     bool     // refuses with a JSON-RPC error
	endless bool     // a stream that nothing ends
	page    bool     // for people: what it needs is in a link that they were given
	params  []string // of the path
	queries []string
	headers []string              // that the row reads, beside those of the chain
	schema  map[string]*apiSchema // of each query parameter
	body    *apiSchema            // nil: none
	answers map[string]*apiSchema // what is published, by status; nil: not JSON; empty for a row that is not published
	schemas map[string]*apiSchema
}

func (o *operation) String() string { return o.Method + " " + o.Path }

// name is the operation's in subtests.
func (o *operation) name() string {
	return cmp.Or(o.ID, strings.Trim(notWord.ReplaceAllString(o.Path, "_"), "_"))
}

var (
	notWord   = regexp.MustCompile(`[^a-zA-Z0-9]+`)
	parameter = regexp.MustCompile(`\{([^}]*)\}`)
)

// apiDocument is what is read of the OpenAPI document.
type apiDocument struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Name   string     `json:"name"`
			In     string     `json:"in"`
			Schema *apiSchema `json:"schema"`
		} `json:"parameters"`
		RequestBody apiContent            `json:"requestBody"`
		Responses   map[string]apiContent `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]*apiSchema `json:"schemas"`
	} `json:"components"`
}

type apiContent struct {
	Content map[string]struct {
		Schema *apiSchema `json:"schema"`
	} `json:"content"`
}

// apiSchema is a JSON schema, as far as our document uses it.
type apiSchema struct {
	Ref        string                `json:"$ref"`
	Type       any                   `json:"type"` // a name or a list of names
	Format     string                `json:"format"`
	Enum       []any                 `json:"enum"`
	Properties map[string]*apiSchema `json:"properties"`
	Required   []string              `json:"required"`
	More       any                   `json:"additionalProperties"` // true, a schema, or nothing
	Items      *apiSchema            `json:"items"`
	AnyOf      []*apiSchema          `json:"anyOf"`

	MinLength *int     `json:"minLength"`
	MaxLength *int     `json:"maxLength"`
	MinItems  *int     `json:"minItems"`
	MaxItems  *int     `json:"maxItems"`
	Minimum   *float64 `json:"minimum"`
	Maximum   *float64 `json:"maximum"`
}

// operations lists what the node serves, public ones included.
func (n *node) operations() []*operation {
	n.t.Helper()
	routes, raws := n.app.Routes()
	text, err := httpapi.OpenAPI(routes, raws)
	if err != nil {
		n.t.Fatal(err)
	}
	var doc apiDocument
	if err := json.Unmarshal(text, &doc); err != nil {
		n.t.Fatal(err)
	}
	var all []*operation
	add := func(row route.Row) *operation {
		o := &operation{Row: row, schemas: doc.Components.Schemas, schema: map[string]*apiSchema{}}
		for _, match := range parameter.FindAllStringSubmatch(row.Path, -1) {
			o.params = append(o.params, match[1])
		}
		published := doc.Paths[row.Path][strings.ToLower(row.Method)]
		for _, p := range published.Parameters {
			switch p.In {
			case "query":
				o.queries = append(o.queries, p.Name)
				o.schema[p.Name] = p.Schema
			case "header":
				o.headers = append(o.headers, p.Name)
			}
		}
		o.answers = map[string]*apiSchema{}
		for status, answer := range published.Responses {
			o.answers[status] = answer.Content["application/json"].Schema
			_, file := answer.Content[route.Bytes]
			_, sound := answer.Content["audio/*"]
			o.bytes = o.bytes || file || sound
		}
		o.body = published.RequestBody.Content["application/json"].Schema
		all = append(all, o)
		return o
	}
	for _, r := range routes {
		o := add(r.Row)
		o.streams, o.page = r.Open != nil, forPeople[r.ID]
	}
	for _, raw := range raws {
		o := add(raw.Row)
		if o.rpc = raw.Path == mcpserver.Path; o.rpc {
			o.headers = append(o.headers, "X-SVC-Agent-Id")
		}
		o.endless = o.rpc && raw.Method == http.MethodGet
		o.streams = o.endless
		o.page = raw.Path == mcp.StartPath || raw.Path == mcp.CallbackPath
		o.says = strings.HasPrefix(raw.Path, "/v1/messages")
		o.chat = raw.FailOf != nil && !o.rpc && !o.says
	}
	return all
}

// resolve follows a reference.
func (o *operation) resolve(s *apiSchema) *apiSchema {
	if s != nil && s.Ref != "" {
		return o.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	return s
}

func (o *operation) walk(s *apiSchema, path string, depth int, visit func(path, name string, s *apiSchema)) {
	s = o.resolve(s)
	if s == nil || depth > 5 {
		return
	}
	for name, property := range s.Properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		visit(at, name, property)
		o.walk(property, at, depth+1, visit)
	}
	o.walk(s.Items, path+"[]", depth+1, visit)
}

// recipe says how to call an operation so that it succeeds.
type recipe struct {
	body object                       // nil: none
	with func(c *company) object      // a body that names things of the company
	ids  func(c *company, call *call) // path parameters other than the first of their kind
}

// recipes are for the operations with a body, and for those that need more
// than the first of everything in their path. By operation id.
var recipes = map[string]recipe{
	"createAgent": {body: object{"name": "made by a test"}},
	"updateAgent": {body: object{"description": "changed by a test"}},
	"patchAgent":  {body: object{"description": "changed by a test"}},
	"suspendAgent": {
		body: object{"reason": "a test"},
		ids:  func(c *company, call *call) { call.path["agentId"] = c.ids["agentId"][2] },
	},
	"createAgentVersion": {body: object{"changelog": "a test"}},
	"rollbackAgent":      {body: object{"version": 1}},
	"activateAgent":      {ids: func(c *company, call *call) { call.path["agentId"] = c.ids["agentId"][1] }},

	"createRun": {with: func(c *company) object {
		return object{"agent_id": c.ids["agentId"][0], "input": object{"message": "hello"}}
	}},

	"removeSchedule": {ids: func(c *company, call *call) { call.path["agentId"] = c.ids["agentId"][2] }}, // the first is deleted
	"setSchedule":    {body: object{"cron": "0 0 1 1 *", "input": object{"message": "a test"}}},
	"approveRun":     {body: object{}, ids: func(c *company, call *call) { call.path["runId"] = c.waits("calculator") }},
	"rejectRun":      {body: object{}, ids: func(c *company, call *call) { call.path["runId"] = c.waits("calculator") }},
	"pauseRun": {ids: func(c *company, call *call) {
		call.path["runId"] = c.run(c.ids["agentId"][3], c.mark, nil)
		c.waiting(call.path["runId"], "running")
	}},
	"resumeRun": {body: object{}, ids: func(c *company, call *call) { call.path["runId"] = c.paused() }},
	"continueRun": {
		body: object{"continuation_token": "none"},
		ids: func(c *company, call *call) {
			id := c.run(c.ids["agentId"][3], c.mark, object{"resource_limits": object{"max_steps": 0}})
			call.path["runId"] = id
			call.body = object{"continuation_token": c.ended(id)["output"].(object)["continuation_token"]}
		},
	},
	"respondToRun": {
		body: object{"response": "an answer"},
		ids:  func(c *company, call *call) { call.path["runId"] = c.waits("ask_user") },
	},

	"requestOtpCode":       {body: object{"email": "ann@example.com"}},
	"verifyOtpCode":        {body: object{"email": "ann@example.com", "code": "123456"}},
	"register":             {body: object{"email": "ann@example.com", "accept_terms": true, "accept_privacy": true}},
	"exchangeOAuthAppCode": {body: object{"code": "a code", "code_verifier": strings.Repeat("v", 43)}},
	"verifyMfa":            {body: object{"code": "123456"}},
	"verifyMfaRecovery":    {body: object{"code": "ABCD-EFGH-IJKL-MNOP"}},
	"disableMfa":           {body: object{"code": "123456"}},
	"enrolMfa":             {body: object{"label": "a test"}, ids: func(c *company, _ *call) { c.admin().exec(`DELETE FROM signin_factors`) }},

	"createMcpServer": {body: object{"name": "made by a test", "transport": "http", "url": "https://mcp.example.com/", "enabled": false}},
	"patchMcpServer":  {body: object{"name": "changed by a test"}},
	"setAgentMcpServers": {with: func(c *company) object {
		return object{"server_ids": []string{c.ids["serverId"][1]}}
	}},
	"callMcp":             {body: object{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}},
	"createSession":       {with: func(c *company) object { return object{"agent_id": c.ids["agentId"][0]} }},
	"updateSession":       {body: object{"metadata": object{"note": "changed by a test"}}},
	"sendSessionMessage":  {body: object{"content": "hello"}},
	"bulkDeleteSessions":  {with: func(c *company) object { return object{"session_ids": []string{c.ids["sessionId"][1]}} }},
	"streamSessionEvents": {ids: func(c *company, call *call) { call.path["sessionId"] = c.ids["sessionId"][2] }}, // it ends
	"exportSession":       {ids: func(_ *company, call *call) { call.query.Set("format", "json") }},               // the other is no JSON
	"createSessionBranch": {body: object{}},
	"deleteSessionBranch": {ids: func(c *company, call *call) { call.path["branchId"] = c.ids["branchId"][1] }},
	"createSessionShare":  {body: object{"role": "viewer"}},

	"createSessionAnnotation": {body: object{"message_id": "a message", "content": "made by a test"}},
	"updateSessionAnnotation": {body: object{"resolved": true}},
	"createSessionTodo":       {body: object{"title": "made by a test"}},
	"updateSessionTodo":       {body: object{"description": "changed by a test"}},
	"confirmSessionTodo": {
		body: object{"execute": false},
		ids:  func(c *company, call *call) { call.path["todoId"] = c.ids["todoId"][1] },
	},
	"createTask": {with: func(c *company) object { return object{"title": "made by a test", "agent_id": c.ids["agentId"][0]} }},
	"searchWeb":  {body: object{"query": "ducks"}},
	"spawnAgent": {body: object{"name": "made by a test", "tools": []string{"calculator"}}},

	"createWebhook": {body: object{"url": "https://example.com/made-by-a-test", "events": []string{"run.failed"}}},
	"testWebhook": {ids: func(c *company, call *call) {
		c.want(200, "POST", "/api/v1/webhooks/"+c.ids["webhookId"][0]+"/enable", nil)
	}},
	"replayDeadLetter": {ids: func(c *company, call *call) {
		c.admin().exec(`UPDATE webhook_deliveries SET dead = TRUE WHERE event_id = ? AND webhook_id = ? AND attempt = 1`, call.path["eventId"], c.ids["webhookId"][0])
	}},

	"setNotificationPrefs": {body: object{"muted_types": []string{"made.by.a.test"}}},
	"createSensor": {with: func(c *company) object {
		return object{"agent_id": c.ids["agentId"][0], "instructions": "made by a test"}
	}},
	// The other one takes signed calls only.
	"sensorWebhook": {ids: func(c *company, call *call) { call.path["webhookId"] = c.ids["sensorId"][1] }},

	"createNotificationTarget": {body: object{"label": "made by a test", "config": object{"kind": "webhook", "url": "https://example.com/hook"}}},

	"createApiKey": {body: object{"name": "made by a test"}},

	"setUserRole":             {body: object{"role": "developer"}},
	"transferTenantOwnership": {ids: func(c *company, call *call) { call.path["userId"] = c.ids["userId"][1] }}, // the first is deleted
	"inviteUser":              {with: func(*company) object { return object{"email": ident.New() + "@example.com", "role": "viewer"} }},
	"resendInvite":            {ids: (*company).sendable},
	"acceptInvite":            {body: object{"token": ""}, ids: (*company).opened},
	"acceptMyInvite":          {body: object{"name": "made by a test"}, ids: (*company).invited},
	"declineMyInvite":         {ids: (*company).invited},
	"leaveTenant":             {ids: (*company).guest},
	"switchTenant":            {with: func(c *company) object { return object{"tenant_id": c.ids["tenantId"][0]} }},
	"createMyTenant":          {body: object{"name": "made by a test"}},
	"patchMe":                 {body: object{"avatar_url": "https://example.com/a.png"}},
	"updateTenant":            {body: object{"description": "changed by a test"}},
	"patchTenant":             {body: object{"settings": object{"note": "changed by a test"}}},

	"uploadFile":            {body: object{"data": "aGVsbG8=", "mime_type": "text/plain", "filename": "made by a test.txt"}},
	"createWorkspace":       {body: object{"name": "made by a test"}},
	"updateWorkspace":       {body: object{"name": "named by a test"}},
	"deleteWorkspace":       {ids: func(c *company, call *call) { call.path["workspaceId"] = c.ids["workspaceId"][1] }},
	"assignWorkspace":       {with: func(c *company) object { return object{"agent_id": c.ids["agentId"][1]} }},
	"unassignWorkspace":     {with: func(c *company) object { return object{"agent_id": c.ids["agentId"][1]} }},
	"shareWorkspace":        {with: func(c *company) object { return object{"agent_id": c.ids["agentId"][1]} }},
	"revokeWorkspaceShare":  {ids: func(c *company, call *call) { call.path["agentId"] = c.ids["agentId"][1] }},
	"uploadWorkspaceFile":   {ids: atPath("empty.txt")},
	"downloadWorkspaceFile": {ids: atPath("docs/a.txt")},
	"deleteWorkspaceFile":   {ids: atPath("docs/b.txt")},
	"moveWorkspaceFile":     {body: object{"from_path": "move.txt", "to_path": "moved/away.txt"}},
	"copyWorkspaceFile":     {body: object{"source_path": "docs/a.txt", "dest_path": "copied/a.txt"}},
	"createGuardrail":       {body: object{"name": "made by a test", "kind": "keyword", "stage": "input", "config": object{"keywords": []string{"x"}}}},
	"updateGuardrail":       {body: object{"name": "changed by a test"}},
	"patchGuardrail":        {body: object{"action": "flag"}},

	"createCommerceCustomer": {body: object{"name": "made by a test"}},
	"patchCommerceCustomer":  {body: object{"note": "changed by a test"}},

	"createMemory":           {body: object{"content": "made by a test"}},
	"searchMemory":           {body: object{"text": "made"}},
	"ingestMemory":           {with: uploaded},
	"importMemory":           {body: object{"entries": []object{{"content": "imported by a test"}}}},
	"updateAgentMemoryEntry": {body: object{"content": "changed by a test"}},
	"updateCoreMemoryBlock":  {body: object{"content": "changed by a test"}},
	"createKnowledgeBase":    {body: object{"name": "made by a test"}},
	"updateKnowledgeBase":    {body: object{"description": "changed by a test"}},
	"ingestKbDocument":       {with: uploaded},
	"searchKnowledgeBase":    {body: object{"query": "made"}},

	"setLlmCredential":    {body: object{"api_key": "sk-made-by-a-test"}, ids: ofProvider("openai")},
	"testLlmCredential":   {ids: ofProvider("mine")},
	"listProviderModels":  {ids: ofProvider("default")},
	"createSpeech":        {body: object{"input": "made by a test"}},
	"createTranscription": {ids: spoken},
	"deleteLlmCredential": {ids: func(c *company, call *call) {
		c.want(200, "PUT", "/api/v1/llm-credentials/groq", object{"api_key": "sk-made-by-a-test"})
		call.path["provider"] = "groq"
	}},

	"createTenant":         {body: object{"name": "made by a test"}},
	"updateAdminTenant":    {body: object{"name": "named by a test"}},
	"suspendTenant":        {body: object{"reason": "a test"}},
	"updateTenantSettings": {body: object{"purge_protection": false}},
	"purgeTenant": {body: object{}, ids: func(_ *company, call *call) {
		call.body = object{"confirm": call.path["tenantId"]}
	}},
	"setBillingBudget": {body: object{"limit_usd": 1000}},

	"llmChatCompletion": {body: object{"model": "builtin/echo", "messages": []object{{"role": "user", "content": "hello"}}}},

	"createMessage":      {body: object{"model": "builtin/echo", "max_tokens": 16, "messages": []object{{"role": "user", "content": "hello"}}}},
	"countMessageTokens": {body: object{"model": "claude-x", "messages": []object{{"role": "user", "content": "hello"}}}},
	"createChatCompletion": {with: func(c *company) object {
		return object{"model": c.ids["agentId"][0], "messages": []object{{"role": "user", "content": "hello"}}}
	}},
	"createResponse": {with: func(c *company) object {
		return object{"model": c.ids["agentId"][0], "input": "hello", "previous_response_id": c.ids["responseId"][0]}
	}},
	"createEmbedding": {body: object{"input": "hello"}},
}

// atPath names a file of a workspace in the query.
func atPath(path string) func(*company, *call) {
	return func(_ *company, call *call) { call.query.Set("path", path) }
}

// ofProvider names a model provider in the path.
func ofProvider(name string) func(*company, *call) {
	return func(_ *company, call *call) { call.path["provider"] = name }
}

// spoken is a form with a sound.
func spoken(_ *company, call *call) {
	call.body = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\nsound\r\n--b--\r\n"
	call.headers = append(call.headers, "Content-Type", "multipart/form-data; boundary=b")
}

// uploaded is a body that names a file.
func uploaded(c *company) object { return object{"file_id": c.ids["fileId"][0]} }

// references says what a field of a body or a query names: the path parameter
// whose ids it takes, or nothing, where the value is only kept.
var references = map[string]string{
	"agent_id":  "agentId",
	"tenant_id": "tenantId", // one of the person's

	"session_id":        "sessionId",
	"assign_agent_id":   "agentId",
	"fork_point_run_id": "runId",
	"parent_branch_id":  "branchId",
	"message_id":        "", // whatever somebody remarks on
	"agent_ids":         "agentId",
	"session_ids":       "sessionId",

	"run_id": "runId",
	// Approvals are looked for among those of the run.
	"approval_id":           "approvalId",
	"model":                 "model", // of the chat routes: an agent
	"createEmbedding model": "",      // whatever it says

	"previous_response_id": "responseId",

	"assigned_agent_ids": "agentId",
	"server_ids":         "serverId",
	"client_id":          "", // of an authorization server
	"workspace_id":       "workspaceId",
	"knowledge_base_id":  "knowledgeBaseId",

	"actor_id": "keyId",

	// What will name things once there are any.
	"team_id":        "",
	"assign_team_id": "",
	"company_id":     "",
	"file_ids":       "fileId",
	"file_id":        "fileId",

	// A limit of tokens, not a token.
	"max_tokens": "", "max_completion_tokens": "", "max_output_tokens": "",
	// Names of secrets and variables that the company keeps beside: it has no
	// way to name another's.
	"api_key_ref": "", "auth.env_key": "",
	"setLlmCredential api_key": "", // a secret, not its name
	"model_ref":                "", // a name that an endpoint knows
	"continuation_token":       "", // of the run in the path alone: TestContinuationsOfOthers

	"token": "", // of the invite in the path, or of a mail

	// Ids that a caller gives to things of its own.
	"callMcp id":                 "",
	"createSpeech model":         "", // of the catalogue
	"messages[].tool_call_id":    "",
	"messages[].tool_calls[].id": "",
}

// plainParameters are parameters of paths that are no ids: they only mean
// something beside one.
var plainParameters = map[string]bool{
	"versionNum": true, "label": true, "entity": true, "provider": true,
	"shareId": true, // whoever has a link may read
}

// unconditional are the parameters of operations that answer the same whether
// the thing is there or not (behaviours.md sections 8 and 18), with their status.
var unconditional = map[string]int{
	"listAuditEntriesOfTarget targetId": 200, "deleteWebhook webhookId": 200, "deleteSensor sensorId": 200,
	"deleteMemoryEntry entryId": 204, "markNotificationRead notificationId": 200, "deleteNotification notificationId": 200,
}

// plainQueries are parameters of queries that are no ids.
var plainQueries = map[string]bool{
	"action": true, "type": true,
	"compare_to": true, "cursor": true, "fields": true, "format": true, "from": true, "glob": true,
	"last_event_id": true, "limit": true, "mime_prefix": true, "order": true, "path": true, "q": true,
	"breakdown": true, "days": true,
	"metric": true, "period": true,
	"recursive": true, "regex": true, "scope": true, "starting_after": true, "status": true, "stream": true, "timeout_sec": true, "to": true,
	"top_k": true, "unread": true,
	"accept_privacy": true, "accept_terms": true, "app_code_challenge": true, "code": true, "device_label": true,
	"error": true, "iss": true, "return_to": true, "state": true, "token": true,
	"tenant_id": true,
}

// call is a request to an operation.
type call struct {
	op    *operation
	path  map[string]string
	query url.Values
	body  any

	headers []string // names and values, beside those that it always has
}

// own is the call of an operation with things of the company, which succeeds.
func (c *company) own(op *operation) *call {
	c.t.Helper()
	made := &call{op: op, path: map[string]string{}, query: url.Values{}}
	for _, p := range op.params {
		if strings.HasPrefix(op.Path, "/api/v1/admin/audit/") {
			made.path[p] = c.ids["agentId"][0]
			continue
		}
		if op.Operator && p == "tenantId" {
			made.path[p] = c.ids["subordinate"][0]
			continue
		}
		if len(c.ids[p]) == 0 {
			c.t.Fatalf("%s: no test knows what {%s} may be: have newCompany in company_test.go make such a thing and add its id", op, p)
		}
		made.path[p] = c.ids[p][0]
	}
	how, known := recipes[op.ID]
	if op.body != nil && !known {
		c.t.Fatalf("%s: no test knows a body for it: add one to recipes in operation_test.go, by its id %s", op, op.ID)
	}
	if how.body != nil {
		made.body = maps.Clone(how.body)
	}
	if how.with != nil {
		made.body = how.with(c)
	}
	if how.ids != nil {
		how.ids(c, made)
	}
	return made
}

func (k *call) target() string {
	path := parameter.ReplaceAllStringFunc(k.op.Path, func(p string) string { return url.PathEscape(k.path[p[1:len(p)-1]]) })
	if len(k.query) > 0 {
		path += "?" + k.query.Encode()
	}
	return path
}

// send makes the call with a node's key.
func (k *call) send(n *node, headers ...string) reply {
	n.t.Helper()
	headers = append(slices.Clone(k.headers), headers...)
	if k.op.endless {
		return k.begin(n, headers...)
	}
	if k.op.streams {
		headers = append(headers, "Accept", "text/event-stream")
	}
	return n.do(k.op.Method, k.target(), k.body, headers...)
}

// begin makes the call of a stream that nothing ends, and reads no more of it
// than that it began.
func (k *call) begin(n *node, headers ...string) reply {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, k.op.Method, n.url+k.target(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.key)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	out := reply{Response: resp}
	if resp.StatusCode != http.StatusOK {
		if out.raw, err = io.ReadAll(resp.Body); err != nil {
			n.t.Fatal(err)
		}
		_ = json.Unmarshal(out.raw, &out.json) // it may be empty
	}
	return out
}

// okStatus says whether a status is one of the row's successes.
func (o *operation) okStatus(status int) bool {
	return status == cmp.Or(o.Status, 200) || slices.Contains(o.Also, status)
}

// checkPublished fails unless the document says that the operation can answer
// with a status.
func (o *operation) checkPublished(t testing.TB, status int) {
	t.Helper()
	if _, has := o.answers[strconv.Itoa(status)]; !has && len(o.answers) > 0 {
		t.Errorf("%s answers %d, which the document does not say: add it to its row's Errors", o, status)
	}
}

// isRefused fails unless an answer is a refusal with a status and a code, in
// the form of the operation.
func (o *operation) isRefused(t *testing.T, r reply, status int, code string) {
	t.Helper()
	if o.tired(r) {
		status, code = 429, "rate_limit_exceeded"
	}
	if r.StatusCode != status {
		t.Errorf("%s: status %d, want %d: %s", o, r.StatusCode, status, r.raw)
		return
	}
	o.checkPublished(t, status)
	doc := r.json
	switch {
	case o.says && r.Header.Get("Content-Type") == "application/json":
		if got, _ := r.json["error"].(object); got["type"] != saidType(status) { // it has no code
			t.Errorf("%s: type %v, want %s: %s", o, got["type"], saidType(status), r.raw)
		}
		o.checkForm(t, r)
		return
	case o.chat:
		doc, _ = r.json["error"].(object)
	case o.rpc:
		failure, _ := r.json["error"].(object)
		doc, _ = failure["data"].(object)
	}
	if doc["code"] != code {
		t.Errorf("%s: code %v, want %s: %s", o, doc["code"], code, r.raw)
	}
	o.checkForm(t, r)
}

// checkForm fails unless a refusal has the form of the operation's.
func (o *operation) checkForm(t testing.TB, r reply) {
	t.Helper()
	switch {
	case o.says:
		checkSaid(t, r)
	case o.chat:
		checkEnvelope(t, r)
	case o.rpc:
		checkRPCError(t, r)
	default:
		checkProblem(t, r)
	}
}
