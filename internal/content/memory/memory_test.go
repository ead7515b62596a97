package memory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/agent"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/tokenize"
	"agentd/internal/base/txn"
	"agentd/internal/content/memory"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func number(f float64) *float64 { return &f }

func TestEntriesAreFound(t *testing.T) {
	each(t, func(r *rig) {
		a, other := r.agent(`{}`), r.agent(`{}`)
		r.add(a,
			memory.Draft{Content: "The user likes green tea", Type: memory.Semantic, Tags: []string{"drink"}, EntityName: "Zoë Müller", EntityType: "person"},
			memory.Draft{Content: "Deploys happen on Fridays", Type: memory.Procedural},
			memory.Draft{Content: "Tea was spilt", Type: memory.Episodic, Metadata: []byte(`{"x":1}`)},
		)
		r.add(other, memory.Draft{Content: "tea of another agent"})
		got := r.find(a, memory.Asked{Text: "TEA"})
		if diff := cmp.Diff([]string{"Tea was spilt", "The user likes green tea"}, contents(got)); diff != "" {
			r.Errorf("(-want +got):\n%s", diff)
		}
		if e := got[1]; e.Type != memory.Semantic || e.Score == nil || !slices.Equal(e.Tags, []string{"drink", "imported"}) || e.AgentID != a || e.RelevanceScore != 0.5 {
			r.Errorf("%+v", e)
		}
		if string(got[0].Metadata) != `{"x":1}` {
			r.Errorf("metadata %s", got[0].Metadata)
		}
		if got := r.find(a, memory.Asked{Text: "tea", Types: []string{memory.Semantic}}); len(got) != 1 {
			r.Errorf("of one type: %v", contents(got))
		}
		// Tags and names are words of an entry too; the newest have none of these.
		for text, want := range map[string]int{"what does she drink?": 1, "zoe": 1, "Müller": 1, "person": 0} {
			if got := r.find(a, memory.Asked{Text: text}); len(got) != want {
				r.Errorf("%q finds %v", text, contents(got))
			}
		}
		// Searches count, listing does not.
		for _, e := range r.all(a) {
			want := int64(0)
			if strings.Contains(strings.ToLower(e.Content), "tea") {
				want = 1
			}
			if strings.Contains(e.Content, "likes") {
				want = 5
			}
			if e.AccessCount != want || (e.LastAccessedAt != nil) != (want > 0) {
				r.Errorf("%q was accessed %d times, at %v; want %d", e.Content, e.AccessCount, e.LastAccessedAt, want)
			}
		}
		of, err := r.Store.List(r.Context(), r.who.TenantID, a, tokenize.Normalize("zoe muller"), "", 10)
		if err != nil || len(of) != 1 || of[0].EntityName != "Zoë Müller" {
			r.Errorf("of an entity: %v, %v", of, err)
		}
		if got, err := r.Store.List(r.Context(), ident.New(), a, "", "", 10); err != nil || len(got) != 0 {
			r.Errorf("another tenant lists %v, %v", got, err)
		}
	})
}

