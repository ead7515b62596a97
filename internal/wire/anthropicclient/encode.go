package anthropicclient

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a content block of a request. Raw replaces all other members.
type block struct {
	Type      string         `json:"type"`
	Text      string         `json:"text,omitzero"`
	Source    *source        `json:"source,omitzero"`
	Title     string         `json:"title,omitzero"`
	ID        string         `json:"id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Input     jsontext.Value `json:"input,omitzero"`
	ToolUseID string         `json:"tool_use_id,omitzero"`
	Content   []block        `json:"content,omitzero"`
	Cache     *cacheControl  `json:"cache_control,omitzero"`

	raw jsontext.Value
}

// MarshalJSONTo implements json.MarshalerTo.
func (b *block) MarshalJSONTo(enc *jsontext.Encoder) error {
	if b.raw != nil {
		return enc.WriteValue(b.raw)
	}
	type plain block
	return json.MarshalEncode(enc, (*plain)(b))
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitzero"`
	Data      string `json:"data,omitzero"`
	URL       string `json:"url,omitzero"`
}

type cacheControl struct {
	Type string `json:"type"`
}

type tool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"input_schema"`
	Strict      bool           `json:"strict,omitzero"`
}

type toolChoice struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitzero"`
	OneCall bool   `json:"disable_parallel_tool_use,omitzero"`
}

type thinking struct {
	Type    string `json:"type"`
	Budget  int    `json:"budget_tokens,omitzero"`
	Display string `json:"display,omitzero"`
}

type outputConfig struct {
	Effort string  `json:"effort,omitzero"`
	Format *format `json:"format,omitzero"`
}

type format struct {
	Type   string         `json:"type"`
	Schema jsontext.Value `json:"schema"`
}

type request struct {
	Model       string        `json:"model"`
	MaxTokens   int           `json:"max_tokens"`
	System      []block       `json:"system,omitzero"`
	Messages    []message     `json:"messages"`
	Tools       []tool        `json:"tools,omitzero"`
	ToolChoice  *toolChoice   `json:"tool_choice,omitzero"`
	Thinking    *thinking     `json:"thinking,omitzero"`
	Output      *outputConfig `json:"output_config,omitzero"`
	Temperature *float64      `json:"temperature,omitzero"`
	TopP        *float64      `json:"top_p,omitzero"`
	Stop        []string      `json:"stop_sequences,omitzero"`
	Stream      bool          `json:"stream,omitzero"`
}

// encoder writes one request.
type encoder struct {
	req   *model.Request
	style dialect
	ids   modelcall.CallIDs
	lost  []string // parameters that were left out
}

// lenient writes what people and models wrote, as it is.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// encode returns the body. Errors: *model.Error for what the API cannot take.
func (e *encoder) encode(stream bool) ([]byte, error) {
	out, err := e.build(stream)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out, lenient)
}

func (e *encoder) build(stream bool) (*request, error) {
	e.ids.Max = 64
	prompt := modelcall.NewPrompt(e.req, func(m *modelcall.Media) bool {
		_, err := e.media(m)
		return err == nil
	})
	out := request{Model: e.req.Target.Model, MaxTokens: maxTokens(e.req, e.style), Stream: stream, Stop: e.req.Stop}
	out.Tools, out.ToolChoice = e.tools()
	form := e.form(&out)
	e.think(&out, prompt)
	e.sampling(&out)
	for _, text := range append(prompt.System, form...) {
		out.System = append(out.System, block{Type: "text", Text: text})
	}
	for i := range prompt.Turns {
		m, err := e.turn(&prompt.Turns[i])
		if err != nil {
			return nil, err
		}
		if len(m.Content) > 0 {
			out.Messages = append(out.Messages, m)
		}
	}
	if e.req.CacheKey != "" {
		e.markCaches(&out, prompt)
	}
	return &out, nil
}

// dropped returns the parameters that were left out.
func (e *encoder) dropped() []string {
	return append((e.style.dropped | lacking).DroppedOf(e.req), e.lost...)
}

func (e *encoder) tools() (tools []tool, choice *toolChoice) {
	for i := range e.req.Tools {
		t := &e.req.Tools[i]
		schema := t.Parameters
		if schema.Kind() != '{' {
			schema = jsontext.Value(`{"type":"object","properties":{}}`)
		}
		tools = append(tools, tool{t.Name, t.Description, schema, t.Strict && !e.style.noStrict})
	}
	if tools == nil {
		return nil, nil
	}
	c := modelcall.ChoiceOf(e.req)
	switch {
	case c.Mode == "none":
		return tools, &toolChoice{Type: "none"}
	case c.Mode == "required" && c.Name != "":
		return tools, &toolChoice{Type: "tool", Name: c.Name, OneCall: c.OneCall}
	case c.Mode == "required":
		return tools, &toolChoice{Type: "any", OneCall: c.OneCall}
	case c.OneCall:
		return tools, &toolChoice{Type: "auto", OneCall: true}
	}
	return tools, nil
}

