package runs

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"agentd/internal/accounts/identity"
	"agentd/internal/agents/mcp/mcptest"
	"agentd/internal/app/apptest"
	"agentd/internal/base/authz"
)

// person is a browser that shows pages, sends their forms and keeps cookies.
type person struct {
	t      *testing.T
	n      *apptest.Server
	client *http.Client
	passed []*url.URL // where it was redirected to
	stops  bool       // it does not follow redirects
}

// newPerson signs the owner of the server's company in.
func newPerson(t *testing.T, n *apptest.Server) *person {
	t.Helper()
	tenant, user := n.Me()
	return browserOf(t, n, tenant, user)
}

func browserOf(t *testing.T, n *apptest.Server, tenant, user string) *person {
	t.Helper()
	p := newBrowser(t, n)
	_, headers := n.Admin().OpenBrowserSession(tenant, user, identity.Device{})
	name, value, _ := strings.Cut(headers[1], "=")
	at, err := url.Parse(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.client.Jar.SetCookies(at, []*http.Cookie{{Name: name, Value: value}})
	return p
}

// newBrowser is a browser in which nobody is signed in.
func newBrowser(t *testing.T, n *apptest.Server) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t, n: n}
	p.client = &http.Client{Transport: apptest.HTTPClient.Transport, Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		p.passed = append(p.passed, r.URL)
		if p.stops {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return p
}

func (p *person) send(method, address string, form url.Values) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", p.n.URL)
	}
	res, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res, string(body)
}

var (
	consentField = regexp.MustCompile(`name="consent" value="([^"]+)"`)
	formAction   = regexp.MustCompile(`action="([^"]+)"`)
)

// consent presses the button of a page.
func (p *person) consent(page string) (*http.Response, string) {
	p.t.Helper()
	token, action := consentField.FindStringSubmatch(page), formAction.FindStringSubmatch(page)
	if token == nil || action == nil {
		p.t.Fatalf("no consent is asked for: %s", page)
	}
	return p.send("POST", p.n.URL+html.UnescapeString(action[1]), url.Values{"consent": {html.UnescapeString(token[1])}})
}

// authorize opens a link, consents and goes wherever that leads.
func (p *person) authorize(link string) (status int, page string) {
	p.t.Helper()
	res, page := p.send("GET", link, nil)
	if res.StatusCode != 200 {
		return res.StatusCode, page
	}
	res, page = p.consent(page)
	return res.StatusCode, page
}

// A link that somebody is sent authorizes nothing: who opens it must be a member of the
// company, sees for what they are asked, and completes it in the same browser.
func TestMCPConsent(t *testing.T) {
	t.Parallel()
	p := mcptest.NewProtected(t, mcptest.New())
	n := apptest.Start(t, nil, local)
	beside := n.Admin()
	tenant, _ := n.Me()
	server := n.CreateMCPServer(object{"url": p.URL, "name": "Li<b>near"})
	path := "/api/v1/mcp/servers/" + server["id"].(string)
	link := n.Expect(200, "POST", path+"/authorize", nil)["authorization_url"].(string)

	victim, err := beside.Tenants.Create(t.Context(), "Victims", "")
	if err != nil {
		t.Fatal(err)
	}
	viewer := beside.CreateKey(tenant, authz.Viewer)
	for name, tt := range map[string]struct {
		who    *person
		status int
		says   string
	}{
		"nobody":          {newBrowser(t, n), 401, `href="/signin?return_to=%2Fapi%2Fv1%2Fmcp%2Foauth%2Fstart%3Fstate%3D`},
		"another company": {browserOf(t, n, victim.TenantID, victim.UserID), 403, "another company"},
		"a viewer":        {browserOf(t, n, tenant, viewer.UserID), 403, "agents:write"},
	} {
		res, page := tt.who.send("GET", link, nil)
		if res.StatusCode != tt.status || !strings.Contains(page, tt.says) || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") ||
			len(tt.who.passed) > 0 || len(res.Cookies()) > 0 {
			t.Errorf("%s: %d %v %s", name, res.StatusCode, tt.who.passed, page)
		}
	}

	ann := newPerson(t, n)
	ann.stops = true
	res, page := ann.send("GET", link, nil)
	policy := res.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy %q lacks %s", policy, part)
		}
	}
	if res.StatusCode != 200 || len(ann.passed) > 0 || !strings.Contains(page, "Li&lt;b&gt;near") || !strings.Contains(page, "Operator") ||
		strings.Contains(page, "<script") || !strings.Contains(page, "Asked by") {
		t.Fatalf("%d %v %s", res.StatusCode, ann.passed, page)
	}
	// A page of another site cannot press the button.
	foreign := n.SendHeaders("POST", "/api/v1/mcp/oauth/start", "consent="+url.QueryEscape(consentField.FindStringSubmatch(page)[1]),
		"Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example", "Cookie", cookieOf(ann))
	if foreign.StatusCode != 403 {
		t.Errorf("another site's form: %d %s", foreign.StatusCode, foreign.Body)
	}
	res, _ = ann.consent(page)
	var binding *http.Cookie
	for _, c := range res.Cookies() {
		if c.Name == "svc_mcp" {
			binding = c
		}
	}
	if res.StatusCode != 303 || binding == nil || !binding.HttpOnly || binding.SameSite != http.SameSiteLaxMode || binding.MaxAge != 600 {
		t.Fatalf("%d %v", res.StatusCode, res.Cookies())
	}
	// The victim follows the redirect to the provider, and back: into nothing.
	victims := browserOf(t, n, victim.TenantID, victim.UserID)
	if res, page := victims.send("GET", ann.passed[0].String(), nil); res.StatusCode != 400 || !strings.Contains(page, "Another browser") {
		t.Errorf("another browser completes it: %d %s", res.StatusCode, page)
	}
	if got := n.Expect(200, "GET", path, nil); got["status"] != "auth_required" {
		t.Errorf("the server is %v", got["status"])
	}
	ann.stops = false
	if status, page := ann.authorize(link); status != 200 || !strings.Contains(page, "is authorized") {
		t.Errorf("%d %s", status, page)
	}
	if got := n.Expect(200, "GET", path, nil); got["status"] != "active" {
		t.Errorf("afterwards the server is %v", got["status"])
	}
}

