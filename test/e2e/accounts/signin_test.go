package accounts

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/oidcclient/oidctest"
	"agentd/internal/wire/smtpmail/smtptest"
)

// people runs a test on a node with each database, a mail server and an OpenID
// provider.
func people(t *testing.T, test func(n *apptest.Server, box *smtptest.Server, op *oidctest.Provider)) {
	t.Helper()
	for _, engine := range apptest.Engines() {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			box := smtptest.New(t, smtptest.Config{User: "agentd", Password: "mail-secret"})
			op := oidctest.New(t)
			n := apptest.Start(t, modeltest.New(t, apptest.HangingModel), apptest.OnEngine(t, engine), func(c *config.Config) {
				c.Mail.SMTPURL = config.NewURL("smtp://agentd:mail-secret@" + box.Addr)
				c.Mail.From = "agentd <agentd@example.org>"
				c.SignIn.Signup = "on"
			}, apptest.Providers(t, `[{"id": "corp", "name": "Corp", "issuer": "`+op.URL+`", "client_id": "`+oidctest.ClientID+`", "client_secret": "`+oidctest.ClientSecret+`"}]`))
			test(n, box, op)
		})
	}
}

// browser keeps cookies, and follows nothing by itself.
type browser struct {
	n       *apptest.Server
	cookies map[string]string
}

// still follows no redirect.
var still = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// sendOnceOnly is send that follows no redirect.
func sendOnceOnly(n *apptest.Server, method, target, body string, headers ...string) apptest.Reply {
	n.T.Helper()
	req, err := http.NewRequestWithContext(n.T.Context(), method, n.URL+target, strings.NewReader(body))
	if err != nil {
		n.T.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := still.Do(req)
	if err != nil {
		n.T.Fatal(err)
	}
	defer resp.Body.Close()
	out := apptest.Reply{Response: resp}
	if out.Body, err = io.ReadAll(resp.Body); err != nil {
		n.T.Fatal(err)
	}
	_ = json.Unmarshal(out.Body, &out.JSON) // redirects have none
	return out
}

func newBrowser(n *apptest.Server) *browser { return &browser{n, map[string]string{}} }

func (b *browser) send(method, path, body string, headers ...string) apptest.Reply {
	b.n.T.Helper()
	var cookies []string
	for name, value := range b.cookies {
		cookies = append(cookies, name+"="+value)
	}
	if len(headers) == 0 {
		headers = []string{"Content-Type", "application/json"}
	}
	if len(cookies) > 0 {
		headers = append(headers, "Cookie", strings.Join(cookies, "; "))
	}
	r := sendOnceOnly(b.n, method, path, body, headers...)
	for _, c := range r.Cookies() {
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
			b.n.T.Errorf("the cookie %v", c)
		}
	}
	return r
}

func (b *browser) want(status int, method, path, body string) object {
	b.n.T.Helper()
	r := b.send(method, path, body)
	if r.StatusCode != status {
		b.n.T.Fatalf("%s %s: %d, want %d: %s", method, path, r.StatusCode, status, r.Body)
	}
	return r.JSON
}

// mailed asks for a code and reads it in the letter.
func (b *browser) mailed(box *smtptest.Server, email string) string {
	b.n.T.Helper()
	b.want(200, "POST", "/api/v1/auth/request-code", `{"email":"`+email+`"}`)
	l := box.Next(b.n.T, email)
	for line := range strings.Lines(l.Text) {
		if code := strings.TrimSpace(line); len(code) == 7 && code[3] == ' ' {
			return code
		}
	}
	b.n.T.Fatalf("no code in %s", l.Text)
	return ""
}

// totp is what an authenticator app shows, some steps from now.
func totp(t testing.TB, secret string, steps int64) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, time.Now().Unix()/30+steps)
	sum := mac.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1_000_000)
}

