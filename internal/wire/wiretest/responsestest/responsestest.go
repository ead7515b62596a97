// Package responsestest simulates OpenAI's side of the Responses API, for the tests of the wire and of whole runs.
package responsestest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/wiretest"
)

// Responses simulates OpenAI's side of the API.
type Responses struct{}

// Target implements wiretest.Protocol.
func (Responses) Target(url string) model.Target {
	return model.Target{Provider: "openai", Model: "gpt-5", BaseURL: url, APIKey: secret.New("sk-secret"), Wire: model.WireResponses}
}

type sentPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	Refusal  string  `json:"refusal"`
	ImageURL string  `json:"image_url"`
	Filename string  `json:"filename"`
	FileData string  `json:"file_data"`
	FileURL  string  `json:"file_url"`
}

type sentItem struct {
	Type      string         `json:"type"`
	ID        string         `json:"id"`
	Role      string         `json:"role"`
	Phase     string         `json:"phase"`
	Content   jsontext.Value `json:"content"`
	CallID    string         `json:"call_id"`
	Name      string         `json:"name"`
	Arguments *string        `json:"arguments"`
	Output    jsontext.Value `json:"output"`
	Summary   *[]sentPart    `json:"summary"`
	Encrypted string         `json:"encrypted_content"`
}

type sent struct {
	Model        string     `json:"model"`
	Instructions string     `json:"instructions"`
	Input        []sentItem `json:"input"`
	Tools        []struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
		Strict      *bool          `json:"strict"`
	} `json:"tools"`
	Choice   jsontext.Value `json:"tool_choice"`
	Parallel *bool          `json:"parallel_tool_calls"`
	Text     struct {
		Format *struct {
			Type   string         `json:"type"`
			Name   string         `json:"name"`
			Schema jsontext.Value `json:"schema"`
			Strict *bool          `json:"strict"`
		} `json:"format"`
		Verbosity string `json:"verbosity"`
	} `json:"text"`
	Reasoning *struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	MaxTokens   int      `json:"max_output_tokens"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	Tier        string   `json:"service_tier"`
	CacheKey    string   `json:"prompt_cache_key"`
	Store       *bool    `json:"store"`
	Include     []string `json:"include"`
	Stream      bool     `json:"stream"`
}

// parts returns the parts of a content, which may be a text.
func parts(raw jsontext.Value) ([]sentPart, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []sentPart{{Type: "output_text", Text: &text}}, nil
	}
	var all []sentPart
	err := json.Unmarshal(raw, &all, json.RejectUnknownMembers(true))
	return all, err
}

// Check implements wiretest.Protocol with the API's own rules.
func (Responses) Check(r *http.Request, body []byte) string {
	switch {
	case r.Method != "POST" || r.URL.RequestURI() != "/v1/responses":
		return "Invalid URL (" + r.Method + " " + r.URL.RequestURI() + ")"
	case r.Header.Get("Authorization") != "Bearer sk-secret":
		return "Incorrect API key provided"
	}
	var s sent
	if err := json.Unmarshal(body, &s, json.RejectUnknownMembers(true)); err != nil {
		return "Unknown parameter: " + err.Error()
	}
	switch {
	case s.Model == "" || len(s.Input) == 0:
		return "Missing required parameter: 'input'."
	case s.Store == nil || *s.Store:
		return "this organization stores nothing"
	case s.MaxTokens != 0 && s.MaxTokens < 16:
		return "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
	case !slices.Contains(s.Include, "reasoning.encrypted_content"):
		return NothingBack
	}
	for _, t := range s.Tools {
		if t.Type != "function" || t.Name == "" || t.Strict == nil || t.Parameters.Kind() != '{' {
			return "Invalid schema for function"
		}
	}
	if f := s.Text.Format; f != nil {
		switch {
		case f.Type == "json_schema" && (f.Name == "" || f.Schema.Kind() != '{'):
			return "Missing required parameter: 'text.format.name'."
		case f.Type == "json_object" && !strings.Contains(string(body), "JSON"):
			return "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'."
		}
	}
	return s.checkInput()
}

func (s *sent) checkInput() string {
	open := map[string]bool{}
	for i, it := range s.Input {
		switch it.Type {
		case "message":
			if wrong := it.checkMessage(); wrong != "" {
				return fmt.Sprintf("input[%d]: %s", i, wrong)
			}
		case "reasoning":
			if it.Summary == nil || it.Encrypted == "" {
				return "Item with id '" + it.ID + "' not found. Items are not persisted when `store` is set to false."
			}
			if i+1 == len(s.Input) || s.Input[i+1].Type == "message" && s.Input[i+1].Role == "user" || s.Input[i+1].Type == "function_call_output" {
				return "Item '" + it.ID + "' of type 'reasoning' was provided without its required following item."
			}
		case "function_call":
			if it.CallID == "" || len(it.CallID) > 64 || it.Name == "" || it.Arguments == nil || open[it.CallID] {
				return fmt.Sprintf("Invalid 'input[%d].call_id'", i)
			}
			open[it.CallID] = true
		case "function_call_output":
			if !open[it.CallID] {
				return "No tool call found for function call output with call_id " + it.CallID + "."
			}
			delete(open, it.CallID)
			if got, err := parts(it.Output); err != nil || got == nil {
				return fmt.Sprintf("Invalid 'input[%d].output'", i)
			}
		default:
			return fmt.Sprintf("Invalid value: '%s' for input[%d].type", it.Type, i)
		}
	}
	for id := range open {
		return "No tool output found for function call " + id + "."
	}
	return ""
}

func (it *sentItem) checkMessage() string {
	all, err := parts(it.Content)
	if err != nil || len(all) == 0 || it.Role != "user" && it.Role != "assistant" {
		return "Invalid content"
	}
	for _, p := range all {
		switch {
		case it.Role == "assistant" && p.Type == "output_text", p.Type == "input_text" && p.Text != nil, p.Type == "input_image" && p.ImageURL != "":
		case p.Type == "input_file" && p.FileURL != "":
		case p.Type == "input_file" && p.Filename != "":
			_, data, ok := strings.Cut(p.FileData, ";base64,")
			if _, err := base64.StdEncoding.DecodeString(data); err != nil || !ok {
				return "Invalid file data"
			}
		default:
			return "Invalid value: '" + p.Type + "'"
		}
	}
	return ""
}

// Asked implements wiretest.Protocol.
func (Responses) Asked(body []byte) (a wiretest.Asked) {
	var s sent
	_ = json.Unmarshal(body, &s) // it was checked
	a.System = s.Instructions
	for _, it := range s.Input {
		switch it.Type {
		case "reasoning":
			a.Lines = append(a.Lines, "thinking: "+it.Encrypted)
		case "function_call":
			a.Lines = append(a.Lines, "call: "+it.Name+" "+*it.Arguments)
		case "function_call_output":
			all, _ := parts(it.Output) // it was checked
			for _, p := range all {
				a.Lines = append(a.Lines, p.line("result"))
			}
		default:
			all, _ := parts(it.Content) // as above
			for _, p := range all {
				a.Lines = append(a.Lines, p.line(map[string]string{"user": "user", "assistant": "model"}[it.Role]))
			}
		}
	}
	for _, t := range s.Tools {
		a.Tools = append(a.Tools, t.Name)
	}
	var named struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(s.Choice, &a.Choice) != nil && json.Unmarshal(s.Choice, &named) == nil {
		a.Choice = named.Name
	}
	a.MaxTokens, a.Temperature = s.MaxTokens, s.Temperature
	if s.Text.Format != nil {
		a.Form = string(s.Text.Format.Schema)
	}
	return a
}

func (p *sentPart) line(who string) string {
	kind, data, _ := strings.Cut(strings.TrimPrefix(p.ImageURL+p.FileData, "data:"), ";base64,")
	switch {
	case p.ImageURL != "":
		return "image: " + kind + " " + data
	case p.FileData != "":
		return "document: " + kind + " " + data
	case p.FileURL != "":
		return "document: " + p.FileURL
	}
	return who + ": " + *p.Text
}

// Streams implements wiretest.Protocol.
func (Responses) Streams(_ *http.Request, body []byte) bool {
	var s sent
	_ = json.Unmarshal(body, &s) // it was checked
	return s.Stream
}

// NothingBack refuses requests that do not ask for reasoning that can go back.
const NothingBack = "nothing would come back"

type object = map[string]any

func itemOf(i int, b wiretest.Block, finish string) object {
	id := fmt.Sprint("_", i)
	switch {
	case b.Call != nil:
		return object{"type": "function_call", "id": "fc" + id, "call_id": b.Call.ID, "name": b.Call.Name, "arguments": b.Call.Arguments, "status": "completed"}
	case b.Thinking != "":
		return object{"type": "reasoning", "id": "rs" + id, "summary": []any{object{"type": "summary_text", "text": b.Thinking}}, "encrypted_content": b.Signature}
	case finish == model.FinishRefusal:
		return object{"type": "message", "id": "msg" + id, "role": "assistant", "status": "completed", "content": []any{object{"type": "refusal", "refusal": b.Text}}}
	}
	return object{"type": "message", "id": "msg" + id, "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": b.Text, "annotations": []any{}}}}
}

// whole returns a response. Its kind is that of the stream's last event.
func whole(a wiretest.Answer) (kind string, r object) {
	output := []any{}
	for i, b := range a.Blocks {
		output = append(output, itemOf(i, b, a.Finish))
	}
	r = object{"object": "response", "id": "resp_1", "model": "gpt-5-2025-08-07", "status": "completed", "error": nil, "incomplete_details": nil, "output": output}
	kind = "response.completed"
	if reason := map[string]string{model.FinishLength: "max_output_tokens", model.FinishFilter: "content_filter", "unknown": "tired"}[a.Finish]; reason != "" {
		kind, r["status"], r["incomplete_details"] = "response.incomplete", "incomplete", object{"reason": reason}
	}
	if u := a.Usage; !a.NoUsage {
		r["usage"] = object{"input_tokens": u.Input, "input_tokens_details": object{"cached_tokens": u.Cached}, "output_tokens": u.Output,
			"output_tokens_details": object{"reasoning_tokens": u.Thinking}, "total_tokens": u.Input + u.Output}
	}
	return kind, r
}

// Whole implements wiretest.Protocol.
func (Responses) Whole(a wiretest.Answer) []byte {
	_, r := whole(a)
	return wiretest.Encode(r)
}

func frame(kind string, members object) []byte {
	members["type"] = kind
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, wiretest.Encode(members))
}

// Stream implements wiretest.Protocol.
func (Responses) Stream(a wiretest.Answer) [][]byte {
	var blocks [][][]byte
	for i, b := range a.Blocks {
		begun := itemOf(i, b, a.Finish)
		for _, late := range []string{"arguments", "content", "summary", "encrypted_content"} {
			delete(begun, late)
		}
		pieces := [][]byte{frame("response.output_item.added", object{"output_index": i, "item": begun})}
		kind, text := "response.output_text.delta", b.Text
		switch {
		case b.Thinking != "":
			kind, text = "response.reasoning_summary_text.delta", b.Thinking
		case b.Call != nil:
			kind, text = "response.function_call_arguments.delta", b.Call.Arguments
		case a.Finish == model.FinishRefusal:
			kind = "response.refusal.delta"
		}
		cut := strings.SplitAfter(text, " ")
		if b.Call != nil {
			half := len(text) / 2
			cut = []string{text[:half], text[half:]}
		}
		for _, p := range cut {
			pieces = append(pieces, frame(kind, object{"output_index": i, "content_index": 0, "summary_index": 0, "delta": p}))
		}
		pieces = append(pieces, frame("response.output_item.done", object{"output_index": i, "item": itemOf(i, b, a.Finish)}))
		blocks = append(blocks, pieces)
	}
	begin := object{"object": "response", "status": "in_progress", "model": "gpt-5-2025-08-07", "output": []any{}}
	out := [][]byte{frame("response.created", object{"response": begin}), frame("response.in_progress", object{"response": begin})}
	out = append(out, wiretest.Mix(blocks, a.Interleave)...)
	kind, r := whole(a)
	return append(out, frame(kind, object{"response": r}))
}

// Failure implements wiretest.Protocol.
func (Responses) Failure(_ int, message string) []byte {
	return wiretest.Encode(object{"error": object{"message": message, "type": "invalid_request_error", "param": nil, "code": nil}})
}

// StreamFailure implements wiretest.Protocol.
func (Responses) StreamFailure(message string) []byte {
	return frame("response.failed", object{"response": object{"object": "response", "status": "failed", "error": object{"code": "server_error", "message": message}}})
}
