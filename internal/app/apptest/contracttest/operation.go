package contracttest

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/mcp"
	"agentd/internal/app/apptest"
	"agentd/internal/base/route"
	"agentd/internal/edge/a2aserver"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/integrationpage"
	"agentd/internal/edge/mcpserver"
)

// DeletionsLast orders operations: deletions after everything else, of what is
// in a thing before the thing.
func DeletionsLast(a, b *Operation) int {
	if d := isDelete(a) - isDelete(b); d != 0 || isDelete(a) == 0 {
		return d
	}
	return len(b.PathParams) - len(a.PathParams)
}

func isDelete(op *Operation) int {
	switch {
	case op.ID == "logout": // revokes the key of the company
		return 3
	case op.ID == "transferTenantOwnership": // the caller is no owner afterwards
		return 2
	case op.Method == http.MethodDelete:
		return 1
	}
	return 0
}

// NeverSucceeds is done by the server's first start.
const NeverSucceeds = "bootstrap"

// Operation is a row of the route table with what the tests of the whole
// table know of it.
type Operation struct {
	route.Row

	Streams        bool
	AnswersFile    bool     // answers a file
	AnswersLines   bool     // answers lines of JSON, or events that end by themselves
	ChatErrors     bool     // refuses in the chat envelope
	MessagesErrors bool     // refuses in the messages envelope, but for what keeps the problem document
	RPCErrors      bool     // refuses with a JSON-RPC error
	Endless        bool     // a stream that nothing ends
	NeedsPerson    bool     // for people: what it needs is in a link that they were given
	PathParams     []string // of the path
	QueryParams    []string
	HeaderParams   []string           // that the row reads, beside those of the chain
	QuerySchemas   map[string]*Schema // of each query parameter
	BodySchema     *Schema            // nil: none
	AnswerSchemas  map[string]*Schema // what is published, by status; nil: not JSON; empty for a row that is not published
	schemas        map[string]*Schema
}

func (o *Operation) String() string { return o.Method + " " + o.Path }

// TestName is the operation's in subtests.
func (o *Operation) TestName() string {
	return cmp.Or(o.ID, strings.Trim(NotWord.ReplaceAllString(o.Path, "_"), "_"))
}

// What names of operations and parameters are found by.
var (
	// NotWord matches what an identifier cannot contain.
	NotWord = regexp.MustCompile(`[^a-zA-Z0-9]+`)
	// Parameter matches a path parameter.
	Parameter = regexp.MustCompile(`\{([^}]*)\}`)
)

// Operations lists what the node serves, public ones included.
func Operations(n *apptest.Server) []*Operation {
	n.T.Helper()
	routes, raws := n.App.Routes()
	text, err := httpapi.OpenAPI(routes, raws)
	if err != nil {
		n.T.Fatal(err)
	}
	var doc apiDocument
	if err := json.Unmarshal(text, &doc); err != nil {
		n.T.Fatal(err)
	}
	var all []*Operation
	add := func(row route.Row) *Operation {
		o := &Operation{Row: row, schemas: doc.Components.Schemas, QuerySchemas: map[string]*Schema{}}
		for _, match := range Parameter.FindAllStringSubmatch(row.Path, -1) {
			o.PathParams = append(o.PathParams, match[1])
		}
		published := doc.Paths[row.Path][strings.ToLower(row.Method)]
		for _, p := range published.Parameters {
			switch p.In {
			case "query":
				o.QueryParams = append(o.QueryParams, p.Name)
				o.QuerySchemas[p.Name] = p.Schema
			case "header":
				o.HeaderParams = append(o.HeaderParams, p.Name)
			}
		}
		o.AnswerSchemas = map[string]*Schema{}
		for status, answer := range published.Responses {
			o.AnswerSchemas[status] = answer.Content["application/json"].Schema
			_, file := answer.Content[route.Bytes]
			_, sound := answer.Content["audio/*"]
			o.AnswersFile = o.AnswersFile || file || sound
			if _, lines := answer.Content["application/x-ndjson"]; lines {
				o.AnswersLines = true
			}
		}
		o.BodySchema = published.RequestBody.Content["application/json"].Schema
		all = append(all, o)
		return o
	}
	for _, r := range routes {
		if r.Hidden {
			continue
		}
		o := add(r.Row)
		o.Streams, o.NeedsPerson = r.Open != nil, needsPerson[r.ID]
	}
	for _, raw := range raws {
		if raw.ID == "" || raw.Upgrade {
			continue // a page for browsers, with nothing of a company; or a WebSocket, which test/e2e/machines and operator.TestTerminal test
		}
		o := add(raw.Row)
		o.RPCErrors = raw.Path == mcpserver.Path || raw.Path == a2aserver.Path
		if raw.Path == mcpserver.Path {
			o.HeaderParams = append(o.HeaderParams, "X-SVC-Agent-Id")
		}
		o.Endless = o.RPCErrors && raw.Method == http.MethodGet
		o.Streams = o.Endless
		o.AnswersLines = o.AnswersLines || raw.Streams && !o.Endless
		o.NeedsPerson = raw.Path == mcp.StartPath || raw.Path == mcp.CallbackPath || raw.Path == integrationpage.Path
		o.MessagesErrors = strings.HasPrefix(raw.Path, "/v1/messages")
		o.ChatErrors = raw.FailOf != nil && !o.RPCErrors && !o.MessagesErrors
	}
	return all
}

