package openaiclient

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// read reads a body as if an endpoint had sent it.
func read(body string, src func(io.Reader) io.Reader) (model.Response, []model.Delta, error) {
	var pieces []model.Delta
	watch := modelcall.NewWatchdog(func(error) {}, 0)
	defer watch.Stop()
	a := answer{Answer: modelcall.Answer{Sink: func(d model.Delta) { pieces = append(pieces, d) }, Max: 1 << 20, Began: time.Now()}}
	err := readAnswer(modelcall.NewReader(src(strings.NewReader(body)), watch, time.Minute), &a)
	return a.response(&model.Request{}), pieces, err
}

func whole(r io.Reader) io.Reader { return r }

const end = "data: [DONE]\n\n"

// What endpoints send, and what it means.
func TestStreamForms(t *testing.T) {
	t.Parallel()
	call := func(id, name, arguments string) model.ToolCall {
		return model.ToolCall{ID: id, Name: name, Arguments: arguments}
	}
	tests := map[string]struct {
		body     string
		text     string
		thinking string
		calls    []model.ToolCall
		finish   string
		err      error
	}{
		"crlf":               {body: "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: [DONE]\r\n\r\n", text: "a"},
		"comments-and-names": {body: ": hi\n\nevent: chunk\nid: 7\nretry: 5\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: bye\n" + end, text: "a"},
		"data-on-many-lines": {body: "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\ndata:\"a\"}}]}\n\n" + end, text: "a"},
		"no-space":           {body: "data:{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata:[DONE]\n\n", text: "a"},
		"byte-order-mark":    {body: "\uFEFFdata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" + end, text: "a"},
		"no-blank-at-end":    {body: "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]", text: "a"},
		"empty-data":         {body: "data\n\ndata: \n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" + end, text: "a"},
		"no-done":            {body: `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n", text: "a"},
		"length-no-done":     {body: `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}` + "\n\n", text: "a", finish: "length"},
		"max-tokens":         {body: `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"MAX_TOKENS"}]}` + "\n\n" + end, text: "a", finish: "length"},
		"odd-finish":         {body: `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"eos"}]}` + "\n\n" + end, text: "a"},
		"filter":             {body: `data: {"choices":[{"delta":{},"finish_reason":"content_filter"}]}` + "\n\n" + end, finish: "content_filter"},
		"finish-is-number":   {body: `data: {"choices":[{"delta":{"content":"a"},"finish_reason":7}]}` + "\n\n" + end, text: "a"},
		"unknown-fields":     {body: `data: {"x":[{}],"choices":[{"delta":{"content":"a","y":1},"logprobs":{"content":[]}}],"z":null}` + "\n\n" + end, text: "a"},
		"empty-choices":      {body: `data: {"choices":[]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + end, text: "a"},
		"null-everywhere":    {body: `data: {"model":null,"choices":[{"delta":{"content":null,"tool_calls":null,"reasoning":null},"finish_reason":null}],"usage":null,"error":null}` + "\n\n" + end},
		"other-choice":       {body: `data: {"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"a"}}]}` + "\n\n" + end, text: "a"},
		"content-parts":      {body: `data: {"choices":[{"delta":{"content":[{"type":"text","text":"a"},7,{"type":"x"},{"text":"b"}]}}]}` + "\n\n" + end, text: "ab"},
		"refusal":            {body: `data: {"choices":[{"delta":{"content":null,"refusal":"I will not."}}]}` + "\n\n" + end, text: "I will not.", finish: "refusal"},
		"bad-utf8":           {body: "data: {\"choices\":[{\"delta\":{\"content\":\"a\xffb\"}}]}\n\n" + end, text: "a\uFFFDb"},
		"duplicate-names":    {body: `data: {"choices":[],"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + end, text: "a"},
		"not-streamed":       {body: `{"choices":[{"message":{"content":"a","reasoning_content":"b"},"finish_reason":"stop"}]}`, text: "a", thinking: "b"},
		"reasoning":          {body: `data: {"choices":[{"delta":{"reasoning":"b","content":""}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + end, text: "a", thinking: "b"},
		"reasoning-twice":    {body: strings.Repeat(`data: {"choices":[{"delta":{"reasoning":"b","reasoning_content":"b"}}]}`+"\n\n", 3) + end, thinking: "bbb"},
		"empty-then-reasoning": {
			body: strings.Repeat(`data: {"choices":[{"delta":{"reasoning_content":"","reasoning":"b"}}]}`+"\n\n", 3) + end, thinking: "bbb",
		},
		"both-in-one": {body: strings.Repeat(`data: {"choices":[{"delta":{"reasoning":"b","content":"a"}}]}`+"\n\n", 2) + end, text: "aa", thinking: "bb"},

		"calls-in-pieces": {
			body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}}]}` + "\n\n" +
				`data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"y","function":{"name":"g","arguments":"{\"b\""}}]}}]}` + "\n\n" +
				`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}},{"index":1,"function":{"arguments":":2}"}}]}}]}` + "\n\n" + end,
			calls: []model.ToolCall{call("x", "f", `{"a":1}`), call("y", "g", `{"b":2}`)}, finish: "tool_calls",
		},
		"calls-whole-finish-stop": {
			body:  `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"y","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}` + "\n\n" + end,
			calls: []model.ToolCall{call("x", "f", `{}`), call("y", "f", `{}`)}, finish: "tool_calls",
		},
		"calls-repeat-id-and-name": {
			body:  strings.Repeat(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"1"}}]}}]}`+"\n\n", 3) + end,
			calls: []model.ToolCall{call("x", "f", `111`)}, finish: "tool_calls",
		},
		"calls-all-index-zero": {
			body: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"1"}}]}}]}` + "\n\n" +
				`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"y","function":{"name":"g","arguments":"2"}}]}}]}` + "\n\n" + end,
			calls: []model.ToolCall{call("x", "f", `1`), call("y", "g", `2`)}, finish: "tool_calls",
		},
		"calls-no-index": {
			body: `data: {"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"1"}}]}}]}` + "\n\n" +
				`data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"2"}}]}}]}` + "\n\n" +
				`data: {"choices":[{"delta":{"tool_calls":[{"id":"y","function":{"name":"f","arguments":"3"}}]}}]}` + "\n\n" + end,
			calls: []model.ToolCall{call("x", "f", `12`), call("y", "f", `3`)}, finish: "tool_calls",
		},
		"call-with-object": {
			body:  `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":{"a":[1]}}}]}}]}`,
			calls: []model.ToolCall{call("x", "f", `{"a":[1]}`)}, finish: "tool_calls",
		},
		"call-without-arguments": {
			body:  `{"choices":[{"message":{"tool_calls":[{"id":"x","function":{"name":"f"}}]}}]}`,
			calls: []model.ToolCall{call("x", "f", `{}`)}, finish: "tool_calls",
		},
		"call-without-name": {body: `{"choices":[{"message":{"content":"a","tool_calls":[{"id":"x","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, text: "a"},
		"call-cut-off": {
			body:  `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a"}}]},"finish_reason":"length"}]}` + "\n\n" + end,
			calls: []model.ToolCall{call("x", "f", `{"a`)}, finish: "length",
		},

		"half":              {body: `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n", text: "a", err: modelcall.ErrTruncated},
		"cut-inside-event":  {body: `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + `data: {"choi`, text: "a", err: modelcall.ErrTruncated},
		"garbage":           {body: "<html>", err: modelcall.ErrGarbage},
		"garbage-event":     {body: "data: <html>\n\n", err: modelcall.ErrGarbage},
		"wrong-kinds":       {body: `data: {"choices":{"a":1}}` + "\n\n", err: modelcall.ErrGarbage},
		"array":             {body: "data: [1,2]\n\n", err: modelcall.ErrGarbage},
		"two-values":        {body: "data: {} {}\n\n", err: modelcall.ErrGarbage},
		"nothing":           {body: "", err: modelcall.ErrEmpty},
		"whole-no-choices":  {body: `{"choices":[]}`, err: modelcall.ErrEmpty},
		"whole-cut":         {body: `{"choices":[{"message":{"content":"a`, err: modelcall.ErrGarbage},
		"only-done":         {body: end},
		"too-many-calls":    {body: `{"choices":[{"message":{"tool_calls":[` + strings.Repeat(`{"id":"","function":{"name":"f"}},`, 200) + `{}]}}]}`, err: modelcall.ErrTooManyCalls},
		"line-without-end":  {body: "data: " + strings.Repeat("x", 2<<20), err: modelcall.ErrTooLong},
		"lines-without-end": {body: strings.Repeat("data: xxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", 1<<16), err: modelcall.ErrTooLong},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, src := range map[string]func(io.Reader) io.Reader{"whole": whole, "bytewise": iotest.OneByteReader, "eof-with-data": iotest.DataErrReader} {
				got, _, err := read(test.body, src)
				if !errors.Is(err, test.err) {
					t.Fatalf("%s: error = %v, want %v", how, err, test.err)
				}
				if got.Text != test.text || got.Thinking != test.thinking {
					t.Errorf("%s: text %q, thinking %q; want %q, %q", how, got.Text, got.Thinking, test.text, test.thinking)
				}
				if test.err != nil {
					continue
				}
				if diff := cmp.Diff(test.calls, got.ToolCalls); diff != "" {
					t.Errorf("%s: calls (-want +got):\n%s", how, diff)
				}
				if finish := test.finish; finish != got.FinishReason && (finish != "" || got.FinishReason != "stop") {
					t.Errorf("%s: finish %q, want %q", how, got.FinishReason, finish)
				}
			}
		})
	}
}

