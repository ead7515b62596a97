package limits

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/content/doctext/doctexttest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// pages are web pages of about a size that are small to send and were, or could be,
// large or slow to read.
func pages(size int) map[string]string {
	fill := func(begin, item, end string) string {
		return begin + strings.Repeat(item, max(0, size-len(begin)-len(end))/len(item)) + end
	}
	side := size / 13
	fonts := "<div>"
	for i := range 400 {
		fonts += fmt.Sprintf("<font a%d>", i)
	}
	all := map[string]string{
		"wide_first_row":     "<table><tr>" + strings.Repeat("<td>", side) + strings.Repeat("<tr><td>b", side),
		"wide_last_row":      "<table>" + strings.Repeat("<tr><td>b<td>c", side) + "<tr>" + strings.Repeat("<td>", side),
		"spans":              fill("<table>", "<tr><td colspan=1000 rowspan=65534>x<td>y", ""),
		"nested_tables":      fill("", "<table><tr><td>x<td>", ""),
		"open_formatting":    fill(fonts+"</div>", "<div>x</div>", ""),
		"misnested":          fill("", "<a><b><i><font color=1><p>x", ""),
		"deep_quotes":        fill(strings.Repeat("<blockquote>", 400), "x<br>", ""),
		"deep_lists":         fill(strings.Repeat("<ul><li>", 300), "x<br>", ""),
		"deep_mixed":         fill(strings.Repeat("<ol><li><blockquote>", 200), "<p>x", ""),
		"deep_divs":          fill("", "<div>", "x"),
		"deep_code":          fill(strings.Repeat("<blockquote>", 300)+"<pre>", "\n|", ""),
		"text_in_pieces":     fill("", "a</x>", ""),
		"attributes":         fill("<p ", "a ", ">x"),
		"long_tag":           fill("<p a='", "x", "'>y"),
		"entities":           fill("", "&nGt;", ""),
		"bad_entities":       fill("", "&a", ""),
		"links":              fill("<base href='https://example.com/"+strings.Repeat("a/", 500)+"'>", "<a href=x>y</a>", ""),
		"open_links":         fill("", "<a href=x>", ""),
		"comments":           fill("", "<!--x", ""),
		"open_comments":      fill("", "<!", ""),
		"tags":               fill("", "<", ""),
		"title":              fill("<title>", "x ", ""),
		"backticks":          fill("<pre>", "` ", ""),
		"code_of_backticks":  fill("", "<code>``</code>", ""),
		"svg":                fill("<svg>", "<g><title>x</title>", "<p>y"),
		"scripts":            fill("<script>", "<!--<script>", ""),
		"many_items":         fill("<ol start=99999998>", "<li>x", ""),
		"definitions":        fill("<dl>", "<dt>x<dd>y", ""),
		"images":             fill("", "<img src=x alt=y>", ""),
		"marks_without_text": fill("", "<b></b>", "x"),
		"nul":                fill("", "\x00", "x"),
	}
	return all
}

// tables are documents in CSV of the same kind.
func tables(size int) map[string]string {
	return map[string]string{
		"long_name":    strings.Repeat("A", size/2) + "\n" + strings.Repeat("x\n", size/4),
		"wide":         strings.Repeat("name,", size/10) + "\n" + strings.Repeat(strings.Repeat(",", 500)+"\n", size/1000),
		"one_record":   strings.Repeat(",", size),
		"no_records":   strings.Repeat("\n", size) + "x",
		"open_quote":   "a,b\n\"" + strings.Repeat(",\n", size/2),
		"quoted_lines": "a\n" + strings.Repeat("\"\n\",", size/4),
		"quotes":       "a\n" + strings.Repeat(`""`, size/2),
	}
}

