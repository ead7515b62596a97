package bedrockclient

import (
	"slices"
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

// block is a content block. Exactly one member is set.
type block struct {
	Text       string         `json:"text,omitzero"`
	Image      *media         `json:"image,omitzero"`
	Document   *media         `json:"document,omitzero"`
	ToolUse    *toolUse       `json:"toolUse,omitzero"`
	ToolResult *toolResult    `json:"toolResult,omitzero"`
	Reasoning  jsontext.Value `json:"reasoningContent,omitzero"`
	CachePoint *cachePoint    `json:"cachePoint,omitzero"`
}

type media struct {
	Format string `json:"format"`
	Name   string `json:"name,omitzero"`
	Source struct {
		Bytes string `json:"bytes"`
	} `json:"source"`
}

type toolUse struct {
	ID    string         `json:"toolUseId"`
	Name  string         `json:"name"`
	Input jsontext.Value `json:"input"`
}

type toolResult struct {
	ID      string  `json:"toolUseId"`
	Content []block `json:"content"`
}

type cachePoint struct {
	Type string `json:"type"`
}

type tool struct {
	Spec *toolSpec `json:"toolSpec,omitzero"`
}

type toolSpec struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Schema      struct {
		JSON jsontext.Value `json:"json"`
	} `json:"inputSchema"`
	Strict bool `json:"strict,omitzero"`
}

type toolConfig struct {
	Tools  []tool         `json:"tools"`
	Choice jsontext.Value `json:"toolChoice,omitzero"`
}

type inferenceConfig struct {
	MaxTokens   int      `json:"maxTokens,omitzero"`
	Temperature *float64 `json:"temperature,omitzero"`
	TopP        *float64 `json:"topP,omitzero"`
	Stop        []string `json:"stopSequences,omitzero"`
}

type outputConfig struct {
	Format textFormat `json:"textFormat"`
}

type textFormat struct {
	Type      string `json:"type"`
	Structure struct {
		Schema struct {
			Schema string `json:"schema"`
			Name   string `json:"name,omitzero"`
		} `json:"jsonSchema"`
	} `json:"structure"`
}

type request struct {
	Messages   []message       `json:"messages"`
	System     []block         `json:"system,omitzero"`
	Inference  inferenceConfig `json:"inferenceConfig,omitzero"`
	Tools      *toolConfig     `json:"toolConfig,omitzero"`
	Output     *outputConfig   `json:"outputConfig,omitzero"`
	Additional map[string]any  `json:"additionalModelRequestFields,omitzero"`
}

// encoder writes one request.
type encoder struct {
	req       *model.Request
	style     dialect
	ids       modelcall.CallIDs
	documents int
	lost      []string // parameters that were left out
}

// lenient writes what people and models wrote, as it is.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), json.Deterministic(true))

// encode returns the body. Errors: *model.Error for what the API cannot take.
func (e *encoder) encode() ([]byte, error) {
	out, err := e.build()
	if err != nil {
		return nil, err
	}
	return json.Marshal(out, lenient)
}

func (e *encoder) build() (*request, error) {
	e.ids.Max = 64
	prompt := modelcall.NewPrompt(e.req, func(m *modelcall.Media) bool {
		_, err := e.media(m)
		return err == nil
	})
	e.documents = 0 // their names stay the same from call to call
	out := request{}
	e.tools(&out, prompt)
	texts := append(prompt.System, e.form(&out)...)
	e.settings(&out, prompt)
	var system []block
	for _, text := range texts {
		system = append(system, textBlocks(text, "")...)
	}
	for i := range prompt.Turns {
		m, err := e.turn(&prompt.Turns[i])
		if err != nil {
			return nil, err
		}
		out.Messages = append(out.Messages, m)
	}
	if e.style.noSystem {
		out.Messages[0].Content = append(system, out.Messages[0].Content...)
	} else {
		out.System = system
	}
	if e.req.CacheKey != "" && !e.style.noCache {
		markCaches(&out, prompt)
	}
	return &out, nil
}

// dropped returns the parameters that were left out.
func (e *encoder) dropped() []string {
	return append((e.style.dropped | lacking).DroppedOf(e.req), e.lost...)
}

