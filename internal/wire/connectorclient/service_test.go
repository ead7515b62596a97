package connectorclient_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pets is a service with an OpenAPI document.
const pets = `openapi: 3.0.3
info: {title: Pets, version: "1"}
servers: [{url: /v1}]
paths:
  /pets:
    get:
      operationId: listPets
      summary: List the pets.
      tags: [read]
      parameters:
        - {name: kind, in: query, schema: {type: array, items: {type: string}}}
        - {name: X-Trace, in: header, schema: {type: string}}
    post:
      operationId: createPet
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}}
  /pets/{petId}:
    parameters: [{$ref: "#/components/parameters/PetId"}]
    get: {operationId: getPet, description: Get a pet., tags: [read]}
    delete: {operationId: deletePet}
components:
  parameters:
    PetId: {name: petId, in: path, required: true, schema: {type: string}}
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: {type: string}
        mother: {$ref: "#/components/schemas/Pet"}
`

// shelter serves pets and keeps what it was asked.
type shelter struct {
	asked []string
	key   string // that it demands; "": none
	t     *testing.T
}

func (s *shelter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/openapi.yaml" {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = io.WriteString(w, pets)
		return
	}
	if s.key != "" && r.Header.Get("X-Key") != s.key {
		answer(w, 401, object{})
		return
	}
	text, _ := io.ReadAll(r.Body)
	s.asked = append(s.asked, fmt.Sprintf("%s %s %s trace=%s key=%s", r.Method, r.URL.RequestURI(), text, r.Header.Get("X-Trace"), r.Header.Get("Idempotency-Key")))
	w.Header().Set("Link", `</v1/pets?page=2>; rel="next", </v1/pets?page=9>; rel="last"`)
	answer(w, 200, object{"pets": []string{"Rex"}})
}

// Tools are made of any OpenAPI document: selected, named and described by the
// settings, called as the document says, with the credential of the settings.
func TestToolsOfAnOpenAPIDocument(t *testing.T) {
	t.Parallel()
	eachDB(t, func(f *fixture) {
		t := f.t
		s := &shelter{t: t, key: "k-1"}
		url := serve(t, s)
		made := f.add("http", object{
			"spec_url": url + "/openapi.yaml", "auth": "header", "auth_name": "X-Key", "api_key": "k-1", "prefix": "shelter_",
			"names": object{"getPet": "pet"}, "descriptions": object{"createPet": "Take a pet in."}, "exclude": []string{"DELETE *"},
		})
		if made["status"] != "active" || made["tool_count"] != 3.0 || made["operation_count"] != 4.0 {
			t.Fatalf("the integration is %v", made)
		}
		config := made["config"].(object)
		if config["api_key"] != "[stored]" || config["base_url"] != url+"/v1" {
			t.Errorf("its config is %v", config)
		}
		if got := f.toolNames(); !slices.Equal(got, []string{"shelter_listPets", "shelter_createPet", "shelter_pet"}) {
			t.Errorf("tools = %v", got)
		}
		res := f.call("shelter_listPets", object{"kind": []string{"dog", "cat"}, "X-Trace": "abc"})
		if res.Failed || !strings.Contains(res.Output, `"Rex"`) || !strings.Contains(res.Output, "The next page: page=2") || !slices.Equal(res.Sources, []string{"integration:http"}) {
			t.Errorf("a list: %+v", res)
		}
		f.call("shelter_createPet", object{"body": object{"name": "Rex", "mother": object{"name": "Lassie"}}})
		f.call("shelter_pet", object{"petId": "../admin"})
		want := []string{
			"GET /v1/pets?kind=dog&kind=cat  trace=abc key=",
			`POST /v1/pets {"mother":{"name":"Lassie"},"name":"Rex"} trace= key=step-1`,
			"GET /v1/pets/..%2Fadmin  trace= key=",
		}
		if diff := cmp.Diff(want, s.asked); diff != "" {
			t.Errorf("calls (-want +got)\n%s", diff)
		}
		if res := f.call("shelter_pet", object{"petId": ".."}); !res.Failed || len(s.asked) != 3 {
			t.Errorf("a part of the path that leads up: %+v", res)
		}
		if res := f.call("shelter_createPet", object{"body": object{"age": 1}}); !res.Failed || len(s.asked) != 3 {
			t.Errorf("a body that does not fit: %+v", res)
		}
		page := f.must("listIntegrationTools", nil, made["id"].(string), "2")
		if page["total"] != 3.0 || page["operation_count"] != 4.0 || page["has_more"] != true || len(page["items"].([]any)) != 2 {
			t.Errorf("the first page of tools: %v", page)
		}
		page = f.must("listIntegrationTools", nil, made["id"].(string), "2", page["cursor"].(string))
		if page["has_more"] != false || page["items"].([]any)[0].(object)["name"] != "shelter_pet" {
			t.Errorf("the second page of tools: %v", page)
		}
	})
}

