package responsesclient

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// item is an element of the input. Raw replaces all other members.
type item struct {
	Type      string         `json:"type"`
	Role      string         `json:"role,omitzero"`
	Phase     string         `json:"phase,omitzero"`
	Content   jsontext.Value `json:"content,omitzero"` // of a message: a text or parts
	CallID    string         `json:"call_id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Arguments string         `json:"arguments,omitzero"`
	Output    jsontext.Value `json:"output,omitzero"` // of a call: a text or parts

	raw jsontext.Value
}

// MarshalJSONTo implements json.MarshalerTo.
func (i *item) MarshalJSONTo(enc *jsontext.Encoder) error {
	if i.raw != nil {
		return enc.WriteValue(i.raw)
	}
	type plain item
	return json.MarshalEncode(enc, (*plain)(i))
}

// part is a content part of the user's.
type part struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitzero"`
	ImageURL string `json:"image_url,omitzero"`
	Filename string `json:"filename,omitzero"`
	FileData string `json:"file_data,omitzero"`
	FileURL  string `json:"file_url,omitzero"`
}

// tool is a function. Strict is always sent: the API's default is true.
type tool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      bool           `json:"strict"`
}

type format struct {
	Type   string         `json:"type"`
	Name   string         `json:"name,omitzero"`
	Schema jsontext.Value `json:"schema,omitzero"`
	Strict *bool          `json:"strict,omitzero"`
}

type textSettings struct {
	Format    *format        `json:"format,omitzero"`
	Verbosity jsontext.Value `json:"verbosity,omitzero"`
}

type reasoning struct {
	Effort  string `json:"effort,omitzero"`
	Summary string `json:"summary,omitzero"`
}

type request struct {
	Model        string         `json:"model"`
	Instructions string         `json:"instructions,omitzero"`
	Input        []item         `json:"input"`
	Tools        []tool         `json:"tools,omitzero"`
	ToolChoice   jsontext.Value `json:"tool_choice,omitzero"`
	Parallel     *bool          `json:"parallel_tool_calls,omitzero"`
	Text         textSettings   `json:"text,omitzero"`
	Reasoning    *reasoning     `json:"reasoning,omitzero"`
	MaxTokens    int            `json:"max_output_tokens,omitzero"`
	Temperature  *float64       `json:"temperature,omitzero"`
	TopP         *float64       `json:"top_p,omitzero"`
	ServiceTier  jsontext.Value `json:"service_tier,omitzero"`
	CacheKey     string         `json:"prompt_cache_key,omitzero"`
	Store        bool           `json:"store"`
	Include      []string       `json:"include,omitzero"`
	Stream       bool           `json:"stream,omitzero"`
}

// encoder writes one request.
type encoder struct {
	req   *model.Request
	style dialect
	ids   modelcall.CallIDs
	lost  []string // parameters that were left out
}

// minTokens is the smallest output cap that the API takes.
const minTokens = 16