// packed are documents that are read in processes of their own; of a size before they
// are packed.
func packed(t *testing.T, size int) map[string]string {
	t.Helper()
	fill := func(text string) string { return strings.Repeat(text, size/len(text)) }
	whole := func(file []byte) string { return string(file) }
	return map[string]string{
		"shown.pdf":    whole(doctexttest.PDFOf("BT /F1 10 Tf " + fill("(a) Tj ") + "ET")),
		"operands.pdf": whole(doctexttest.PDFOf("BT /F1 10 Tf " + fill("1 "))),
		"nested.pdf":   whole(doctexttest.Assemble("/Root 1 0 R/X "+strings.Repeat("[", min(size, 4<<20)), "<</Type/Catalog/Pages 2 0 R>>")),
		"circle.pdf":   whole(doctexttest.Assemble("/Root 1 0 R", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Count 1/Kids[2 0 R]>>")),
		"text.docx":    whole(doctexttest.DOCX(t, "<w:p><w:r><w:t>"+fill("a")+"</w:t></w:r></w:p>")),
		"nested.docx":  whole(doctexttest.DOCX(t, fill("<w:tbl><w:tr><w:tc>"))),
		"open.docx":    whole(doctexttest.DOCX(t, fill("<w:p>"))),
		"entities.docx": whole(doctexttest.Zip(t, map[string]string{
			"word/document.xml": `<!DOCTYPE x [<!ENTITY a "aaaaaaaa">` + fill(`<!ENTITY b "&a;&a;&a;&a;">`) + `]><w:document>&b;</w:document>`,
		})),
	}
}

// searches are regular expressions that take much time for each byte.
var searches = map[string]string{
	"optional":     strings.Repeat("a{0,1000}", 20) + "b",
	"more":         strings.Repeat("a{0,1000}", 55) + "b",
	"in_budget":    strings.Repeat("a?", 240) + "b",
	"nested":       "((((a{1,10}){1,10}){1,10}){1,10})b",
	"alternatives": "(" + strings.Repeat("a|", 240) + "a)*b",
	"classes":      `(\pL|\w|.){1,400}\d`,
	"captures":     strings.Repeat("(", 240) + "a" + strings.Repeat(")", 240),
	"starts":       "(?:a*)*(?:a*)*(?:a*)*b",
}

// attack is a server under attack, by one company.
type attack struct {
	*apptest.Server
	within               time.Duration // that a request may take
	base, agent, fetcher string
	workspace            string
}

func prepare(n *apptest.Server, within time.Duration) *attack {
	return &attack{
		Server: n, within: within,
		base:      apptest.KnowledgeBasesPath + "/" + n.Expect(201, "POST", apptest.KnowledgeBasesPath, object{"name": "x", "chunk_size": 65536})["id"].(string),
		agent:     n.CreateAgent(object{"model": apptest.EchoModel}),
		fetcher:   n.CreateAgent(object{"built_in_tools": []string{"http_fetch"}}),
		workspace: n.Expect(201, "POST", "/api/v1/workspaces", object{"name": "w"})["workspace_id"].(string),
	}
}

// send sends one request, and fails unless it is answered in time with one of the
// statuses, or with 503 and when to retry.
func (a *attack) send(name, method, path string, body any, statuses ...int) apptest.Reply {
	began := time.Now()
	r := a.Do(method, path, body)
	if took := time.Since(began); took > a.within {
		a.T.Errorf("%s took %v", name, took)
	}
	if !slices.Contains(statuses, r.StatusCode) && (r.StatusCode != 503 || r.Header.Get("Retry-After") == "") {
		a.T.Errorf("%s: %d %.300s, want %v", name, r.StatusCode, r.Body, statuses)
	}
	return r
}

// document sends a document for a knowledge base and for a memory.
func (a *attack) document(name, filename, content string) {
	body := object{"filename": filename, "content": strings.ToValidUTF8(content, "")}
	a.send(name+" as knowledge", "POST", a.base+"/documents", body, 201, 413, 422)
	a.send(name+" as memory", "POST", "/api/v1/agents/"+a.agent+"/memory/ingest", body, 200, 201, 413, 422)
}

// file uploads a file and adds it to a knowledge base.
func (a *attack) file(name, filename, content string) {
	r := a.Expect(201, "POST", "/api/v1/files", object{
		"data": base64.StdEncoding.EncodeToString([]byte(content)), "mime_type": "application/octet-stream", "filename": filename,
	})
	a.send(name+" as a file", "POST", a.base+"/documents", object{"file_id": r["file_id"]}, 201, 413, 422)
}

// fetch has an agent read a page.
func (a *attack) fetch(name, url string) {
	began := time.Now()
	r := a.WaitRun(a.StartRun(a.fetcher, url, nil))
	if took := time.Since(began); r["status"] != "completed" || took > a.within+5*time.Second { // the run, beside the tool
		a.T.Errorf("%s: the run is %v after %v: %v", name, r["status"], took, r["error"])
	}
}

// search searches a file with every expression.
func (a *attack) search(size int) {
	path := "/api/v1/workspaces/" + a.workspace
	for name, text := range map[string]string{"a.txt": strings.Repeat("a", size), "b.txt": strings.Repeat(strings.Repeat("a", 1000)+"\n", size/1000)} {
		if r := a.Do("PUT", path+"/files?path="+name, text, "Content-Type", "text/plain"); r.StatusCode > 201 {
			a.T.Fatalf("%d %s", r.StatusCode, r.Body)
		}
	}
	for name, expression := range searches {
		r := a.send("search for "+name, "GET", path+"/search?regex=true&q="+queryEscape(expression), nil, 200, 400)
		if r.StatusCode == 400 && !strings.Contains(string(r.Body), "query parameter q") {
			a.T.Errorf("%s: the refusal names no parameter: %s", name, r.Body)
		}
	}
	a.send("search for a glob", "GET", path+"/search?q=x&glob="+strings.Repeat("*%3F", 250), nil, 200, 400)
}

func queryEscape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "%%%02X", text[i])
	}
	return b.String()
}