// What an agent is linked to decides what it gets; calls of what was unlinked fail.
func TestLinks(t *testing.T) {
	t.Parallel()
	eachDB(t, func(f *fixture) {
		t := f.t
		s := &shelter{t: t}
		url := serve(t, s)
		one := f.add("http", object{"spec_url": url + "/openapi.yaml"})["id"].(string)
		set, err := f.Tools(t.Context(), f.who.TenantID, f.agent)
		if err != nil || set.Len() != 4 {
			t.Fatalf("%d tools, %v", set.Len(), err)
		}
		other := f.must("createIntegration", object{"connector_id": "http", "name": "Second", "config": object{"spec": pets, "base_url": url, "include": []string{"read"}}})["id"].(string)
		got := f.must("setAgentIntegrations", object{"integration_ids": []string{one, other}}, f.agent)
		if diff := cmp.Diff(object{"assigned": []any{other}, "unassigned": []any{}}, got["diff"]); diff != "" || got["total"] != 2.0 {
			t.Error(diff, got)
		}
		if got := f.toolNames(); !slices.Equal(got, []string{"http_listPets", "createPet", "http_getPet", "deletePet", "second_listPets", "second_getPet"}) {
			t.Errorf("tools of two integrations = %v", got)
		}
		if gone := f.must("removeAgentIntegration", nil, f.agent, other); gone["deleted"] != true {
			t.Errorf("removing what no other agent has: %v", gone)
		}
		f.must("addAgentIntegration", object{"integration_id": one}, ident.New())
		if kept := f.must("removeAgentIntegration", nil, f.agent, one); kept["deleted"] != false {
			t.Errorf("removing what another agent has: %v", kept)
		}
		if got := f.toolNames(); got != nil {
			t.Errorf("tools of an agent without integrations = %v", got)
		}
		tool, _ := set.Lookup("listPets")
		if !tool.ReadOnly || tool.Source != "integration:http" {
			t.Errorf("the tool is %+v", tool)
		}
		if all := f.must("listIntegrations", nil); all["total"] != 1.0 {
			t.Errorf("the list: %v", all)
		}
		if err := f.AgentDeleted(t.Context(), f.who.TenantID, f.agent); err != nil {
			t.Error(err)
		}
		if _, err = f.do("addAgentIntegration", object{"integration_id": ident.New()}, f.agent); !fault.Is(err, fault.NotFound) {
			t.Errorf("adding what does not exist: %v", err)
		}
		if _, err = f.do("removeAgentIntegration", nil, f.agent, one); !fault.Is(err, fault.NotFound) {
			t.Errorf("removing what the agent does not have: %v", err)
		}
	})
}

func isField(t *testing.T, err error, fields ...string) {
	t.Helper()
	var got []string
	if fault.Is(err, fault.Invalid) {
		for _, f := range fault.From(err).Fields {
			got = append(got, f.Field)
		}
	}
	if !slices.Equal(got, fields) {
		t.Errorf("wrong fields %v, want %v: %v", got, fields, err)
	}
}

