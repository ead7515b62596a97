package openai

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/model"
	"agentd/internal/run"
)

// Completion is the answer of a request that is not streamed.
type Completion struct {
	ID      string     `json:"id" required:"true"`
	Object  string     `json:"object" required:"true"`
	Created int64      `json:"created" required:"true" doc:"Unix seconds."`
	Model   string     `json:"model" required:"true"`
	Choices []Choice   `json:"choices" required:"true" doc:"Exactly one."`
	Usage   Usage      `json:"usage" required:"true"`
	Error   *ErrorBody `json:"error,omitzero" doc:"Why finish_reason is error."`
}

// Choice is the one choice.
type Choice struct {
	Index        int           `json:"index"`
	Message      ChoiceMessage `json:"message"`
	Logprobs     *string       `json:"logprobs"`
	FinishReason string        `json:"finish_reason" enum:"stop,error"`
}

// ChoiceMessage is what the agent says.
type ChoiceMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	ToolCalls []ToolCall `json:"tool_calls,omitzero"`
}

// Usage counts the tokens of all of the run's model calls.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

// ErrorBody is the inside of the chat routes' error envelope.
type ErrorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`
}

// completionID names a run's completion: the run can be found by it.
func completionID(runID string) string { return "chatcmpl-" + runID }

func usage(m run.Metrics) Usage {
	return Usage{m.InputTokens, m.OutputTokens, m.InputTokens + m.OutputTokens}
}

// outcome is how a run that ended looks to a client of the chat routes.
func outcome(r *run.Run) (out run.Output, finish string, failure *ErrorBody, err error) {
	if len(r.Output) > 0 {
		if err := json.Unmarshal(r.Output, &out); err != nil {
			return out, "", nil, err
		}
	}
	if r.Status == run.Completed {
		return out, "stop", nil, nil
	}
	failure = &ErrorBody{Message: "The run ended as " + string(r.Status) + ".", Type: "run_error", Code: r.ErrorCode}
	if r.Error != nil {
		failure.Message = *r.Error
	}
	if failure.Code == "" {
		failure.Code = string(r.Status)
	}
	return out, "error", failure, nil
}

// NewCompletion renders a run that ended.
func NewCompletion(r *run.Run, model string) (*Completion, error) {
	out, finish, failure, err := outcome(r)
	if err != nil {
		return nil, err
	}
	msg := ChoiceMessage{Role: "assistant", Content: &out.Text, ToolCalls: toolCalls(out.ToolCalls)}
	if failure != nil && out.Text == "" {
		msg.Content = &failure.Message
	}
	if len(msg.ToolCalls) > 0 && out.Text == "" {
		msg.Content = nil
	}
	return &Completion{
		ID: completionID(r.RunID), Object: "chat.completion", Created: r.CreatedAt.Unix(), Model: model,
		Choices: []Choice{{Message: msg, FinishReason: finish}}, Usage: usage(r.Metrics), Error: failure,
	}, nil
}

func toolCalls(calls []model.ToolCall) []ToolCall {
	out := make([]ToolCall, len(calls))
	for i, c := range calls {
		out[i] = ToolCall{c.ID, "function", CallFunction{c.Name, c.Arguments}}
	}
	return out
}

// chunker renders the chunks of one streamed answer.
type chunker struct {
	head, tail []byte
	buf        []byte
}

func newChunker(runID, model string, created time.Time) *chunker {
	head := append([]byte(`{"id":"`+completionID(runID)+`","object":"chat.completion.chunk","created":`),
		strconv.FormatInt(created.Unix(), 10)+`,"model":`...)
	head = append(head, quote(model)...)
	return &chunker{
		head: append(head, `,"choices":[{"index":0,"delta":`...),
		tail: []byte(`,"logprobs":null,"finish_reason":null}]}`),
	}
}

func quote(s string) []byte {
	b, _ := json.Marshal(s, jsontext.AllowInvalidUTF8(true))
	return b
}

// role is the first chunk.
func (c *chunker) role() []byte {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `{"role":"assistant","content":"","refusal":null}`...)
	return append(c.buf, c.tail...)
}

// delta is a chunk of text; quoted is the text as JSON, member the delta's
// member that it is for.
func (c *chunker) delta(member string, quoted []byte) []byte {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `{"`...)
	c.buf = append(c.buf, member...)
	c.buf = append(c.buf, `":`...)
	c.buf = append(c.buf, quoted...)
	c.buf = append(c.buf, '}')
	return append(c.buf, c.tail...)
}

// calls is a chunk with whole tool calls.
func (c *chunker) calls(calls []ToolCall) ([]byte, error) {
	type indexed struct {
		Index    int `json:"index"`
		ToolCall `json:",inline"`
	}
	list := make([]indexed, len(calls))
	for i, call := range calls {
		list[i] = indexed{i, call}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return c.delta("tool_calls", b), nil
}

// end is the last chunk, with the finish reason.
func (c *chunker) end(finish string, failure *ErrorBody) ([]byte, error) {
	c.buf = append(c.buf[:0], c.head...)
	c.buf = append(c.buf, `{},"logprobs":null,"finish_reason":"`...)
	c.buf = append(c.buf, finish...)
	c.buf = append(c.buf, `"}]`...)
	if failure != nil {
		b, err := json.Marshal(failure)
		if err != nil {
			return nil, err
		}
		c.buf = append(append(c.buf, `,"run_error":`...), b...)
	}
	return append(c.buf, '}'), nil
}

// usage is the chunk that stream_options.include_usage asks for.
func (c *chunker) usage(u Usage) ([]byte, error) {
	b, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	head := c.head[:len(c.head)-len(`{"index":0,"delta":`)]
	c.buf = append(append(c.buf[:0], head...), `],"usage":`...)
	return append(append(c.buf, b...), '}'), nil
}
