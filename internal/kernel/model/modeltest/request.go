package modeltest

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
)

// Request is a call that came in.
type Request struct {
	Header http.Header
	Body   []byte
	Stream bool
}

// Chat is the part of a request that tests look at.
type Chat struct {
	Model     string         `json:"model"`
	Messages  []ChatMessage  `json:"messages"`
	Tools     []ChatTool     `json:"tools"`
	MaxTokens int            `json:"max_tokens"`
	Rest      jsontext.Value `json:",unknown"`
}

// ChatMessage is one message of a request; Content is a string, content parts
// or null.
type ChatMessage struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	ToolCallID string         `json:"tool_call_id"`
	Reasoning  string         `json:"reasoning_content"`
	ToolCalls  []struct {
		ID       string         `json:"id"`
		Function model.ToolCall `json:"function"`
		Extra    jsontext.Value `json:"extra_content"`
	} `json:"tool_calls"`
}

// Signed reports whether every call of the conversation comes with the extra_content
// that the model sent with it, which want returns for a call's id.
func (c Chat) Signed(want func(id string) string) bool {
	for _, m := range c.Messages {
		for _, call := range m.ToolCalls {
			if string(call.Extra) != want(call.ID) {
				return false
			}
		}
	}
	return true
}

// ChatTool is one offered tool.
type ChatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
	} `json:"function"`
}

// Chat decodes the body. A body that is no request gives the zero Chat.
func (r Request) Chat() Chat {
	var c Chat
	if json.Unmarshal(r.Body, &c) != nil {
		return Chat{}
	}
	return c
}

// Text is the content of a message that has one string.
func (m ChatMessage) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) != nil {
		return ""
	}
	return s
}

// Last is the text of the last message with a role; "" where there is none.
func (c Chat) Last(role model.Role) string {
	for _, m := range slices.Backward(c.Messages) {
		if m.Role == string(role) {
			return m.Text()
		}
	}
	return ""
}

// ToolRounds calls the first offered tool, one call per round, until the
// conversation holds that many results; then it gives the final answer.
// Arguments are what the built-in calculator takes, which others may ignore.
func ToolRounds(rounds int, final Answer) func(Request) Answer {
	return func(r Request) Answer {
		c := r.Chat()
		results := 0
		for _, m := range c.Messages {
			if m.Role == string(model.Tool) {
				results++
			}
		}
		if len(c.Tools) == 0 || results >= rounds {
			return final
		}
		arguments := `{}`
		if name := c.Tools[0].Function.Name; name == "calculator" {
			arguments = `{"expression":"6*7"}`
		}
		return Answer{
			ToolCalls: []model.ToolCall{{ID: "call_" + strings.Repeat("x", results+1), Name: c.Tools[0].Function.Name, Arguments: arguments}},
			TTFT:      final.TTFT,
		}
	}
}

// asksForStream looks for "stream":true without decoding the body.
func asksForStream(body []byte) bool {
	for {
		_, rest, found := bytes.Cut(body, []byte(`"stream"`))
		if !found {
			return false
		}
		value, colon := bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":"))
		if colon && bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("true")) {
			return true
		}
		body = rest
	}
}
