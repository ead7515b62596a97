package model

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Capabilities is what is known of a model beside its price: from the
// operator's catalogue, and from the free object capabilities of an agent's
// model config. Other keys of that object are the client's own.
type Capabilities struct {
	// Thinking is false if the model does not think; then no thinking settings
	// are sent. Nil: not known.
	Thinking *bool
	// Efforts are the values of reasoning_effort that the model accepts; nil: the
	// usual ones. Empty: none.
	Efforts []string
	// Budget is the request field for a budget of thinking tokens: one of the
	// Budget constants; "": the endpoint has none.
	Budget string
	// Context is the context window in tokens; 0: unknown.
	Context int
	// Images means that the model generates images; only the catalogue sets it.
	Images bool
	// Inputs are the media that the model takes.
	Inputs Inputs
}

// The request fields for a budget of thinking tokens.
const (
	BudgetThinking  = "thinking"        // {"thinking": {"type": "enabled", "budget_tokens": n}}
	BudgetReasoning = "reasoning"       // {"reasoning": {"max_tokens": n}}
	BudgetPlain     = "thinking_budget" // {"thinking_budget": n}
)

// BudgetField returns the request field for a budget of thinking tokens, and its
// value; "" if the model has none.
func (c Capabilities) BudgetField(tokens int64) (field string, value jsontext.Value) {
	if c.Thinking != nil && !*c.Thinking {
		return "", nil
	}
	n := strconv.FormatInt(tokens, 10)
	switch c.Budget {
	case BudgetThinking:
		return c.Budget, jsontext.Value(`{"budget_tokens":` + n + `,"type":"enabled"}`)
	case BudgetReasoning:
		return c.Budget, jsontext.Value(`{"max_tokens":` + n + `}`)
	case BudgetPlain:
		return c.Budget, jsontext.Value(n)
	}
	return "", nil
}

// maxContext bounds context windows, so that sums of them cannot overflow.
const maxContext = 1 << 30

// ParseCapabilities reads the keys that are known: thinking (bool),
// reasoning_effort (bool, or the values that the model takes), thinking_budget
// (one of the Budget constants), max_context_tokens, images (bool), inputs (images, documents
// and audio, each as Medium reads it). The object is free: a value of another kind is the
// client's own and counts as absent.
func ParseCapabilities(raw jsontext.Value) (c Capabilities) {
	var keys map[string]jsontext.Value
	if len(raw) == 0 || json.Unmarshal(raw, &keys) != nil {
		return c
	}
	var yes bool
	if json.Unmarshal(keys["thinking"], &yes) == nil && keys["thinking"].Kind() != 'n' {
		c.Thinking = &yes
	}
	switch effort := keys["reasoning_effort"]; effort.Kind() {
	case 'f':
		c.Efforts = []string{}
	case '[':
		var values []string
		if json.Unmarshal(effort, &values) == nil {
			c.Efforts = append([]string{}, values...)
		}
	}
	var field string
	if json.Unmarshal(keys["thinking_budget"], &field) == nil &&
		slices.Contains([]string{BudgetThinking, BudgetReasoning, BudgetPlain}, field) {
		c.Budget = field
	}
	if json.Unmarshal(keys["images"], &c.Images) != nil {
		c.Images = false
	}
	var tokens int
	if json.Unmarshal(keys["max_context_tokens"], &tokens) == nil && tokens > 0 && tokens <= maxContext {
		c.Context = tokens
	}
	var inputs map[string]jsontext.Value
	if json.Unmarshal(keys["inputs"], &inputs) == nil {
		for kind, medium := range map[string]**Medium{images: &c.Inputs.Images, documents: &c.Inputs.Documents, audios: &c.Inputs.Audio} {
			var m Medium
			if json.Unmarshal(inputs[kind], &m) == nil && inputs[kind].Kind() != 'n' {
				*medium = &m
			}
		}
	}
	return c
}

// Over returns c with the values of known, of the same model, where c has none.
func (c Capabilities) Over(known Capabilities) Capabilities {
	if c.Thinking == nil {
		c.Thinking = known.Thinking
	}
	if c.Efforts == nil {
		c.Efforts = known.Efforts
	}
	if c.Budget == "" {
		c.Budget = known.Budget
	}
	if c.Context == 0 {
		c.Context = known.Context
	}
	c.Images = known.Images
	c.Inputs = c.Inputs.Over(known.Inputs)
	return c
}
