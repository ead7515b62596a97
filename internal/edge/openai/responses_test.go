package openai

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/run"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
)

// responseStore is an in-memory store of the stage's responses.
type responseStore struct {
	refuse error
	all    []responsechain.Response
	links  []responsechain.Link
}

// Get implements Chains.
func (s *responseStore) Get(_ context.Context, of, id string) (*responsechain.Response, error) {
	for i := range s.all {
		if s.all[i].RunID == id && of == tenant {
			return &s.all[i], s.refuse
		}
	}
	return nil, fault.NewNotFound("response")
}

// All implements Chains.
func (s *responseStore) All(_ context.Context, _ string, ids []string) (found []responsechain.Response, err error) {
	for _, r := range s.all {
		if slices.Contains(ids, r.RunID) {
			found = append(found, r)
		}
	}
	return found, s.refuse
}

// Make implements Chains.
func (s *responseStore) Make(l responsechain.Link) run.Admission {
	s.links = append(s.links, l)
	return nil
}

// Delete implements Chains.
func (s *responseStore) Delete(_ context.Context, who authz.Caller, id string) error {
	if _, err := s.Get(context.Background(), who.TenantID, id); err != nil {
		return err
	}
	s.all = slices.DeleteFunc(s.all, func(r responsechain.Response) bool { return r.RunID == id })
	return nil
}

// put adds a response that is there already.
func (s *stage) put(r *run.Run, steps ...run.Step) *stage {
	asked := `{"model":"agent/` + agentID + `","instructions":"Be brief.","max_output_tokens":50,"tool_choice":"auto","reasoning":{"effort":"low"}}`
	kept := responsechain.Response{Link: responsechain.Link{RunID: runID, Asked: jsontext.Value(asked)}, Journal: run.Journal{Run: run.Record{Run: *r}, Steps: steps}}
	kept.Run.Options.Tools = []run.CallerTool{{Name: "weather", Description: "Tells the weather.", Parameters: jsontext.Value(`{"type":"object"}`)}}
	kept.Run.Metadata = schema.Object(`{"source":"responses","client_metadata":{"ticket":"7"}}`)
	s.responses.all = append(s.responses.all, kept)
	return s
}

// said is a step of the model.
func said(seq int64, out run.LLMOutput) run.Step {
	b, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	status := run.StepCompleted
	if out.FinishReason == "error" {
		status = run.StepFailed
	}
	return run.Step{Seq: seq, Type: run.StepLLM, Status: status, Output: schema.Nullable(b)}
}

const (
	responses     = "/v1/responses"
	respond       = `{"model":"` + agentID + `","input":"Hello?"}`
	respondStream = `{"model":"agent/` + agentID + `","input":"Hello?","stream":true}`
	respondAll    = `{"model":"` + agentID + `","input":[{"role":"user","content":"Hello?"}],"instructions":"Be brief.","temperature":0.5,"top_p":1,"max_output_tokens":50,
		"tools":[{"type":"function","name":"weather","parameters":{"type":"object"},"strict":true},{"type":"web_search"}],"tool_choice":{"type":"function","name":"weather"},
		"parallel_tool_calls":false,"text":{"format":{"type":"json_object"}},"reasoning":{"effort":"low"},"metadata":{"ticket":"7"},"store":false,"user":"ann","truncation":"auto"}`
)

func finished(s *stage, reason string) *stage {
	return s.says("llm.completed", `{"step_seq":1,"finish_reason":"`+reason+`"}`).says("step.completed", `{"step_seq":1,"type":"llm","status":"completed"}`)
}

func started(s *stage) *stage {
	return s.says("run.queued", `{"status":"queued"}`).says("run.started", `{}`).says("step.started", `{"step_seq":1,"type":"llm"}`)
}

// talk is a script of a run that says "It is 42." and ends.
func talk(s *stage) *stage {
	started(s).says("llm.chunk", `{"text":"It is \""}`).says("llm.chunk", `{"text":"42\".\n"}`)
	return finished(s, "stop").ends(endings["completed"])
}