// tools sets the tools and their choice. A conversation with calls needs tools even if
// none may be called: those are declared that it has called. The API has no choice of none.
func (e *encoder) tools(out *request, prompt *modelcall.Prompt) {
	c := modelcall.ChoiceOf(e.req)
	called := calledTools(prompt)
	specs := e.req.Tools
	if c.Mode == "none" && called == nil {
		return
	}
	if len(specs) == 0 {
		specs = called
	}
	if len(specs) == 0 {
		return
	}
	out.Tools = &toolConfig{}
	for i := range specs {
		t := &toolSpec{Name: specs[i].Name, Description: specs[i].Description, Strict: specs[i].Strict && !e.style.noStrict}
		t.Schema.JSON = specs[i].Parameters
		if t.Schema.JSON.Kind() != '{' {
			t.Schema.JSON = jsontext.Value(`{"type":"object","properties":{}}`)
		}
		out.Tools.Tools = append(out.Tools.Tools, tool{t})
	}
	switch {
	case e.style.noChoice || len(e.req.Tools) == 0 || !c.Explicit || c.Mode == "none":
	case c.Name != "":
		out.Tools.Choice = modelcall.MustMarshal(map[string]any{"tool": map[string]string{"name": c.Name}})
	case c.Mode == "required":
		out.Tools.Choice = jsontext.Value(`{"any":{}}`)
	default:
		out.Tools.Choice = jsontext.Value(`{"auto":{}}`)
	}
}

// calledTools returns the tools that a conversation has called, by their names alone.
func calledTools(prompt *modelcall.Prompt) (specs []model.ToolSpec) {
	for i := range prompt.Turns {
		for _, m := range prompt.Turns[i].Model {
			for _, c := range m.ToolCalls {
				if !slices.ContainsFunc(specs, func(s model.ToolSpec) bool { return s.Name == c.Name }) {
					specs = append(specs, model.ToolSpec{Name: c.Name, Description: "Not available now."})
				}
			}
		}
	}
	return specs
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
	out.Output = &outputConfig{Format: textFormat{Type: "json_schema"}}
	out.Output.Format.Structure.Schema.Schema = string(f.Schema)
	out.Output.Format.Structure.Schema.Name = f.Name
	return nil
}

// settings sets how the model answers and thinks.
func (e *encoder) settings(out *request, prompt *modelcall.Prompt) {
	s := &out.Inference
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
	if !requestsThinking(e.req) {
		return
	}
	id, effort := e.req.Target.Model, modelcall.Effort(e.req)
	switch {
	case e.style.thinking == withoutIt:
		e.lose(effort)
	case strings.Contains(id, "anthropic."):
		e.think(out, prompt)
	case strings.Contains(id, "amazon.nova") && effort != "":
		level := map[string]string{"minimal": "low", "low": "low", "medium": "medium"}[effort]
		if level == "" {
			level = "high"
		}
		out.Additional = map[string]any{"reasoningConfig": map[string]string{"type": "enabled", "maxReasoningEffort": level}}
	case strings.Contains(id, "openai.") && effort != "":
		out.Additional = map[string]any{"reasoning_effort": effort}
	default: // whether and how long others think is theirs
		e.lose(effort)
	}
}

// lose notes that the effort or the budget was left out.
func (e *encoder) lose(effort string) {
	if effort != "" {
		e.lost = append(e.lost, "reasoning_effort")
	} else {
		e.lost = append(e.lost, model.BudgetThinking)
	}
}

// minBudget is the smallest budget of thinking tokens of Anthropic's models.
const minBudget = 1024

// think sets how a model of Anthropic's thinks. It excludes a forced call and other
// sampling than the default.
func (e *encoder) think(out *request, prompt *modelcall.Prompt) {
	if out.Tools != nil && out.Tools.Choice != nil && string(out.Tools.Choice) != `{"auto":{}}` {
		return
	}
	s := &out.Inference
	effort, budget := modelcall.Effort(e.req), budgetOf(e.req)
	if e.style.thinking == asAdaptive {
		out.Additional = map[string]any{"thinking": map[string]string{"type": "adaptive"}}
		if effort != "" {
			out.Additional["output_config"] = map[string]string{"effort": strings.Replace(effort, "minimal", "low", 1)}
		}
	} else {
		if prompt.InForeignLoop() { // thinking must begin with the turn
			return
		}
		if budget == 0 {
			budget = modelcall.BudgetFor(effort)
		}
		if s.MaxTokens == 0 {
			s.MaxTokens = e.req.Target.MaxOutput
		}
		if s.MaxTokens == 0 {
			s.MaxTokens = budget + 8*minBudget
		}
		if budget = max(minBudget, min(budget, s.MaxTokens-minBudget)); budget >= s.MaxTokens {
			return
		}
		out.Additional = map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": budget}}
	}
	if s.Temperature != nil {
		s.Temperature, e.lost = nil, append(e.lost, "temperature")
	}
	if s.TopP != nil {
		s.TopP, e.lost = nil, append(e.lost, "top_p")
	}
}

// markCaches sets the places up to which the provider keeps the prompt: the system's
// messages with the tools, the history before the newest message, and the whole.
func markCaches(out *request, prompt *modelcall.Prompt) {
	here := block{CachePoint: &cachePoint{"default"}}
	if len(out.System) > 0 {
		out.System = append(out.System, here)
	}
	for i := range out.Messages {
		if i == len(out.Messages)-1 || prompt.Turns[i].Stable {
			out.Messages[i].Content = append(out.Messages[i].Content, here)
		}
	}
}