func TestSignInByMail(t *testing.T) {
	t.Parallel()
	people(t, func(n *apptest.Server, box *smtptest.Server, _ *oidctest.Provider) {
		t := n.T
		b := newBrowser(n)
		code := b.mailed(box, "ann@example.com")
		b.want(422, "POST", "/api/v1/auth/verify-code", `{"email":"ann@example.com","code":"`+code+`"}`) // no terms accepted
		in := b.want(200, "POST", "/api/v1/auth/verify-code", `{"email":"Ann@example.com","code":"`+code+`","accept_terms":true,"accept_privacy":true}`)
		key, _ := in["api_key"].(string)
		if !strings.HasPrefix(key, "svc_") || in["email"] != "ann@example.com" || !strings.HasPrefix(b.cookies["svc_session"], "svs_") || in["mfa_required"] != false {
			t.Errorf("%v", in)
		}
		me := b.want(200, "GET", "/api/v1/me", "")
		if me["auth_method"] != "cookie" || me["role"] != "owner" || me["user"].(object)["email"] != "ann@example.com" {
			t.Errorf("%v", me)
		}
		arrivalsAreShown(n, me["user"].(object)["user_id"])
		if items := b.want(200, "GET", "/api/v1/me/auth-providers", "")["items"].([]any); len(items) != 2 || items[0].(object)["linked"] != true {
			t.Errorf("%v", items)
		}

		enrolled := b.want(201, "POST", "/api/v1/auth/mfa/enrol", "{}")
		secret := enrolled["secret"].(string)
		b.want(200, "POST", "/api/v1/auth/mfa/verify", `{"code":"`+totp(t, secret, 0)+`"}`)
		n.Admin().Exec(`DELETE FROM signin_addresses`) // the cool-down is tested with a clock that can be moved

		other := newBrowser(n)
		in = other.want(200, "POST", "/api/v1/auth/verify-code", `{"email":"ann@example.com","code":"`+other.mailed(box, "ann@example.com")+`"}`)
		if in["mfa_required"] != true {
			t.Errorf("%v", in)
		}
		if refused := other.want(401, "GET", "/api/v1/agents", ""); refused["code"] != "mfa_required" || refused["mfa_required"] != true {
			t.Errorf("%v", refused)
		}
		other.want(401, "POST", "/api/v1/auth/mfa/disable", `{"code":"`+totp(t, secret, 1)+`"}`) // still half open
		if wrong := other.want(401, "POST", "/api/v1/auth/mfa/recovery", `{"code":"AAAA"}`); wrong["code"] != "VERIFICATION_FAILED" {
			t.Errorf("%v", wrong)
		}
		other.want(200, "POST", "/api/v1/auth/mfa/verify", `{"code":"`+totp(t, secret, 1)+`"}`)
		other.want(200, "GET", "/api/v1/agents", "")
		other.want(201, "POST", "/api/v1/tenants/me/keys", `{"name":"soon after the factor"}`)
		n.Admin().Exec(`UPDATE browser_sessions SET verified_at = verified_at - ?`, time.Hour.Microseconds())
		var stale apptest.Reply
		apptest.Eventually(t, func() bool { // a session is believed for a second
			stale = other.send("POST", "/api/v1/tenants/me/keys", `{"name":"long after it"}`)
			return stale.StatusCode == 401
		})
		if stale.JSON["code"] != "mfa_required" || stale.JSON["reason"] != "stale" {
			t.Errorf("%s", stale.Body)
		}
		other.want(200, "GET", "/api/v1/agents", "") // what is not dangerous asks for nothing
		for _, body := range []string{"", "{}"} {
			refused := other.want(422, "POST", "/api/v1/auth/mfa/disable", body)
			if field := refused["errors"].([]any)[0].(object)["field"]; field != "code" {
				t.Errorf("without a code: %v", refused)
			}
		}
		recovery := enrolled["recovery_codes"].([]any)[0].(string)
		other.want(200, "POST", "/api/v1/auth/mfa/disable", `{"recovery_code":"`+recovery+`"}`)
		if status := b.want(200, "GET", "/api/v1/auth/mfa/status", ""); status["enrolled"] != false {
			t.Errorf("%v", status)
		}
		bearer := []string{"Authorization", "Bearer " + key}
		if me := n.SendHeaders("GET", "/api/v1/me", "", bearer...); me.StatusCode != 200 || me.JSON["auth_method"] != "session_key" {
			t.Errorf("with the key: %d %s", me.StatusCode, me.Body)
		}
		if r := n.SendHeaders("GET", "/api/v1/me", "", "Authorization", "Bearer "+b.cookies["svc_session"]); r.StatusCode != 401 {
			t.Errorf("the cookie as a bearer: %d", r.StatusCode)
		}
		b.want(200, "POST", "/api/v1/auth/logout", "")
		b.want(401, "GET", "/api/v1/agents", "")
		if r := n.SendHeaders("GET", "/api/v1/me", "", bearer...); r.StatusCode != 401 {
			t.Errorf("after its session: %d %s", r.StatusCode, r.Body)
		}
		if metrics := string(n.SendHeaders("GET", "/metrics", "").Body); !strings.Contains(metrics, `agentd_mail_attempts_total{outcome="sent"} 2`) {
			t.Error("the letters are not counted")
		}
	})
}

