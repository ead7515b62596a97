package search_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/content/search"
	"agentd/internal/execution/session"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestWords(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tenant := r.who.TenantID
		refund := r.run(tenant, "", "Please refund order 4711", "The refund was made, Élodie.")
		r.clock.Advance(time.Second)
		berlin := r.run(tenant, "", "What is the weather in Zürich?", "Sunny. Don't take a coat.")
		r.clock.Advance(time.Second)
		tokyo := r.run(tenant, "", "東京の天気は?", "晴れです。")
		r.clock.Advance(time.Second)
		hostile := r.run(tenant, "", `'"; DROP TABLE runs; -- a*b NEAR(c d) col:x ^y {z} \o/ "`, "O'Brien & <sons>|(100%)")
		r.clock.Advance(time.Second)
		quiet := r.run(tenant, "", "", "")
		r.work()
		for q, want := range map[string][]string{
			"refund": {refund}, "REFUND": {refund}, "refund order": {refund}, "order refund": {refund}, "elodie": {refund}, "ÉLODIE": {refund},
			"ref": {refund}, "order ref": {refund}, "ref order": {}, "4711": {refund}, "471": {refund}, "refund weather": {},
			"zurich": {berlin}, "Zürich wea": {berlin}, "dont": {berlin}, "don't": {berlin}, "coat.": {berlin},
			"東京": {tokyo}, "天気": {tokyo}, "京東": {}, "晴れ": {tokyo},
			"drop table": {hostile}, "near": {hostile}, "near(": {hostile}, "col:x": {hostile}, "obrien": {hostile}, "a*b": {hostile},
			"": {}, "r": {}, " r ": {}, "re": {refund}, "?!": {}, "\"": {}, "''": {}, "**": {}, "\x00\x00": {}, "\xff\xfe": {}, "order order": {refund},
			"run": {hostile}, quiet: {},
		} {
			r.ids(r.who, q, "", want...)
			r.ids(r.who, q, search.Run, want...)
			r.ids(r.who, q, search.Agent)
		}
	})
}

func TestWhatMayBeRead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tenant, stranger := r.who.TenantID, r.who
		stranger.TenantID = ident.New()
		g := r.agent(tenant, "Invoice helper", "")
		s := r.session(tenant, `{"title":"Invoice of May"}`)
		one := r.run(tenant, "", "invoice", "")
		other := r.run(stranger.TenantID, "", "invoice", "")
		r.work()
		for _, tt := range []struct {
			scopes []authz.Scope
			want   map[string]bool
		}{
			{[]authz.Scope{"search:read"}, map[string]bool{}},
			{[]authz.Scope{"agents:read"}, map[string]bool{g: true}},
			{[]authz.Scope{"sessions:read"}, map[string]bool{s.SessionID: true}},
			{[]authz.Scope{"runs:read"}, map[string]bool{one: true}},
			{[]authz.Scope{"runs:read", "agents:read"}, map[string]bool{one: true, g: true}},
			{[]authz.Scope{"*"}, map[string]bool{one: true, g: true, s.SessionID: true}},
		} {
			who := r.who
			who.Scopes = tt.scopes
			got := map[string]bool{}
			for _, kind := range []search.Kind{"", search.Agent, search.Session, search.Run} {
				for _, f := range r.finds(who, "invoice", kind, 50) {
					got[f.ID] = true
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tt.scopes, diff)
			}
		}
		r.ids(stranger, "invoice", "", other)
	})
}