// encode returns the body. Errors: *model.Error for what the API cannot take.
func (e *encoder) encode(stream bool) ([]byte, error) {
	e.ids.Max = 64
	prompt := modelcall.NewPrompt(e.req, func(m *modelcall.Media) bool {
		_, err := e.part(&modelcall.Block{Media: m})
		return err == nil
	})
	out := request{Model: e.req.Target.Model, Stream: stream, ServiceTier: e.req.Extra["service_tier"]}
	if e.req.MaxTokens > 0 {
		out.MaxTokens = max(minTokens, e.req.MaxTokens)
	}
	e.tools(&out)
	texts := append(prompt.System, e.form(&out)...)
	e.settings(&out)
	out.Instructions = strings.Join(texts, "\n\n")
	for i := range prompt.Turns {
		t := &prompt.Turns[i]
		for _, said := range t.Model {
			out.Input = append(out.Input, e.said(said)...)
		}
		asked, err := e.asked(t.Blocks)
		if err != nil {
			return nil, err
		}
		out.Input = append(out.Input, asked...)
	}
	return json.Marshal(&out, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// dropped returns the parameters that were left out.
func (e *encoder) dropped() []string {
	return append((e.style.dropped | lacking).DroppedOf(e.req), e.lost...)
}

func (e *encoder) tools(out *request) {
	for i := range e.req.Tools {
		t := &e.req.Tools[i]
		schema := t.Parameters
		if schema.Kind() != '{' {
			schema = jsontext.Value(`{"type":"object","properties":{}}`)
		}
		out.Tools = append(out.Tools, tool{"function", t.Name, t.Description, schema, t.Strict})
	}
	if out.Tools == nil {
		return
	}
	c := modelcall.ChoiceOf(e.req)
	if c.OneCall && !e.style.dropped.Drops("parallel_tool_calls") {
		out.Parallel = new(false)
	}
	switch {
	case c.Name != "":
		out.ToolChoice = modelcall.MustMarshal(map[string]string{"type": "function", "name": c.Name})
	case c.Explicit:
		out.ToolChoice = modelcall.AppendString(nil, c.Mode)
	}
}

// form sets the form of the answer, or returns the words that ask for it. The API takes
// no JSON object where no message asks for JSON.
func (e *encoder) form(out *request) []string {
	f := modelcall.FormOf(e.req)
	switch {
	case f == nil:
		return nil
	case e.style.noForm || e.style.dropped.Drops("response_format"):
		return []string{f.Note()}
	case f.Schema == nil:
		out.Text.Format = &format{Type: "json_object"}
		return []string{f.Note()}
	}
	name := f.Name
	if name == "" {
		name = "answer"
	}
	out.Text.Format = &format{Type: "json_schema", Name: name, Schema: f.Schema, Strict: &f.Strict}
	return nil
}

// settings sets how the model answers.
func (e *encoder) settings(out *request) {
	if !e.style.dropped.Drops("temperature") {
		out.Temperature = e.req.Temperature
	}
	if !e.style.dropped.Drops("top_p") {
		out.TopP = e.req.TopP
	}
	out.Text.Verbosity = e.req.Extra["verbosity"]
	if !e.style.noCacheKey {
		out.CacheKey = e.req.CacheKey
	}
	if !e.style.noEncrypted {
		out.Include = []string{"reasoning.encrypted_content"}
	}
	effort := modelcall.Effort(e.req)
	switch {
	case effort == "":
		return
	case e.style.noReasoning:
		e.lost = append(e.lost, "reasoning_effort")
		return
	case effort == "max":
		effort = "xhigh"
	}
	out.Reasoning = &reasoning{Effort: effort}
	if effort != "none" && !e.style.noSummary {
		out.Reasoning.Summary = "auto"
	}
}

// asked encodes a turn of the user: the results of calls, and a message with the rest.
func (e *encoder) asked(blocks []modelcall.Block) (items []item, err error) {
	var rest []part
	for i := range blocks {
		if r := blocks[i].Result; r != nil {
			output, err := e.output(r)
			if err != nil {
				return nil, err
			}
			items = append(items, item{Type: "function_call_output", CallID: e.ids.Of(r.Call.ID), Output: output})
			continue
		}
		p, err := e.part(&blocks[i])
		if err != nil {
			return nil, err
		}
		rest = append(rest, p)
	}
	if rest != nil {
		items = append(items, item{Type: "message", Role: "user", Content: modelcall.MustMarshal(rest)})
	}
	return items, nil
}

// output encodes a tool's result: a text, or parts if there are media in it.
func (e *encoder) output(r *modelcall.Result) (jsontext.Value, error) {
	var texts []string
	parts := make([]part, 0, len(r.Blocks))
	for i := range r.Blocks {
		p, err := e.part(&r.Blocks[i])
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		texts = append(texts, p.Text)
	}
	if slices.ContainsFunc(parts, func(p part) bool { return p.Type != "input_text" }) {
		return modelcall.MustMarshal(parts), nil
	}
	return modelcall.AppendString(nil, strings.Join(texts, "\n\n")), nil
}

// part encodes a text or a medium. Files of text are sent as such.
func (e *encoder) part(b *modelcall.Block) (part, error) {
	m := b.Media
	switch {
	case m == nil:
		return part{Type: "input_text", Text: b.Text}, nil
	case m.URL != "" && (m.Type == "application/pdf" || strings.HasSuffix(strings.ToLower(m.Name+m.URL), ".pdf")):
		return part{Type: "input_file", FileURL: m.URL}, nil
	case m.URL != "":
		return part{Type: "input_image", ImageURL: m.URL}, nil
	case m.Is("image"):
		return part{Type: "input_image", ImageURL: "data:" + m.Type + ";base64," + m.Data}, nil
	case m.Type == "application/pdf":
		name := m.Name
		if name == "" {
			name = "document.pdf"
		}
		return part{Type: "input_file", Filename: name, FileData: "data:" + m.Type + ";base64," + m.Data}, nil
	case m.Is("text"):
		if text, err := base64.StdEncoding.DecodeString(m.Data); err == nil {
			return part{Type: "input_text", Text: strings.TrimPrefix(m.Name+"\n\n", "\n\n") + string(text)}, nil
		}
	}
	return part{}, modelcall.Unsupported(e.req, m, "images, PDF and text")
}

// said encodes a message of the model.
func (e *encoder) said(m *model.Message) []item {
	calls := make([]item, 0, len(m.ToolCalls))
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		calls = append(calls, item{
			Type: "function_call", CallID: e.ids.Of(c.ID), Name: c.Name, Arguments: string(modelcall.ValidObject(c.Arguments)),
		})
	}
	text := model.Plain(m)
	if m.HasOpaque() && !e.style.noOpaque {
		items := modelcall.Arrange(modelcall.ReadLayout(m.Opaque.Data), text, calls, func(v jsontext.Value) item { return item{raw: v} }, message)
		for len(items) > 0 && items[len(items)-1].raw != nil { // the API refuses reasoning that nothing follows
			items = items[:len(items)-1]
		}
		return items
	}
	return append(message(text, ""), calls...)
}

// message returns a message of the model; none for no text.
func message(text, phase string) []item {
	if text == "" {
		return nil
	}
	return []item{{Type: "message", Role: "assistant", Phase: phase, Content: modelcall.AppendString(nil, text)}}
}