// Every exchange is kept as a transcript in testdata/exchanges.
func TestResponseExchanges(t *testing.T) {
	t.Parallel()
	after := func(id string) string { return strings.Replace(respond, "{", `{"previous_response_id":"`+id+`",`, 1) }
	reading := responses + "/" + runID
	for _, tt := range []struct {
		name   string
		path   string // of a GET; empty: a POST
		body   string
		header []string
		play   func(*stage) *stage
	}{
		{name: "plain", body: respond, play: talk},
		{name: "plain-all-members", body: respondAll, play: talk},
		{name: "plain-elsewhere", body: respond, play: func(s *stage) *stage { s.distant = true; return talk(s) }},
		{name: "plain-thinking", body: respond, play: func(s *stage) *stage {
			return finished(started(s).says("llm.thinking", `{"text":"Hm."}`).says("llm.chunk", `{"text":"42"}`), "stop").ends(endings["completed-thinking"])
		}},
		{name: "plain-unheard", body: respond, play: func(s *stage) *stage { return s.ends(endings["completed"]) }},
		{name: "plain-silent", body: respond, play: func(s *stage) *stage { return finished(started(s), "stop").ends(endings["completed-silent"]) }},
		{name: "plain-tool-calls", body: respond, play: func(s *stage) *stage { return s.ends(endings["tool-calls"]) }},
		{name: "plain-failed", body: respond, play: func(s *stage) *stage { return s.ends(endings["failed"]) }},
		{name: "plain-cancelled", body: respond, play: func(s *stage) *stage { return s.ends(endings["cancelled"]) }},
		{name: "plain-rejected", body: respond, play: func(s *stage) *stage { return s.ends(endings["rejected"]) }},
		{name: "plain-incomplete", body: respond, play: func(s *stage) *stage {
			return finished(started(s).says("llm.chunk", `{"text":"It is"}`), "length").ends(endings["completed-truncated"])
		}},
		{name: "plain-without-log", body: respond, play: func(s *stage) *stage {
			s.chat.Runner.Log = brokenLog{}
			s.live = append(s.live, event.Event{Seq: 5, Name: "llm.chunk", Data: jsontext.Value(`{"text":"5"}`)})
			return s
		}},
		{name: "background", body: strings.Replace(respond, "{", `{"background":true,`, 1)},
		{name: "stream", body: respondStream, play: talk},
		{name: "stream-elsewhere", body: respondStream, play: func(s *stage) *stage { s.distant = true; return talk(s) }},
		{name: "stream-thinking", body: respondStream, play: func(s *stage) *stage {
			started(s).says("llm.thinking", `{"text":"Hm, "}`).says("llm.thinking", `{"text":"\"six\"…"}`).says("llm.chunk", `{"text":"42"}`).says("llm.thinking", `{"text":"late"}`)
			return finished(s, "stop").ends(endings["completed-thinking"])
		}},
		{name: "stream-steps", body: respondStream, play: func(s *stage) *stage {
			finished(started(s).says("llm.chunk", `{"text":"Let me see."}`), "tool_calls").says("tool.call", `{}`).says("step.started", `{}`).
				says("tool.result", `{}`).says("step.completed", `{}`).says("step.started", `{}`).says("llm.thinking", `{"text":"So."}`).says("llm.chunk", `{"text":"42."}`)
			return finished(s, "stop").ends(endings["completed"])
		}},
		{name: "stream-call", body: respondStream, play: func(s *stage) *stage {
			return finished(started(s).says("llm.chunk", `{"text":"Let me see."}`), "tool_calls").ends(endings["tool-call-with-text"])
		}},
		{name: "stream-tool-calls", body: respondStream, play: func(s *stage) *stage { return finished(started(s), "tool_calls").ends(endings["tool-calls"]) }},
		{name: "stream-silent", body: respondStream, play: func(s *stage) *stage { return finished(started(s), "stop").ends(endings["completed-silent"]) }},
		{name: "stream-unheard", body: respondStream, play: func(s *stage) *stage { return s.ends(endings["completed"]) }},
		{name: "stream-failed", body: respondStream, play: func(s *stage) *stage { return s.ends(endings["failed"]) }},
		{name: "stream-failed-late", body: respondStream, play: func(s *stage) *stage {
			return started(s).says("llm.chunk", `{"text":"It is"}`).says("step.completed", `{"status":"failed"}`).ends(endings["failed"])
		}},
		{name: "stream-cancelled", body: respondStream, play: func(s *stage) *stage {
			return started(s).says("llm.chunk", `{"text":"It is"}`).ends(endings["cancelled"])
		}},
		{name: "stream-incomplete", body: respondStream, play: func(s *stage) *stage {
			return finished(started(s).says("llm.chunk", `{"text":"It is"}`), "length").ends(endings["completed-truncated"])
		}},
		{name: "stream-resumed", body: respondStream, play: func(s *stage) *stage {
			started(s).says("llm.chunk", `{"text":"It is"}`).says("run.resumed", `{"status":"running","attempt":2}`)
			s.says("step.draft_void", `{"step_seq":1}`).says("llm.chunk", `{"text":"It is 42."}`)
			return finished(s, "stop").ends(endings["completed"])
		}},
		{name: "stream-voided", body: respondStream, play: func(s *stage) *stage {
			started(s).says("llm.thinking", `{"text":"Hm."}`).says("llm.chunk", `{"text":"It is"}`).says("step.draft_void", `{"step_seq":1}`)
			s.says("llm.thinking", `{"text":"Hm."}`).says("llm.chunk", `{"text":"I think"}`)
			return finished(s, "stop").ends(endings["completed"])
		}},
		{name: "voided", body: respond, play: func(s *stage) *stage {
			started(s).says("llm.chunk", `{"text":"It is"}`).says("step.draft_void", `{"step_seq":1}`)
			s.says("llm.thinking", `{"text":"Hm."}`).says("llm.chunk", `{"text":"I think 42."}`)
			return finished(s, "stop").ends(endings["completed"])
		}},
		{name: "stream-without-log", body: respondStream, play: func(s *stage) *stage {
			s.chat.Runner.Log = brokenLog{}
			s.says("llm.chunk", `{"text":"It "}`)
			s.live = append(s.live, event.Event{Seq: 5, Name: "llm.chunk", Data: jsontext.Value(`{"text":"5"}`)})
			return s
		}},
		{name: "stream-too-slow", body: respondStream, play: func(s *stage) *stage { return flooded(s, "tool.call") }},
		{name: "chained", body: after(runID), play: func(s *stage) *stage { return talk(s.put(endings["completed"])) }},
		{name: "chained-after-a-failure", body: after(runID), play: func(s *stage) *stage { return talk(s.put(endings["failed"])) }},
		{name: "refused-chained-in-progress", body: after(runID), play: func(s *stage) *stage { return s.put(ended(run.AwaitingApproval, nil)) }},
		{name: "refused-chained-absent", body: after(runID)},
		{name: "refused-chained-malformed", body: after("resp_123")},
		{name: "refused-chained-stream", body: strings.Replace(respondStream, "{", `{"previous_response_id":"`+runID+`",`, 1)},
		{name: "refused-key", body: respond, header: []string{"Authorization", "Bearer svc_bad"}},
		{name: "refused-scope", body: respond, header: []string{"Authorization", "Bearer " + readKey}},
		{name: "refused-json", body: `{"model":`},
		{name: "refused-fields", body: `{"model":5,"input":"","temperature":9,"stream":"yes"}`},
		{name: "refused-content-type", body: respond, header: []string{"Content-Type", "text/plain"}},
		{name: "refused-agent", body: strings.Replace(respond, "00a", "00c", 1)},
		{name: "refused-agent-name", body: strings.Replace(respond, agentID, "gpt-5", 1)},
		{name: "refused-tenant", body: respond, header: []string{"X-Active-Tenant", "01990000-0000-7000-8000-0000000000fe"}},
		{name: "refused-suspended", body: respond, play: func(s *stage) *stage {
			s.refuse = fault.WrongState("agent", "suspended", "starting a run")
			return s
		}},
		{name: "refused-limit", body: respond, play: func(s *stage) *stage { s.refuse = fault.New(fault.Limited, "", "Too many requests."); return s }},
		{name: "refused-internal", body: respondStream, play: func(s *stage) *stage { s.refuse = errors.New("pq: secret"); return s }},
		{name: "refused-internal-references", body: `{"model":"` + agentID + `","input":[{"type":"item_reference","id":"msg_` + runID + `"}]}`, play: func(s *stage) *stage {
			s.responses.refuse = errors.New("pq: secret")
			return s
		}},
		{name: "read", path: reading, play: func(s *stage) *stage {
			return s.put(endings["completed-thinking"], said(1, run.LLMOutput{Text: "Let me see.", FinishReason: "tool_calls"}), run.Step{Seq: 2, Type: run.StepTool},
				said(3, run.LLMOutput{Text: "42", Thinking: "Hm.", FinishReason: "stop"}))
		}},
		{name: "read-in-progress", path: reading, play: func(s *stage) *stage {
			return s.put(ended(run.AwaitingApproval, nil), said(1, run.LLMOutput{Text: "Let me see.", FinishReason: "tool_calls"}))
		}},
		{name: "read-queued", path: reading, play: func(s *stage) *stage { return s.put(ended(run.Queued, nil)) }},
		{name: "read-tool-calls", path: reading, play: func(s *stage) *stage {
			return s.put(endings["tool-calls"], said(1, run.LLMOutput{ToolCalls: weather, FinishReason: "tool_calls"}))
		}},
		{name: "read-failed", path: reading, play: func(s *stage) *stage {
			return s.put(endings["failed"], said(1, run.LLMOutput{Text: "It is", FinishReason: "error"}))
		}},
		{name: "read-incomplete", path: reading, play: func(s *stage) *stage {
			return s.put(endings["completed-truncated"], said(1, run.LLMOutput{Text: "It is", FinishReason: "length"}))
		}},
		{name: "read-absent", path: reading},
		{name: "read-no-id", path: responses + "/resp_123"},
		{name: "read-internal", path: reading, play: func(s *stage) *stage {
			s.responses.refuse = errors.New("pq: secret")
			return s.put(endings["completed"])
		}},
		{name: "read-no-key", path: reading, header: []string{"Authorization", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			if tt.play != nil {
				tt.play(s)
			}
			method := "POST"
			if tt.path != "" {
				method = "GET"
			} else {
				tt.path = responses
			}
			got := s.exchange(t, method, tt.path, tt.body, tt.header...)
			goldentest.Check(t, "testdata/exchanges/responses-"+tt.name+".txt", got)
			if strings.HasPrefix(tt.name, "stream") {
				wellFormed(t, string(got))
			}
			if s.reads.Load() > 0 && !s.distant {
				t.Error("the run's end was at hand and was read all the same")
			}
			if n := s.hub.Readers(); n != 0 {
				t.Errorf("%d readers are left", n)
			}
		})
	}
}

