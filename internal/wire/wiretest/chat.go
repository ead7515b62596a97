package wiretest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

// Chat simulates an endpoint of chat completions, as OpenAI's.
type Chat struct {
	Path   string // "": /chat/completions
	Header string // where the key stands; "": Authorization
	Key    string // what stands there
	To     func(url string) model.Target
}

// KeepsHistory marks a wire whose histories go as they are.
func (Chat) KeepsHistory() {}

// Target implements Protocol.
func (c Chat) Target(url string) model.Target {
	if c.To != nil {
		return c.To(url)
	}
	return model.Target{Provider: "default", Model: "m", BaseURL: url, APIKey: secret.New("sk-secret")}
}

type chatPart struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
	} `json:"file"`
}

type chatRequest struct {
	Messages []struct {
		Role      string         `json:"role"`
		Content   jsontext.Value `json:"content"`
		Reasoning string         `json:"reasoning_content"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
		CallID string `json:"tool_call_id"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	Choice      jsontext.Value `json:"tool_choice"`
	MaxTokens   int            `json:"max_tokens"`
	Temperature *float64       `json:"temperature"`
	Stop        []string       `json:"stop"`
	Stream      bool           `json:"stream"`
	Format      struct {
		Schema struct {
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

// Check implements Protocol.
func (c Chat) Check(r *http.Request, body []byte) string {
	path, header, key := "/chat/completions", "Authorization", "Bearer sk-secret"
	if c.Path != "" {
		path, header, key = c.Path, c.Header, c.Key
	}
	var q chatRequest
	switch {
	case r.URL.RequestURI() != path || r.Method != "POST":
		return "no such path: " + r.URL.RequestURI()
	case r.Header.Get(header) != key:
		return "the key is missing"
	case json.Unmarshal(body, &q, jsontext.AllowDuplicateNames(false)) != nil || len(q.Messages) == 0:
		return "not a chat completion"
	}
	return ""
}

// Asked implements Protocol.
func (Chat) Asked(body []byte) (a Asked) {
	var q chatRequest
	_ = json.Unmarshal(body, &q) // it was checked
	for _, m := range q.Messages {
		who := map[string]string{"user": "user", "assistant": "model", "tool": "result", "system": "system"}[m.Role]
		if m.Reasoning != "" {
			a.Lines = append(a.Lines, "thinking: "+m.Reasoning)
		}
		var text string
		var parts []chatPart
		if json.Unmarshal(m.Content, &text) == nil && text != "" {
			parts = []chatPart{{Type: "text", Text: text}}
		}
		_ = json.Unmarshal(m.Content, &parts) // a text is none
		for _, p := range parts {
			kind, data, _ := strings.Cut(strings.TrimPrefix(p.Image.URL+p.File.Data, "data:"), ";base64,")
			switch {
			case who == "system":
				a.System += p.Text
			case p.Type == "text":
				a.Lines = append(a.Lines, who+": "+p.Text)
			case p.Type == "image_url":
				a.Lines = append(a.Lines, "image: "+kind+" "+data)
			default:
				a.Lines = append(a.Lines, "document: "+kind+" "+data)
			}
		}
		for _, c := range m.ToolCalls {
			a.Lines = append(a.Lines, "call: "+c.Function.Name+" "+c.Function.Arguments)
		}
	}
	for _, t := range q.Tools {
		a.Tools = append(a.Tools, t.Function.Name)
	}
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(q.Choice, &a.Choice) != nil && json.Unmarshal(q.Choice, &named) == nil {
		a.Choice = named.Function.Name
	}
	a.MaxTokens, a.Temperature, a.Stop, a.Form = q.MaxTokens, q.Temperature, q.Stop, string(q.Format.Schema.Schema)
	return a
}

// Streams implements Protocol.
func (Chat) Streams(_ *http.Request, body []byte) bool {
	var q chatRequest
	_ = json.Unmarshal(body, &q) // it was checked
	return q.Stream
}

type object = map[string]any

// Encode returns a value as JSON.
func Encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // only for text that is no UTF-8
	}
	return b
}

func chatUsage(a Answer) object {
	u := a.Usage
	return object{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached, "cache_write_tokens": u.Written},
		"completion_tokens_details": object{"reasoning_tokens": u.Thinking}}
}

func chatFinish(a Answer) string {
	for _, b := range a.Blocks {
		if b.Call != nil && a.Finish == "" {
			return "tool_calls"
		}
	}
	if a.Finish == "" {
		return "stop"
	}
	return a.Finish
}

// Whole implements Protocol.
func (Chat) Whole(a Answer) []byte {
	text, thinking, calls := "", "", []object{}
	for _, b := range a.Blocks {
		text += b.Text
		thinking += b.Thinking
		if c := b.Call; c != nil {
			calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
		}
	}
	whole := object{"object": "chat.completion", "model": "m", "choices": []any{object{
		"index": 0, "finish_reason": chatFinish(a), "message": object{"role": "assistant", "content": text, "reasoning_content": thinking, "tool_calls": calls},
	}}}
	if !a.NoUsage {
		whole["usage"] = chatUsage(a)
	}
	return Encode(whole)
}

// Stream implements Protocol.
func (Chat) Stream(a Answer) [][]byte {
	chunk := func(choices []any, usage object) []byte {
		return fmt.Appendf(nil, "data: %s\n\n", Encode(object{"object": "chat.completion.chunk", "model": "m", "choices": choices, "usage": usage}))
	}
	delta := func(d object, finish any) []byte {
		return chunk([]any{object{"index": 0, "delta": d, "finish_reason": finish}}, nil)
	}
	var blocks [][][]byte
	calls := 0
	for _, b := range a.Blocks {
		var pieces [][]byte
		for _, member := range []struct{ name, text string }{{"reasoning_content", b.Thinking}, {"content", b.Text}} {
			for _, p := range strings.SplitAfter(member.text, " ") {
				pieces = append(pieces, delta(object{member.name: p}, nil))
			}
		}
		if c := b.Call; c != nil {
			half := len(c.Arguments) / 2
			for i, p := range []string{"", c.Arguments[:half], c.Arguments[half:]} {
				call := object{"index": calls, "function": object{"arguments": p}}
				if i == 0 {
					call = object{"index": calls, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": p}}
				}
				pieces = append(pieces, delta(object{"tool_calls": []any{call}}, nil))
			}
			calls++
		}
		blocks = append(blocks, pieces)
	}
	out := append([][]byte{delta(object{"role": "assistant", "content": ""}, nil)}, Mix(blocks, a.Interleave)...)
	out = append(out, delta(object{}, chatFinish(a)))
	if !a.NoUsage {
		out = append(out, chunk([]any{}, chatUsage(a)))
	}
	return append(out, []byte("data: [DONE]\n\n"))
}

// Failure implements Protocol.
func (Chat) Failure(_ int, message string) []byte {
	return Encode(object{"error": object{"message": message, "type": "server_error", "code": nil}})
}

// StreamFailure implements Protocol.
func (c Chat) StreamFailure(message string) []byte {
	return fmt.Appendf(nil, "data: %s\n\n", c.Failure(0, message))
}