func TestUpdate(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(`{}`)
		r.add(a, memory.Draft{Content: "cats sleep"})
		e := r.all(a)[0]
		r.clock.Advance(time.Hour)
		text, tags := "dogs\x00 bark", []string{"x"}
		got, err := r.Update(r.Context(), r.who.TenantID, a, e.EntryID, memory.Change{Content: &text, Tags: &tags, RelevanceScore: number(0.9)})
		if err != nil || got.Content != "dogs bark" || got.RelevanceScore != 0.9 || !got.LastAccessedAt.Equal(r.clock.Now()) {
			r.Fatalf("%+v, %v", got, err)
		}
		stored, err := r.Store.Get(r.Context(), r.who.TenantID, a, e.EntryID)
		if diff := cmp.Diff(got, stored, cmp.AllowUnexported(memory.Entry{})); err != nil || diff != "" {
			r.Errorf("%v (-answered +stored):\n%s", err, diff)
		}
		if len(r.find(a, memory.Asked{Text: "cats"})) != 0 || len(r.find(a, memory.Asked{Text: "dogs"})) != 1 {
			r.Error("the old text is found, or the new one is not")
		}
		if len(r.find(a, memory.Asked{Text: "x"})) != 1 {
			r.Error("the new tag is not found")
		}
		blank, unknown := " ", "dream"
		for name, c := range map[string]memory.Change{
			"content": {Content: &blank}, "type": {Type: &unknown}, "tags[0]": {Tags: &[]string{" "}},
		} {
			_, err := r.Update(r.Context(), r.who.TenantID, a, e.EntryID, c)
			if f := fault.From(err); f == nil || len(f.Fields) != 1 || f.Fields[0].Field != name {
				r.Errorf("%s: %v", name, err)
			}
		}
		if _, err := r.Update(r.Context(), ident.New(), a, e.EntryID, memory.Change{}); !fault.Is(err, fault.NotFound) {
			r.Errorf("another tenant: %v", err)
		}
		if err := r.Delete(r.Context(), r.who.TenantID, a, e.EntryID); err != nil || len(r.all(a)) != 0 || len(r.find(a, memory.Asked{Text: "dogs"})) != 0 {
			r.Errorf("deleted: %v", err)
		}
	})
}

// What matters least falls out of a full memory, the newest never.
func TestFullMemory(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(`{"max_entries":3,"decay_enabled":true,"decay_half_life_days":1}`)
		for i, boost := range []float64{0.9, 0.8, 0.1} {
			r.add(a, memory.Draft{Content: fmt.Sprint("entry ", i), Relevance: number(boost)})
			r.clock.Advance(time.Hour)
		}
		for i, want := range [][]string{
			{"new 0", "entry 1", "entry 0"},
			{"new 1", "entry 1", "entry 0"},
		} {
			r.add(a, memory.Draft{Content: fmt.Sprint("new ", i), Relevance: number(0)})
			if diff := cmp.Diff(want, contents(r.all(a))); diff != "" {
				r.Errorf("(-want +got):\n%s", diff)
			}
		}
		r.clock.Advance(30 * 24 * time.Hour) // what is old is worth little now
		r.add(a, memory.Draft{Content: "newer", Relevance: number(0.3)})
		r.add(a, memory.Draft{Content: "newest", Relevance: number(0.2)}, memory.Draft{Content: "newest too", Relevance: number(0.2)})
		if diff := cmp.Diff([]string{"newest too", "newest", "newer"}, contents(r.all(a))); diff != "" {
			r.Errorf("(-want +got):\n%s", diff)
		}
		if got := r.find(a, memory.Asked{Text: "entry new"}); len(got) != 0 {
			r.Errorf("what fell out is found: %v", contents(got))
		}
		_, err := r.Import(r.Context(), r.who.TenantID, a, []memory.Draft{{Content: "1"}, {Content: "2"}, {Content: "3"}, {Content: "4"}})
		if !fault.Is(err, fault.Invalid) {
			r.Errorf("more than there is place for: %v", err)
		}
	})
}

