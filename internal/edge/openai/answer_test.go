package openai

import (
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/model"
)

const (
	agentID = "01990000-0000-7000-8000-00000000000a"
	runID   = "01990000-0000-7000-8000-00000000000b"
)

var made = time.Date(2026, 9, 10, 12, 0, 0, 250_000_000, time.UTC)

// ended is a run that ended with a status and an output.
func ended(status run.Status, out *run.Output) *run.Run {
	r := &run.Run{
		RunID: runID, AgentID: agentID, Status: status, CreatedAt: made,
		Metrics: run.Metrics{InputTokens: 10, OutputTokens: 7, LLMCallsCount: 1},
	}
	if out != nil {
		b, err := json.Marshal(out)
		if err != nil {
			panic(err)
		}
		r.Output = schema.Nullable(b)
	}
	return r
}

func because(r *run.Run, code, sentence string) *run.Run {
	r.Error, r.ErrorCode = &sentence, code
	return r
}

func thought(r *run.Run, tokens int64) *run.Run {
	r.Metrics.ThinkingTokens = tokens
	return r
}

var weather = []model.ToolCall{
	{ID: "call_1", Name: "weather", Arguments: `{"city":"Bern"}`},
	{ID: "call_2", Name: "weather", Arguments: "not JSON\n"},
}

// endings are the ways in which runs end, by the names of their transcripts.
var endings = map[string]*run.Run{
	"completed":           ended(run.Completed, &run.Output{Text: "It is \"42\".\n", FinishReason: "stop"}),
	"completed-thinking":  thought(ended(run.Completed, &run.Output{Text: "42"}), 5),
	"completed-truncated": ended(run.Completed, &run.Output{Text: "It is", Truncated: true, FinishReason: "length"}),
	"completed-silent":    ended(run.Completed, &run.Output{}),
	"tool-calls":          ended(run.Completed, &run.Output{FinishReason: "tool_calls", ToolCalls: weather}),
	"tool-call-with-text": ended(run.Completed, &run.Output{Text: "Let me see.", ToolCalls: weather[:1]}),
	"failed":              because(ended(run.Failed, nil), "model_error", "The model's endpoint answered 500."),
	"failed-late":         because(ended(run.Failed, &run.Output{Text: "It is"}), "model_error", "The model's answer broke off."),
	"timeout":             because(ended(run.TimedOut, nil), "MAX_DURATION_EXCEEDED", "The run was given 5 ms and had not ended by then."),
	"cancelled":           because(ended(run.Cancelled, nil), "RUN_CANCELLED", "The run was cancelled."),
	"rejected":            ended(run.Rejected, nil),
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	for name, r := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := NewCompletion(r, "agent/"+agentID)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(answer.Choices); n != 1 {
				t.Fatalf("%d choices", n)
			}
			if f := answer.Choices[0].FinishReason; (f == "stop") != (r.Status == run.Completed) || f != "stop" && f != "error" {
				t.Errorf("a run that is %s has the finish reason %s", r.Status, f)
			}
			goldentest.Check(t, "testdata/answers/"+name+".json", pretty(t, answer))
		})
	}
}

func TestOutputThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := ended(run.Completed, nil)
	r.Output = schema.Nullable(`{"text":5}`)
	if a, err := NewCompletion(r, agentID); err == nil {
		t.Errorf("it became %+v", a)
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	for name, r := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := endingOf(r)
			if err != nil {
				t.Fatal(err)
			}
			c := newChunker(runID, `agent/"x"`, made)
			must := func(b []byte, err error) []byte {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			var all []byte
			add := func(chunk []byte) {
				t.Helper()
				if !jsontext.Value(chunk).IsValid() {
					t.Errorf("no JSON: %s", chunk)
				}
				all = append(append(all, chunk...), '\n')
			}
			add(c.role())
			add(c.delta(contentMember, quote(e.text)))
			if e.calls != nil {
				add(must(c.calls(e.calls)))
			}
			add(must(c.end(e.finish, e.failure)))
			add(must(c.usage(usage(&r.Metrics))))
			goldentest.Check(t, "testdata/answers/"+name+".chunks", all)
		})
	}
}

func TestTextOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ data, want string }{
		{`{"text":"plain"}`, `"plain"`},
		{`{"text":""}`, `""`},
		{`{"text":"a\"b\\"}`, `"a\"b\\"`},
		{`{"text":"\\\\"}`, `"\\\\"`},
		{`{"text":"a","more":"b"}`, `"a"`},
		{`{"more":1,"text":"a"}`, `"a"`},
		{`{ "text" : "a" }`, `"a"`},
		{`{}`, `""`},
		{`{"text":5}`, `""`},
		{`{"text":"cut`, `""`},
		{`{"text":"cut\`, `""`},
	} {
		if got := string(textOf(jsontext.Value(tt.data))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.data, got, tt.want)
		}
	}
}

// The hottest path of all: a token comes from a model and goes out.
func TestAChunkCostsNoAllocation(t *testing.T) {
	c := newChunker(runID, agentID, made)
	data := jsontext.Value(`{"text":"a \"word\" "}`)
	var n int
	if allocs := testing.AllocsPerRun(100, func() { n = len(c.delta(contentMember, textOf(data))) }); allocs > 0 {
		t.Errorf("%v allocations for %d bytes", allocs, n)
	}
}

func TestChunksDoNotShareTheirBeginnings(t *testing.T) {
	t.Parallel()
	c := newChunker(runID, agentID, made)
	first := slices.Clone(c.delta(contentMember, []byte(`"x"`)))
	if _, err := c.usage(Usage{}); err != nil {
		t.Fatal(err)
	}
	if again := c.delta(contentMember, []byte(`"x"`)); string(again) != string(first) {
		t.Errorf("the same chunk was %s and is %s", first, again)
	}
}

func BenchmarkChunk(b *testing.B) {
	c := newChunker(runID, agentID, made)
	data := jsontext.Value(`{"text":"word "}`)
	b.ReportAllocs()
	for b.Loop() {
		c.delta(contentMember, textOf(data))
	}
}

func BenchmarkRequest(b *testing.B) {
	body := []byte(`{"model":"` + agentID + `","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello there, how are you?"}],"stream":true}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := read(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompletion(b *testing.B) {
	r := endings["completed"]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewCompletion(r, agentID); err != nil {
			b.Fatal(err)
		}
	}
}