// wellFormed checks a stream's grammar: see the events' documentation.
func wellFormed(t *testing.T, transcript string) {
	t.Helper()
	_, stream, _ := strings.Cut(transcript, "\n\n")
	type item struct {
		ID string `json:"id"`
	}
	done := []jsontext.Value{}
	open, last := "", ""
	for n, frame := range strings.Split(strings.TrimSpace(stream), "\n\n") {
		name, data, _ := strings.Cut(frame, "\n")
		var e struct {
			Type     string         `json:"type"`
			Seq      *int           `json:"sequence_number"`
			Index    *int           `json:"output_index"`
			ItemID   string         `json:"item_id"`
			Item     jsontext.Value `json:"item"`
			Response struct {
				Output []jsontext.Value `json:"output"`
			} `json:"response"`
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &e); err != nil {
			t.Fatalf("%s: %v", frame, err)
		}
		var of item
		if e.Item != nil {
			if err := json.Unmarshal(e.Item, &of); err != nil {
				t.Fatal(err)
			}
		}
		switch last = e.Type; {
		case name != "event: "+e.Type || e.Seq == nil || *e.Seq != n:
			t.Errorf("event %d is %s", n, frame)
		case e.Type == eventItemAdded:
			if open != "" || *e.Index != len(done) {
				t.Errorf("an item begins within another: %s", frame)
			}
			open = of.ID
		case e.Type == eventItemDone:
			if open != of.ID || *e.Index != len(done) {
				t.Errorf("another item ends than began: %s", frame)
			}
			open, done = "", append(done, e.Item)
		case e.Index != nil && (e.ItemID != open || *e.Index != len(done)):
			t.Errorf("a piece of another item: %s", frame)
		case e.Type == "response.completed" || e.Type == "response.failed" || e.Type == "response.incomplete":
			if diff := cmp.Diff(done, e.Response.Output); diff != "" || open != "" {
				t.Errorf("the response has other items than the stream (-stream +response):\n%s", diff)
			}
		}
	}
	if !slices.Contains([]string{"response.completed", "response.failed", "response.incomplete", "error"}, last) {
		t.Errorf("the stream ends with %s", last)
	}
}