func TestOrderAndShape(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tenant := r.who.TenantID
		long := r.agent(tenant, "Support of Paris", "Speaks French.")
		r.clock.Advance(time.Second)
		id := r.run(tenant, "", "Hello\nsupport, where are you?", strings.Repeat("Lorem ipsum. ", 40)+"Our support is at work.\n\n"+strings.Repeat("Dolor. ", 60))
		r.clock.Advance(time.Second)
		titled := r.session(tenant, `{"title":" Support  night "}`)
		r.clock.Advance(time.Second)
		exact := r.agent(tenant, "Support", "Answers people who need help with anything.")
		described := r.agent(tenant, "Helper", "Gives support.")
		r.clock.Advance(time.Second)
		late := r.run(tenant, "", "No more support", "")
		r.work()
		want := []search.Result{
			{Type: "agent", ID: exact, Title: "Support", Subtitle: "Answers people who need help with anything.", Href: "/api/v1/agents/" + exact, Icon: "bot"},
			{Type: "session", ID: titled.SessionID, Title: "Support night", Href: "/api/v1/sessions/" + titled.SessionID, Icon: "messages"},
			{Type: "agent", ID: long, Title: "Support of Paris", Subtitle: "Speaks French.", Href: "/api/v1/agents/" + long, Icon: "bot"},
			{Type: "run", ID: late, Title: "No more support", Subtitle: "No more support", Href: "/api/v1/runs/" + late, Icon: "play"},
			{Type: "agent", ID: described, Title: "Helper", Subtitle: "Gives support.", Href: "/api/v1/agents/" + described, Icon: "bot"},
			{Type: "run", ID: id, Title: "Hello support, where are you?", Href: "/api/v1/runs/" + id, Icon: "play"},
		}
		got := r.finds(r.who, "support", "", 50)
		if len(got) == len(want) {
			line := got[5].Subtitle
			if !strings.HasPrefix(line, "…") || !strings.HasSuffix(line, "…") || !strings.Contains(line, "Our support is at work. Dolor.") {
				t.Errorf("the line is %q", line)
			}
			got[5].Subtitle = ""
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(search.Result{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := r.finds(r.who, "support", "", 2); len(got) != 2 || got[0].ID != exact {
			t.Errorf("two of them: %v", got)
		}
	})
}

func TestSessionsAreTheirConversations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tenant := r.who.TenantID
		s := r.session(tenant, `{}`)
		first := r.run(tenant, s.SessionID, "My cat is called Murr", "Nice.")
		r.clock.Advance(time.Second)
		second := r.run(tenant, s.SessionID, "What food?", "Herring.")
		r.work()
		r.ids(r.who, "murr herring", search.Session, s.SessionID) // in different turns
		r.ids(r.who, "murr", "", s.SessionID, first)
		if got := r.finds(r.who, "murr", search.Session, 5); got[0].Title != "Session "+s.SessionID || got[0].Subtitle != "My cat is called Murr" {
			t.Errorf("%+v", got)
		}
		s.Metadata, s.Summary = []byte(`{"title":"Pets"}`), session.Summary{First: "My cat is called Murr", Last: "Herring."}
		r.change(s)
		r.work()
		r.ids(r.who, "pets", "", s.SessionID)
		r.ids(r.who, "pets herring", "", s.SessionID)

		// Of a long one, the beginning is found by its runs.
		for range 45 {
			r.clock.Advance(time.Second)
			r.run(tenant, s.SessionID, "more", strings.Repeat("blah ", 100))
		}
		s.UpdatedAt = r.clock.Now()
		r.work()
		r.ids(r.who, "murr", search.Session, s.SessionID)

		s.Status = session.Closed
		r.change(s)
		r.work()
		r.ids(r.who, "pets", "")
		r.ids(r.who, "herring", "", second)
		r.clock.Advance(time.Second)
		r.run(tenant, s.SessionID, "what came after", "")
		r.work()
		r.ids(r.who, "pets", search.Session)
	})
}

func TestAgentsAreFollowed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tenant := r.who.TenantID
		id := r.agent(tenant, "Otter", "swims")
		r.work()
		r.ids(r.who, "otter", "", id)
		_, err := r.agents.Store().Update(t.Context(), r.who, id, func(_ txn.Tx, g *agent.Agent) error {
			g.Name = "Badger"
			return nil
		})
		r.fatal(err)
		r.work()
		r.ids(r.who, "otter", "")
		r.ids(r.who, "badger swims", "", id)
		r.fatal(r.agents.Store().Delete(t.Context(), r.who, id))
		r.ids(r.who, "badger", "") // before the change arrives
		r.work()
		r.ids(r.who, "badger", "")
	})
}

