package marketplace_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/commerce/marketplace"
	"agentd/internal/commerce/marketplace/marketplacesql"
	"agentd/internal/execution/run"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

type object = map[string]any

// market is the service, with agents that all exist and runs that do what tests say.
type market struct {
	*marketplace.Service
	t     *testing.T
	db    *sqldb.DB
	clock *clock.Fake
	runs  []run.Request
	who   []authz.Caller // of the runs
	fails error          // of the creation of runs
}

func (m *market) Get(_ context.Context, tenant, id string) (agent.Agent, error) {
	if id == nobody {
		return agent.Agent{}, fault.NewNotFound("agent")
	}
	return agent.Agent{}, nil
}

const nobody = "00000000-0000-7000-8000-000000000000"

func (m *market) Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error) {
	if m.fails != nil {
		return nil, m.fails
	}
	err := m.db.Write(ctx, func(tx txn.Tx) error {
		_, err := req.Admit(tx, &run.Record{})
		return err
	})
	m.runs, m.who = append(m.runs, req), append(m.who, who)
	return &run.Run{}, err
}

// end brings the newest run to a state.
func (m *market) end(status run.Status, output string) {
	m.t.Helper()
	at := len(m.runs) - 1
	r := &run.Record{Run: run.Run{
		RunID: m.runs[at].RunID, TenantID: m.who[at].TenantID, Status: status, Metadata: m.runs[at].Metadata, Output: schema.Nullable(output),
		Metrics: run.Metrics{DurationMS: 1500, InputTokens: 1500, OutputTokens: 500},
	}}
	if err := m.db.Write(m.t.Context(), func(tx txn.Tx) error { return m.OnRunState(tx, r) }); err != nil {
		m.t.Fatal(err)
	}
}

func each(t *testing.T, test func(t *testing.T, m *market)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		m := &market{t: t, db: db, clock: clock.NewFake()}
		m.Service = marketplace.New(marketplace.Deps{
			Store: marketplacesql.New(db), Writer: db, Counters: resourcesql.NewCounters(db), Cursors: page.NewCursors(make([]byte, 32)),
			Clock: m.clock, Suspended: func(context.Context, string) (bool, error) { return false, nil },
		})
		m.Connect(m, m)
		test(t, m)
	})
}

func company() authz.Caller {
	return authz.Caller{TenantID: ident.New(), UserID: ident.New(), Role: authz.Owner}
}

// do calls an operation by its id, with values by the names of parameters.
func (m *market) do(who authz.Caller, id string, body any, values ...string) (object, error) {
	m.t.Helper()
	routes := m.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	for i := range r.In.NumField() {
		field := r.In.Field(i)
		if field.Name == "Body" {
			text, err := json.Marshal(body)
			if err != nil {
				m.t.Fatal(err)
			}
			if err := schema.For(field.Type).DecodeInto(text, in.Elem().Field(i).Addr().Interface(), false); err != nil {
				return nil, err
			}
			continue
		}
		for j := 0; j < len(values); j += 2 {
			if values[j] == field.Tag.Get("path")+field.Tag.Get("query") {
				in.Elem().Field(i).SetString(values[j+1])
			}
		}
	}
	out, err := r.Call(m.t.Context(), who, in.Interface())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(out)
	if err != nil {
		m.t.Fatal(err)
	}
	var got object
	if err := json.Unmarshal(text, &got); err != nil {
		m.t.Fatal(err)
	}
	return got, nil
}

func (m *market) must(who authz.Caller, id string, body any, values ...string) object {
	m.t.Helper()
	got, err := m.do(who, id, body, values...)
	if err != nil {
		m.t.Fatalf("%s: %v", id, err)
	}
	return got
}

// list publishes an agent.
func (m *market) list(who authz.Caller, name string, more object) string {
	m.t.Helper()
	body := object{"agent_id": ident.New(), "name": name, "category": "research", "publish": true}
	maps.Copy(body, more)
	return m.must(who, "createMarketplaceListing", body)["listing_id"].(string)
}

func (m *market) names(query ...string) (names []string) {
	m.t.Helper()
	for _, l := range m.must(company(), "searchMarketplace", nil, query...)["items"].([]any) {
		names = append(names, l.(object)["name"].(string))
	}
	return names
}