// Resolve follows a reference.
func (o *Operation) Resolve(s *Schema) *Schema {
	if s != nil && s.Ref != "" {
		return o.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	return s
}

// WalkFields visits all fields below a schema, with their dotted paths.
func (o *Operation) WalkFields(s *Schema, path string, depth int, visit func(path, name string, s *Schema)) {
	s = o.Resolve(s)
	if s == nil || depth > 5 {
		return
	}
	for name, property := range s.Properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		visit(at, name, property)
		o.WalkFields(property, at, depth+1, visit)
	}
	o.WalkFields(s.Items, path+"[]", depth+1, visit)
}

// Succeeds reports whether a status is one of the operation's successes.
func (o *Operation) Succeeds(status int) bool {
	return status == cmp.Or(o.Status, 200) || slices.Contains(o.Also, status)
}

// CheckPublished fails unless the OpenAPI document lists a status for the
// operation.
func (o *Operation) CheckPublished(t testing.TB, status int) {
	t.Helper()
	if _, has := o.AnswerSchemas[strconv.Itoa(status)]; !has && len(o.AnswerSchemas) > 0 {
		t.Errorf("%s answers %d, which the document does not say: add it to its row's Errors", o, status)
	}
}

// CheckRefusal fails unless an answer is a refusal with a status and a code, in
// the form of the operation.
func (o *Operation) CheckRefusal(t *testing.T, r apptest.Reply, status int, code string) {
	t.Helper()
	if o.RateLimited(r) {
		status, code = 429, "rate_limit_exceeded"
	}
	if r.StatusCode != status {
		t.Errorf("%s: status %d, want %d: %s", o, r.StatusCode, status, r.Body)
		return
	}
	o.CheckPublished(t, status)
	doc := r.JSON
	switch {
	case o.MessagesErrors && r.Header.Get("Content-Type") == "application/json":
		if got, _ := r.JSON["error"].(apptest.Object); got["type"] != apptest.MessagesErrorType(status) { // it has no code
			t.Errorf("%s: type %v, want %s: %s", o, got["type"], apptest.MessagesErrorType(status), r.Body)
		}
		o.CheckForm(t, r)
		return
	case o.ChatErrors:
		doc, _ = r.JSON["error"].(apptest.Object)
	case o.RPCErrors:
		failure, _ := r.JSON["error"].(apptest.Object)
		doc, _ = failure["data"].(apptest.Object)
		if details, _ := failure["data"].([]any); len(details) == 1 {
			doc = apptest.Object{"code": details[0].(apptest.Object)["reason"]}
		}
	}
	if doc["code"] != code {
		t.Errorf("%s: code %v, want %s: %s", o, doc["code"], code, r.Body)
	}
	o.CheckForm(t, r)
}

// CheckForm fails unless a refusal has the form of the operation's.
func (o *Operation) CheckForm(t testing.TB, r apptest.Reply) {
	t.Helper()
	switch {
	case o.MessagesErrors:
		apptest.CheckMessagesError(t, r)
	case o.ChatErrors:
		apptest.CheckChatError(t, r)
	case o.RPCErrors:
		apptest.CheckRPCError(t, r)
	default:
		apptest.CheckProblem(t, r)
	}
}
