package openaiclient

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/wire/modelcall"
)

// addUsage sets the usage, if there is any; the last one wins. Cached tokens have a name
// of their own at DeepSeek, Moonshot, OpenRouter, and gateways to Anthropic.
func (a *answer) addUsage(raw jsontext.Value) {
	if raw.Kind() != '{' {
		return
	}
	var u struct {
		Prompt     float64 `json:"prompt_tokens"`
		Completion float64 `json:"completion_tokens"`
		Total      float64 `json:"total_tokens"`
		Hit        float64 `json:"prompt_cache_hit_tokens"`
		Cached     float64 `json:"cached_tokens"`
		Read       float64 `json:"cache_read_input_tokens"`
		Created    float64 `json:"cache_creation_input_tokens"`
		PromptMore struct {
			Cached  float64 `json:"cached_tokens"`
			Written float64 `json:"cache_write_tokens"`
			Created float64 `json:"cache_creation_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionMore struct {
			Reasoning float64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if json.Unmarshal(raw, &u, modelcall.Lenient) != nil {
		return
	}
	if u.Prompt < 0 || u.Completion < 0 { // as absurd as none
		a.SetUsage(modelcall.Absurd)
		return
	}
	a.SetUsage(modelcall.Counts{
		Prompt: modelcall.Count(u.Prompt), Completion: modelcall.Count(u.Completion), Total: modelcall.Count(u.Total),
		Reasoning: modelcall.Count(u.CompletionMore.Reasoning),
		Cached:    modelcall.Count(max(u.PromptMore.Cached, u.Hit, u.Cached, u.Read)),
		Written:   modelcall.Count(max(u.PromptMore.Written, u.PromptMore.Created, u.Created)),
	}.Usage())
}
