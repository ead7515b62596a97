package content

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/app/apptest"
	"agentd/internal/base/ident"
	"agentd/internal/content/doctext/doctexttest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// Knowledge bases as callers see them.
func TestKnowledgeBases(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t), apptest.Embedding)
	if got := n.Expect(200, "GET", apptest.KnowledgeBasesPath, nil); got["total"] != 0.0 || len(got["items"].([]any)) != 0 {
		t.Errorf("none yet: %v", got)
	}
	base := n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "Handbook", "embedding_model": "mine", "chunk_size": 200, "chunk_overlap": 100})
	id := base["id"].(string)
	path := apptest.KnowledgeBasesPath + "/" + id
	if base["status"] != "ready" || base["document_count"] != 0.0 || base["embedding_model"] != "mine" || base["chunk_overlap"] != 100.0 || len(base["attached_agents"].([]any)) != 0 {
		t.Errorf("made: %v", base)
	}
	// Without one, a base has the deployment's embedding model.
	plain := n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "Plain"})
	if plain["embedding_model"] != "sim-embedding" {
		t.Errorf("the embedding model is %v", plain["embedding_model"])
	}
	n.Expect(204, "DELETE", apptest.KnowledgeBasesPath+"/"+plain["id"].(string), nil)
	for _, body := range []object{{}, {"name": ""}, {"name": "x", "chunk_size": 63}, {"name": "x", "chunk_size": 65_537}, {"name": "x", "chunk_size": 100, "chunk_overlap": 51}, {"name": "x", "chunk_overlap": -1}} {
		apptest.CheckCode(t, n.Do("POST", apptest.KnowledgeBasesPath, body), 422, "VALIDATION_ERROR")
	}
	if got := n.Expect(200, "PUT", path, object{"description": "d", "chunk_size": 64}); got["name"] != "Handbook" || got["description"] != "d" || got["chunk_size"] != 200.0 {
		t.Errorf("changed: %v", got)
	}
	if got := n.Expect(200, "POST", path+"/search", object{"query": "tea"}); got["status"] != "KB_EMPTY" || got["mode"] != nil || got["count"] != 0.0 {
		t.Errorf("empty: %v", got)
	}
}

// Documents are found by their words at once, and by their meaning soon.
func TestKnowledgeDocuments(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t), apptest.Embedding)
	path := apptest.KnowledgeBasesPath + "/" + n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "Handbook", "chunk_size": 200, "chunk_overlap": 100})["id"].(string)
	added := n.Expect(201, "POST", path+"/documents", object{"content": strings.Repeat("Tea is served at five. ", 20), "filename": "tea.txt"})
	if added["status"] != "ready" || added["name"] != "tea.txt" || added["embedding_status"] != "keyword_only" || added["embedding_completion"] != "scheduled" || added["embedding_pending"] != added["chunks_created"] {
		t.Errorf("added: %v", added)
	}
	found := n.Expect(200, "POST", path+"/search", object{"query": "tea", "limit": 2})
	if found["status"] != "RESULTS_FOUND" || found["count"] != 2.0 || found["query"] != "tea" {
		t.Errorf("found: %v", found)
	}
	if hit := found["results"].([]any)[0].(object); hit["index"] != 1.0 || hit["source"] != "tea.txt" || !strings.Contains(hit["text"].(string), "served") {
		t.Errorf("hit: %v", hit)
	}
	n.Expect(201, "POST", path+"/documents", object{"content": "Strawberry marmalade"})
	embedded := func() bool {
		for _, d := range n.Expect(200, "GET", path+"/documents", nil)["documents"].([]any) {
			if d.(object)["embedding_status"] != "embedded" {
				return false
			}
		}
		return true
	}
	apptest.Eventually(t, embedded)
	if got := n.Expect(200, "POST", path+"/search", object{"query": "strawberries"}); got["mode"] != "hybrid" || got["count"] == 0.0 {
		t.Errorf("by meaning: %v", got)
	}
	got := n.Expect(200, "POST", path+"/reindex", nil)
	if got["pending"] != 0.0 || got["already_current"] != got["total_chunks"] || got["embedding_model"] != "sim-embedding" || got["embedding_dimensions"] != float64(modeltest.Dimensions) || got["documents"] != 2.0 {
		t.Errorf("reindexed: %v", got)
	}
	whole := n.Expect(200, "GET", path+"/documents", nil)
	if _, paged := whole["has_more"]; paged || whole["total"] != 2.0 {
		t.Errorf("documents: %v", whole)
	}
	first := n.Expect(200, "GET", path+"/documents?limit=1", nil)
	second := n.Expect(200, "GET", path+"/documents?limit=1&cursor="+first["cursor"].(string), nil)
	if diff := cmp.Diff(whole["documents"], append(first["documents"].([]any), second["documents"].([]any)...)); diff != "" || second["has_more"] != false {
		t.Errorf("in pages:\n%s", diff)
	}
}