// Whatever is wrong with a config is said at once; a stored secret is never shown, is
// kept by [stored], and is not sent elsewhere.
func TestConfigs(t *testing.T) {
	t.Parallel()
	f := onSQLite(t)
	url := serve(t, &shelter{t: t})
	create := func(connector string, config object) error {
		_, err := f.do("createIntegration", object{"connector_id": connector, "name": "x", "config": config})
		return err
	}
	isField(t, create("nothing", nil), "connector_id")
	isField(t, create("postgres", object{"host": 1, "port": "x", "color": "red"}), "config.color", "config.host", "config.port", "config.database", "config.host", "config.user")
	isField(t, create("postgres", object{"host": "h", "database": "d", "user": "u", "port": 99999}), "config.port")
	isField(t, create("http", object{}), "config.spec_url")
	isField(t, create("http", object{"spec": "swagger: '2.0'"}), "config.spec")
	isField(t, create("http", object{"spec": pets, "auth": "header", "auth_name": "Host", "api_key": "k"}), "config.auth_name")
	isField(t, create("http", object{"spec": pets, "auth": "bearer"}), "config.api_key")
	isField(t, create("github", object{"token": "a", "base_url": "ftp://x"}), "config.base_url")
	_, err := f.do("createIntegration", object{"connector_id": "http", "name": "x", "config": object{"spec": pets, "base_url": url}, "agent_id": nobody})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("an agent that does not exist: %v", err)
	}
	f.operator.disabled = []string{"slack"}
	isField(t, create("slack", object{"token": "a"}), "connector_id")

	made := f.must("createIntegration", object{"connector_id": "http", "name": "x", "config": object{
		"spec": pets, "base_url": url, "auth": "bearer", "api_key": "very-secret",
	}})
	text, _ := json.Marshal(made)
	if strings.Contains(string(text), "very-secret") || made["config"].(object)["spec"] != "[stored]" {
		t.Errorf("the answer is %s", text)
	}
	id := made["id"].(string)
	changed := f.must("patchIntegration", object{"name": "y", "config": object{"api_key": "[stored]", "include": []string{"getPet"}}}, id)
	if changed["tool_count"] != 1.0 || changed["name"] != "y" {
		t.Errorf("changed: %v", changed)
	}
	_, err = f.do("patchIntegration", object{"config": object{"base_url": "https://evil.example"}}, id)
	if fault.From(err).Code != "secret_would_move" || !fault.Is(err, fault.Invalid) {
		t.Errorf("moving a secret: %v", err)
	}
	moved := f.must("patchIntegration", object{"config": object{"base_url": serve(t, &shelter{t: t}), "api_key": "another"}}, id)
	if moved["status"] != "active" {
		t.Errorf("moved with its secret: %v", moved)
	}
	stranger := authz.Caller{TenantID: ident.New(), UserID: ident.New()}
	for _, operation := range []string{"getIntegration", "testIntegration", "syncIntegration", "deleteIntegration", "listIntegrationTools"} {
		if _, err := f.doAs(stranger, operation, nil, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of another company: %v", operation, err)
		}
	}
	f.must("deleteIntegration", nil, id)
	if _, err := f.do("getIntegration", nil, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted integration: %v", err)
	}
}

// An integration whose service is down is saved and says so; calls that fail and work
// again are its health, and a test changes nothing.
func TestHealth(t *testing.T) {
	t.Parallel()
	eachDB(t, func(f *fixture) {
		t := f.t
		var up atomic.Bool
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !up.Load() {
				panic(http.ErrAbortHandler)
			}
			answer(w, 200, object{"login": "ada"})
		}))
		state := func() string {
			got := f.must("getIntegration", nil, id(f))
			return fmt.Sprint(got["status"], " ", got["health"].(object)["state"], " ", got["connect_error"] == nil)
		}
		up.Store(false)
		made := f.add("github", object{"token": "a", "base_url": url})
		if got := state(); got != "error failing false" || made["connect_error"] == nil {
			t.Errorf("saved while down: %s", got)
		}
		up.Store(true)
		test := f.must("testIntegration", nil, id(f))
		if got := state(); test["success"] != true || test["ok"] != true || got != "error failing false" {
			t.Errorf("a test that works: %v, %s", test, got)
		}
		if synced := f.must("syncIntegration", nil, id(f)); synced["status"] != "active" || synced["last_sync_at"] == nil {
			t.Errorf("after sync: %v", synced)
		}
		up.Store(false)
		if res := f.call("github_get_user", object{}); !res.Failed || !strings.Contains(res.Output, "cannot be reached") {
			t.Errorf("a call while down: %+v", res)
		}
		if got := state(); got != "error failing false" {
			t.Errorf("after a call that failed: %s", got)
		}
		if test := f.must("testAgentIntegration", nil, f.agent, id(f)); test["success"] != false || test["message"] == nil {
			t.Errorf("a test that fails: %v", test)
		}
		up.Store(true)
		if res := f.call("github_get_user", object{}); res.Failed {
			t.Errorf("a call that works again: %+v", res)
		}
		if got := state(); got != "active ok true" {
			t.Errorf("after a call that works: %s", got)
		}
		f.must("patchIntegration", object{"enabled": false}, id(f))
		if got := f.toolNames(); got != nil {
			t.Errorf("tools while it is switched off: %v", got)
		}
	})
}

