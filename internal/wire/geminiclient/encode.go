package geminiclient

import (
	"mime"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

type content struct {
	Role  string `json:"role,omitzero"`
	Parts []part `json:"parts"`
}

type part struct {
	Text      *string       `json:"text,omitzero"`
	Inline    *blob         `json:"inlineData,omitzero"`
	File      *fileData     `json:"fileData,omitzero"`
	Call      *functionCall `json:"functionCall,omitzero"`
	Response  *response     `json:"functionResponse,omitzero"`
	Signature string        `json:"thoughtSignature,omitzero"`
}

type blob struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type fileData struct {
	MimeType string `json:"mimeType,omitzero"`
	URI      string `json:"fileUri"`
}

type functionCall struct {
	Name string         `json:"name"`
	Args jsontext.Value `json:"args"`
}

type response struct {
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type declaration struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parametersJsonSchema,omitzero"`
}

type tools struct {
	Functions []declaration `json:"functionDeclarations"`
}

type toolConfig struct {
	Calling struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames,omitzero"`
	} `json:"functionCallingConfig"`
}

type thinkingConfig struct {
	Level    string `json:"thinkingLevel,omitzero"`
	Budget   *int   `json:"thinkingBudget,omitzero"`
	Thoughts bool   `json:"includeThoughts,omitzero"`
}

type generationConfig struct {
	MaxTokens   int             `json:"maxOutputTokens,omitzero"`
	Temperature *float64        `json:"temperature,omitzero"`
	TopP        *float64        `json:"topP,omitzero"`
	Stop        []string        `json:"stopSequences,omitzero"`
	Seed        jsontext.Value  `json:"seed,omitzero"`
	Presence    jsontext.Value  `json:"presencePenalty,omitzero"`
	Frequency   jsontext.Value  `json:"frequencyPenalty,omitzero"`
	MimeType    string          `json:"responseMimeType,omitzero"`
	Schema      jsontext.Value  `json:"responseJsonSchema,omitzero"`
	Thinking    *thinkingConfig `json:"thinkingConfig,omitzero"`
}

type request struct {
	System   *content         `json:"systemInstruction,omitzero"`
	Contents []content        `json:"contents"`
	Tools    []tools          `json:"tools,omitzero"`
	Config   *toolConfig      `json:"toolConfig,omitzero"`
	Settings generationConfig `json:"generationConfig,omitzero"`
}

// encoder writes one request.
type encoder struct {
	req   *model.Request
	style dialect
	lost  []string // parameters that were left out
}

// lenient writes what people and models wrote, as it is.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// encode returns the body. Errors: *model.Error for what the API cannot take.
func (e *encoder) encode() ([]byte, error) {
	out, err := e.build()
	if err != nil {
		return nil, err
	}
	return json.Marshal(out, lenient)
}

func (e *encoder) build() (*request, error) {
	prompt := modelcall.NewPrompt(e.req, func(m *modelcall.Media) bool { return m.URL != "" || m.Type != "" && m.Data != "" })
	out := request{}
	form := e.settings(&out.Settings)
	e.tools(&out)
	if texts := append(prompt.System, form...); len(texts) > 0 {
		out.System = &content{}
		for i := range texts {
			out.System.Parts = append(out.System.Parts, part{Text: &texts[i]})
		}
	}
	for i := range prompt.Turns {
		t := &prompt.Turns[i]
		c := content{Role: "user"}
		if t.Model != nil {
			c.Role = "model"
			for _, m := range t.Model {
				c.Parts = append(c.Parts, e.said(m)...)
			}
		} else {
			var err error
			if c.Parts, err = e.parts(t.Blocks); err != nil {
				return nil, err
			}
		}
		if len(c.Parts) > 0 {
			out.Contents = append(out.Contents, c)
		}
	}
	return &out, nil
}

// dropped returns the parameters that were left out.
func (e *encoder) dropped() []string {
	return append((e.style.dropped | lacking).DroppedOf(e.req), e.lost...)
}

// settings sets how the model answers, and returns the words that ask for the form of the
// answer where there is no setting for it.
func (e *encoder) settings(s *generationConfig) []string {
	extra := func(field string) jsontext.Value {
		if e.style.dropped.Drops(field) {
			return nil
		}
		return e.req.Extra[field]
	}
	s.MaxTokens = e.req.MaxTokens
	if !e.style.dropped.Drops("temperature") {
		s.Temperature = e.req.Temperature
	}
	if !e.style.dropped.Drops("top_p") {
		s.TopP = e.req.TopP
	}
	if !e.style.dropped.Drops("stop") {
		s.Stop = e.req.Stop
	}
	s.Seed, s.Presence, s.Frequency = extra("seed"), extra("presence_penalty"), extra("frequency_penalty")
	e.think(s)
	f := modelcall.FormOf(e.req)
	switch {
	case f == nil:
		return nil
	case e.style.noForm || e.style.dropped.Drops("response_format"):
		return []string{f.Note()}
	}
	s.MimeType, s.Schema = "application/json", f.Schema
	return nil
}