func TestRegisterByMail(t *testing.T) {
	t.Parallel()
	people(t, func(n *apptest.Server, box *smtptest.Server, _ *oidctest.Provider) {
		b := newBrowser(n)
		b.want(201, "POST", "/api/v1/register", `{"email":"ann@example.com","name":"Ann & Co","accept_terms":true,"accept_privacy":true}`)
		text := box.Next(n.T, "ann@example.com").Text
		_, link, found := strings.Cut(text, n.URL+"/verify-email?")
		if !found {
			n.T.Fatal(text)
		}
		link = "/api/v1/verify-email?" + strings.Fields(link)[0]
		if got := newBrowser(n).want(200, "GET", link, ""); got["session"] != nil {
			n.T.Errorf("%v", got)
		}
		if got := b.want(200, "GET", link, ""); got["tenant"].(object)["name"] != "Ann & Co" || got["session"] == nil {
			n.T.Errorf("%v", got)
		}
		b.want(200, "GET", "/api/v1/me", "")
		b.want(400, "GET", "/api/v1/verify-email?token=guessed", "")
	})
}

func TestSignInWithProvider(t *testing.T) {
	t.Parallel()
	people(t, func(n *apptest.Server, _ *smtptest.Server, op *oidctest.Provider) {
		t := n.T
		op.User = oidctest.Claims{"email": "ann@example.com", "email_verified": true, "name": "Ann"}
		const start = "/api/v1/auth/oauth/corp/start"
		through := func(b *browser, query string) string {
			t.Helper()
			r := b.send("GET", start+"?"+query, "")
			if r.StatusCode != 302 {
				t.Fatalf("%d %s", r.StatusCode, r.Body)
			}
			at, err := url.Parse(r.Header.Get("Location"))
			if err != nil {
				t.Fatal(err)
			}
			back, failure := op.Authorize(at.Query())
			if failure != "" {
				t.Fatal(failure)
			}
			return strings.TrimPrefix(back, n.URL)
		}
		const terms = "accept_terms=true&accept_privacy=true&"
		b := newBrowser(n)
		back := through(b, terms+"return_to=/app")
		if got := newBrowser(n).want(400, "GET", back, ""); got["code"] != "OAUTH_FAILED" { // another browser
			t.Errorf("%v", got)
		}
		b.want(400, "GET", back, "") // and the state is spent
		r := b.send("GET", through(b, terms+"return_to=/app"), "")
		if r.StatusCode != 302 || r.Header.Get("Location") != n.URL+"/app" || b.cookies["svc_session"] == "" {
			t.Errorf("%d to %s, %v", r.StatusCode, r.Header.Get("Location"), b.cookies)
		}
		if me := b.want(200, "GET", "/api/v1/me", ""); me["user"].(object)["email"] != "ann@example.com" {
			t.Errorf("%v", me)
		}
		if got := b.want(200, "DELETE", "/api/v1/me/auth-providers/corp", ""); got["remaining_factors"] != 1.0 {
			t.Errorf("%v", got)
		}
		op.User = oidctest.Claims{"email": "ann@example.com", "email_verified": false}
		b.want(403, "GET", through(b, ""), "")
		op.Twist = func(c oidctest.Claims) { c["nonce"] = "another" }
		b.want(502, "GET", through(b, ""), "")
		b.want(404, "GET", "/api/v1/auth/oauth/none/start", "")
		b.want(400, "GET", start+"?device_label="+strings.Repeat("x", 81), "")
		late := through(b, "")
		op.Close()
		b.want(502, "GET", late, "")
	})
}