// form sets the form of the answer, or returns the words that ask for it.
func (e *encoder) form(out *request) []string {
	f := modelcall.FormOf(e.req)
	switch {
	case f == nil:
		return nil
	case f.Schema == nil || e.style.noForm || e.style.dropped.Drops("response_format"):
		return []string{f.Note()}
	}
	out.Output = &outputConfig{Format: &format{Type: "json_schema", Schema: f.Schema}}
	return nil
}

// sampling sets the temperature and the like, which a thinking model does not take.
func (e *encoder) sampling(out *request) {
	for _, p := range []struct {
		name string
		from *float64
		to   **float64
	}{{"temperature", e.req.Temperature, &out.Temperature}, {"top_p", e.req.TopP, &out.TopP}} {
		switch {
		case p.from == nil || e.style.dropped.Drops(p.name):
		case out.Thinking != nil:
			e.lost = append(e.lost, p.name)
		case p.name == "temperature":
			*p.to = new(min(*p.from, 1)) // OpenAI's range is twice as wide
		default:
			*p.to = p.from
		}
	}
	if e.style.dropped.Drops("stop") {
		out.Stop = nil
	}
}

// turn encodes a turn.
func (e *encoder) turn(t *modelcall.Turn) (m message, err error) {
	if t.Model != nil {
		m.Role = "assistant"
		for _, said := range t.Model {
			m.Content = append(m.Content, e.said(said)...)
		}
		return m, nil
	}
	m.Role = "user"
	m.Content, err = e.blocks(t.Blocks)
	return m, err
}

func (e *encoder) blocks(all []modelcall.Block) (blocks []block, err error) {
	for _, b := range all {
		switch {
		case b.Result != nil:
			content, err := e.blocks(b.Result.Blocks)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, block{Type: "tool_result", ToolUseID: e.ids.Of(b.Result.Call.ID), Content: content})
		case b.Media != nil:
			m, err := e.media(b.Media)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, m)
		case strings.TrimSpace(b.Text) != "":
			blocks = append(blocks, block{Type: "text", Text: b.Text})
		}
	}
	return blocks, nil
}

// media encodes an image or a document.
func (e *encoder) media(m *modelcall.Media) (block, error) {
	switch {
	case m.URL != "" && (m.Type == "application/pdf" || strings.HasSuffix(strings.ToLower(m.Name+m.URL), ".pdf")):
		return block{Type: "document", Title: m.Name, Source: &source{Type: "url", URL: m.URL}}, nil
	case m.URL != "":
		return block{Type: "image", Source: &source{Type: "url", URL: m.URL}}, nil
	case m.Is("image"):
		return block{Type: "image", Source: &source{Type: "base64", MediaType: m.Type, Data: m.Data}}, nil
	case m.Type == "application/pdf":
		return block{Type: "document", Title: m.Name, Source: &source{Type: "base64", MediaType: m.Type, Data: m.Data}}, nil
	case m.Is("text"):
		if text, err := base64.StdEncoding.DecodeString(m.Data); err == nil {
			return block{Type: "document", Title: m.Name, Source: &source{Type: "text", MediaType: "text/plain", Data: string(text)}}, nil
		}
	}
	return block{}, modelcall.Unsupported(e.req, m, "images, PDF and text")
}

// said encodes a message of the model. Arguments that are no JSON object go back as {}.
func (e *encoder) said(m *model.Message) []block {
	var calls []block
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		calls = append(calls, block{Type: "tool_use", ID: e.ids.Of(c.ID), Name: c.Name, Input: modelcall.ValidObject(c.Arguments)})
	}
	text := model.Plain(m)
	if !e.style.noOpaque && m.HasOpaque() && e.style.thinking != withoutIt {
		return modelcall.Arrange(modelcall.ReadLayout(m.Opaque.Data), text, calls, thought, textBlocks)
	}
	return append(textBlocks(text, ""), calls...)
}

func thought(v jsontext.Value) block { return block{raw: v} }

func textBlocks(text, _ string) []block {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return []block{{Type: "text", Text: text}}
}

// markCaches sets the places up to which the provider keeps the prompt: the system's
// messages with the tools, the history before the newest message, and the whole.
func (e *encoder) markCaches(out *request, prompt *modelcall.Prompt) {
	if n := len(out.System); n > 0 {
		out.System[n-1].Cache = &cacheControl{"ephemeral"}
	}
	if len(out.Messages) != len(prompt.Turns) {
		return
	}
	for i := range out.Messages {
		if i < len(out.Messages)-1 && !prompt.Turns[i].Stable {
			continue
		}
		content := out.Messages[i].Content
		for j := len(content) - 1; j >= 0; j-- {
			if content[j].raw == nil {
				content[j].Cache = &cacheControl{"ephemeral"}
				break
			}
		}
	}
}