// A base knows its agents, and what is removed is not found.
func TestKnowledgeBaseGoes(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	id := n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "Handbook"})["id"].(string)
	path := apptest.KnowledgeBasesPath + "/" + id
	added := n.Expect(201, "POST", path+"/documents", object{"content": "Tea is served at five."})
	n.Expect(201, "POST", path+"/documents", object{"content": "Strawberry marmalade"})
	agent := n.CreateAgent(object{"knowledge_base_id": id})
	apptest.CheckCode(t, n.Do("PATCH", "/api/v1/agents/"+agent, object{"knowledge_base_id": ident.New()}), 404, "NOT_FOUND")
	list := n.Expect(200, "GET", apptest.KnowledgeBasesPath, nil)
	if b := list["knowledge_bases"].([]any)[0].(object); list["total"] != 1.0 || b["attached_agent_count"] != 1.0 || b["document_count"] != 2.0 {
		t.Errorf("listed: %v", list)
	}
	for range 2 {
		r := n.Do("DELETE", path+"/documents/"+added["document_id"].(string), nil)
		if r.StatusCode != 204 {
			apptest.CheckCode(t, r, 404, "NOT_FOUND")
		}
	}
	if got := n.Expect(200, "POST", path+"/search", object{"query": "served"}); got["status"] != "NO_MATCHES" {
		t.Errorf("after a document was removed: %v", got)
	}
	if r := n.Do("DELETE", path, nil); r.StatusCode != 204 {
		t.Errorf("delete: %d %s", r.StatusCode, r.Body)
	}
	apptest.CheckCode(t, n.Do("GET", path, nil), 404, "NOT_FOUND")
	apptest.CheckCode(t, n.Do("POST", path+"/search", object{"query": "x"}), 404, "NOT_FOUND")
	if got := n.Expect(200, "GET", "/api/v1/agents/"+agent, nil)["knowledge_base_id"]; got != nil {
		t.Errorf("the agent still has it: %v", got)
	}
}

func TestKnowledgeRefusals(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	path := apptest.KnowledgeBasesPath + "/" + n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "x", "chunk_size": 64})["id"].(string)
	for _, c := range []struct {
		body   object
		status int
		code   string
		extra  object
	}{
		{object{}, 400, "kb_document_body_invalid", object{"reason": "missing"}},
		{object{"content": "x", "file_id": ident.New()}, 400, "kb_document_body_invalid", object{"reason": "both"}},
		{object{"content": " "}, 400, "kb_document_body_invalid", object{"reason": "empty_content"}},
		{object{"file_id": ident.New()}, 404, "NOT_FOUND", object{"resource": "file"}},
		{object{"file_id": "x"}, 422, "VALIDATION_ERROR", nil},
		{object{"file_id": storeFile(n, "a.pdf", "application/pdf", "%PDF-1.4")}, 422, "kb_text_extraction_failed", object{"filename": "a.pdf", "mime_type": "application/pdf"}},
		{object{"file_id": storeFile(n, "a.png", "image/png", "x")}, 422, "kb_text_extraction_failed", object{"filename": "a.png"}},
		{object{"content": 7}, 422, "VALIDATION_ERROR", nil},
		{object{"content": "<style>x</style>", "filename": "a.html"}, 422, "kb_text_extraction_failed", object{"filename": "a.html"}},
		{object{"content": strings.Repeat("x", 5_000_001)}, 413, "kb_document_too_large", object{"chars": 5_000_001.0, "limit": 5_000_000.0, "source": "content"}},
		{object{"content": strings.Repeat("x", 400_000)}, 413, "kb_chunk_limit", object{"limit": 5000.0, "chunk_size": 64.0, "chunk_overlap": 12.0}},
	} {
		r := n.Do("POST", path+"/documents", c.body)
		apptest.CheckCode(t, r, c.status, c.code)
		for name, want := range c.extra {
			if r.JSON[name] != want {
				t.Errorf("%s: %s is %v, not %v", c.code, name, r.JSON[name], want)
			}
		}
	}
	if got := n.Expect(200, "GET", path, nil); got["document_count"] != 0.0 || got["total_chunks"] != 0.0 {
		t.Errorf("what was refused counts: %v", got)
	}
	for _, body := range []string{`{}`, `{"query":""}`, `{"query":" "}`, `{"query":"x","limit":"y"}`} {
		apptest.CheckCode(t, n.Do("POST", path+"/search", body), 422, "VALIDATION_ERROR")
	}
	apptest.CheckCode(t, n.Do("POST", path+"/reindex", nil), 501, "embedding_unavailable")
}

