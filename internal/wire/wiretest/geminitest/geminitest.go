// Package geminitest simulates Gemini's side of generateContent, for the tests of the wire and of whole runs.
package geminitest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/wire/wiretest"
)

// Generate simulates Gemini's side of its API.
type Generate struct{}

// Target implements wiretest.Protocol.
func (Generate) Target(url string) model.Target {
	return model.Target{Provider: "gemini", Model: "gemini-3-pro", BaseURL: url, APIKey: secret.New("goog-secret"), Wire: model.WireGemini}
}

type sentPart struct {
	Text   *string `json:"text"`
	Inline *struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	} `json:"inlineData"`
	File *struct {
		MimeType string `json:"mimeType"`
		URI      string `json:"fileUri"`
	} `json:"fileData"`
	Call *struct {
		Name string         `json:"name"`
		Args jsontext.Value `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		Name     string `json:"name"`
		Response struct {
			Output string `json:"output"`
		} `json:"response"`
	} `json:"functionResponse"`
	Signature string `json:"thoughtSignature"`
}

type sentContent struct {
	Role  string     `json:"role"`
	Parts []sentPart `json:"parts"`
}

type sent struct {
	System   *sentContent  `json:"systemInstruction"`
	Contents []sentContent `json:"contents"`
	Tools    []struct {
		Functions []struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Parameters  jsontext.Value `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Settings struct {
		MaxTokens   int            `json:"maxOutputTokens"`
		Temperature *float64       `json:"temperature"`
		TopP        *float64       `json:"topP"`
		Stop        []string       `json:"stopSequences"`
		Seed        *int           `json:"seed"`
		Presence    *float64       `json:"presencePenalty"`
		Frequency   *float64       `json:"frequencyPenalty"`
		MimeType    string         `json:"responseMimeType"`
		Schema      jsontext.Value `json:"responseJsonSchema"`
		Thinking    *struct {
			Level    string `json:"thinkingLevel"`
			Budget   *int   `json:"thinkingBudget"`
			Thoughts bool   `json:"includeThoughts"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

// CountOf implements wiretest.Counting.
func (Generate) CountOf(r *http.Request, body []byte) (of []byte, wrong string) {
	if r.Method != "POST" || !strings.HasSuffix(r.URL.Path, ":countTokens") {
		return nil, ""
	}
	var c struct {
		Request struct {
			Model string `json:"model"`
			sent
		} `json:"generateContentRequest"`
	}
	var whole struct {
		Request jsontext.Value `json:"generateContentRequest"`
	}
	if err := json.Unmarshal(body, &c, json.RejectUnknownMembers(true)); err != nil {
		return nil, "Invalid JSON payload received. " + err.Error()
	}
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err.Error()
	}
	switch {
	case r.Header.Get("X-Goog-Api-Key") != "goog-secret":
		return nil, "API key not valid"
	case "/v1beta/"+c.Request.Model+":countTokens" != r.URL.Path:
		return nil, "the model in the body is another than in the path"
	case len(c.Request.Contents) == 0:
		return nil, "contents is not specified"
	}
	return whole.Request, c.Request.checkTurns()
}

// Counted implements wiretest.Counting.
func (Generate) Counted(tokens int) []byte {
	return fmt.Appendf(nil, `{"totalTokens":%d,"promptTokensDetails":[{"modality":"TEXT","tokenCount":%d}]}`, tokens, tokens)
}

// Check implements wiretest.Protocol with the API's own rules.
func (Generate) Check(r *http.Request, body []byte) string {
	switch {
	case r.Method != "POST" || !strings.HasPrefix(r.URL.Path, "/v1beta/models/gemini-"):
		return "no such path: " + r.Method + " " + r.URL.Path
	case !strings.HasSuffix(r.URL.RequestURI(), ":generateContent") && !strings.HasSuffix(r.URL.RequestURI(), ":streamGenerateContent?alt=sse"):
		return "no such method: " + r.URL.RequestURI()
	case r.Header.Get("X-Goog-Api-Key") != "goog-secret" || r.Header.Get("Authorization") != "" || r.URL.Query().Get("key") != "":
		return "API key not valid"
	}
	var s sent
	if err := json.Unmarshal(body, &s, json.RejectUnknownMembers(true)); err != nil {
		return "Invalid JSON payload received. " + err.Error()
	}
	if len(s.Contents) == 0 || s.Contents[len(s.Contents)-1].Role != "user" {
		return "contents is not specified"
	}
	if t := s.Settings.Thinking; t != nil && t.Level != "" && t.Budget != nil {
		return "You can only set one of thinking_budget and thinking_level."
	}
	return s.checkTurns()
}

func (s *sent) checkTurns() string {
	open := 0
	for i, c := range s.Contents {
		if want := []string{"user", "model"}[i%2]; c.Role != want || len(c.Parts) == 0 {
			return fmt.Sprintf("contents.%d: Please ensure that multiturn requests alternate between user and model.", i)
		}
		calls, results := 0, 0
		for _, p := range c.Parts {
			switch {
			case p.Call != nil:
				if calls++; p.Call.Args.Kind() != '{' || c.Role != "model" {
					return "function_call.args: not a Struct"
				}
			case p.Response != nil:
				if results++; p.Response.Name == "" || c.Role != "user" {
					return "GenerateContentRequest.contents.function_response.name: Name cannot be empty."
				}
			case p.Text == nil && p.Inline == nil && p.File == nil, p.Text != nil && *p.Text == "" && p.Signature == "":
				return "contents.parts must not be empty."
			case p.Inline != nil:
				if _, err := base64.StdEncoding.DecodeString(p.Inline.Data); err != nil || p.Inline.MimeType == "" {
					return "Base64 decoding failed"
				}
			}
		}
		if c.Role == "user" && results != open {
			return "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
		}
		open = calls
	}
	return ""
}

// Asked implements wiretest.Protocol.
func (Generate) Asked(body []byte) (a wiretest.Asked) {
	var s sent
	_ = json.Unmarshal(body, &s) // it was checked
	if s.System != nil {
		for _, p := range s.System.Parts {
			a.System += *p.Text
		}
	}
	for _, c := range s.Contents {
		for _, p := range c.Parts {
			if p.Signature != "" {
				a.Lines = append(a.Lines, "thinking: "+p.Signature)
			}
			switch {
			case p.Call != nil:
				a.Lines = append(a.Lines, "call: "+p.Call.Name+" "+string(p.Call.Args))
			case p.Response != nil:
				a.Lines = append(a.Lines, "result: "+p.Response.Response.Output)
			case p.Inline != nil && strings.HasPrefix(p.Inline.MimeType, "image/"):
				a.Lines = append(a.Lines, "image: "+p.Inline.MimeType+" "+p.Inline.Data)
			case p.Inline != nil:
				a.Lines = append(a.Lines, "document: "+p.Inline.MimeType+" "+p.Inline.Data)
			case p.Text != nil:
				a.Lines = append(a.Lines, c.Role+": "+*p.Text)
			}
		}
	}
	for _, t := range s.Tools {
		for _, f := range t.Functions {
			a.Tools = append(a.Tools, f.Name)
		}
	}
	a.Choice = map[string]string{"ANY": "required", "NONE": "none", "AUTO": "auto"}[s.Config.Calling.Mode]
	if len(s.Config.Calling.Allowed) > 0 {
		a.Choice = s.Config.Calling.Allowed[0]
	}
	a.MaxTokens, a.Temperature, a.Stop, a.Form = s.Settings.MaxTokens, s.Settings.Temperature, s.Settings.Stop, string(s.Settings.Schema)
	return a
}

// Streams implements wiretest.Protocol.
func (Generate) Streams(r *http.Request, _ []byte) bool {
	return strings.Contains(r.URL.Path, ":streamGenerateContent")
}

type object = map[string]any

func finishOf(a wiretest.Answer) string {
	switch a.Finish {
	case model.FinishLength:
		return "MAX_TOKENS"
	case model.FinishFilter:
		return "SAFETY"
	case "unknown":
		return "TIRED"
	}
	return "STOP"
}

func chunkOf(a wiretest.Answer, parts []object, finish string) object {
	c := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	out := object{"candidates": []any{c}, "modelVersion": "gemini-3-pro"}
	if finish != "" {
		c["finishReason"] = finish
		if !a.NoUsage {
			u := a.Usage
			out["usageMetadata"] = object{"promptTokenCount": u.Input, "cachedContentTokenCount": u.Cached, "candidatesTokenCount": u.Output - u.Thinking,
				"thoughtsTokenCount": u.Thinking, "totalTokenCount": u.Input + u.Output}
		}
	}
	return out
}

// partsOf returns the parts of a block, cut at spaces. A signature stands with the part
// after its thought.
func partsOf(b wiretest.Block, signature string, cut bool) (parts []object) {
	pieces := func(s string) []string {
		if !cut {
			return []string{s}
		}
		return strings.SplitAfter(s, " ")
	}
	switch {
	case b.Thinking != "":
		for _, p := range pieces(b.Thinking) {
			parts = append(parts, object{"text": p, "thought": true})
		}
		return parts
	case b.Call != nil:
		parts = append(parts, object{"functionCall": object{"name": b.Call.Name, "args": jsontext.Value(b.Call.Arguments)}})
	case signature != "":
		parts = append(parts, object{"text": b.Text})
	default:
		for _, p := range pieces(b.Text) {
			if p != "" {
				parts = append(parts, object{"text": p})
			}
		}
	}
	if signature != "" {
		parts[0]["thoughtSignature"] = signature
	}
	return parts
}

func allParts(a wiretest.Answer, cut bool) (all []object) {
	signature := ""
	for _, b := range a.Blocks {
		all = append(all, partsOf(b, signature, cut)...)
		signature = b.Signature
	}
	return all
}

// Whole implements wiretest.Protocol.
func (Generate) Whole(a wiretest.Answer) []byte {
	return wiretest.Encode(chunkOf(a, allParts(a, false), finishOf(a)))
}

func frame(v any) []byte { return fmt.Appendf(nil, "data: %s\r\n\r\n", wiretest.Encode(v)) }

// Stream implements wiretest.Protocol.
func (Generate) Stream(a wiretest.Answer) (out [][]byte) {
	for _, p := range allParts(a, true) {
		out = append(out, frame(chunkOf(a, []object{p}, "")))
	}
	return append(out, frame(chunkOf(a, []object{}, finishOf(a))))
}

// Failure implements wiretest.Protocol.
func (Generate) Failure(status int, message string) []byte {
	kind := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}[status]
	if status == 200 {
		status = 500
	}
	return wiretest.Encode(object{"error": object{"code": status, "message": message, "status": kind}})
}

// StreamFailure implements wiretest.Protocol.
func (g Generate) StreamFailure(message string) []byte {
	return fmt.Appendf(nil, "data: %s\r\n\r\n", g.Failure(503, message))
}