// check has guardrails check a text for which each match reads the rest.
func (a *attack) check(size int) {
	rule := a.Expect(201, "POST", "/api/v1/guardrails", object{
		"name": "slow", "kind": "regex", "stage": "input", "action": "redact", "config": object{"pattern": "(?s)a.*z|a"},
	})["guardrail_id"]
	slow := a.CreateAgent(object{"model": apptest.EchoModel, "guardrails": object{"input": []object{{"guardrail_id": rule}}}})
	began := time.Now()
	if r := a.WaitRun(a.StartRun(slow, strings.Repeat("a", size), nil)); r["status"] == "running" || time.Since(began) > a.within {
		a.T.Errorf("a guardrail that reads the rest for each match: %v after %v", r["status"], time.Since(began))
	}
	for _, text := range []string{"a@", "1 ", "4111 ", "a.b@c.d ", "DE89", "sk-", "+49 ", "::", "1.2.3.", "\u00ad", "=", "ä"} {
		built := a.CreateAgent(object{"model": apptest.EchoModel, "guardrails": object{"built_in": []string{"pii", "secrets"}}})
		began := time.Now()
		if r := a.WaitRun(a.StartRun(built, strings.Repeat(text, size/len(text)), nil)); time.Since(began) > a.within {
			a.T.Errorf("the built-in guardrail and %q: %v after %v", text, r["status"], time.Since(began))
		}
	}
}

// count counts the tokens of what is expensive to split.
func (a *attack) count(size int) {
	for _, text := range []string{"a", " ", "\n", "ä", "1", "!", "\u200d", "👩", "a ", "=-", "aB"} {
		a.send(fmt.Sprintf("tokens of %q", text), "POST", "/v1/messages/count_tokens", object{
			"model": a.agent, "messages": []object{{"role": "user", "content": strings.Repeat(text, size/len(text))}},
		}, 200, 413, 422)
	}
}

// fetchesWhatIsAsked is a model that reads the address in the user's message.
func fetchesWhatIsAsked(r modeltest.Request) modeltest.Answer {
	chat := r.Chat()
	if result := chat.Last(model.Tool); result != "" {
		return modeltest.Answer{Text: "done"}
	}
	arguments, err := json.Marshal(map[string]string{"url": chat.Last(model.User)})
	if err != nil {
		return modeltest.Answer{Text: err.Error()}
	}
	return modeltest.Answer{ToolCalls: []model.ToolCall{{ID: "call_1", Name: "http_fetch", Arguments: string(arguments)}}}
}

