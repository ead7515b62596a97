package marketplace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// An invocation is a run in the owner's company; the caller sees its input and its
// answer, and owes the price when it has completed.
func TestInvocations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours, theirs := company(), company()
		revenue := func(who authz.Caller) string {
			got := m.must(who, "getMarketplaceRevenue", nil)
			return fmt.Sprint(got["earned_usd"], " ", got["spent_usd"])
		}
		id := m.list(ours, "Paid", object{"agent_version": "3", "pricing": object{"model": "per_run", "price_per_run_usd": 0.25}})
		made := m.must(theirs, "invokeMarketplaceListing", object{"input": object{"message": "Hello", "file_ids": []string{"x"}}}, "listingId", id)
		invocation := made["invocation_id"].(string)
		req := m.runs[0]
		if made["status"] != "pending" || m.who[0].TenantID != ours.TenantID || req.AgentVersion != 3 || string(req.Input) != `{"message":"Hello"}` ||
			!slices.Equal(req.Options.Sources, []string{"marketplace"}) {
			t.Errorf("made %v, the run %+v of %v", made, req, m.who[0])
		}
		get := func() object { return m.must(theirs, "getMarketplaceInvocation", nil, "invocationId", invocation) }
		m.end(run.Running, "null")
		if got := get(); got["status"] != "running" || got["result"] != nil || got["completed_at"] != nil {
			t.Errorf("running: %v", got)
		}
		m.end(run.AwaitingApproval, "null")
		m.end(run.Completed, `{"text":"Hi","sources":["web"]}`)
		m.end(run.Completed, `{"text":"Hi"}`)
		got := get()
		want := object{"text": "Hi"}
		if diff := cmp.Diff(want, got["result"]); diff != "" || got["status"] != "completed" || got["completed_at"] == nil ||
			got["metrics"].(object)["price_usd"] != 0.25 || got["metrics"].(object)["duration_ms"] != 1500.0 {
			t.Errorf("completed: %v %s", got, diff)
		}
		if _, has := got["run_id"]; has || strings.Contains(fmt.Sprint(got), "agent") {
			t.Errorf("the caller sees %v", got)
		}
		if a, b := revenue(ours), revenue(theirs); a != "0.25 0" || b != "0 0.25" {
			t.Errorf("revenue %s and %s", a, b)
		}
		if _, err := m.do(ours, "getMarketplaceInvocation", nil, "invocationId", invocation); !fault.Is(err, fault.NotFound) {
			t.Errorf("the owner reads the caller's invocation: %v", err)
		}
		m.must(theirs, "invokeMarketplaceListing", object{"input": object{"topic": "x"}}, "listingId", id)
		if got := string(m.runs[1].Input); got != `{"message":"{\"topic\":\"x\"}"}` {
			t.Errorf("an input without a message becomes %s", got)
		}
		m.end(run.Failed, "null")
		list := m.must(theirs, "listMarketplaceInvocations", nil, "limit", "1")
		if got := list["items"].([]any)[0].(object); got["status"] != "failed" || got["result"] != nil || list["has_more"] != true || revenue(theirs) != "0 0.25" {
			t.Errorf("failed: %v, %s", got, revenue(theirs))
		}
		tokens := m.list(ours, "By tokens", object{"pricing": object{"model": "per_token", "price_per_1k_tokens_usd": 2}})
		m.must(theirs, "invokeMarketplaceListing", object{"input": object{}}, "listingId", tokens)
		m.end(run.Completed, `{"text":"x"}`)
		if got := revenue(ours); got != "4.25 0" {
			t.Errorf("2,000 tokens at 2 dollars for a thousand: %s", got)
		}
		if got := m.must(ours, "getMarketplaceListing", nil, "listingId", id)["stats"].(object)["invocation_count"]; got != 2.0 {
			t.Errorf("%v invocations", got)
		}
	})
}

func TestInvocationsThatAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours, theirs := company(), company()
		id := m.list(ours, "Listed", nil)
		invoke := func(who authz.Caller, id string, input any) error {
			_, err := m.do(who, "invokeMarketplaceListing", object{"input": input}, "listingId", id)
			return err
		}
		is := func(what string, err error, kind fault.Kind) {
			t.Helper()
			if !fault.Is(err, kind) {
				t.Errorf("%s: %v", what, err)
			}
		}
		is("one's own", invoke(ours, id, object{}), fault.Invalid)
		is("nothing", invoke(theirs, ident.New(), object{}), fault.NotFound)
		is("too long", invoke(theirs, id, object{"message": strings.Repeat("x", 300<<10)}), fault.Invalid)
		m.fails = fault.WrongState("agent", "suspended", "starting a run")
		if err := invoke(theirs, id, object{}); !fault.Is(err, fault.Conflict) || strings.Contains(fault.From(err).Detail, "agent") {
			t.Errorf("a suspended agent: %v", err)
		}
		m.fails = nil
		for range 120 {
			if err := invoke(theirs, id, object{}); err != nil {
				t.Fatal(err)
			}
		}
		is("the 121st within an hour", invoke(theirs, id, object{}), fault.Limited)
		m.must(ours, "deprecateMarketplaceListing", nil, "listingId", id)
		is("deprecated", invoke(company(), id, object{}), fault.Invalid)
	})
}

// A subscription costs its price each month in which the listing is used, and ends with
// the month that was paid for.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours, theirs := company(), company()
		id := m.list(ours, "Monthly", object{"pricing": object{"model": "subscription", "price_per_month_usd": 10}})
		invoke := func() error {
			_, err := m.do(theirs, "invokeMarketplaceListing", object{"input": object{}}, "listingId", id)
			return err
		}
		spent := func() any { return m.must(theirs, "getMarketplaceRevenue", nil)["spent_usd"] }
		if err := invoke(); !fault.Is(err, fault.Invalid) {
			t.Errorf("without a subscription: %v", err)
		}
		if _, err := m.do(theirs, "unsubscribeFromMarketplaceListing", nil, "listingId", id); !fault.Is(err, fault.NotFound) {
			t.Errorf("ending no subscription: %v", err)
		}
		if _, err := m.do(ours, "subscribeToMarketplaceListing", object{}, "listingId", id); !fault.Is(err, fault.Forbidden) {
			t.Errorf("subscribing to one's own: %v", err)
		}
		free := m.list(ours, "Free", nil)
		if _, err := m.do(theirs, "subscribeToMarketplaceListing", object{}, "listingId", free); !fault.Is(err, fault.Invalid) {
			t.Errorf("subscribing to what is free: %v", err)
		}
		for range 2 {
			if got := m.must(theirs, "subscribeToMarketplaceListing", object{"stripe_subscription_id": "sub_1"}, "listingId", id); got["status"] != "active" {
				t.Errorf("subscribed: %v", got)
			}
		}
		if err := invoke(); err != nil || spent() != 10.0 {
			t.Errorf("in the first month: %v, %v spent", err, spent())
		}
		m.clock.Advance(31 * 24 * time.Hour)
		if err := invoke(); err != nil || spent() != 20.0 {
			t.Errorf("in the second month: %v, %v spent", err, spent())
		}
		m.must(theirs, "unsubscribeFromMarketplaceListing", nil, "listingId", id)
		if err := invoke(); err != nil {
			t.Errorf("cancelled, in the month that was paid for: %v", err)
		}
		m.clock.Advance(31 * 24 * time.Hour)
		if err := invoke(); !fault.Is(err, fault.Invalid) || spent() != 20.0 {
			t.Errorf("cancelled, afterwards: %v, %v spent", err, spent())
		}
		all := m.must(theirs, "listMarketplaceSubscriptions", nil)["subscriptions"].([]any)
		if len(all) != 1 || all[0].(object)["status"] != "cancelled" || all[0].(object)["stripe_subscription_id"] != "sub_1" {
			t.Errorf("subscriptions: %v", all)
		}
	})
}

// A run that only says that it is an invocation is none.
func TestForeignRuns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		r := &run.Record{Run: run.Run{RunID: ident.New(), TenantID: ident.New(), Status: run.Completed, Metadata: schema.Object(`{"source":"marketplace"}`)}}
		if err := m.db.Write(t.Context(), func(tx txn.Tx) error { return m.OnRunState(tx, r) }); err != nil {
			t.Error(err)
		}
		if !jsontext.Value(r.Metadata).IsValid() {
			t.Error("the run was changed")
		}
	})
}