// A stream can be read again from where it was broken off, number by number.
func TestAResponsesStreamIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.chat.Runner.Log = scriptLog{script: s}
	s.put(endings["completed"])
	talk(s)
	read := func(query string) []string {
		_, frames, _ := strings.Cut(string(s.exchange(t, "GET", responses+"/"+runID+"?stream=true"+query, "")), "\n\n")
		return strings.Split(strings.TrimSpace(frames), "\n\n")
	}
	all := read("")
	if len(all) < 9 || !strings.Contains(all[0], eventCreated) || !strings.Contains(all[len(all)-1], "response.completed") {
		t.Fatalf("the stream is %v", all)
	}
	for query, from := range map[string]int{"&starting_after=3": 4, "&starting_after=": 0, "&starting_after=0": 1, "&starting_after=900": len(all)} {
		if diff := cmp.Diff(strings.Join(all[from:], "\n"), strings.Join(read(query), "\n")); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"?stream=perhaps", "?stream=true&starting_after=-4", "?stream=true&starting_after=x"} {
		if got := string(s.exchange(t, "GET", responses+"/"+runID+query, "")); !strings.Contains(got, `"code":"INVALID_QUERY"`) || !strings.Contains(got, "400") {
			t.Errorf("%s: %s", query, got)
		}
	}
}