// serve serves pages by their names.
func serve(t *testing.T, pages map[string]string) string {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, pages[strings.TrimPrefix(r.URL.Path, "/")])
	}))
	t.Cleanup(site.Close)
	return site.URL
}

// Every kind of content that took the program down, and its relatives, is answered.
// The load test below sends more of it, and measures.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	const size = 24 << 10
	hostile := pages(size)
	site := serve(t, hostile)
	n := apptest.Start(t, modeltest.New(t, modeltest.Respond(fetchesWhatIsAsked)), func(c *config.Config) {
		c.Security.EgressAllow = strings.TrimPrefix(site, "http://")
	})
	a := prepare(n, time.Minute) // this machine may be busy with other tests
	for name, page := range hostile {
		a.document(name, "x.html", page)
	}
	for name, table := range tables(size) {
		a.document(name, "x.csv", table)
	}
	for name, file := range packed(t, size) {
		a.file(name, name, file)
	}
	for _, name := range []string{"wide_first_row", "open_formatting", "deep_quotes"} {
		a.fetch(name, site+"/"+name)
	}
	a.search(size)
	a.check(size)
	a.count(size)
}

// prober asks for the health of a process until it is stopped, and keeps the longest time
// that an answer took.
type prober struct {
	worst atomic.Int64
	stop  func()
}

func probe(p *apptest.Process) *prober {
	ctx, cancel := context.WithCancel(p.T.Context())
	probed, ended := new(prober), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			began := time.Now()
			resp, err := apptest.HTTPClient.Get(p.URL + "/health")
			if err != nil {
				p.T.Errorf("health: %v", err)
				return
			}
			resp.Body.Close()
			probed.worst.Store(max(probed.worst.Load(), int64(time.Since(began))))
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	probed.stop = func() { cancel(); <-ended }
	return probed
}

// Hostile content of the largest sizes is answered within 10 seconds each, four requests
// at a time, while the process stays below 1 GiB and answers others within a second.
func TestHostileContentIsBounded(t *testing.T) { // alone, because it measures time and memory
	if os.Getenv("AGENTD_TEST_BURDEN") == "" {
		t.Skip("burdens the whole machine: set AGENTD_TEST_BURDEN")
	}
	const size = 2 << 20
	hostile := pages(size)
	site := serve(t, hostile)
	p := apptest.BuildProcess(t, modeltest.New(t, modeltest.Respond(fetchesWhatIsAsked)))
	p.Env = append(p.Env, "AGENTD_EGRESS_ALLOW="+strings.TrimPrefix(site, "http://"))
	p.Start()
	a := prepare(p.Server, 10*time.Second)
	probed := probe(p)
	round := func(name string, all map[string]string, send func(name, content string)) {
		t.Helper()
		began, places := time.Now(), make(chan struct{}, 4)
		var wg sync.WaitGroup
		for name, content := range all {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				send(name, content)
			})
		}
		wg.Wait()
		checkResponsive(p, fmt.Sprintf("%s, in %v", name, time.Since(began).Round(time.Millisecond)))
	}
	round("pages", hostile, func(name, _ string) { a.fetch(name, site+"/"+name) })
	round("documents in HTML", hostile, func(name, page string) { a.document(name, "x.html", page) })
	round("documents in CSV", tables(size), func(name, table string) { a.document(name, "x.csv", table) })
	round("files in HTML", pages(4<<20), func(name, page string) { a.file(name, "x.html", page) })
	round("files in CSV", tables(4<<20), func(name, table string) { a.file(name, "x.csv", table) })
	for name, file := range packed(t, 48<<20) { // one at a time, so that none waits for another
		a.file(name, name, file)
	}
	checkResponsive(p, "packed documents")
	a.search(8 << 20)
	checkResponsive(p, "searches")
	a.check(900 << 10)
	checkResponsive(p, "guardrails")
	a.count(9 << 20)
	checkResponsive(p, "counted tokens")
	probed.stop()
	t.Logf("the health was answered within %v", time.Duration(probed.worst.Load()))
	if worst := time.Duration(probed.worst.Load()); worst > time.Second {
		t.Errorf("the health was answered after %v", worst)
	}
}