// think sets how the model thinks.
func (e *encoder) think(s *generationConfig) {
	if !requestsThinking(e.req) {
		return
	}
	effort, budget := modelcall.Effort(e.req), budgetOf(e.req)
	switch e.style.form(e.req) {
	case asBudget:
		if budget == 0 {
			budget = modelcall.BudgetFor(effort)
		}
		s.Thinking = &thinkingConfig{Budget: &budget, Thoughts: budget > 0}
	case asLevel:
		level := effort
		switch effort {
		case "none", "":
			level = "low"
		case "xhigh", "max":
			level = "high"
		}
		s.Thinking = &thinkingConfig{Level: level, Thoughts: true}
	default:
		e.lost = append(e.lost, "reasoning_effort")
	}
}

func (e *encoder) tools(out *request) {
	var all []declaration
	for i := range e.req.Tools {
		t := &e.req.Tools[i]
		all = append(all, declaration{t.Name, t.Description, t.Parameters})
	}
	if all == nil {
		return
	}
	out.Tools = []tools{{all}}
	c := modelcall.ChoiceOf(e.req)
	if !c.Explicit {
		return
	}
	out.Config = &toolConfig{}
	out.Config.Calling.Mode = map[string]string{"none": "NONE", "required": "ANY"}[c.Mode]
	if out.Config.Calling.Mode == "" {
		out.Config.Calling.Mode = "AUTO"
	}
	if c.Name != "" {
		out.Config.Calling.Allowed = []string{c.Name}
	}
}

// parts encodes a turn of the user. Media of results stand beside them.
func (e *encoder) parts(blocks []modelcall.Block) (parts []part, err error) {
	for _, b := range blocks {
		switch {
		case b.Result != nil:
			texts, media := []string{}, []modelcall.Block{}
			for _, inner := range b.Result.Blocks {
				if inner.Media != nil {
					media = append(media, inner)
				} else {
					texts = append(texts, inner.Text)
				}
			}
			said := map[string]string{"output": strings.Join(texts, "\n\n")}
			parts = append(parts, part{Response: &response{b.Result.Call.Name, said}})
			more, err := e.parts(media)
			if err != nil {
				return nil, err
			}
			parts = append(parts, more...)
		case b.Media != nil && b.Media.URL != "":
			kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(b.Media.URL)), ";")
			parts = append(parts, part{File: &fileData{MimeType: kind, URI: b.Media.URL}})
		case b.Media != nil:
			if b.Media.Type == "" || b.Media.Data == "" {
				return nil, modelcall.Unsupported(e.req, b.Media, "images, audio, video, PDF and text")
			}
			parts = append(parts, part{Inline: &blob{b.Media.Type, b.Media.Data}})
		case b.Text != "":
			parts = append(parts, part{Text: &b.Text})
		}
	}
	return parts, nil
}

// skippedSignature is what Gemini takes in place of the signature of a call that another
// model made.
const skippedSignature = "skip_thought_signature_validator"

// said encodes a message of the model. Arguments that are no JSON object go back as {}.
func (e *encoder) said(m *model.Message) (parts []part) {
	own := m.HasOpaque() && !e.style.noOpaque
	text := model.Plain(m)
	var signed []segment
	if own {
		_ = json.Unmarshal([]byte(m.Opaque.Data), &signed, modelcall.Lenient) // a client may have kept it: other data is none
	}
	for _, s := range signed {
		if s.Bytes < 0 || s.Bytes > len(text) {
			break
		}
		piece := text[:s.Bytes]
		text = text[s.Bytes:]
		parts = append(parts, part{Text: &piece, Signature: s.Signature})
	}
	if text != "" {
		parts = append(parts, part{Text: &text})
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		p := part{Call: &functionCall{c.Name, modelcall.ValidObject(c.Arguments)}}
		switch {
		case own && c.Opaque != "":
			p.Signature = c.Opaque
		case i == 0 && e.style.skipSignatures:
			p.Signature = skippedSignature
		}
		parts = append(parts, p)
	}
	return parts
}

// segment is a part of an answer's text, with the signature that came with it. A list of
// them is the opaque data of a message; those of calls stand with the calls.
type segment struct {
	Bytes     int    `json:"t"`
	Signature string `json:"s,omitzero"`
}

func encodeSegments(all []segment) string {
	for _, s := range all {
		if s.Signature != "" {
			return strings.ToValidUTF8(string(modelcall.MustMarshal(all)), "\uFFFD")
		}
	}
	return ""
}