// A draft is its company's; what is published is everybody's; what is taken back is
// found no more and stays.
func TestListings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours, theirs := company(), company()
		agentID := ident.New()
		made := m.must(ours, "createMarketplaceListing", object{
			"agent_id": agentID, "name": "Quick Researcher", "category": "research", "description": "Finds papers", "tags": []string{"science"},
			"readme": "# Hello", "pricing": object{"model": "per_run", "price_per_run_usd": 0.5, "note": "x"}, "agent_version": "3",
			"icon_url": "https://example.com/i.png", "program_id": "p", "a2a_enabled": true,
		})
		id := made["listing_id"].(string)
		if made["status"] != "draft" || made["tenant_id"] != ours.TenantID || made["pricing"].(object)["note"] != "x" || made["agent_version"] != "3" {
			t.Errorf("made: %v", made)
		}
		is := func(what string, err error, kind fault.Kind) {
			t.Helper()
			if !fault.Is(err, kind) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, operation := range []string{
			"getMarketplaceListing", "patchMarketplaceListing", "publishMarketplaceListing", "deprecateMarketplaceListing", "deleteMarketplaceListing",
			"listMarketplaceReviews", "addMarketplaceFavourite", "removeMarketplaceFavourite",
		} {
			_, err := m.do(theirs, operation, object{}, "listingId", id)
			is(operation+" of another's draft", err, fault.NotFound)
		}
		if got := m.names(); got != nil {
			t.Errorf("a draft is found: %v", got)
		}
		_, err := m.do(ours, "deprecateMarketplaceListing", nil, "listingId", id)
		is("deprecating a draft", err, fault.Conflict)
		m.must(ours, "publishMarketplaceListing", nil, "listingId", id)
		_, err = m.do(ours, "publishMarketplaceListing", nil, "listingId", id)
		is("publishing twice", err, fault.Conflict)
		if got := m.must(theirs, "getMarketplaceListing", nil, "listingId", id); got["name"] != "Quick Researcher" || got["status"] != "published" {
			t.Errorf("another company sees %v", got)
		}
		_, err = m.do(theirs, "patchMarketplaceListing", object{"name": "x"}, "listingId", id)
		is("changing another's listing", err, fault.NotFound)
		m.must(ours, "patchMarketplaceListing", object{"name": "Slow Writer", "category": "creative", "description": "", "tags": []string{}}, "listingId", id)
		if got := m.names("q", "resear"); got != nil {
			t.Errorf("found by its old name: %v", got)
		}
		if got := m.names("q", "WRIT slow", "category", "creative"); !slices.Equal(got, []string{"Slow Writer"}) {
			t.Errorf("found by its new name: %v", got)
		}
		m.must(ours, "deprecateMarketplaceListing", nil, "listingId", id)
		if got := m.names("q", "slow"); got != nil {
			t.Errorf("a deprecated listing is found: %v", got)
		}
		if got := m.must(theirs, "getMarketplaceListing", nil, "listingId", id); got["status"] != "deprecated" {
			t.Errorf("another company sees %v", got)
		}
		m.must(ours, "publishMarketplaceListing", nil, "listingId", id)
		if got := m.must(ours, "deleteMarketplaceListing", nil, "listingId", id); got["deleted"] != false || got["unpublished"] != true {
			t.Errorf("deleting what was published: %v", got)
		}
		draft := m.must(ours, "createMarketplaceListing", object{"agent_id": agentID, "name": "d", "category": "other"})["listing_id"].(string)
		if got := m.must(ours, "deleteMarketplaceListing", nil, "listingId", draft); got["deleted"] != true {
			t.Errorf("deleting a draft: %v", got)
		}
		m.must(ours, "publishMarketplaceListing", nil, "listingId", id)
		if err := m.AgentDeleted(t.Context(), ours.TenantID, agentID); err != nil {
			t.Fatal(err)
		}
		page := m.must(ours, "listMarketplaceListings", nil, "limit", "1")
		if got := page["items"].([]any); len(got) != 1 || got[0].(object)["status"] != "deprecated" || page["has_more"] != false {
			t.Errorf("after its agent was deleted: %v", page)
		}
		if got := m.must(ours, "listMarketplaceCategories", nil)["categories"].([]any); len(got) != 10 {
			t.Errorf("categories: %v", got)
		}
	})
}

func TestListingsThatAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		who := company()
		for name, test := range map[string]struct {
			more  object
			field string
		}{
			"blank name":     {object{"name": "  "}, "name"},
			"category":       {object{"category": "coding"}, "category"},
			"unknown agent":  {object{"agent_id": nobody}, "agent_id"},
			"pricing model":  {object{"pricing": object{"model": "barter"}}, "pricing.model"},
			"missing price":  {object{"pricing": object{"model": "per_run"}}, "pricing.price_per_run_usd"},
			"negative price": {object{"pricing": object{"model": "per_token", "price_per_1k_tokens_usd": -1}}, "pricing.price_per_1k_tokens_usd"},
			"no number":      {object{"pricing": object{"model": "per_run", "price_per_run_usd": "1"}}, "pricing"},
			"tag":            {object{"tags": []string{""}}, "tags[0]"},
		} {
			body := object{"agent_id": ident.New(), "name": "n", "category": "other"}
			maps.Copy(body, test.more)
			_, err := m.do(who, "createMarketplaceListing", body)
			if !fault.Is(err, fault.Invalid) || len(fault.From(err).Fields) != 1 || fault.From(err).Fields[0].Field != test.field {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i := range 30 {
			m.list(who, fmt.Sprint("n", i), nil)
		}
		_, err := m.do(who, "createMarketplaceListing", object{"agent_id": ident.New(), "name": "n", "category": "other", "publish": true})
		if !fault.Is(err, fault.Limited) {
			t.Errorf("the 31st publication within an hour: %v", err)
		}
		m.clock.Advance(time.Hour)
		m.list(who, "later", nil)
	})
}