// Text that the reader was too slow for is read from the log.
func TestAResponseHasNoHoles(t *testing.T) {
	t.Parallel()
	for _, body := range []string{respond, respondStream} {
		s := newStage(t)
		s.chat.Runner.Log = scriptLog{script: s}
		flooded(s, "llm.chunk")
		got := string(s.exchange(t, "POST", responses, body))
		if !strings.Contains(got, `"text":"`+strings.Repeat("x", 2000)+`"`) {
			t.Errorf("the answer is %s", got[max(0, len(got)-3000):])
		}
	}
}

// What is made is a run of its own source, and a response of its own link.
func TestTheResponseThatIsMade(t *testing.T) {
	t.Parallel()
	s := talk(newStage(t).put(endings["completed"]))
	body := strings.Replace(respondStream, `"Hello?"`, `[{"role":"developer","content":"Be kind."},{"role":"user","content":"Hello?"}]`, 1)
	s.exchange(t, "POST", responses, strings.Replace(body, "{", `{"instructions":"Be brief.","previous_response_id":"`+runID+`",`, 1))
	if s.made.AgentID != agentID || s.made.Options.Plain || string(s.made.Metadata) != `{"source":"responses"}` || s.made.Options.Follows != runID ||
		string(s.made.Input) != `{"message":"Hello?","instructions":"Be brief.\n\nBe kind."}` {
		t.Errorf("made %+v", s.made)
	}
	want := []responsechain.Link{{
		RunID: s.made.RunID, Previous: runID, Standing: "Be kind.", Asked: jsontext.Value(`{"model":"agent/` + agentID + `","instructions":"Be brief."}`),
	}}
	if diff := cmp.Diff(want, s.responses.links); diff != "" {
		t.Errorf("linked (-want +got):\n%s", diff)
	}
}

// However a run's text is cut into pieces, what is read back says the same.
func FuzzResponseItems(f *testing.F) {
	f.Add("It is \"42\".", "Hm…\n", uint8(3), true)
	f.Add("\xff\x00\u2028", "", uint8(0), false)
	f.Fuzz(func(t *testing.T, text, thinking string, size uint8, calls bool) {
		text, thinking = strings.ToValidUTF8(text, "\uFFFD"), strings.ToValidUTF8(thinking, "\uFFFD")
		out := run.Output{Text: text, FinishReason: model.FinishStop}
		if calls {
			out.ToolCalls = weather
		}
		r := ended(run.Completed, &out)
		var sent []string
		frames := frames{after: -1, send: func(name string, data []byte, _ bool) {
			if !jsontext.Value(data).IsValid() {
				t.Fatalf("%s: %s", name, data)
			}
			sent = append(sent, name)
		}}
		c := (&echo{}).composer(runID, &frames)
		for _, piece := range pieces(thinking, int(size)) {
			c.observe(event.Event{Name: "llm.thinking", Data: jsontext.Value(`{"text":` + string(quote(piece)) + `}`)})
		}
		for _, piece := range pieces(text, int(size)) {
			c.observe(event.Event{Name: "llm.chunk", Data: jsontext.Value(`{"text":` + string(quote(piece)) + `}`)})
		}
		c.observe(event.Event{Name: "llm.completed", Data: jsontext.Value(`{"finish_reason":"stop"}`)})
		c.endRun(r, &out)
		back, err := itemsOf(r, []run.Step{said(1, run.LLMOutput{Text: text, Thinking: thinking, FinishReason: "stop"})}, &out, &echo{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(back, c.items); diff != "" || frames.seq != int64(len(sent)) {
			t.Errorf("streamed and read back differ (-read +streamed), %d events of %d:\n%s", len(sent), frames.seq, diff)
		}
	})
}

// pieces cuts a text between its runes.
func pieces(s string, size int) (all []string) {
	for runes := []rune(s); len(runes) > 0; {
		n := min(size+1, len(runes))
		all, runes = append(all, string(runes[:n])), runes[n:]
	}
	return all
}