// storeFile keeps a file and gives its id.
func storeFile(n *apptest.Server, name, mime, data string) string {
	n.T.Helper()
	made := n.Expect(201, "POST", "/api/v1/files", object{"data": base64.StdEncoding.EncodeToString([]byte(data)), "mime_type": mime, "filename": name})
	return made["file_id"].(string)
}

// Uploaded files are read as what they are, into a memory or a base.
func TestFilesAreKnown(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	id := storeFile(n, "hours.html", "text/html", "<table><tr><td>Open on Monday</td></tr></table><script>secret()</script>")
	base := apptest.KnowledgeBasesPath + "/" + n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "x"})["id"].(string)
	if got := n.Expect(201, "POST", base+"/documents", object{"file_id": id}); got["name"] != "hours.html" {
		t.Errorf("%v", got)
	}
	found := n.Expect(200, "POST", base+"/search", object{"query": "monday"})
	if hits := found["results"].([]any); len(hits) != 1 || strings.Contains(hits[0].(object)["text"].(string), "secret") {
		t.Errorf("%v", found)
	}
	_, path := createMemoryAgent(n, nil)
	if got := n.Expect(201, "POST", path+"/ingest", object{"file_id": id}); got["file_id"] != id || got["filename"] != "hours.html" {
		t.Errorf("%v", got)
	}
	if got := n.Expect(200, "POST", path+"/search", object{"text": "monday"}); got["total"] != 1.0 {
		t.Errorf("%v", got)
	}
	apptest.CheckCode(t, n.Do("POST", path+"/ingest", object{"file_id": storeFile(n, "x.png", "image/png", "x")}), 422, "TEXT_EXTRACTION_FAILED")
	apptest.CheckCode(t, n.Do("POST", path+"/ingest", object{"file_id": ident.New()}), 404, "NOT_FOUND")
}