func TestImport(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(`{}`)
		r.add(a, memory.Draft{Content: "Known already."})
		got, err := r.Import(r.Context(), r.who.TenantID, a, []memory.Draft{
			{Content: "KNOWN, already"}, {Content: "one"}, {Content: "One!"}, {Content: "二"},
		})
		want := &memory.Imported{Imported: true, AgentID: a, Offered: 4, Added: 2, Duplicates: 2}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			r.Errorf("%v (-want +got):\n%s", err, diff)
		}
		for name, tt := range map[string]struct {
			drafts []memory.Draft
			kind   fault.Kind
			fields []string
		}{
			"nothing":  {nil, fault.Malformed, nil},
			"too_many": {make([]memory.Draft, 2001), fault.Invalid, []string{"entries"}},
			"too_big":  {[]memory.Draft{{Content: strings.Repeat("x", 2<<20+1)}}, fault.TooLarge, nil},
			"wrong": {
				[]memory.Draft{{Content: "x"}, {Content: " \x00", Type: "dream", Tags: []string{strings.Repeat("ä", 65)}, EntityName: strings.Repeat("x", 201)}},
				fault.Invalid, []string{"entries[1].content", "entries[1].type", "entries[1].entity_name", "entries[1].tags[0]"},
			},
		} {
			_, err := r.Import(r.Context(), r.who.TenantID, a, tt.drafts)
			f := fault.From(err)
			if f == nil || f.Kind != tt.kind {
				r.Errorf("%s: %v", name, err)
				continue
			}
			var fields []string
			for _, field := range f.Fields {
				fields = append(fields, field.Field)
			}
			if !slices.Equal(fields, tt.fields) {
				r.Errorf("%s: wrong fields %v", name, fields)
			}
		}
		if _, err := r.Import(r.Context(), r.who.TenantID, ident.New(), []memory.Draft{{Content: "x"}}); !fault.Is(err, fault.NotFound) {
			r.Errorf("an agent that is not there: %v", err)
		}
	})
}

func TestIngest(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(`{}`)
		text := strings.Repeat("A sentence of words. ", 20)
		got, err := r.Ingest(r.Context(), r.who.TenantID, a, memory.Document{Content: text, Filename: "book.txt", Tags: []string{"mine"}, ChunkSize: 100})
		if err != nil {
			r.Fatal(err)
		}
		n := len(got.Entries)
		if n < 4 || got.ChunksCreated != n || got.Filename != "book.txt" || got.TextLength != len(text) {
			r.Errorf("%+v", got)
		}
		if diff := cmp.Diff([]string{"mine", "document", "book.txt", fmt.Sprintf("chunk:1/%d", n)}, got.Entries[0].Tags); diff != "" {
			r.Errorf("(-want +got):\n%s", diff)
		}
		if found := r.find(a, memory.Asked{Text: "sentence", Limit: 100}); len(found) != n || found[0].Type != memory.Semantic {
			r.Errorf("%d of %d are found", len(found), n)
		}
		html, err := r.Ingest(r.Context(), r.who.TenantID, a, memory.Document{Content: "<script>x</script><p>Paragraph</p>", Filename: "a.html", ChunkSize: 100})
		if err != nil || html.Entries[0].ContentPreview != "Paragraph" {
			r.Errorf("%+v, %v", html, err)
		}
		for name, d := range map[string]memory.Document{
			"content": {Content: " ", ChunkSize: 100}, "file_id": {FileID: ident.New(), ChunkSize: 100},
			"tags": {Content: "x", Tags: slices.Repeat([]string{"t"}, 21), ChunkSize: 100},
		} {
			_, err := r.Ingest(r.Context(), r.who.TenantID, a, d)
			if f := fault.From(err); f == nil || f.Kind != fault.Invalid || len(f.Fields) != 1 || f.Fields[0].Field != name {
				r.Errorf("%s: %v", name, err)
			}
		}
		if _, err := r.Ingest(r.Context(), r.who.TenantID, a, memory.Document{Content: strings.Repeat("x", 2<<20+1), ChunkSize: 2000}); !fault.Is(err, fault.TooLarge) {
			r.Errorf("too large: %v", err)
		}
	})
}

func TestIngestFiles(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(`{}`)
		r.Files = files{"1": {Name: "a.csv", Data: []byte("k,v\na,b")}, "2": {Name: "a.pdf", MimeType: "application/pdf"}, "3": {Name: "x", Data: []byte("\xe4")}}
		got, err := r.Ingest(r.Context(), r.who.TenantID, a, memory.Document{FileID: "1", ChunkSize: 100})
		if err != nil || got.FileID != "1" || got.Filename != "a.csv" || got.Entries[0].ContentPreview != "k: a; v: b" {
			r.Errorf("%+v, %v", got, err)
		}
		for _, id := range []string{"2", "3"} {
			_, err := r.Ingest(r.Context(), r.who.TenantID, a, memory.Document{FileID: id, ChunkSize: 100})
			if f := fault.From(err); f == nil || f.Kind != fault.Invalid || f.Code != "TEXT_EXTRACTION_FAILED" || f.Extra["filename"] == nil {
				r.Errorf("%s: %v", id, err)
			}
		}
		if _, err := r.Ingest(r.Context(), r.who.TenantID, a, memory.Document{FileID: "4", ChunkSize: 100}); !fault.Is(err, fault.NotFound) {
			r.Errorf("an absent file: %v", err)
		}
	})
}