func cookieOf(p *person) string {
	at, _ := url.Parse(p.n.URL)
	var all []string
	for _, c := range p.client.Jar.Cookies(at) {
		all = append(all, c.Name+"="+c.Value)
	}
	return strings.Join(all, "; ")
}

// A state is ours, for one thing, used once.
func TestMCPAuthorizationStates(t *testing.T) {
	t.Parallel()
	p := mcptest.NewProtected(t, mcptest.New())
	n := apptest.Start(t, nil, local)
	server := n.CreateMCPServer(object{"url": p.URL})
	path := "/api/v1/mcp/servers/" + server["id"].(string)
	link := n.Expect(200, "POST", path+"/authorize", nil)["authorization_url"].(string)

	ann := newPerson(t, n)
	if status, page := ann.authorize(link); len(ann.passed) != 2 || status != 200 {
		t.Fatalf("%d %s after %v", status, page, ann.passed)
	}
	back := ann.passed[1]
	open := func(address string) (int, string) {
		t.Helper()
		res, page := ann.send("GET", address, nil)
		return res.StatusCode, page
	}
	if status, _ := open(back.String()); status != 400 {
		t.Errorf("a state that was used: %d", status)
	}
	start, _ := url.Parse(link)
	for name, address := range map[string]string{
		"none":          n.URL + "/api/v1/mcp/oauth/callback?code=x",
		"a_start_state": n.URL + "/api/v1/mcp/oauth/callback?code=x&state=" + start.Query().Get("state"),
		"a_back_state":  n.URL + "/api/v1/mcp/oauth/start?state=" + back.Query().Get("state"),
		"nonsense":      n.URL + "/api/v1/mcp/oauth/start?state=%00%ff",
		"cut":           link[:len(link)-1],
	} {
		if status, page := open(address); status != 400 || strings.Contains(page, "panic") {
			t.Errorf("%s: %d %s", name, status, page)
		}
	}
	// Another issuer's answer is not taken, and uses the state up.
	ann.passed, ann.stops = nil, true
	_, page := ann.send("GET", link, nil)
	ann.consent(page)
	ann.send("GET", ann.passed[0].String(), nil)
	mixed := strings.Replace(ann.passed[1].String(), url.QueryEscape("http://127.0.0.1"), url.QueryEscape("http://evil.example"), 1)
	if status, page := open(mixed); status != 400 || !strings.Contains(page, "another authorization server") {
		t.Errorf("another issuer: %d %s", status, page)
	}
	n.Expect(200, "DELETE", path, nil)
	if status, _ := open(link); status != 404 {
		t.Errorf("a server that is deleted: %d", status)
	}
}
