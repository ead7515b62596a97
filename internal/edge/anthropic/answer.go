package anthropic

import (
	"strconv"
	"strings"

	"agentd/internal/kernel/model"
)

// Answer is an answer in one piece, for the API description; appendAnswer writes it.
type Answer struct {
	_ struct{} `json:"-" name:"MessagesAnswer"`

	ID           string        `json:"id" required:"true" doc:"msg_ followed by a unique id; nothing is stored under it."`
	Type         string        `json:"type" required:"true" enum:"message"`
	Role         string        `json:"role" required:"true" enum:"assistant"`
	Model        string        `json:"model" required:"true" doc:"As in the request."`
	Content      []AnswerBlock `json:"content" required:"true"`
	StopReason   string        `json:"stop_reason" required:"true" enum:"end_turn,max_tokens,tool_use,stop_sequence,refusal"`
	StopSequence *string       `json:"stop_sequence" required:"true"`
	Usage        MessagesUsage `json:"usage" required:"true"`
}

// AnswerBlock is a block of an answer: text, thinking, tool_use or redacted_thinking.
type AnswerBlock struct {
	_ struct{} `json:"-" name:"MessagesAnswerBlock"`

	Type      string  `json:"type" required:"true" enum:"text,thinking,tool_use,redacted_thinking"`
	Text      *string `json:"text,omitzero"`
	Thinking  *string `json:"thinking,omitzero"`
	Signature *string `json:"signature,omitzero" doc:"Constant; may be sent back or omitted."`
	Data      *string `json:"data,omitzero" doc:"Of redacted_thinking: what the model's provider wants back. Send the block back as it is."`
	ID        *string `json:"id,omitzero"`
	Name      *string `json:"name,omitzero"`
	Input     any     `json:"input,omitzero" doc:"An object. If the model wrote something else, its member _raw has that text."`
}

// MessagesUsage counts the tokens of a call.
type MessagesUsage struct {
	InputTokens   int `json:"input_tokens" required:"true" doc:"Without those that were read from a cache or stored in one."`
	OutputTokens  int `json:"output_tokens" required:"true"`
	CacheCreation int `json:"cache_creation_input_tokens" required:"true" doc:"Tokens that the model's provider stored in its cache."`
	CacheRead     int `json:"cache_read_input_tokens" required:"true"`
}

// Count is the answer to count_tokens.
type Count struct {
	_ struct{} `json:"-" name:"MessagesCount"`

	InputTokens int `json:"input_tokens" required:"true" doc:"An estimate: one per four characters, plus 3 per message."`
}

// signature is the signature of every thinking block: clients require one, and send
// it back with the block, which is ignored.
const signature = "YWdlbnRk"

// stopReason returns why an answer ended. With a tool call it is tool_use, unless the
// answer was cut off.
func stopReason(resp *model.Response) string {
	switch {
	case resp.FinishReason == model.FinishLength:
		return "max_tokens"
	case resp.FinishReason == model.FinishRefusal:
		return "refusal"
	case len(resp.ToolCalls) > 0:
		return "tool_use"
	case resp.StopSequence != "":
		return "stop_sequence"
	}
	return "end_turn"
}

// appendStop writes the members stop_reason and stop_sequence.
func appendStop(b []byte, resp *model.Response) []byte {
	reason := stopReason(resp)
	b = append(append(append(b, `"stop_reason":"`...), reason...), `","stop_sequence":`...)
	if reason == "stop_sequence" {
		return appendString(b, resp.StopSequence)
	}
	return append(b, "null"...)
}

// appendUsage writes the value of the member usage.
func appendUsage(b []byte, u *model.Usage) []byte {
	cached := min(u.CachedTokens, u.InputTokens)
	written := min(u.CacheWriteTokens, u.InputTokens-cached)
	b = strconv.AppendInt(append(b, `{"input_tokens":`...), int64(u.InputTokens-cached-written), 10)
	b = strconv.AppendInt(append(b, `,"cache_creation_input_tokens":`...), int64(written), 10)
	b = strconv.AppendInt(append(b, `,"cache_read_input_tokens":`...), int64(cached), 10)
	b = strconv.AppendInt(append(b, `,"output_tokens":`...), int64(u.OutputTokens), 10)
	return append(b, '}')
}

// appendAnswer writes an answer in one piece. name is the model in the request.
// sealed is the data of the block redacted_thinking; "": none.
func appendAnswer(b []byte, id, name string, resp *model.Response, thinking bool, sealed string) []byte {
	b = append(append(append(b, `{"id":"`...), id...), `","type":"message","role":"assistant","model":`...)
	b = append(appendString(b, name), `,"content":[`...)
	empty := len(b)
	if thinking && resp.Thinking != "" {
		b = append(appendString(append(b, `{"type":"thinking","thinking":`...), resp.Thinking), `,"signature":"`+signature+`"},`...)
	}
	if resp.Text != "" {
		b = append(appendString(append(b, `{"type":"text","text":`...), resp.Text), `},`...)
	}
	for i := range resp.ToolCalls {
		call := &resp.ToolCalls[i]
		b = appendString(append(b, `{"type":"tool_use","id":`...), call.ID)
		b = appendString(append(b, `,"name":`...), call.Name)
		b = append(repairJSON(append(b, `,"input":`...), call.Arguments), `},`...)
	}
	if sealed != "" {
		b = append(appendString(append(b, `{"type":"redacted_thinking","data":`...), sealed), `},`...)
	}
	if len(b) > empty {
		b = b[:len(b)-1] // the comma
	}
	b = appendStop(append(b, `],`...), resp)
	b = appendUsage(append(b, `,"usage":`...), &resp.Usage)
	return append(b, '}')
}

// answerSize estimates the size of an answer, so that it is allocated once.
func answerSize(resp *model.Response) int {
	n := 512 + len(resp.Text) + strings.Count(resp.Text, "\n") + len(resp.Text)/32 + len(resp.Thinking)*17/16
	for i := range resp.ToolCalls {
		n += 128 + len(resp.ToolCalls[i].Arguments)
	}
	return n
}
