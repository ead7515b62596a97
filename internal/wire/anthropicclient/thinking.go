package anthropicclient

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// minBudget is the smallest budget of thinking tokens.
const minBudget = 1024

// think sets how the model thinks.
func (e *encoder) think(out *request, prompt *modelcall.Prompt) {
	if !requestsThinking(e.req) {
		return
	}
	effort, budget := modelcall.Effort(e.req), 0
	var own struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	}
	if json.Unmarshal(e.req.Extra[model.BudgetThinking], &own) == nil {
		if own.Type == "disabled" {
			return
		}
		budget = own.Budget
	}
	how := e.style.thinking
	if how == asRequested {
		how = requested(e.req)
	}
	switch {
	case how == withoutIt:
		e.lose(effort != "")
	case how == withoutItNow || out.ToolChoice != nil && (out.ToolChoice.Type == "any" || out.ToolChoice.Type == "tool"):
		// A forced call and thinking exclude each other.
	case how == asAdaptive:
		out.Thinking = &thinking{Type: "adaptive"}
		if !e.style.noDisplay {
			out.Thinking.Display = "summarized"
		}
		if effort != "" && !e.style.noEffort {
			if out.Output == nil {
				out.Output = &outputConfig{}
			}
			out.Output.Effort = strings.Replace(effort, "minimal", "low", 1)
		}
	case inStrangersLoop(prompt):
		// Thinking must begin with the turn, and this one was begun without it.
	default:
		if budget == 0 {
			budget = modelcall.BudgetFor(effort)
		}
		if e.req.MaxTokens == 0 && e.req.Target.MaxOutput == 0 && e.style.maxTokens == 0 {
			out.MaxTokens += budget
		}
		if budget = max(minBudget, min(budget, out.MaxTokens-minBudget)); budget < out.MaxTokens {
			out.Thinking = &thinking{Type: "enabled", Budget: budget}
		}
	}
}

// lose notes that the effort was left out.
func (e *encoder) lose(effort bool) {
	if effort {
		e.lost = append(e.lost, "reasoning_effort")
	} else {
		e.lost = append(e.lost, model.BudgetThinking)
	}
}

// inStrangersLoop reports whether the prompt ends in a loop of tools whose last answer
// came without thinking, as that of another model does.
func inStrangersLoop(prompt *modelcall.Prompt) bool {
	n := len(prompt.Turns)
	if n < 2 || len(prompt.Turns[n-1].Blocks) == 0 || prompt.Turns[n-1].Blocks[0].Result == nil {
		return false
	}
	for _, m := range prompt.Turns[n-2].Model {
		if m.HasOpaque() {
			return false
		}
	}
	return true
}

// layout is the order of the blocks of an answer. It is the opaque data of the message.
type layout []place

// place is a block of thinking as it came, a text of some bytes, or the next call.
type place struct {
	Thinking jsontext.Value `json:"b,omitzero"`
	Text     int            `json:"t,omitzero"`
	Call     bool           `json:"c,omitzero"`
}

func readLayout(data string) (l layout) {
	_ = json.Unmarshal([]byte(data), &l, modelcall.Lenient) // a client may have kept it: other data is none
	return l
}

// encode returns the layout as opaque data; "" if there is no thinking in it.
func (l layout) encode() string {
	for _, p := range l {
		if p.Thinking != nil {
			return strings.ToValidUTF8(string(modelcall.MustMarshal(l)), "\uFFFD")
		}
	}
	return ""
}

// apply puts an answer's blocks in their order. Where text or calls have changed,
// thinking stands first.
func (l layout) apply(text string, calls []block) (blocks []block) {
	texts, places := 0, 0
	for _, p := range l {
		texts += p.Text
		if p.Call {
			places++
		}
	}
	fits := texts == len(text) && places == len(calls)
	for _, p := range l {
		switch {
		case p.Thinking.Kind() == '{':
			blocks = append(blocks, block{raw: p.Thinking})
		case fits && p.Text > 0:
			blocks = append(blocks, textBlocks(text[:p.Text])...)
			text = text[p.Text:]
		case fits && p.Call:
			blocks = append(blocks, calls[0])
			calls = calls[1:]
		}
	}
	if !fits {
		blocks = append(append(blocks, textBlocks(text)...), calls...)
	}
	return blocks
}