func TestCoreBlocks(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(``)
		if enabled, blocks, err := r.Blocks(r.Context(), r.who.TenantID, a); enabled || len(blocks) != 0 || err != nil {
			r.Errorf("%v %v %v", enabled, blocks, err)
		}
		if _, err := r.Block(r.Context(), r.who.TenantID, a, "human"); !fault.Is(err, fault.NotFound) {
			r.Errorf("an unknown label: %v", err)
		}
		put, err := r.PutBlock(r.Context(), r.who, a, "human", "Likes tea.", 100)
		if err != nil {
			r.Fatal(err)
		}
		got, err := r.Block(r.Context(), r.who.TenantID, a, "human")
		if diff := cmp.Diff(put, got); err != nil || diff != "" {
			r.Errorf("%v (-put +got):\n%s", err, diff)
		}
		g, err := r.Agents.Store().Get(r.Context(), r.who.TenantID, a)
		if err != nil || string(g.CoreMemory) != `{"blocks":[{"label":"human","max_tokens":100}],"enabled":true}` || g.VersionNo != "2" {
			r.Errorf("the agent has %s, version %s, %v", g.CoreMemory, g.VersionNo, err)
		}
		// A second time the agent stays as it is.
		if _, err := r.PutBlock(r.Context(), r.who, a, "human", "", 1000); err != nil {
			r.Fatal(err)
		}
		if g, _ := r.Agents.Store().Get(r.Context(), r.who.TenantID, a); g.VersionNo != "2" {
			r.Errorf("version %s", g.VersionNo)
		}
		for name, want := range map[string]string{"bad label": "label", "": "label", "x": "content"} {
			_, err := r.PutBlock(r.Context(), r.who, a, name, "five and a bit of a text", 5)
			if f := fault.From(err); f == nil || !slices.ContainsFunc(f.Fields, func(f fault.Field) bool { return f.Field == want }) {
				r.Errorf("%q: %v", name, err)
			}
		}
		for i := range 9 {
			if _, err := r.PutBlock(r.Context(), r.who, a, fmt.Sprint("label", i), "x", 10); err != nil {
				r.Fatal(err)
			}
		}
		if _, err := r.PutBlock(r.Context(), r.who, a, "eleventh", "x", 10); fault.From(err) == nil || fault.From(err).Code != "COUNT_LIMIT_REACHED" {
			r.Errorf("the eleventh: %v", err)
		}
		if _, err := r.PutBlock(r.Context(), r.who, a, "label3", "y", 10); err != nil {
			r.Errorf("one of the ten: %v", err)
		}
		if _, err := r.PutBlock(r.Context(), r.who, ident.New(), "x", "x", 10); !fault.Is(err, fault.NotFound) {
			r.Errorf("an unknown agent: %v", err)
		}
	})
}

func TestDeclaredBlocks(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(``)
		_, err := r.Agents.Store().Update(r.Context(), r.who, a, func(_ txn.Tx, g *agent.Agent) error {
			g.CoreMemory = []byte(`{"enabled":true,"blocks":[{"label":"persona","initial_content":"Kind."},{"label":"no good"},7,{"label":"persona"}]}`)
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
		enabled, blocks, err := r.Blocks(r.Context(), r.who.TenantID, a)
		if err != nil || !enabled || len(blocks) != 1 || blocks[0].Content != "Kind." || blocks[0].MaxTokens != 500 || blocks[0].UpdatedAt != nil || !ident.Valid(blocks[0].BlockID) {
			r.Errorf("%v %+v %v", enabled, blocks, err)
		}
		put, err := r.PutBlock(r.Context(), r.who, a, "persona", "Stern.", 10)
		if err != nil || put.BlockID != blocks[0].BlockID {
			r.Errorf("%+v, %v", put, err)
		}
	})
}

