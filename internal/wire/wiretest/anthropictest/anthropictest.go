// Package anthropictest simulates Anthropic's side of the Messages API, for the tests of the wire and of whole runs.
package anthropictest

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/wiretest"
)

// Messages simulates Anthropic's side of its API.
type Messages struct{}

// Target implements wiretest.Protocol.
func (Messages) Target(url string) model.Target {
	return model.Target{Provider: "anthropic", Model: "claude", BaseURL: url, APIKey: secret.New("sk-ant-secret"), Wire: model.WireAnthropic, MaxOutput: 64000}
}

type sentBlock struct {
	Type      string         `json:"type"`
	Text      *string        `json:"text"`
	Thinking  *string        `json:"thinking"`
	Signature string         `json:"signature"`
	Data      string         `json:"data"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	ToolUseID string         `json:"tool_use_id"`
	Content   []sentBlock    `json:"content"`
	IsError   bool           `json:"is_error"`
	Title     string         `json:"title"`
	Cache     *struct {
		Type string `json:"type"`
	} `json:"cache_control"`
	Source *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	} `json:"source"`
}

type sent struct {
	Model     string      `json:"model"`
	MaxTokens int         `json:"max_tokens"`
	System    []sentBlock `json:"system"`
	Messages  []struct {
		Role    string      `json:"role"`
		Content []sentBlock `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		InputSchema jsontext.Value `json:"input_schema"`
		Strict      bool           `json:"strict"`
	} `json:"tools"`
	ToolChoice *struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		OneCall bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking *struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	Output *struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string         `json:"type"`
			Schema jsontext.Value `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	Stop        []string `json:"stop_sequences"`
	Stream      bool     `json:"stream"`
}

var callID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checkHeaders checks the key and the version.
func checkHeaders(r *http.Request) string {
	if r.Header.Get("X-Api-Key") != "sk-ant-secret" || r.Header.Get("Authorization") != "" || r.Header.Get("Anthropic-Version") != "2023-06-01" {
		return fmt.Sprint("headers: ", r.Header)
	}
	return ""
}

// CountOf implements wiretest.Counting: what the API does not count is refused.
func (Messages) CountOf(r *http.Request, body []byte) (of []byte, wrong string) {
	if r.Method != "POST" || r.URL.Path != "/v1/messages/count_tokens" {
		return nil, ""
	}
	var members map[string]jsontext.Value
	var s sent
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err.Error()
	}
	for _, uncounted := range []string{"max_tokens", "stream", "temperature", "top_p", "stop_sequences"} {
		if members[uncounted] != nil {
			return nil, uncounted + ": Extra inputs are not permitted"
		}
	}
	if err := json.Unmarshal(body, &s, json.RejectUnknownMembers(true)); err != nil {
		return nil, err.Error()
	}
	if s.Model == "" || len(s.Messages) == 0 {
		return nil, "model and messages are required"
	}
	if wrong := checkHeaders(r); wrong != "" {
		return nil, wrong
	}
	return body, s.checkConversation()
}

// Counted implements wiretest.Counting.
func (Messages) Counted(tokens int) []byte { return fmt.Appendf(nil, `{"input_tokens":%d}`, tokens) }

// Check implements wiretest.Protocol with the API's own rules.
func (Messages) Check(r *http.Request, body []byte) string {
	if r.Method != "POST" || r.URL.Path != "/v1/messages" {
		return "no such path: " + r.Method + " " + r.URL.Path
	}
	if wrong := checkHeaders(r); wrong != "" {
		return wrong
	}
	var s sent
	if err := json.Unmarshal(body, &s, json.RejectUnknownMembers(true)); err != nil {
		return err.Error()
	}
	if wrong := s.checkSettings(); wrong != "" {
		return wrong
	}
	return s.checkConversation()
}

func (s *sent) checkSettings() string {
	switch {
	case s.Model == "" || s.MaxTokens < 1 || len(s.Messages) == 0:
		return "model, max_tokens and messages are required"
	case s.MaxTokens > 64000:
		return fmt.Sprintf("max_tokens: %d > 64000, which is the maximum allowed number of output tokens for claude", s.MaxTokens)
	case s.Thinking != nil && (s.Temperature != nil && *s.Temperature != 1 || s.TopP != nil):
		return "`temperature` may only be set to 1 when thinking is enabled"
	case s.Thinking != nil && s.Thinking.Type == "enabled" && (s.Thinking.Budget < 1024 || s.Thinking.Budget >= s.MaxTokens):
		return "thinking.enabled.budget_tokens must be at least 1024 and below max_tokens"
	case s.Thinking != nil && s.ToolChoice != nil && (s.ToolChoice.Type == "any" || s.ToolChoice.Type == "tool"):
		return "Thinking may not be enabled when tool_choice forces tool use."
	case s.Temperature != nil && *s.Temperature > 1:
		return "temperature: range: 0..1"
	}
	for _, t := range s.Tools {
		if t.InputSchema.Kind() != '{' || !callID.MatchString(t.Name) {
			return "tools: input_schema: Field required"
		}
	}
	return ""
}

func (s *sent) checkConversation() string {
	caches := 0
	var open []string
	for i, m := range s.Messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
			return fmt.Sprintf("messages.%d: expected the role %s and content", i, want)
		}
		if wrong := checkTurn(m.Role, m.Content, &open); wrong != "" {
			return fmt.Sprintf("messages.%d: %s", i, wrong)
		}
		for _, b := range m.Content {
			if b.Cache != nil {
				caches++
			}
		}
	}
	if len(open) > 0 || s.Messages[len(s.Messages)-1].Role != "user" {
		return "the conversation must end with a user message"
	}
	for _, b := range s.System {
		if b.Cache != nil {
			caches++
		}
	}
	if caches > 4 {
		return "A maximum of 4 blocks with cache_control may be provided."
	}
	return ""
}

func checkTurn(role string, content []sentBlock, open *[]string) string {
	var calls []string
	for j, b := range content {
		switch b.Type {
		case "text":
			if b.Text == nil || strings.TrimSpace(*b.Text) == "" {
				return "text content blocks must be non-empty"
			}
		case "thinking", "redacted_thinking":
			if role != "assistant" || b.Type == "thinking" && (b.Signature == "" || b.Thinking == nil) || b.Cache != nil {
				return "Invalid `signature` in `thinking` block"
			}
		case "tool_use":
			if !callID.MatchString(b.ID) || b.Input.Kind() != '{' || role != "assistant" || slices.Contains(calls, b.ID) {
				return "tool_use: ids must be unique and match the pattern; input must be an object"
			}
			calls = append(calls, b.ID)
		case "tool_result":
			if role != "user" || !slices.Contains(*open, b.ToolUseID) || j > 0 && content[j-1].Type != "tool_result" {
				return "unexpected tool_use_id " + b.ToolUseID
			}
			*open = slices.DeleteFunc(*open, func(id string) bool { return id == b.ToolUseID })
		case "image", "document":
			if b.Source == nil {
				return "source: Field required"
			}
		default:
			return "unknown block " + b.Type
		}
	}
	if role == "user" && len(*open) > 0 {
		return "`tool_use` ids were found without `tool_result` blocks"
	}
	*open = append(*open, calls...)
	return ""
}

// Asked implements wiretest.Protocol.
func (Messages) Asked(body []byte) (a wiretest.Asked) {
	var s sent
	_ = json.Unmarshal(body, &s) // it was checked
	for _, b := range s.System {
		a.System += *b.Text
	}
	for _, m := range s.Messages {
		a.Lines = append(a.Lines, lines(map[string]string{"user": "user", "assistant": "model"}[m.Role], m.Content)...)
	}
	for _, t := range s.Tools {
		a.Tools = append(a.Tools, t.Name)
	}
	a.Choice = "auto"
	if c := s.ToolChoice; c != nil {
		a.Choice = map[string]string{"auto": "auto", "any": "required", "none": "none", "tool": c.Name}[c.Type]
	}
	a.MaxTokens, a.Temperature, a.Stop = s.MaxTokens, s.Temperature, s.Stop
	if s.Output != nil && s.Output.Format != nil {
		a.Form = string(s.Output.Format.Schema)
	}
	return a
}

func lines(who string, content []sentBlock) (all []string) {
	for _, b := range content {
		switch b.Type {
		case "text":
			all = append(all, who+": "+*b.Text)
		case "thinking":
			all = append(all, "thinking: "+b.Signature)
		case "redacted_thinking":
			all = append(all, "thinking: "+b.Data)
		case "tool_use":
			all = append(all, "call: "+b.Name+" "+string(b.Input))
		case "tool_result":
			all = append(all, lines("result", b.Content)...)
		default:
			all = append(all, b.Type+": "+b.Source.MediaType+" "+b.Source.Data)
		}
	}
	return all
}

// Streams implements wiretest.Protocol.
func (Messages) Streams(_ *http.Request, body []byte) bool {
	var s sent
	_ = json.Unmarshal(body, &s)
	return s.Stream
}

type object = map[string]any

func encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}

func stopReason(a wiretest.Answer) string {
	switch a.Finish {
	case model.FinishLength:
		return "max_tokens"
	case model.FinishRefusal:
		return "refusal"
	case "unknown":
		return "tired"
	}
	for _, b := range a.Blocks {
		if b.Call != nil {
			return "tool_use"
		}
	}
	return "end_turn"
}

func usageOf(a wiretest.Answer) object {
	u := a.Usage
	return object{
		"input_tokens": u.Input - u.Cached - u.Written, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": u.Written,
		"output_tokens": u.Output, "output_tokens_details": object{"thinking_tokens": u.Thinking},
	}
}

// Whole implements wiretest.Protocol.
func (Messages) Whole(a wiretest.Answer) []byte {
	content := []object{}
	for _, b := range a.Blocks {
		switch {
		case b.Thinking != "":
			content = append(content, object{"type": "thinking", "thinking": b.Thinking, "signature": b.Signature})
		case b.Call != nil:
			var input any = jsontext.Value(b.Call.Arguments)
			if !jsontext.Value(b.Call.Arguments).IsValid() {
				input = b.Call.Arguments
			}
			content = append(content, object{"type": "tool_use", "id": b.Call.ID, "name": b.Call.Name, "input": input})
		default:
			content = append(content, object{"type": "text", "text": b.Text})
		}
	}
	m := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content, "stop_reason": stopReason(a), "stop_sequence": nil}
	if !a.NoUsage {
		m["usage"] = usageOf(a)
	}
	return encode(m)
}

func frame(kind string, v object) []byte {
	v["type"] = kind
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, encode(v))
}

// Stream implements wiretest.Protocol.
func (Messages) Stream(a wiretest.Answer) [][]byte {
	start := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []any{}, "stop_reason": nil}
	last := object{"delta": object{"stop_reason": stopReason(a), "stop_sequence": nil}}
	if !a.NoUsage {
		u := usageOf(a)
		last["usage"] = object{"output_tokens": u["output_tokens"], "output_tokens_details": u["output_tokens_details"]}
		u["output_tokens"] = 1
		start["usage"] = u
	}
	out := [][]byte{frame("message_start", object{"message": start}), frame("ping", object{})}
	var perBlock [][][]byte
	for i, b := range a.Blocks {
		var pieces [][]byte
		delta := func(d object) {
			pieces = append(pieces, frame("content_block_delta", object{"index": i, "delta": d}))
		}
		begin := object{"type": "text", "text": ""}
		switch {
		case b.Thinking != "":
			begin = object{"type": "thinking", "thinking": "", "signature": ""}
			for _, p := range strings.SplitAfter(b.Thinking, " ") {
				delta(object{"type": "thinking_delta", "thinking": p})
			}
			delta(object{"type": "signature_delta", "signature": b.Signature})
		case b.Call != nil:
			begin = object{"type": "tool_use", "id": b.Call.ID, "name": b.Call.Name, "input": object{}}
			half := len(b.Call.Arguments) / 2
			for _, p := range []string{"", b.Call.Arguments[:half], b.Call.Arguments[half:]} {
				delta(object{"type": "input_json_delta", "partial_json": p})
			}
		default:
			for _, p := range strings.SplitAfter(b.Text, " ") {
				delta(object{"type": "text_delta", "text": p})
			}
		}
		pieces = append([][]byte{frame("content_block_start", object{"index": i, "content_block": begin})}, pieces...)
		perBlock = append(perBlock, append(pieces, frame("content_block_stop", object{"index": i})))
	}
	out = append(out, wiretest.Mix(perBlock, a.Interleave)...)
	return append(out, frame("message_delta", last), frame("message_stop", object{}))
}

// Failure implements wiretest.Protocol.
func (Messages) Failure(status int, message string) []byte {
	kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		429: "rate_limit_error", 529: "overloaded_error"}[status]
	if kind == "" {
		kind = "api_error"
	}
	return encode(object{"type": "error", "error": object{"type": kind, "message": message}})
}

// StreamFailure implements wiretest.Protocol.
func (m Messages) StreamFailure(message string) []byte {
	return fmt.Appendf(nil, "event: error\ndata: %s\n\n", m.Failure(529, message))
}
