package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/content/knowledge"
	"agentd/internal/content/knowledge/knowledgesql"
	"agentd/internal/content/retrieval"
	"agentd/internal/content/retrieval/retrievalsql"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type embedder struct{ fail error }

func (*embedder) Model() string { return "e" }

func (e *embedder) Embed(_ context.Context, texts []string) (out model.Embedded, err error) {
	for _, t := range texts {
		out.Vectors = append(out.Vectors, modeltest.Vector(t))
	}
	return out, e.fail
}

type files map[string]retrieval.File

func (f files) Read(_ context.Context, _, id string) (retrieval.File, error) {
	file, ok := f[id]
	if !ok {
		return file, fault.NewNotFound("file")
	}
	return file, nil
}

type rig struct {
	testing.TB
	*knowledge.Service
	queue *worksql.Queue
	who   authz.Caller
	base  string
}

func newRig(t testing.TB, db *sqldb.DB, e model.Embedder) *rig {
	c := clock.NewFake()
	queue := worksql.New(db, c, nil)
	deps := resource.Deps{
		Backend: resourcesql.New(db), Writer: db, Outbox: resource.NoOutbox{}, Cursors: page.NewCursors([]byte(strings.Repeat("k", 32))), Clock: c,
	}
	search := retrieval.New(retrieval.Config{
		Store: retrievalsql.New(db), Writer: db, Queue: queue, Embedder: e, Clock: c, Log: slog.New(slog.DiscardHandler), Lease: time.Minute,
	})
	s := knowledge.New(deps, knowledge.Service{
		Store: knowledgesql.New(db), Search: search, Writer: db, Cursors: deps.Cursors, Clock: c, Log: slog.New(slog.DiscardHandler),
	})
	s.Agents = agent.New(deps, agent.Options{KnowledgeBase: s.CheckTx})
	r := &rig{TB: t, Service: s, queue: queue, who: authz.Caller{TenantID: ident.New(), UserID: "u"}}
	r.base = r.call("createKnowledgeBase", `{"name":"Base","chunk_size":100,"chunk_overlap":0}`).(*knowledge.Base).ID
	return r
}

func each(t *testing.T, test func(r *rig)) {
	t.Helper()
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(newRig(t, db, nil)) })
}

func (r *rig) add(u knowledge.Upload) (*knowledge.Added, error) {
	return r.Add(r.Context(), r.who, r.base, u)
}

func text(content, name string) knowledge.Upload {
	return knowledge.Upload{Content: &content, Filename: name}
}

func file(id string) knowledge.Upload { return knowledge.Upload{FileID: &id} }

func (r *rig) embed() {
	r.Helper()
	held, err := r.queue.Claim(r.Context(), retrieval.WorkKind, "node", 10, time.Minute)
	if err != nil {
		r.Fatal(err)
	}
	for _, l := range held {
		if err := r.Search.Handle(r.Context(), l); err != nil {
			r.Fatal(err)
		}
	}
}

func TestDocuments(t *testing.T) {
	each(t, func(r *rig) {
		empty, err := r.Find(r.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "tea", Limit: 5})
		want := &knowledge.Answer{Status: "KB_EMPTY", Query: "tea", Results: []knowledge.Result{}}
		if diff := cmp.Diff(want, empty); err != nil || diff != "" {
			r.Errorf("%v (-want +got):\n%s", err, diff)
		}
		var long strings.Builder
		for i := range 20 {
			fmt.Fprintf(&long, "Sentence number %d is about tea. ", i)
		}
		first, err := r.add(text(long.String(), "tea.txt"))
		if err != nil || first.ChunksCreated < 5 || first.EmbeddingStatus != "keyword_only" || first.EmbeddingPending != 0 || first.Status != "ready" {
			r.Fatalf("%+v, %v", first, err)
		}
		if _, err := r.add(text("<h1>Boats</h1><p>They float.</p>", "boats.html")); err != nil {
			r.Fatal(err)
		}
		docs, err := r.Documents(r.Context(), r.who.TenantID, r.base, "", 0)
		if err != nil || len(docs) != 2 || docs[0].Name != "boats.html" || docs[0].Type != "html" || docs[0].ChunkCount != 1 || *docs[0].ChunkPreview != "# Boats\n\nThey float." ||
			docs[1].SizeBytes != int64(long.Len()) || docs[1].EmbeddingCompletion != "" {
			r.Errorf("%+v, %v", docs, err)
		}
		got, err := r.Find(r.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "number 7", Limit: 2, MinScore: new(float64)})
		if err != nil || got.Status != "RESULTS_FOUND" || got.Count != 2 || *got.Mode != retrieval.Keyword ||
			!strings.Contains(got.Results[0].Text, "number 7 ") || got.Results[0].Source != "tea.txt" || got.Results[1].Index != 2 {
			r.Errorf("%+v, %v", got, err)
		}
		if got, err := r.Find(r.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "submarine", Limit: 2}); err != nil || got.Status != "NO_MATCHES" || got.Mode == nil {
			r.Errorf("%+v, %v", got, err)
		}
		if _, err := r.Find(r.Context(), ident.New(), r.base, knowledge.Question{Text: "tea", Limit: 2}); !fault.Is(err, fault.NotFound) {
			r.Errorf("another tenant: %v", err)
		}
	})
}