// PDF and DOCX files are found by their words, in knowledge bases and in memory; what
// cannot be read is refused with its reason.
func TestKnowledgeOfPDFAndDOCX(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	path := apptest.KnowledgeBasesPath + "/" + n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "x"})["id"].(string)
	memory := "/api/v1/agents/" + n.CreateAgent(nil) + "/memory"
	const docxType = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	pdf := storeFile(n, "travel.pdf", "application/pdf", string(doctexttest.PDF("Trains are booked second class.", "Flights need approval.")))
	docx := storeFile(n, "parking.docx", docxType, string(doctexttest.DOCX(t, "<w:p><w:t>Bicycles park in the yard.</w:t></w:p>")))
	for _, c := range []struct{ file, kind, name, query, text string }{
		{pdf, "pdf", "travel.pdf", "who approves flights", "Flights need approval."},
		{docx, "docx", "parking.docx", "bicycles", "Bicycles park in the yard."},
	} {
		added := n.Expect(201, "POST", path+"/documents", object{"file_id": c.file})
		if added["name"] != c.name || added["chunks_created"] == 0.0 {
			t.Errorf("added: %v", added)
		}
		newest := n.Expect(200, "GET", path+"/documents", nil)["documents"].([]any)[0].(object)
		if newest["type"] != c.kind {
			t.Errorf("listed: %v", newest)
		}
		hit := n.Expect(200, "POST", path+"/search", object{"query": c.query})["results"].([]any)[0].(object)
		if hit["source"] != c.name || !strings.Contains(hit["text"].(string), c.text) {
			t.Errorf("found: %v", hit)
		}
		if got := n.Expect(201, "POST", memory+"/ingest", object{"file_id": c.file}); got["chunks_created"] != 1.0 {
			t.Errorf("ingested: %v", got)
		}
	}
	for name, c := range map[string]struct{ file, detail string }{
		"damaged":   {storeFile(n, "a.pdf", "application/pdf", "%PDF-1.4"), "damaged"},
		"scanned":   {storeFile(n, "b.pdf", "application/pdf", string(doctexttest.PDFOf("0 0 9 9 re f"))), "no text"},
		"encrypted": {storeFile(n, "c.docx", "application/octet-stream", "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), "encrypted"},
	} {
		r := n.Do("POST", path+"/documents", object{"file_id": c.file})
		apptest.CheckCode(t, r, 422, "kb_text_extraction_failed")
		if detail, _ := r.JSON["detail"].(string); !strings.Contains(detail, c.detail) {
			t.Errorf("%s: %s", name, r.Body)
		}
		apptest.CheckCode(t, n.Do("POST", memory+"/ingest", object{"file_id": c.file}), 422, "TEXT_EXTRACTION_FAILED")
	}
}

// Plain questions find what answers them, with a score that says how sure that is, and
// noise finds nothing, in knowledge and in memory.
func TestMinScore(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	base := "/api/v1/knowledge-bases/" + n.Expect(201, "POST", "/api/v1/knowledge-bases", object{"name": "Shop"})["id"].(string)
	_, memory := createMemoryAgent(n, nil)
	for _, text := range []string{"Refunds are issued within 14 days.", "Orders leave the warehouse on the next working day."} {
		n.Expect(201, "POST", base+"/documents", object{"content": text})
		n.Expect(201, "POST", memory, object{"content": text})
	}
	find := func(path, list, query string, more object) []any {
		t.Helper()
		body := object{"query": query}
		maps.Copy(body, more)
		return n.Expect(200, "POST", path+"/search", body)[list].([]any)
	}
	for path, list := range map[string]string{base: "results", memory: "memories"} {
		for query, c := range map[string]struct {
			more object
			want int
		}{
			"how do I get a refund":                 {nil, 1},
			"the of and":                            {nil, 0},
			"submarine whale lighthouse refund":     {nil, 0},
			"submarine whale lighthouse refund all": {object{"min_score": 0}, 1},
			"refund policy":                         {object{"min_score": 0.9}, 0},
		} {
			got := find(path, list, query, c.more)
			if len(got) != c.want {
				t.Errorf("%s, %q: %v", list, query, got)
				continue
			}
			if c.want == 1 {
				if score := got[0].(object)["score"].(float64); score <= 0 || score >= 1 {
					t.Errorf("%s, %q scores %v", list, query, score)
				}
			}
		}
		for _, bad := range []any{-0.1, 1.5, "much"} {
			apptest.CheckCode(t, n.Do("POST", path+"/search", object{"query": "refund", "min_score": bad}), 422, "VALIDATION_ERROR")
		}
	}
}

// A chunk is found by the headings that it stands under and by its document's title too,
// and says which they are.
func TestFoundByHeadings(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, nil)
	base := "/api/v1/knowledge-bases/" + n.Expect(201, "POST", "/api/v1/knowledge-bases", object{"name": "Handbook", "chunk_size": 100, "chunk_overlap": 0})["id"].(string)
	n.Expect(201, "POST", base+"/documents", object{"filename": "vehicle-policy.md", "content": "# Parking\n\n" +
		"## Bicycles\n\nThey are left in the basement, next to the lift, and never on the pavement.\n\n" +
		"## Cars\n\nSpaces are given out by the reception on the ground floor, for a week at a time."})
	for query, want := range map[string]string{
		"Where do bicycles go?": "[Parking Bicycles]", "parking cars": "[Parking Cars]", "What does the vehicle policy say of the basement?": "[Parking Bicycles]",
	} {
		found := n.Expect(200, "POST", base+"/search", object{"query": query})["results"].([]any)
		if len(found) == 0 || fmt.Sprint(found[0].(object)["headings"]) != want {
			t.Errorf("%q: %v", query, found)
		}
	}
}

