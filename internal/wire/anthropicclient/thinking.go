package anthropicclient

import (
	"strings"

	"github.com/go-json-experiment/json"

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
	case prompt.InForeignLoop():
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