// Searches order by what was asked, and find by words.
func TestSearch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours := company()
		ids := map[string]string{}
		for _, name := range []string{"Alpha Translator", "Beta Translator", "Gamma Painter"} {
			m.clock.Advance(time.Minute)
			ids[name] = m.list(ours, name, object{"tags": []string{"tool"}})
		}
		rate := func(name string, n int) {
			m.must(company(), "rateMarketplaceListing", object{"rating": n}, "listingId", ids[name])
		}
		rate("Alpha Translator", 5)
		rate("Alpha Translator", 2)
		rate("Beta Translator", 4)
		m.must(company(), "invokeMarketplaceListing", object{"input": object{}}, "listingId", ids["Gamma Painter"])
		for query, want := range map[string]string{
			"": "Gamma Painter, Beta Translator, Alpha Translator", "sort=rating": "Beta Translator, Alpha Translator, Gamma Painter",
			"sort=popularity&limit=1": "Gamma Painter", "q=transl": "Beta Translator, Alpha Translator", "q=transl&sort=rating": "Beta Translator, Alpha Translator",
			"q=tool pai": "Gamma Painter", "q=nothing": "", "q=!!": "", "category=research&limit=2": "Gamma Painter, Beta Translator", "category=other": "",
			"q=t&sort=popularity&limit=1": "Gamma Painter", "category=research&sort=rating&limit=1": "Beta Translator",
			"category=research&sort=popularity&limit=1": "Gamma Painter",
		} {
			var values []string
			for pair := range strings.SplitSeq(query, "&") {
				name, value, _ := strings.Cut(pair, "=")
				values = append(values, name, value)
			}
			if got := strings.Join(m.names(values...), ", "); got != want {
				t.Errorf("%q: %s, want %s", query, got, want)
			}
		}
	})
}

// A company rates what others offer, once; everybody reads it.
func TestRatings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, m *market) {
		ours, theirs := company(), company()
		id := m.list(ours, "Rated", nil)
		if _, err := m.do(ours, "rateMarketplaceListing", object{"rating": 5}, "listingId", id); !fault.Is(err, fault.Forbidden) {
			t.Errorf("rating one's own: %v", err)
		}
		for _, bad := range []any{0, 6, 4.5, "5"} {
			if _, err := m.do(theirs, "rateMarketplaceListing", object{"rating": bad}, "listingId", id); !fault.Is(err, fault.Invalid) {
				t.Errorf("rating %v: %v", bad, err)
			}
		}
		m.must(theirs, "rateMarketplaceListing", object{"rating": 1, "comment": "bad"}, "listingId", id)
		m.must(theirs, "rateMarketplaceListing", object{"rating": 5, "review": "better"}, "listingId", id)
		m.must(company(), "rateMarketplaceListing", object{"rating": 4}, "listingId", id)
		stats := m.must(ours, "getMarketplaceListing", nil, "listingId", id)["stats"].(object)
		if stats["rating_avg"] != 4.5 || stats["rating_count"] != 2.0 {
			t.Errorf("the stats are %v", stats)
		}
		first := m.must(authz.Caller{}, "listMarketplaceReviews", nil, "listingId", id, "limit", "1")
		second := m.must(authz.Caller{}, "listMarketplaceReviews", nil, "listingId", id, "limit", "1", "cursor", first["cursor"].(string))
		got := second["reviews"].([]any)[0].(object)
		if first["has_more"] != true || second["has_more"] != false || got["comment"] != "better" || got["rating"] != 5.0 {
			t.Errorf("reviews: %v, %v", first, second)
		}
		for range 2 {
			m.must(theirs, "addMarketplaceFavourite", nil, "listingId", id)
		}
		count := func() any {
			return m.must(ours, "getMarketplaceListing", nil, "listingId", id)["stats"].(object)["favourite_count"]
		}
		if got := count(); got != 1.0 {
			t.Errorf("%v favourites", got)
		}
		for range 2 {
			m.must(theirs, "removeMarketplaceFavourite", nil, "listingId", id)
		}
		if got := count(); got != 0.0 {
			t.Errorf("%v favourites", got)
		}
	})
}

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
