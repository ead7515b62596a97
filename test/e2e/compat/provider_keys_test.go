package compat

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// place is an endpoint that remembers with which keys it was asked.
type place struct {
	url  string // …/v1
	port string

	mu   sync.Mutex
	keys []string
}

// newPlace starts one: a model, or what redirects to another place.
func newPlace(t *testing.T, to string) *place {
	t.Helper()
	p := &place{}
	sim, err := url.Parse(strings.TrimSuffix(modeltest.New(t, modeltest.Default(modeltest.Answer{Text: "fine"})).URL, "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	onward := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(sim) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.keys = append(p.keys, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		p.mu.Unlock()
		if to != "" {
			http.Redirect(w, r, to+strings.TrimPrefix(r.URL.Path, "/v1"), http.StatusTemporaryRedirect)
			return
		}
		onward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	_, p.port, _ = strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	p.url = server.URL + "/v1"
	return p
}

// seen returns the keys that arrived since the last call.
func (p *place) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := p.keys
	p.keys = nil
	return keys
}

const credentials = "/api/v1/llm-credentials/"

func setProviderKey(n *apptest.Server, name, key, endpoint string) {
	n.T.Helper()
	body := object{"api_key": key}
	if endpoint != "" {
		body["endpoint_url"] = endpoint
	}
	n.Expect(200, "PUT", credentials+name, body)
}

// testProviderKey runs an agent with a model and says how that ended.
func testProviderKey(n *apptest.Server, model object, more object) string {
	n.T.Helper()
	fields := object{"model": model}
	maps.Copy(fields, more)
	r := n.WaitRun(n.StartRun(n.CreateAgent(fields), "hello", nil))
	return fmt.Sprintf("%v %v %v", r["status"], r["error_code"], r["error"])
}

// A company's key goes to the endpoint that it was stored for and to no other,
// whatever agents name, and the operator's never leaves the operator's.
func TestKeysGoNowhereElse(t *testing.T) {
	t.Parallel()
	operator := newPlace(t, "")
	mine, other := newPlace(t, ""), newPlace(t, "")
	hop := newPlace(t, other.url)
	n := apptest.Start(t, nil, func(c *config.Config) {
		c.Models.BaseURL, c.Models.Model = operator.url, "sim-model"
		c.Models.APIKey.UnmarshalText([]byte("operators-key"))
		c.Security.EgressAllow = "127.0.0.1:" + operator.port + ",127.0.0.1:" + mine.port + ",127.0.0.1:" + other.port + ",127.0.0.1:" + hop.port + ",[::1]:" + mine.port
	})
	stranger, err := n.Admin().Tenants.Create(t.Context(), "Stranger", "")
	if err != nil {
		t.Fatal(err)
	}
	theirs := n.WithKey(string(stranger.RawKey))
	const key, theirKey = "sk-mine-0123456789", "sk-theirs-0123456789"
	at := "http://localhost:" + mine.port + "/v1"
	setProviderKey(n, "mine", key, at)
	setProviderKey(n, "hop", "sk-hop-0123456789", hop.url)
	setProviderKey(theirs, "mine", theirKey, other.url)

	named := func(endpoint string) object {
		return object{"provider": "custom", "model_ref": "m", "endpoint_url": endpoint, "api_key_ref": "mine"}
	}
	ref := func(ref string) object { return object{"provider": "openai_compat", "model_ref": ref} }
	everywhere := map[string]*place{"operator": operator, "mine": mine, "other": other, "hop": hop}
	check := func(name, got, want string, keys map[string][]string) {
		t.Helper()
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		for where, p := range everywhere {
			if diff := cmp.Diff(keys[where], slices.Compact(p.seen())); diff != "" {
				t.Errorf("%s: keys that came to %s (-want +got):\n%s", name, where, diff)
			}
		}
	}
	to := func(where string, key string) map[string][]string { return map[string][]string{where: {key}} }
	const refused = "failed provider_not_configured"

	check("its endpoint", testProviderKey(n, named(at), nil), "completed", to("mine", key))
	check("its endpoint in capitals", testProviderKey(n, named("HTTP://LOCALHOST:"+mine.port+"/v1/"), nil), "completed", to("mine", key))
	check("by its name", testProviderKey(n, ref("mine/m"), nil), "completed", to("mine", key))
	check("no name of a key", testProviderKey(n, object{"provider": "custom", "model_ref": "m", "endpoint_url": at}, nil), "completed", to("mine", ""))
	for name, endpoint := range map[string]string{
		"another port": other.url, "another name of it": mine.url, "another path": at + "/evil", "a part of the path": strings.TrimSuffix(at, "/v1"), "dots": at + "/../v1", "escapes": strings.Replace(at, "/v1", "/%76%31", 1),
		"a query": at + "?x=" + other.url, "a fragment": other.url + "#" + at, "the operator's": operator.url, "https": strings.Replace(at, "http:", "https:", 1),
	} {
		got := testProviderKey(n, named(endpoint), nil)
		check(name, got, refused, nil)
		if !strings.Contains(got, "another endpoint") {
			t.Errorf("%s: the sentence does not say why: %s", name, got)
		}
	}
	for _, endpoint := range []string{"http://localhost:" + mine.port + "@127.0.0.1:" + other.port + "/v1", "http://127.0.0.1:" + other.port + `\@localhost:` + mine.port + "/v1"} {
		n.Do("POST", "/api/v1/agents", object{"name": "x", "model": named(endpoint)}).IsProblem(t, 422, "VALIDATION_ERROR")
	}
	check("a redirect", testProviderKey(n, ref("hop/m"), nil), "failed model_error", to("hop", "sk-hop-0123456789"))
	check("a key that is not there", testProviderKey(n, object{"provider": "custom", "model_ref": "m", "endpoint_url": at, "api_key_ref": "nobody"}, nil), refused, nil)

	// Of the same name, and another company's.
	check("theirs", testProviderKey(theirs, ref("mine/m"), nil), "completed", to("other", theirKey))
	check("theirs at our endpoint", testProviderKey(theirs, named(at), nil), refused, nil)

	// An agent whose endpoint changes, and a key whose endpoint does.
	agent := n.CreateAgent(object{"model": named(at)})
	n.Expect(200, "PATCH", "/api/v1/agents/"+agent, object{"model": named(other.url)})
	check("a changed agent", fmt.Sprint(n.WaitRun(n.StartRun(agent, "hello", nil))["status"]), "failed", nil)
	setProviderKey(n, "mine", "sk-new-0123456789", other.url)
	check("a changed key", testProviderKey(n, named(at), nil), refused, nil)
	check("a changed key at its new place", fmt.Sprint(n.WaitRun(n.StartRun(agent, "hello", nil))["status"]), "completed", to("other", "sk-new-0123456789"))

	// Where a model is named elsewhere than in an agent's model.
	check("a fallback", testProviderKey(n, ref("hop/m"), object{"fallback_model": ref("mine/m")}), "completed",
		map[string][]string{"hop": {"sk-hop-0123456789"}, "other": {"sk-new-0123456789"}})
	session := n.CreateSession(n.CreateAgent(nil), object{"model_override": ref("mine/m")})
	check("a session", fmt.Sprint(n.WaitRun(n.SendMessage(session, "hello"))["status"]), "completed", to("other", "sk-new-0123456789"))
	ask := func(n *apptest.Server, model string) string {
		r := n.Do("POST", "/api/v1/llm/chat/completions", object{"model": model, "messages": []object{{"role": "user", "content": "hello"}}})
		return r.Status
	}
	check("the proxy", ask(n, "mine/m"), "200", to("other", "sk-new-0123456789"))
	check("the proxy, theirs", ask(theirs, "mine/m"), "200", to("other", theirKey))

	// In the place of the operator's key, for one company, and back.
	check("the operator's", ask(n, "default/m"), "200", to("operator", "operators-key"))
	setProviderKey(n, "default", key, "")
	check("mine in its place", ask(n, "m"), "200", to("operator", key))
	check("theirs is the operator's still", ask(theirs, "m"), "200", to("operator", "operators-key"))
	n.Expect(200, "DELETE", credentials+"default", nil)
	check("the operator's again", ask(n, "m"), "200", to("operator", "operators-key"))
	n.Expect(200, "DELETE", credentials+"mine", nil)
	check("deleted", testProviderKey(n, object{"provider": "custom", "model_ref": "m", "api_key_ref": "mine"}, nil), refused, nil)
}

func TestCredentialsOverHTTP(t *testing.T) {
	t.Parallel()
	good, bad := modeltest.New(t, modeltest.RequireKey("sk-right-0123456789")), newPlace(t, "http://127.0.0.1:1/v1")
	port := strings.TrimSuffix(good.URL[strings.LastIndexByte(good.URL, ':')+1:], "/v1")
	n := apptest.Start(t, good, func(c *config.Config) { c.Security.EgressAllow = "127.0.0.1:" + port + ",127.0.0.1:" + bad.port })
	test := func(name string) (bool, string) {
		t.Helper()
		got := n.Expect(200, "POST", credentials+name+"/test", nil)
		message, _ := got["message"].(string)
		return got["success"].(bool), message
	}
	setProviderKey(n, "mine", "sk-right-0123456789", good.URL)
	if ok, message := test("mine"); !ok || message != "" {
		t.Errorf("a key that is right: %t %s", ok, message)
	}
	setProviderKey(n, "mine", "sk-wrong-0123456789", "")
	if ok, message := test("mine"); ok || !strings.Contains(message, "refused the key") {
		t.Errorf("a key that is wrong: %t %s", ok, message)
	}
	setProviderKey(n, "away", "sk-right-0123456789", bad.url)
	if ok, message := test("away"); ok || !strings.Contains(message, "redirect") {
		t.Errorf("a redirect: %t %s", ok, message)
	}
	inside := n.Do("PUT", credentials+"inside", object{"api_key": "sk-right-0123456789", "endpoint_url": "http://169.254.169.254/v1"})
	inside.IsProblem(t, 422, "VALIDATION_ERROR")
	if !strings.Contains(string(inside.Body), `"field":"endpoint_url"`) || !strings.Contains(string(inside.Body), "public") {
		t.Errorf("an address inside: %s", inside.Body)
	}
	n.Do("POST", credentials+"inside/test", nil).IsProblem(t, 400, "unknown_provider")
	if ok, _ := test("openai"); ok {
		t.Error("a provider without a key passes")
	}
	n.Do("POST", credentials+"nobody/test", nil).IsProblem(t, 400, "unknown_provider")
	n.Do("PUT", credentials+"nobody", object{"api_key": "sk-0123456789"}).IsProblem(t, 400, "unknown_provider")
	n.Do("PUT", credentials+"openai", object{"api_key": "short"}).IsProblem(t, 400, "invalid_api_key")
	n.Do("DELETE", credentials+"openai", nil).IsProblem(t, 404, "NOT_FOUND")

	developer := n.WithKey(string(n.Admin().CreateKey(n.TenantID(), "developer", "*").RawKey))
	developer.Do("PUT", credentials+"openai", object{"api_key": "sk-0123456789"}).IsProblem(t, 403, "FORBIDDEN")
	list := string(developer.Do("GET", credentials+"providers", nil).Body) + string(developer.Do("GET", "/api/v1/providers", nil).Body) +
		string(developer.Do("GET", "/api/v1/providers/default/models", nil).Body) + string(developer.Do("GET", "/api/v1/llm/models", nil).Body)
	if !strings.Contains(list, `"id":"mine"`) || strings.Contains(list, "sk-") || strings.Contains(list, "operator-key") {
		t.Errorf("the lists show too much or too little: %s", list)
	}
	// The operator's own address, which is the tenant's here too, but for the one place.
	if strings.Contains(strings.ReplaceAll(list, `"default_endpoint":"`+good.URL, ""), good.URL) {
		t.Errorf("the operator's endpoint is shown: %s", list)
	}
	stored := fmt.Sprint(n.Admin().Query(`SELECT * FROM llm_credentials`), n.Admin().Query(`SELECT * FROM audit_log`), n.Admin().Query(`SELECT * FROM idempotency`))
	if strings.Contains(stored, "0123456789") || strings.Contains(stored, fmt.Sprint([]byte("0123456789"))) {
		t.Error("a key is stored in the clear")
	}
	anonymous := n.SendHeaders("GET", "/api/v1/providers/platform-defaults", "")
	if anonymous.StatusCode != 200 || anonymous.JSON["default_model"] != "default/sim-model" || anonymous.JSON["default_endpoint"] != nil {
		t.Errorf("defaults: %s", anonymous.Body)
	}

	// An address that is stored is checked again by each call.
	n.Stop()
	cfg := n.Config
	cfg.Security.EgressAllow = ""
	n = apptest.Restart(t, cfg)
	bad.seen()
	if ok, message := test("away"); ok || !strings.Contains(message, "may not be reached") && !strings.Contains(message, "public") {
		t.Errorf("an address that is no longer allowed: %t %s", ok, message)
	}
	if keys := bad.seen(); len(keys) > 0 {
		t.Errorf("it got %q", keys)
	}
}