// An earlier version that is late does not replace a later one.
func TestLateVersions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		id := r.agent(r.who.TenantID, "newer", "")
		put := func(version int64, word string) {
			r.write(func(tx txn.Tx) error {
				return r.Store.PutTx(tx, r.who.TenantID, search.Agent, []search.Doc{{ID: id, Version: version, At: r.clock.Now(), Words: []string{word}}})
			})
		}
		put(2, "second")
		put(1, "first")
		r.ids(r.who, "second", "", id)
		r.ids(r.who, "first", "")
		put(2, "again")
		r.ids(r.who, "again", "", id)
		r.ids(r.who, "second", "")
	})
}

// Documents are found in whatever block they are, the newest first.
func TestManyDocuments(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		const n = 20_000
		var rare []string
		for from := 0; from < n; from += 1000 {
			var docs []search.Doc
			for i := from; i < from+1000; i++ {
				d := search.Doc{ID: fmt.Sprintf("doc%05d", i), At: r.clock.Now(), Words: []string{"common"}}
				if i%4000 == 17 {
					d.Words, rare = append(d.Words, "rarest"), append([]string{d.ID}, rare...)
				}
				docs = append(docs, d)
			}
			r.write(func(tx txn.Tx) error { return r.Store.PutTx(tx, r.who.TenantID, search.Run, docs) })
		}
		find := func(limit int, words ...string) (ids []string) {
			hits, err := r.Store.Search(t.Context(), r.who.TenantID, search.Want{Kind: search.Run, Words: words, Limit: limit})
			r.fatal(err)
			for _, h := range hits {
				ids = append(ids, h.ID)
			}
			return ids
		}
		if diff := cmp.Diff(rare, find(50, "common", "rare")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"doc19999", "doc19998", "doc19997"}, find(3, "com")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := find(6000, "common"); len(got) != 6000 || got[5999] != "doc14000" {
			t.Errorf("%d of them, up to %s", len(got), got[len(got)-1])
		}
		r.ids(r.who, "common", "") // there are no such runs
	})
}

func FuzzQuery(f *testing.F) {
	for _, q := range []string{
		"", "a", "ab", `"`, `""`, "a AND b", "a OR", "NOT a", "NEAR(a b, 2)", "col:a", "a*", "*a", "^a", "(a", "{a b}", "a:*", "a & b", "a | !b", "a <-> b",
		`\`, `\'`, "'; DROP TABLE search_docs; --", "\x00", "\xff", "日本", "e\u0301", strings.Repeat("x", 5000), strings.Repeat("a b ", 2000), "a\u2028b", "\u0600\u200d",
	} {
		f.Add(q)
	}
	var rigs []*rig
	for _, engine := range sqldbtest.Engines {
		r := newRig(f, sqldbtest.Open(f, engine))
		for _, tenant := range []string{r.who.TenantID, ident.New()} {
			r.run(tenant, "", "a b c hello world", "日本 é")
			r.agent(tenant, "ab", "cd")
		}
		r.work()
		rigs = append(rigs, r)
	}
	f.Fuzz(func(t *testing.T, q string) {
		var answers []string
		for _, r := range rigs {
			for _, kind := range []search.Kind{"", search.Agent, search.Session, search.Run} {
				got, err := r.Find(t.Context(), r.who, q, kind, 10)
				if err != nil {
					t.Fatalf("%q: %v", q, err)
				}
				for _, one := range got {
					answers = append(answers, one.Title+" "+one.Subtitle)
				}
			}
			answers = append(answers, "|")
		}
		half := len(answers) / 2
		if diff := cmp.Diff(answers[:half], answers[half:]); diff != "" {
			t.Errorf("the engines differ about %q:\n%s", q, diff)
		}
	})
}