func id(f *fixture) string {
	return f.must("listIntegrations", nil)["integrations"].([]any)[0].(object)["id"].(string)
}

// A service cannot make much of little, nor lead a call elsewhere.
func TestHostileServices(t *testing.T) {
	t.Parallel()
	f := onSQLite(t)
	elsewhere := 0
	other := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/repos/o/long/issues":
			w.Header().Set("Content-Type", "application/json")
			for range 1000 {
				_, _ = io.WriteString(w, strings.Repeat(`"x",`, 1000))
			}
		case r.URL.Path == "/repos/o/away/issues":
			http.Redirect(w, r, other, http.StatusFound)
		case r.URL.Path == "/repos/o/binary/issues":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write([]byte{0x89, 0, 1})
		default:
			answer(w, 200, object{})
		}
	}))
	f.add("github", object{"token": "a", "base_url": url})
	call := func(repo string) string {
		return f.call("github_list_issues", object{"owner": "o", "repo": repo}).Output
	}
	if got := call("long"); len(got) > 70_000 {
		t.Errorf("a long answer has %d bytes", len(got))
	}
	if got := call("away"); elsewhere != 0 {
		t.Errorf("a redirect was followed: %q", got)
	}
	if got := call("binary"); !strings.Contains(got, "3 bytes of") {
		t.Errorf("a picture is %q", got)
	}
	inside := f.must("createIntegration", object{"connector_id": "github", "name": "inside", "config": object{"token": "a", "base_url": "http://169.254.169.254"}})
	if inside["status"] != "error" {
		t.Errorf("an address inside: %v", inside)
	}
}

func TestFieldsOfIntegrations(t *testing.T) {
	t.Parallel()
	f := onSQLite(t)
	config := object{"spec": pets, "base_url": serve(t, &shelter{t: t})}
	off := f.must("createIntegration", object{"connector_id": "http", "name": "off", "config": config, "assigned_agent_ids": []string{f.agent}, "enabled": false})
	if off["status"] != "inactive" || f.toolNames() != nil {
		t.Errorf("switched off from the start: %v", off)
	}
	one := f.must("addAgentIntegration", object{"connector_id": "http", "name": "one", "config": config}, f.agent)["id"].(string)
	if got := f.toolNames(); len(got) != 4 {
		t.Errorf("tools = %v", got)
	}
	changed := f.must("patchAgentIntegration", object{"name": "two", "config": object{"include": []string{"getPet"}}}, f.agent, one)
	if changed["name"] != "two" || !slices.Equal(f.toolNames(), []string{"getPet"}) {
		t.Errorf("changed: %v, %v", changed, f.toolNames())
	}
	f.must("patchIntegration", object{"assigned_agent_ids": []string{}}, one)
	if got := f.toolNames(); got != nil {
		t.Errorf("unlinked: %v", got)
	}
	_, err := f.do("addAgentIntegration", object{}, f.agent)
	isField(t, err, "connector_id", "name")

	p, address := withProvider(f)
	begun := f.must("startIntegrationOAuth", object{"extra": object{"base_url": address}}, "github")
	code, state := p.authorize(t, begun["auth_url"].(string))
	if got := f.must("completeIntegrationOAuth", object{"state": state, "code": code, "name": "Named late"}, "github"); got["name"] != "Named late" {
		t.Errorf("completed: %v", got)
	}
}