func TestRemovedDocuments(t *testing.T) {
	each(t, func(r *rig) {
		first, err := r.add(text("Tea is served at five.", "tea.txt"))
		if err != nil {
			r.Fatal(err)
		}
		second, err := r.add(text("Boats float.", "boats.txt"))
		if err != nil {
			r.Fatal(err)
		}
		if err := r.Remove(r.Context(), r.who, r.base, first.DocumentID); err != nil {
			r.Fatal(err)
		}
		if got, err := r.Find(r.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "tea", Limit: 2}); err != nil || got.Count != 0 {
			r.Errorf("removed, but %+v, %v", got, err)
		}
		b := r.call("getKnowledgeBase", "").(*knowledge.Base)
		if b.DocumentCount != 1 || b.TotalChunks != 1 {
			r.Errorf("%+v", b)
		}
		for _, err := range []error{
			r.Remove(r.Context(), r.who, r.base, first.DocumentID), r.Remove(r.Context(), r.who, ident.New(), second.DocumentID),
			r.Remove(r.Context(), authz.Caller{TenantID: ident.New()}, r.base, second.DocumentID),
		} {
			if !fault.Is(err, fault.NotFound) {
				r.Errorf("removing what is not there: %v", err)
			}
		}
	})
}

func TestRefusedDocuments(t *testing.T) {
	each(t, func(r *rig) {
		r.Files = files{
			"pdf": {Name: "a.pdf", MimeType: "application/pdf", Data: []byte("%PDF")}, "latin": {Name: "a.txt", Data: []byte("\xe4")},
			"csv": {Name: "a.csv", MimeType: "text/csv", Data: []byte("k,v\na,b\n")}, "blank": {Name: "b.txt", Data: []byte(" ")},
		}
		blank, both := "", "x"
		for name, tt := range map[string]struct {
			upload knowledge.Upload
			kind   fault.Kind
			code   string
			extra  map[string]any
		}{
			"missing":  {knowledge.Upload{}, fault.Malformed, "kb_document_body_invalid", map[string]any{"reason": "missing"}},
			"no_file":  {knowledge.Upload{FileID: &blank}, fault.Malformed, "kb_document_body_invalid", map[string]any{"reason": "missing"}},
			"both":     {knowledge.Upload{Content: &both, FileID: &both}, fault.Malformed, "kb_document_body_invalid", map[string]any{"reason": "both"}},
			"empty":    {text(" \n", ""), fault.Malformed, "kb_document_body_invalid", map[string]any{"reason": "empty_content"}},
			"pdf":      {file("pdf"), fault.Invalid, "kb_text_extraction_failed", map[string]any{"filename": "a.pdf", "mime_type": "application/pdf"}},
			"latin":    {file("latin"), fault.Invalid, "kb_text_extraction_failed", map[string]any{"filename": "a.txt"}},
			"blank":    {file("blank"), fault.Invalid, "kb_text_extraction_failed", map[string]any{"filename": "b.txt"}},
			"no_text":  {text("<script>x</script>", "a.html"), fault.Invalid, "kb_text_extraction_failed", map[string]any{"filename": "a.html"}},
			"gone":     {file("gone"), fault.NotFound, "NOT_FOUND", map[string]any{"resource": "file", "file_id": "gone"}},
			"large":    {text(strings.Repeat("x", 5_000_001), ""), fault.TooLarge, "kb_document_too_large", map[string]any{"chars": 5_000_001, "limit": 5_000_000, "source": "content"}},
			"chunks":   {text(strings.Repeat("x", 500_001), ""), fault.TooLarge, "kb_chunk_limit", map[string]any{"limit": 5000, "chunk_size": 100, "chunk_overlap": 0}},
			"csv":      {file("csv"), 0, "", nil},
			"pdf_name": {text("a text", "notes.pdf"), 0, "", nil},
		} {
			_, err := r.add(tt.upload)
			if tt.code == "" {
				if err != nil {
					r.Errorf("%s: %v", name, err)
				}
				continue
			}
			f := fault.From(err)
			if f == nil || f.Kind != tt.kind || f.Code != tt.code {
				r.Errorf("%s: %v", name, err)
				continue
			}
			for k, v := range tt.extra {
				if f.Extra[k] != v {
					r.Errorf("%s: %s is %v, not %v", name, k, f.Extra[k], v)
				}
			}
		}
		r.Files = nil
		if _, err := r.add(file("csv")); !fault.Is(err, fault.Invalid) {
			r.Errorf("without files: %v", err)
		}
		if _, err := r.Add(r.Context(), r.who, ident.New(), text("x", "")); !fault.Is(err, fault.NotFound) {
			r.Errorf("no such base: %v", err)
		}
	})
}

