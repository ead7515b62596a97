package billing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sign(secret string, at time.Time, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	now, body := time.Unix(1_800_000_000, 0), `{"id":"evt_1"}`
	good := sign("whsec", now, body)
	_, v1, _ := strings.Cut(good, ",")
	for name, tt := range map[string]struct {
		secret, header string
		at             time.Time
		want           bool
	}{
		"good": {"whsec", good, now, true}, "four_minutes": {"whsec", good, now.Add(4 * time.Minute), true},
		"late": {"whsec", good, now.Add(6 * time.Minute), false}, "early": {"whsec", good, now.Add(-6 * time.Minute), false},
		"another_secret": {"other", good, now, false}, "no_secret": {"", sign("", now, body), now, false}, "none": {"whsec", "", now, false},
		"two_secrets":  {"whsec", fmt.Sprintf("t=%d,v1=%064d,%s", now.Unix(), 0, v1), now, true},
		"old_scheme":   {"whsec", strings.Replace(good, "v1=", "v0=", 1), now, false},
		"another_time": {"whsec", strings.Replace(good, fmt.Sprint(now.Unix()), fmt.Sprint(now.Unix()+1), 1), now, false},
		"no_hex":       {"whsec", fmt.Sprintf("t=%d,v1=zz", now.Unix()), now, false},
		"no_time":      {"whsec", "t=now," + v1, now, false},
	} {
		if got := verify(tt.secret, tt.header, []byte(body), tt.at); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if verify("whsec", good, []byte(body+" "), now) {
		t.Error("another body")
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("t=1800000000,v1=00", `{"id":"evt_1","type":"invoice.paid","created":1,"data":{"object":{"customer":{"id":"cus_1"}}}}`)
	f.Fuzz(func(t *testing.T, header, body string) {
		verify("whsec", header, []byte(body), time.Unix(1_800_000_000, 0))
		var e event
		if json.Unmarshal([]byte(body), &e) == nil {
			a := Account{TenantID: "t", SubscriptionID: "sub_1", Status: Active}
			a.apply(&e, &Settings{})
		}
	})
}

// read decodes an event whose times count from 1,000 seconds.
func read(t testing.TB, at int64, kind, object string) *event {
	t.Helper()
	e := &event{}
	text := fmt.Sprintf(`{"id":"evt_%d","type":%q,"created":%d,"data":{"object":%s}}`, at, kind, 1000+at, object)
	if err := json.Unmarshal([]byte(text), e); err != nil {
		t.Fatal(err)
	}
	return e
}

func subscription(id, status, price string) string {
	return fmt.Sprintf(`{"id":%q,"object":"subscription","customer":"cus_1","status":%q,"metadata":{"tenant_id":"t","plan_id":"pro"},
		"trial_end":5000,"items":{"data":[{"price":{"id":%q}}]}}`, id, status, price)
}

const (
	checkout = `{"id":"cs_1","mode":"subscription","payment_status":"paid","customer":"cus_1","subscription":"sub_1","metadata":{"tenant_id":"t","plan_id":"pro"}}`
	invoice  = `{"id":"in_1","customer":{"id":"cus_1"},"parent":{"subscription_details":{"subscription":"sub_1","metadata":{"tenant_id":"t"}}},"amount_due":900,"currency":"eur"}`
)

var prices = &Settings{Prices: map[string]string{"pro": "price_pro", "team": "price_team"}}

// Whatever the order in which the events of a subscription come, and however often, the
// account ends as the newest of them say.
func TestEventsInAnyOrder(t *testing.T) {
	t.Parallel()
	all := []*event{
		read(t, 1, "checkout.session.completed", checkout),
		read(t, 2, "customer.subscription.created", subscription("sub_1", "active", "price_pro")),
		read(t, 3, "invoice.paid", invoice),
		read(t, 4, "customer.subscription.updated", subscription("sub_1", "active", "price_team")),
		read(t, 5, "invoice.payment_failed", invoice),
		read(t, 6, "customer.subscription.updated", subscription("sub_1", "past_due", "price_team")),
		read(t, 7, "invoice.paid", invoice),
		read(t, 8, "customer.subscription.updated", subscription("sub_1", "active", "price_team")),
		read(t, 9, "invoice.payment_failed", invoice),
	}
	rapid.Check(t, func(t *rapid.T) {
		until := rapid.IntRange(4, len(all)).Draw(t, "until")
		order := rapid.Permutation(append(append([]*event{}, all[:until]...), all[:until]...)).Draw(t, "order")
		a := Account{TenantID: "t"}
		for _, e := range order {
			a.apply(e, prices)
		}
		want := Active
		if until == 5 || until == 6 || until == 9 {
			want = PastDue
		}
		if a.Plan != "team" || a.Status != want || a.CustomerID != "cus_1" || a.SubscriptionID != "sub_1" {
			t.Fatalf("after %d events: %+v, want %s", until, a, want)
		}
	})
}

func TestSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	a := Account{TenantID: "t"}
	var got []string
	apply := func(e *event) { got = append(got, a.apply(e, prices)) }
	apply(read(t, 1, "customer.subscription.created", subscription("sub_1", "trialing", "price_pro")))
	if a.Status != Active || a.Plan != "pro" || a.TrialEnds.Unix() != 5000 {
		t.Errorf("a trial: %+v", a)
	}
	apply(read(t, 2, "customer.subscription.updated", subscription("sub_2", "active", "price_team"))) // of another subscription
	apply(read(t, 9, "customer.subscription.deleted", subscription("sub_1", "canceled", "price_pro")))
	apply(read(t, 9, "customer.subscription.updated", subscription("sub_1", "active", "price_pro"))) // of the same second
	apply(read(t, 10, "invoice.payment_failed", invoice))
	if a.Status != Cancelled || a.Plan != "" || !a.TrialEnds.IsZero() {
		t.Errorf("after the end: %+v", a)
	}
	apply(read(t, 20, "customer.subscription.created", subscription("sub_3", "incomplete", "price_pro")))
	apply(read(t, 21, "customer.subscription.updated", subscription("sub_3", "active", "price_team")))
	apply(read(t, 22, "invoice.finalized", invoice))
	want := []string{"updated", "ignored", "cancelled", "ignored", "ignored", "ignored", "updated", "invoiced"}
	if diff := cmp.Diff(want, got); diff != "" || a.SubscriptionID != "sub_3" || a.Plan != "team" || a.Status != Active {
		t.Errorf("%s: %+v", diff, a)
	}
}