// A result says where its text stands, with what is around it on request, and a run
// whose tool found it cites it.
func TestQuotations(t *testing.T) {
	t.Parallel()
	search := model.ToolCall{ID: "s", Name: "knowledge_search", Arguments: `{"query":"flights approval","neighbours":1}`}
	asks, says := modeltest.Answer{ToolCalls: []model.ToolCall{search}}, modeltest.Answer{Text: "Page two says so."}
	sim := modeltest.New(t, modeltest.Script(asks, says, asks, says))
	n := apptest.Start(t, sim)
	id := n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "Handbook", "chunk_size": 64, "chunk_overlap": 0})["id"].(string)
	base := apptest.KnowledgeBasesPath + "/" + id
	travel := doctexttest.PDF("Trains are booked in second class by everybody.", "Flights need the approval of the head office.", "Hotels are paid by card, and never in cash.")
	document := n.Expect(201, "POST", base+"/documents", object{"file_id": storeFile(n, "travel.pdf", "application/pdf", string(travel))})["document_id"]
	n.Expect(201, "POST", base+"/documents", object{"file_id": storeFile(n, "copy.pdf", "application/pdf", string(travel))})
	n.Expect(201, "POST", base+"/documents", object{"content": "Größe zählt. Bicycles need no approval at all.", "filename": "bicycles.txt"})

	find := func(query string, more object) object {
		body := object{"query": query}
		maps.Copy(body, more)
		found := n.Expect(200, "POST", base+"/search", body)["results"].([]any)
		if len(found) == 0 {
			t.Fatalf("%q finds nothing", query)
		}
		for _, other := range found[1:] {
			if other.(object)["text"] == found[0].(object)["text"] {
				t.Errorf("%q finds a text twice: %v", query, found)
			}
		}
		return found[0].(object)
	}
	flights := find("flights", object{"neighbours": 1})
	want := object{
		"text": "Flights need the approval of the head office.", "page": 2.0, "start": 50.0, "knowledge_base_id": id,
		"before": "Trains are booked in second class by everybody.", "after": "Hotels are paid by card, and never in cash.",
	}
	for field, value := range want {
		if flights[field] != value {
			t.Errorf("%s: %v", field, flights[field])
		}
	}
	for _, field := range []string{"before", "after"} {
		if got, there := find("flights", nil)[field]; there {
			t.Errorf("%s without neighbours: %v", field, got)
		}
	}
	if got := find("bicycles", nil); got["start"] != 0.0 || got["page"] != nil {
		t.Errorf("of a document without pages: %v", got)
	}
	for _, bad := range []any{-1, 4, "one"} {
		apptest.CheckCode(t, n.Do("POST", base+"/search", object{"query": "flights", "neighbours": bad}), 422, "VALIDATION_ERROR")
	}

	agent := n.CreateAgent(object{"built_in_tools": []string{"knowledge_search"}, "knowledge_base_ids": []string{id}})
	r := n.WaitRun(n.StartRun(agent, "Who approves flights?", nil))
	cited, _ := r["output"].(object)["citations"].([]any)
	if len(cited) == 0 {
		t.Fatalf("nothing is cited: %v", r["output"])
	}
	first := cited[0].(object)
	if first["quote"] != want["text"] || first["page"] != 2.0 || first["start"] != 50.0 || first["source"] != flights["source"] {
		t.Errorf("cited: %v", first)
	}
	if d := first["document_id"]; d != document && first["source"] == "travel.pdf" {
		t.Errorf("cited is %v, not %v", d, document)
	}
	hidden := n.CreateGuardrail(object{
		"kind": "regex", "stage": "tool", "action": "redact", "config": object{"pattern": "head office", "part": "result", "replacement": "#"},
	})
	watched := n.CreateAgent(object{
		"built_in_tools": []string{"knowledge_search"}, "knowledge_base_ids": []string{id},
		"guardrails": object{"tool": apptest.GuardrailRef(hidden)},
	})
	if r := n.WaitRun(n.StartRun(watched, "Who approves flights?", nil)); strings.Contains(fmt.Sprint(r["output"]), "head office") {
		t.Errorf("cited is what a guardrail removed: %v", r["output"])
	}
	if !strings.Contains(sim.Requests()[1].Chat().Messages[len(sim.Requests()[1].Chat().Messages)-1].Text(), `"before":"Trains`) {
		t.Error("the model gets no neighbours")
	}
}