// TestAgentsOfSeveralBases: the tool searches all bases of an agent, and a base that
// goes leaves it the others.
func TestAgentsOfSeveralBases(t *testing.T) {
	each(t, func(r *rig) {
		first := r.base
		second := r.call("createKnowledgeBase", `{"name":"Second","chunk_size":100,"chunk_overlap":0}`).(*knowledge.Base).ID
		third := r.call("createKnowledgeBase", `{"name":"Third","chunk_size":100,"chunk_overlap":0}`).(*knowledge.Base).ID
		for base, content := range map[string]string{first: "Tea is served at five.", second: "Tea comes from Assam.", third: "Tea is not for dogs."} {
			r.base = base
			if _, err := r.add(text(content, content[:6]+base+".txt")); err != nil {
				r.Fatal(err)
			}
		}
		create := func(only *string, ids ...string) *agent.Agent {
			g := r.Agents.Store().Blank()
			g.Name, g.KnowledgeBaseID, g.KnowledgeBaseIDs = "agent", only, ids
			if err := r.Agents.Store().Create(r.Context(), r.who, g); err != nil {
				r.Fatal(err)
			}
			return g
		}
		g, one := create(&first, first, second), create(nil, second)
		bad := r.Agents.Store().Blank()
		bad.Name, bad.KnowledgeBaseIDs = "agent", []string{first, ident.New()}
		if err := r.Agents.Store().Create(r.Context(), r.who, bad); !fault.Is(err, fault.Invalid) || fault.From(err).Fields[0].Field != "knowledge_base_ids[1]" {
			r.Errorf("a base that is not there: %v", err)
		}
		attached := func(base string) (ids []string) {
			r.base = base
			for _, a := range r.call("getKnowledgeBase", "").(*knowledge.Base).AttachedAgents {
				ids = append(ids, a.AgentID)
			}
			slices.Sort(ids)
			return ids
		}
		both := []string{g.ID, one.ID}
		slices.Sort(both)
		if diff := cmp.Diff([][]string{{g.ID}, both, nil}, [][]string{attached(first), attached(second), attached(third)}); diff != "" {
			r.Errorf("attached agents (-want +got):\n%s", diff)
		}
		registry, err := tool.NewRegistry(tool.Limits{}, r.Tools()...)
		if err != nil {
			r.Fatal(err)
		}
		set, _ := registry.Select(registry.Names())
		look := func(id, arguments string) string {
			got, err := set.Call(r.Context(), tool.Call{TenantID: r.who.TenantID, AgentID: id, RunID: "r", ID: "1", Name: "knowledge_search", Arguments: arguments})
			if err != nil || got.Failed {
				r.Errorf("%v, %+v", err, got)
			}
			return got.Output
		}
		for arguments, want := range map[string]int{`{"query":"tea"}`: 2, `{"query":"tea","limit":1}`: 1, `{"query":"coffee"}`: 0} {
			got := look(g.ID, arguments)
			if n := strings.Count(got, `"text":`); n != want || strings.Contains(got, "dogs") || !strings.Contains(got, fmt.Sprintf(`"count":%d,`, want)) {
				r.Errorf("%s finds %s", arguments, got)
			}
		}
		if got := look(one.ID, `{"query":"tea"}`); !strings.Contains(got, "Assam") || strings.Contains(got, "five") {
			r.Errorf("the agent of one base finds %s", got)
		}
		if err := r.Delete(r.Context(), r.who, first); err != nil {
			r.Fatal(err)
		}
		after, err := r.Agents.Store().Get(r.Context(), r.who.TenantID, g.ID)
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff([]string{second}, after.KnowledgeBases()); diff != "" || after.KnowledgeBaseID != nil {
			r.Errorf("the bases of the agent after one was deleted (-want +got):\n%s", diff)
		}
		if got := look(g.ID, `{"query":"tea"}`); !strings.Contains(got, "Assam") {
			r.Errorf("after one was deleted it finds %s", got)
		}
	})
}