func TestForget(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(`{}`)
		r.add(a, memory.Draft{Content: "tea"})
		if _, err := r.PutBlock(r.Context(), r.who, a, "x", "x", 10); err != nil {
			r.Fatal(err)
		}
		if err := r.Forget(r.Context(), r.who.TenantID, a); err != nil {
			r.Fatal(err)
		}
		blocks, err := r.Store.ListBlocks(r.Context(), r.who.TenantID, a)
		if len(r.all(a)) != 0 || len(r.find(a, memory.Asked{Text: "tea"})) != 0 || len(blocks) != 0 || err != nil {
			r.Error("something is remembered")
		}
	})
}

func TestTools(t *testing.T) {
	each(t, func(r *rig) {
		a := r.agent(`{}`)
		registry, err := tool.NewRegistry(tool.Limits{}, r.Tools()...)
		if err != nil {
			r.Fatal(err)
		}
		set, _ := registry.Select(registry.Names())
		call := func(id, name, arguments string) tool.Result {
			got, err := set.Call(r.Context(), tool.Call{TenantID: r.who.TenantID, AgentID: a, RunID: "run", ID: id, Name: name, Arguments: arguments})
			if err != nil || got.Cause != nil {
				r.Errorf("%s: %v, %v", arguments, err, got.Cause)
			}
			return got
		}
		save := `{"content":"The user likes tea","type":"semantic","tags":["a"]}`
		first, again := call("1\x00", "memory_save", save), call("1\x00", "memory_save", save)
		if first.Failed || first.Output != again.Output || len(r.all(a)) != 1 {
			r.Errorf("%+v, %+v, %d entries", first, again, len(r.all(a)))
		}
		if e := r.all(a)[0]; e.SourceRunID != "run" || e.Type != memory.Semantic {
			r.Errorf("%+v", e)
		}
		// The same call id with other arguments is another call.
		if call("1\x00", "memory_save", `{"content":"and milk"}`); len(r.all(a)) != 2 {
			r.Errorf("%d entries", len(r.all(a)))
		}
		found := call("2", "memory_search", `{"query":"tea"}`)
		if !strings.Contains(found.Output, `"content":"The user likes tea"`) || strings.Contains(found.Output, "milk") {
			r.Errorf("%+v", found)
		}
		if got := call("3", "memory_search", `{"query":"submarine"}`); got.Output != `{"memories":[]}` {
			r.Errorf("%+v", got)
		}
		for _, bad := range []string{`{}`, `{"content":""}`, `{"content":"x","type":"dream"}`, `{"content":"x","more":1}`, `{"content":" "}`} {
			if got := call("4", "memory_save", bad); !got.Failed {
				r.Errorf("%s is saved", bad)
			}
		}
		for name, repeatable := range map[string]bool{"memory_save": true, "memory_search": true} {
			if got, ok := set.Lookup(name); !ok || got.Repeatable() != repeatable {
				r.Errorf("%s: %v", name, got)
			}
		}
	})
}

func TestAnotherModelFindsByMeaning(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newRig(t, db, true)
		a := r.agent(`{}`)
		r.add(a, memory.Draft{Content: "strawberry marmalade"}, memory.Draft{Content: "something else"})
		if got := r.find(a, memory.Asked{Text: "berries"}); len(got) != 0 {
			t.Errorf("before it is embedded: %v", contents(got))
		}
		r.embed()
		if got := r.find(a, memory.Asked{Text: "berries"}); len(got) == 0 || got[0].Content != "strawberry marmalade" {
			t.Errorf("after it is embedded: %v", contents(got))
		}
	})
}
