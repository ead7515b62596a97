package modeltest

import "agentd/internal/kernel/model"

// Oddity is an endpoint that misbehaves, and what a caller must get of it all
// the same.
type Oddity struct {
	Name   string
	Answer Answer

	// What is understood, where anything is.
	Text  string
	Calls []model.ToolCall // an ID "" stands for one of our own making
	Cut   bool             // the model was cut off by its limit

	// Fails says that there is no answer: the caller gets an error, after Text
	// where the answer was streamed that far.
	Fails bool
}

// Oddities are the endpoints that every route which passes a model's answer on
// is tried with, for streamed calls or for whole ones.
func Oddities(stream bool) []Oddity {
	weather := model.ToolCall{ID: "call_1", Name: "weather", Arguments: `{"city":"Bern"}`}
	common := []Oddity{
		{Name: "usage missing", Answer: Answer{Text: "a b c", NoUsage: true}, Text: "a b c"},
		{Name: "a finish reason that nobody knows", Answer: Answer{Text: "a b c", Finish: "banana"}, Text: "a b c"},
		{Name: "tool_calls as the finish without a call", Answer: Answer{Text: "a b c", Finish: "tool_calls"}, Text: "a b c"},
		{Name: "stop as the finish of calls", Answer: Answer{Finish: "stop", ToolCalls: []model.ToolCall{weather}}, Calls: []model.ToolCall{weather}},
		{Name: "max_tokens in place of length", Answer: Answer{Text: "a b c", Finish: "max_tokens"}, Text: "a b c", Cut: true},
		{Name: "an error in a 200", Answer: Answer{Error: "the engine died"}, Fails: true},
		{Name: "an answer that is no JSON", Answer: Answer{Raw: []byte("<html>Bad gateway</html>"), ContentType: "text/html"}, Fails: true},
		{Name: "nothing", Answer: Answer{Raw: []byte(""), ContentType: "application/json"}, Fails: true},
	}
	raw := func(name, text string, calls []model.ToolCall, body string) Oddity {
		o := Oddity{Name: name, Text: text, Calls: calls, Answer: Answer{Raw: []byte(body), ContentType: "application/json"}}
		if stream {
			o.Answer.ContentType = "text/event-stream"
		}
		return o
	}
	failing := func(o Oddity) Oddity {
		o.Fails = true
		return o
	}
	if !stream {
		return append(common,
			failing(raw("no choices", "", nil, `{"id":"x","object":"chat.completion","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}`)),
			failing(raw("choices that are null", "", nil, `{"id":"x","object":"chat.completion","choices":null}`)),
			failing(raw("an error that is a text", "", nil, `{"error":"model not loaded"}`)),
			failing(raw("half an answer", "", nil, `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"a b`)),
			raw("fields that nobody knows", "a b c", nil, `{"id":7,"object":"chat.completion","created":"now","model":null,"weather":{"sun":[1,2,{}]},
				"choices":[{"index":0,"mood":"fine","message":{"role":"assistant","content":"a b c","annotations":[],"audio":null,"extra":{"x":1}},
				"logprobs":{"content":[]},"finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":3,"queue_time":0.1},"x_vendor":{"id":"r"}}`),
			raw("a call without an id", "", []model.ToolCall{{Name: "weather", Arguments: `{"city":"Bern"}`}},
				`{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]},"finish_reason":"tool_calls"}]}`),
			raw("arguments that are an object", "", []model.ToolCall{weather},
				`{"choices":[{"message":{"content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":{"city":"Bern"}}}]},"finish_reason":"stop"}]}`),
			raw("content in parts", "a b c", nil, `{"choices":[{"message":{"content":[{"type":"text","text":"a b"},{"type":"text","text":" c"}]},"finish_reason":"stop"}]}`),
		)
	}
	const end = "data: [DONE]\n\n"
	return append(common,
		Oddity{Name: "broken off", Answer: Answer{Text: "a b c d", BreakAfter: 3}, Text: "a b c ", Fails: true},
		Oddity{Name: "ended in the middle", Answer: Answer{Text: "a b c d", EndAfter: 3}, Text: "a b c ", Fails: true},
		Oddity{Name: "an error after some text", Answer: Answer{Text: "a b c ", Error: "the engine died"}, Text: "a b c ", Fails: true},
		Oddity{Name: "no finish reason", Answer: Answer{Text: "a b c", NoFinish: true}, Text: "a b c"},
		Oddity{Name: "no DONE", Answer: Answer{Text: "a b c", NoDone: true}, Text: "a b c"},
		raw("empty choices on the way", "a b", nil, `data: {"choices":[]}`+"\n\n"+
			`data: {"choices":[{"index":0,"delta":{"content":"a b"}}]}`+"\n\n"+`data: {"choices":null}`+"\n\n"+`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+end),
		raw("fields that nobody knows", "a b", nil, ": hello\n\nevent: mood\nid: 3\n"+
			`data: {"id":7,"created":"now","vendor":{"a":[1]},"choices":[{"index":0,"delta":{"role":"assistant","content":"a b","x":{"y":[]}},"logprobs":{"content":[]},"stop_reason":null}]}`+"\n\n"+
			`data: {"choices":[{"delta":{"content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"queue_time":0.2}}`+"\n\n"+end),
		raw("a call in pieces without ids", "", []model.ToolCall{{Name: "weather", Arguments: `{"city":"Bern"}`}},
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"weather","arguments":"{\"ci"}}]}}]}`+"\n\n"+
				`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"ty\":\"Bern\"}"}}]}}]}`+"\n\n"+
				`data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`+"\n\n"+end),
		raw("calls without indexes", "", []model.ToolCall{weather, {ID: "call_2", Name: "time", Arguments: `{}`}},
			`data: {"choices":[{"delta":{"tool_calls":[{"id":"call_1","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]}}]}`+"\n\n"+
				`data: {"choices":[{"delta":{"tool_calls":[{"id":"call_2","function":{"name":"time","arguments":""}}]}}]}`+"\n\n"+
				`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n"+end),
		raw("a whole call at once", "", []model.ToolCall{weather},
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]},"finish_reason":"tool_calls"}]}`+"\n\n"+end),
		raw("an answer that is not streamed", "a b c", nil, `{"choices":[{"message":{"content":"a b c"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
		failing(raw("garbage on the way", "a ", nil, `data: {"choices":[{"delta":{"content":"a "}}]}`+"\n\n"+"data: {\"choices\":[{\"del\n\n"+end)),
	)
}