func TestAgentsOfABase(t *testing.T) {
	each(t, func(r *rig) {
		g := r.Agents.Store().Blank()
		g.Name, g.KnowledgeBaseID = "agent", &r.base
		if err := r.Agents.Store().Create(r.Context(), r.who, g); err != nil {
			r.Fatal(err)
		}
		b := r.call("getKnowledgeBase", "").(*knowledge.Base)
		if diff := cmp.Diff([]knowledge.AttachedAgent{{AgentID: g.ID, Name: "agent"}}, b.AttachedAgents); diff != "" || b.AttachedAgentCount != 1 {
			r.Errorf("%d (-want +got):\n%s", b.AttachedAgentCount, diff)
		}
		foreign := ident.New()
		for who, id := range map[string]*string{r.who.TenantID: &foreign, ident.New(): &r.base} {
			bad := r.Agents.Store().Blank()
			bad.Name, bad.KnowledgeBaseID = "agent", id
			if err := r.Agents.Store().Create(r.Context(), authz.Caller{TenantID: who}, bad); !fault.Is(err, fault.NotFound) {
				r.Errorf("a base that is not there: %v", err)
			}
		}
		if _, err := r.add(text("Tea is served at five.", "tea.txt")); err != nil {
			r.Fatal(err)
		}
		registry, err := tool.NewRegistry(tool.Limits{}, r.Tools()...)
		if err != nil {
			r.Fatal(err)
		}
		set, _ := registry.Select(registry.Names())
		look := func() tool.Result {
			got, err := set.Call(r.Context(), tool.Call{TenantID: r.who.TenantID, AgentID: g.ID, RunID: "r", ID: "1", Name: "knowledge_search", Arguments: `{"query":"tea"}`})
			if err != nil || got.Cause != nil {
				r.Errorf("%v, %v", err, got.Cause)
			}
			return got
		}
		if got := look(); got.Failed || !strings.Contains(got.Output, `"text":"Tea is served at five."`) || !strings.Contains(got.Output, `"source":"tea.txt"`) {
			r.Errorf("%+v", got)
		}
		if err := r.Delete(r.Context(), r.who, r.base); err != nil {
			r.Fatal(err)
		}
		after, err := r.Agents.Store().Get(r.Context(), r.who.TenantID, g.ID)
		if err != nil || after.KnowledgeBaseID != nil {
			r.Errorf("%v, %v", after.KnowledgeBaseID, err)
		}
		if got := look(); !got.Failed {
			r.Errorf("%+v", got)
		}
		docs, err := r.Documents(r.Context(), r.who.TenantID, r.base, "", 0)
		if err != nil || len(docs) != 0 {
			r.Errorf("%d documents, %v", len(docs), err)
		}
		if err := r.Delete(r.Context(), r.who, r.base); !fault.Is(err, fault.NotFound) {
			r.Errorf("deleted twice: %v", err)
		}
		// An agent whose base was deleted without a notification.
		_, err = r.Agents.Store().Update(r.Context(), r.who, g.ID, func(_ txn.Tx, g *agent.Agent) error {
			g.Name = "renamed"
			return nil
		})
		if err != nil {
			r.Error(err)
		}
	})
}