// Calls without an id, or with another's, get one of their own.
func TestCallIDs(t *testing.T) {
	t.Parallel()
	got, _, err := read(`{"choices":[{"message":{"tool_calls":[{"index":0,"function":{"name":"f"}},{"index":1,"id":"x","function":{"name":"g"}},{"index":2,"id":"x","function":{"name":"h"}}]}}]}`, whole)
	if err != nil || len(got.ToolCalls) != 3 {
		t.Fatalf("%+v, %v", got.ToolCalls, err)
	}
	seen := map[string]bool{}
	for _, c := range got.ToolCalls {
		if c.ID == "" || seen[c.ID] {
			t.Errorf("the id %q of %s is empty or taken", c.ID, c.Name)
		}
		seen[c.ID] = true
	}
	if got.ToolCalls[1].ID != "x" {
		t.Error("an id was changed without need")
	}
}

// A connection that breaks is an error even where a line of data is complete.
func TestSourceFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	_, pieces, err := read(`data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\n"+`data: {"choices":[{"delta":{"content":"b"}}]}`,
		func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(boom)) })
	if !errors.Is(err, boom) || len(pieces) != 1 {
		t.Errorf("%d pieces, error = %v", len(pieces), err)
	}
	// After the finish reason nothing that matters can be lost.
	got, _, err := read(`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`+"\n\n",
		func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(boom)) })
	if err != nil || got.Text != "a" {
		t.Errorf("%q, %v", got.Text, err)
	}
}

func TestErrorInsideStream(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		code  string
		retry bool
	}{
		`{"error":{"message":"m","type":"server_error"}}`:                          {"model_error", true},
		`{"error":{"message":"m","code":429}}`:                                     {"model_rate_limited", true},
		`{"error":{"message":"m","code":"rate_limit_exceeded"}}`:                   {"model_rate_limited", true},
		`{"error":{"message":"m","code":"insufficient_quota"}}`:                    {"model_rate_limited", false},
		`{"error":{"message":"m","type":"overloaded_error"}}`:                      {"model_error", true},
		`{"error":{"message":"m","code":"invalid_api_key"}}`:                       {"provider_auth_failed", false},
		`{"error":{"message":"prompt is too long: 9 > 8"}}`:                        {"CONTEXT_LENGTH_EXCEEDED", false},
		`{"error":"plain words"}`:                                                  {"model_error", false},
		`{"object":"error","message":"m","type":"BadRequestError","code":400}`:     {"model_error", false},
		`{"object":"error","message":"m","type":"InternalServerError","code":500}`: {"model_error", true},
	} {
		for _, form := range []string{body, "data: " + body + "\n\n"} {
			_, _, err := read(form, whole)
			e := modelcall.ReadError(t.Context(), err, &model.Request{}, "")
			if e.Code != want.code || e.Retryable != want.retry {
				t.Errorf("%s: %s, retryable %v; want %s, %v", form, e.Code, e.Retryable, want.code, want.retry)
			}
		}
	}
}

// The scanner reads ordinary chunks, and leaves the others alone.
func TestQuick(t *testing.T) {
	t.Parallel()
	for chunk, want := range map[string]bool{
		`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":null}],"usage":null}`: true,
		`{"choices":[{"index":0,"delta":{"content":"a\n\u00e4"},"finish_reason":"stop"}]}`:                                                                                                           true,
		`{"choices":[{"delta":{"content":null,"reasoning_content":"ä"}}],"error":null}`:                                                                                                              true,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":0,"x":1.5e3}}}`: true,
		` { "choices" : [ { "delta" : { } } ] } `:                                      true,
		`{"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`:  false,
		`{"choices":[{"index":1,"delta":{"content":"b"}}]}`:                            false,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}`: false,
		`{"choices":[{"delta":{"content":"a","content":"b"}}]}`:                        false,
		`{"choices":[{"delta":{"content":["a"]}}]}`:                                    false,
		`{"choices":[{"message":{"content":"a"}}]}`:                                    true,
		`{"choices":[{"delta":{},"message":{"content":"a"}}]}`:                         false,
		`{"choices":[],"error":{"message":"m"}}`:                                       false,
		`{"choices":[],"object":"error"}`:                                              false,
		`{"error":"m"}`:                                                                false,
		`{"choices":[],"x":01}`:                                                        false,
		`{"choices":[],"x":"\q"}`:                                                      false,
		`{"choices":[]} {}`:                                                            false,
		`{"choices":[],}`:                                                              false,
		`{"choices":[]`:                                                                false,
		"{\"choices\":[],\"x\":\"\xff\"}":                                              false,
	} {
		var q fastChunk
		if got := q.parse([]byte(chunk)); got != want {
			t.Errorf("%s: ordinary: %v, want %v", chunk, got, want)
		}
	}
}

// Whatever an endpoint sends, reading ends, keeps its bounds, and says the
// same whether chunks are scanned or decoded, at once or byte by byte.
func FuzzRead(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\\n\"}}]}\n\n" + end))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\",\"reasoning_content\":\"\"}}]}\r\n\r\ndata: {\"choices\":[{\"delta\":{\"reasoning\":\"c\",\"reasoning_content\":\"b\"}}]}\n\n" + end))
	f.Add([]byte(`{"choices":[{"message":{"content":["x"],"tool_calls":[{"index":-1,"function":{"arguments":{}}}]}}],"usage":{"prompt_tokens":1e99}}`))
	f.Add([]byte(`{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a\u00e4\n"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":1}}}`))
	f.Add([]byte(`data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":-0,"completion_tokens":1.5}}`))
	f.Add([]byte(": x\n\ndata: {\"error\":{\"message\":\"m\"}}\ndata\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, pieces, err := read(string(body), whole)
		var text, thinking strings.Builder
		for _, p := range pieces {
			text.WriteString(p.Text)
			thinking.WriteString(p.Thinking)
		}
		if text.String() != got.Text || thinking.String() != got.Thinking {
			t.Errorf("the pieces %q %q are not the answer %q %q", text.String(), thinking.String(), got.Text, got.Thinking)
		}
		again, _, againErr := read(string(body), iotest.OneByteReader)
		if (err == nil) != (againErr == nil) || again.Text != got.Text || again.Thinking != got.Thinking {
			t.Errorf("bytewise: %q, %v; at once: %q, %v", again.Text, againErr, got.Text, err)
		}
		decoded, decodedErr := decodeOnly(body)
		got.ToolCalls, decoded.ToolCalls = nil, nil // may have ids that were made up
		if diff := cmp.Diff(decoded, got, ignoreTime); diff != "" || (err == nil) != (decodedErr == nil) {
			t.Errorf("%v, decoded: %v (-decoded +scanned):\n%s", err, decodedErr, diff)
		}
		if err != nil {
			if e := modelcall.ReadError(t.Context(), err, &model.Request{}, ""); e.Code == "" || e.Detail == "" {
				t.Errorf("%v becomes %+v", err, e)
			}
		}
	})
}

// decodeOnly reads without the scanner.
func decodeOnly(body []byte) (model.Response, error) {
	watch := modelcall.NewWatchdog(func(error) {}, 0)
	defer watch.Stop()
	s := getStream(modelcall.NewReader(bytes.NewReader(body), watch, time.Minute), 1<<20)
	defer s.put()
	a := answer{Answer: modelcall.Answer{Max: 1 << 20}}
	err := func() error {
		first, err := s.events.First()
		switch {
		case err != nil:
			return modelcall.ErrEmpty
		case first == '{':
			data, err := s.events.Rest()
			if err != nil {
				return err
			}
			n, err := a.decode(data)
			if n == 0 && err == nil {
				err = modelcall.ErrEmpty
			}
			return err
		case !strings.ContainsRune("deir:", rune(first)):
			return modelcall.ErrGarbage
		}
		for {
			data, err := s.events.Next()
			if err != nil {
				return a.endOfStream(err)
			}
			if isDone(data) {
				return nil
			}
			if len(bytes.TrimSpace(data)) == 0 {
				continue
			}
			if _, err := a.decode(data); err != nil {
				return err
			}
		}
	}()
	return a.response(&model.Request{}), err
}
