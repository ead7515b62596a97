package public

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model/modeltest"
)

// stripe is a simulated Stripe, which checks what is sent to it.
type stripe struct {
	*httptest.Server
	t     *testing.T
	forms chan map[string]string
}

func startStripe(t *testing.T) *stripe {
	t.Helper()
	s := &stripe{t: t, forms: make(chan map[string]string, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *stripe) serve(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, message string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"type":"invalid_request_error","message":%q}}`, message)
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer sk_test_1" {
		refuse(401, "Invalid API Key provided: sk_test_SECRET")
		return
	}
	if r.Header.Get("Stripe-Version") == "" {
		refuse(400, "no version")
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/v1/account" {
		_, _ = fmt.Fprint(w, `{"id":"acct_1","object":"account"}`)
		return
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Idempotency-Key") == "" {
		refuse(400, "not a form")
		return
	}
	if err := r.ParseForm(); err != nil {
		refuse(400, err.Error())
		return
	}
	form := map[string]string{}
	for name, values := range r.PostForm {
		form[name] = strings.Join(values, "|")
	}
	s.forms <- form
	switch r.URL.Path {
	case "/v1/checkout/sessions":
		if form["mode"] != "subscription" || form["line_items[0][price]"] == "" || form["success_url"] == "" {
			refuse(400, "Missing required param")
			return
		}
		if form["line_items[0][price]"] == "price_gone" {
			refuse(400, "No such price: 'price_gone'")
			return
		}
		_, _ = fmt.Fprint(w, `{"id":"cs_test_1","object":"checkout.session","url":"https://checkout.stripe.com/c/pay/cs_test_1"}`)
	case "/v1/prices":
		if form["product_data[name]"] == "Refused" {
			refuse(400, "Invalid currency: xxx")
			return
		}
		_, _ = fmt.Fprint(w, `{"id":"price_made","object":"price","product":"prod_1","unit_amount":1900}`)
	case "/v1/billing_portal/sessions":
		if form["customer"] != "cus_1" {
			refuse(404, "No such customer")
			return
		}
		_, _ = fmt.Fprint(w, `{"id":"bps_1","object":"billing_portal.session","url":"https://billing.stripe.com/p/session/1"}`)
	default:
		refuse(404, "Unrecognized request URL")
	}
}

const signingSecret = "whsec_test"

// send sends an event as Stripe does.
func send(n *apptest.Server, at time.Time, body string, secrets ...string) apptest.Reply {
	n.T.Helper()
	header := fmt.Sprintf("t=%d", at.Unix())
	for _, s := range append(secrets, signingSecret)[:max(1, len(secrets))] {
		mac := hmac.New(sha256.New, []byte(s))
		_, _ = fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
		header += ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	return n.WithKey("").Do("POST", "/api/v1/webhooks/stripe", body, "Stripe-Signature", header, "Content-Type", "application/json; charset=utf-8")
}

func plansFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plans.json")
	text := `{"plans":[{"id":"free","name":"Free","limits":{"runs_per_month":1}},
		{"id":"pro","name":"Pro","limits":{},"price_amount_cents":1900,"price_currency":"eur"}],"default":"free"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	checkout     = "/api/v1/billing/checkout-session"
	portal       = "/api/v1/billing/portal-session"
	stripeConfig = "/api/v1/admin/config/stripe"
)

func TestBilling(t *testing.T) {
	t.Parallel()
	sim := startStripe(t)
	n := apptest.Start(t, modeltest.New(t, apptest.RepeatModel), apptest.AddressPerRequest, func(c *config.Config) {
		c.Tenancy.Plans = plansFile(t)
		c.Billing = config.Billing{StripeBaseURL: sim.URL, StripeSecretKey: secret.New("sk_test_1"), StripeWebhookSecret: secret.New(signingSecret)}
	})
	tenant, owner := n.CreateTenant(object{"name": "Bakery"})
	configureStripe(n, owner, sim)
	owner.Expect(400, "POST", checkout, object{"plan_id": "nothing"})
	owner.Expect(422, "POST", checkout, object{"plan_id": "pro", "success_url": "https://evil.example/"})
	owner.Expect(422, "POST", checkout, object{"plan_id": "pro", "cancel_url": "javascript:alert(1)"})
	owner.Expect(400, "POST", portal, nil)
	made := owner.Expect(200, "POST", checkout, object{"plan_id": "pro", "success_url": n.URL + "/paid"})
	if made["url"] != "https://checkout.stripe.com/c/pay/cs_test_1" {
		t.Errorf("the page: %v", made)
	}
	want := map[string]string{
		"mode": "subscription", "line_items[0][price]": "price_pro", "line_items[0][quantity]": "1", "success_url": n.URL + "/paid", "cancel_url": n.URL + "/",
		"client_reference_id": tenant, "metadata[tenant_id]": tenant, "metadata[plan_id]": "pro", "subscription_data[metadata][tenant_id]": tenant,
		"subscription_data[metadata][plan_id]": "pro", "subscription_data[trial_period_days]": "14",
	}
	if diff := cmp.Diff(want, <-sim.forms); diff != "" {
		t.Error(diff)
	}

	now := time.Now()
	event := func(id, kind string, created time.Time, object string) string {
		return fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"created":%d,"data":{"object":%s}}`, id, kind, created.Unix(), object)
	}
	started := event("evt_1", "customer.subscription.created", now.Add(-time.Hour), fmt.Sprintf(`{"id":"sub_1","customer":"cus_1","status":"trialing",
		"trial_end":%d,"metadata":{"tenant_id":%q,"plan_id":"pro"},"items":{"data":[{"price":{"id":"price_pro"}}]}}`, now.Add(time.Hour).Unix(), tenant))
	for name, r := range map[string]apptest.Reply{
		"late": send(n, now.Add(-6*time.Minute), started), "forged": send(n, now, started, "another secret"),
		"unsigned": n.WithKey("").Do("POST", "/api/v1/webhooks/stripe", started), "a_key": n.Do("POST", "/api/v1/webhooks/stripe", started),
		"no_event": send(n, now, `{"type":"invoice.paid"}`), "no_json": send(n, now, `nonsense`),
	} {
		if r.StatusCode != 400 {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.Body)
		}
	}
	if diff := cmp.Diff(object{"received": true, "handled": true, "action": "updated"}, send(n, now, started).JSON); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(object{"received": true, "handled": false, "duplicate": true}, send(n, now, started).JSON); diff != "" {
		t.Error(diff)
	}
	if trial := owner.Expect(200, "GET", "/api/v1/billing/trial", nil); trial["trialing"] != true || trial["plan"] != "pro" {
		t.Errorf("the trial: %v", trial)
	}
	if quota := owner.Expect(200, "GET", "/api/v1/usage/quota", nil); quota["plan"] != "pro" {
		t.Errorf("the plan: %v", quota["plan"])
	}
	owner.Expect(409, "POST", checkout, object{"plan_id": "pro"})
	if got := owner.Expect(200, "POST", portal, object{"return_url": n.URL + "/account"}); got["url"] != "https://billing.stripe.com/p/session/1" {
		t.Errorf("the portal: %v", got)
	}
	if got := <-sim.forms; got["return_url"] != n.URL+"/account" {
		t.Errorf("the portal: %v", got)
	}

	// A payment fails, and nothing more is run until it is paid.
	agent := owner.CreateAgent(object{"name": "Ada"})
	invoice := `{"id":"in_1","customer":"cus_1","subscription":"sub_1","amount_due":1900,"currency":"eur","hosted_invoice_url":"https://invoice.stripe.com/i/1"}`
	send(n, now, event("evt_2", "invoice.payment_failed", now.Add(-30*time.Minute), invoice))
	owner.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "hello"}}).IsProblem(t, 402, "BILLING_PAST_DUE")
	owner.Do("POST", "/v1/chat/completions", object{"model": "sim-model", "messages": []object{{"role": "user", "content": "hi"}}})
	told := owner.Expect(200, "GET", "/api/v1/notifications", nil)
	if !strings.Contains(fmt.Sprint(told), "billing.payment_failed") {
		t.Errorf("nobody is told: %v", told)
	}
	if got := send(n, now, event("evt_3", "invoice.paid", now.Add(-40*time.Minute), invoice)).JSON; got["action"] != "ignored" {
		t.Errorf("an older event: %v", got)
	}
	owner.Do("POST", "/api/v1/runs", object{"agent_id": agent, "input": object{"message": "hello"}}).IsProblem(t, 402, "BILLING_PAST_DUE")
	send(n, now, event("evt_4", "invoice.paid", now.Add(-20*time.Minute), invoice))
	owner.WaitRun(owner.StartRun(agent, "hello", nil))

	send(n, now, event("evt_5", "customer.subscription.deleted", now.Add(-10*time.Minute), `{"id":"sub_1","customer":"cus_1","status":"canceled"}`))
	if quota := owner.Expect(200, "GET", "/api/v1/usage/quota", nil); quota["plan"] != "free" {
		t.Errorf("the plan after the end: %v", quota["plan"])
	}
	for _, stranger := range []string{`{"id":"sub_9","customer":"cus_9","status":"active"}`,
		`{"id":"sub_9","customer":"cus_9","status":"active","metadata":{"tenant_id":"0197b5a0-0000-7000-8000-000000000000"}}`} {
		if got := send(n, now, event(fmt.Sprintf("evt_9%d", len(stranger)), "customer.subscription.updated", now, stranger)).JSON; got["handled"] != false {
			t.Errorf("an event of nobody: %v", got)
		}
	}
	audit := fmt.Sprint(n.Expect(200, "GET", "/api/v1/admin/audit?tenant_id="+tenant+"&limit=100", nil))
	for _, action := range []string{"billing.updated", "billing.payment_failed", "billing.paid", "billing.cancelled"} {
		if !strings.Contains(audit, action) {
			t.Errorf("the log has no %s", action)
		}
	}

	breakStripe(n, owner, now, event("evt_10", "invoice.paid", now, invoice))
}

// configureStripe sets the price of a plan, which cannot be bought before.
func configureStripe(n, owner *apptest.Server, sim *stripe) {
	t := n.T
	t.Helper()
	owner.Expect(400, "POST", checkout, object{"plan_id": "pro"}) // it has no price yet
	for _, wrong := range []object{{"prices": object{"gold": "price_1"}}, {"prices": object{"pro": ""}}, {"trial_days": -1}} {
		n.Expect(422, "PUT", stripeConfig, wrong)
	}
	createPrices(n, sim)
	set := n.Expect(200, "PUT", stripeConfig, object{"prices": object{"pro": "price_pro"}, "trial_days": 14})
	if set["secret_key"] == "sk_test_1" || set["webhook_secret"] == signingSecret || set["enabled"] != true {
		t.Errorf("the settings: %v", set)
	}
	if got := n.Expect(200, "POST", stripeConfig+"/test", nil); got["ok"] != true || got["account_id"] != "acct_1" {
		t.Errorf("a test of the key: %v", got)
	}
	plans := owner.Expect(200, "GET", "/api/v1/billing/plans", nil)["plans"].([]any)
	if plans[0].(object)["checkout_available"] != false || plans[1].(object)["checkout_available"] != true {
		t.Errorf("plans: %v", plans)
	}
}

// createPrices makes prices at Stripe, which sell their plan.
func createPrices(n *apptest.Server, sim *stripe) {
	t := n.T
	t.Helper()
	path := "/api/v1/admin/config/plans/pro/stripe-price"
	made := n.Expect(200, "POST", path, object{"amount_cents": 1900})
	want := object{
		"plan_id": "pro", "stripe_price_id": "price_made", "stripe_product_id": "prod_1", "amount_cents": 1900.0, "currency": "usd", "interval": "month",
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Error(diff)
	}
	n.Expect(200, "POST", path, object{"amount_cents": 19000, "currency": "EUR", "interval": "year", "product_name": "Pro, a year"})
	for _, sent := range []map[string]string{
		{"unit_amount": "1900", "currency": "usd", "recurring[interval]": "month", "product_data[name]": "Pro"},
		{"unit_amount": "19000", "currency": "eur", "recurring[interval]": "year", "product_data[name]": "Pro, a year"},
	} {
		sent["metadata[plan_id]"], sent["product_data[metadata][plan_id]"] = "pro", "pro"
		if diff := cmp.Diff(sent, <-sim.forms); diff != "" {
			t.Error(diff)
		}
	}
	if prices := n.Expect(200, "GET", stripeConfig, nil)["prices"].(object); prices["pro"] != "price_made" {
		t.Errorf("the plan is sold at %v", prices)
	}
	n.Expect(404, "POST", "/api/v1/admin/config/plans/gold/stripe-price", object{"amount_cents": 1})
	for _, wrong := range []object{{}, {"amount_cents": 0}, {"amount_cents": 1, "currency": "euro"}, {"amount_cents": 1, "interval": "day"},
		{"amount_cents": 1, "product_name": "a\nb"}} {
		n.Expect(422, "POST", path, wrong)
	}
	n.Expect(502, "POST", path, object{"amount_cents": 5, "product_name": "Refused"})
	<-sim.forms
	if prices := n.Expect(200, "GET", stripeConfig, nil)["prices"].(object); prices["pro"] != "price_made" {
		t.Errorf("after a refusal the plan is sold at %v", prices)
	}
}

// breakStripe checks what callers see of settings that Stripe refuses.
func breakStripe(n, owner *apptest.Server, now time.Time, paid string) {
	t := n.T
	t.Helper()
	n.Expect(200, "PUT", stripeConfig, object{"prices": object{"pro": "price_gone"}})
	r := owner.Do("POST", checkout, object{"plan_id": "pro"})
	if r.IsProblem(t, 502, "EXTERNAL_SERVICE_ERROR"); strings.Contains(string(r.Body), "price_gone") {
		t.Errorf("Stripe's words: %s", r.Body)
	}
	n.Expect(200, "PUT", stripeConfig, object{"secret_key": "sk_wrong", "prices": object{"pro": "price_pro"}})
	if got := n.Expect(200, "POST", stripeConfig+"/test", nil); got["ok"] != false || strings.Contains(fmt.Sprint(got), "SECRET") {
		t.Errorf("a wrong key: %v", got)
	}
	n.Expect(200, "PUT", stripeConfig, object{"webhook_secret": "whsec_new"})
	if r := send(n, now, paid); r.StatusCode != 400 {
		t.Errorf("a secret that was replaced: %d", r.StatusCode)
	}
	n.Expect(200, "PUT", stripeConfig, object{"enabled": false})
	owner.Do("POST", checkout, object{"plan_id": "pro"}).IsProblem(t, 501, "billing_not_configured")
}

func TestBillingIsNotConfigured(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil, apptest.AddressPerRequest)
	n.Do("POST", checkout, object{"plan_id": "self_hosted"}).IsProblem(t, 501, "billing_not_configured")
	n.Do("POST", portal, nil).IsProblem(t, 501, "billing_not_configured")
	n.Do("POST", stripeConfig+"/test", nil).IsProblem(t, 501, "billing_not_configured")
	send(n, time.Now(), `{}`).IsProblem(t, 501, "billing_not_configured")
	n.Expect(200, "GET", "/api/v1/billing/trial", nil)
}