func TestEmbeddingOfABase(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		e := &embedder{}
		r := newRig(t, db, e)
		added, err := r.add(text("Strawberry marmalade", "a.txt"))
		if err != nil || added.EmbeddingPending != 1 || added.EmbeddingCompletion != "scheduled" {
			t.Fatalf("%+v, %v", added, err)
		}
		status := func() string {
			docs, err := r.Documents(t.Context(), r.who.TenantID, r.base, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			return docs[0].EmbeddingStatus + docs[0].EmbeddingCompletion
		}
		if got := status(); got != "keyword_onlyin_progress" {
			t.Error(got)
		}
		r.embed()
		if got := status(); got != "embedded" {
			t.Error(got)
		}
		if got, err := r.Find(t.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "strawberries", Limit: 5}); err != nil || got.Count != 1 || *got.Mode != retrieval.Both {
			t.Errorf("%+v, %v", got, err)
		}
		got, err := r.Reindex(t.Context(), r.who.TenantID, r.base)
		want := &knowledge.Reindexed{
			Reindexed: true, TotalChunks: 1, AlreadyCurrent: 1, Documents: 1, EmbeddingModel: "e", EmbeddingDimensions: modeltest.Dimensions,
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		// A text that the model does not take is tried again.
		e.fail = &model.Error{Code: "model_error", Status: 400}
		if _, err := r.add(text("poison", "b.txt")); err != nil {
			t.Fatal(err)
		}
		r.embed()
		if got := status(); got != "keyword_only" {
			t.Error(got)
		}
		if _, err := r.Reindex(t.Context(), r.who.TenantID, r.base); fault.From(err) == nil || fault.From(err).Code != "kb_embedding_failed" {
			t.Errorf("a model that fails: %v", err)
		}
		e.fail = nil
		if got, err := r.Reindex(t.Context(), r.who.TenantID, r.base); err != nil || got.Pending != 1 || got.AlreadyCurrent != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		r.embed()
		if got := status(); got != "embedded" {
			t.Error(got)
		}
		if _, err := newRig(t, db, nil).Reindex(t.Context(), r.who.TenantID, r.base); !fault.Is(err, fault.Unsupported) {
			t.Errorf("without an embedding model: %v", err)
		}
		if _, err := r.Reindex(t.Context(), ident.New(), r.base); !fault.Is(err, fault.NotFound) {
			t.Errorf("another tenant: %v", err)
		}
		e.fail = errors.New("down")
		if got, err := r.Find(t.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "marmalade", Limit: 5}); err != nil || got.Count != 1 || *got.Mode != retrieval.Keyword {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestBasesThatAreRefused(t *testing.T) {
	each(t, func(r *rig) {
		for body, fields := range map[string][]string{
			`{"name":" ","chunk_size":64,"chunk_overlap":33}`: {"name", "chunk_overlap"},
		} {
			_, err := r.try("createKnowledgeBase", body)
			f := fault.From(err)
			if f == nil {
				r.Fatalf("%s is accepted", body)
			}
			var got []string
			for _, field := range f.Fields {
				got = append(got, field.Field)
			}
			if !slices.Equal(got, fields) {
				r.Errorf("%s: %v", body, got)
			}
		}
		b := r.call("createKnowledgeBase", `{"name":"Usual"}`).(*knowledge.Base)
		if b.ChunkSize != 1000 || b.ChunkOverlap != 200 || b.Status != "ready" {
			r.Errorf("%+v", b)
		}
		renamed := r.call("updateKnowledgeBase", `{"description":"d"}`).(*knowledge.Base)
		if renamed.Name != "Base" || renamed.Description != "d" {
			r.Errorf("%+v", renamed)
		}
		if _, err := r.try("updateKnowledgeBase", `{"name":" "}`); !fault.Is(err, fault.Invalid) {
			r.Errorf("a blank name: %v", err)
		}
	})
}

func TestSynonymsOfBases(t *testing.T) {
	each(t, func(r *rig) {
		r.base = r.call("createKnowledgeBase", `{"name":"Handbook","synonyms":["PTO, paid time off","head office, Wolpertinger"]}`).(*knowledge.Base).ID
		if _, err := r.add(text("Paid time off is requested two weeks ahead.", "rules.txt")); err != nil {
			r.Fatal(err)
		}
		found := func() int {
			got, err := r.Find(r.Context(), r.who.TenantID, r.base, knowledge.Question{Text: "How do I take PTO?", Limit: 5})
			if err != nil {
				r.Fatal(err)
			}
			return got.Count
		}
		if found() != 1 {
			r.Error("a synonym does not find")
		}
		b := r.call("updateKnowledgeBase", `{"synonyms":["head office, Wolpertinger"]}`).(*knowledge.Base)
		if diff := cmp.Diff([]string{"head office, Wolpertinger"}, b.Synonyms); diff != "" || found() != 0 {
			r.Errorf("what was replaced is found still, or %s", diff)
		}
		if b = r.call("updateKnowledgeBase", `{"synonyms":[]}`).(*knowledge.Base); len(b.Synonyms) != 0 {
			r.Errorf("%v are left", b.Synonyms)
		}
		for _, group := range []string{"alone", "a, ,", strings.Repeat("x,", 11), strings.Repeat("x", 300) + ",y"} {
			if _, err := r.try("updateKnowledgeBase", `{"synonyms":["a, b",`+strconv.Quote(group)+`]}`); !fault.Is(err, fault.Invalid) ||
				fault.From(err).Fields[0].Field != "synonyms[1]" {
				r.Errorf("%q: %v", group, err)
			}
		}
		if _, err := r.try("updateKnowledgeBase", `{"synonyms":[`+strings.Repeat(`"a, b",`, 100)+`"a, b"]}`); !fault.Is(err, fault.Invalid) {
			r.Errorf("101 groups: %v", err)
		}
	})
}
