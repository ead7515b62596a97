package model

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Settings are how a model answers: of an agent, a message of a session or a run. Null
// is no setting, also where a wider one has a value.
type Settings struct {
	_ struct{} `json:"-" name:"ModelSettings"`

	Temperature      *float64       `json:"temperature,omitzero" nullable:"true" minimum:"0" maximum:"2" doc:"How freely the model chooses its words: 0 the least, 2 the most. Default: the model's."`
	TopP             *float64       `json:"top_p,omitzero" nullable:"true" minimum:"0" maximum:"1" doc:"Only the likeliest tokens whose probabilities add up to this are chosen from. Default: the model's."`
	MaxOutputTokens  *int           `json:"max_output_tokens,omitzero" nullable:"true" minimum:"1" doc:"Of each answer of the model, thinking included."`
	Seed             *int64         `json:"seed,omitzero" nullable:"true" doc:"The same seed makes the same answer more likely, if the model supports that."`
	Stop             *[]string      `json:"stop,omitzero" nullable:"true" maxItems:"4" doc:"Texts that end an answer."`
	PresencePenalty  *float64       `json:"presence_penalty,omitzero" nullable:"true" minimum:"-2" maximum:"2" doc:"Above 0: tokens that occurred are less likely. Default: the model's."`
	FrequencyPenalty *float64       `json:"frequency_penalty,omitzero" nullable:"true" minimum:"-2" maximum:"2" doc:"Above 0: tokens are less likely the more often they occurred. Default: the model's."`
	ReasoningEffort  *string        `json:"reasoning_effort,omitzero" nullable:"true" enum:"none,minimal,low,medium,high,xhigh,max" doc:"Takes precedence over the agent's thinking."`
	ParallelCalls    *bool          `json:"parallel_tool_calls,omitzero" nullable:"true" doc:"false: at most one tool call in an answer."`
	ResponseFormat   jsontext.Value `json:"response_format,omitzero" doc:"As of OpenAI's chat completions: {type: text}, {type: json_object} or {type: json_schema, json_schema}."`
	PromptCache      *string        `json:"prompt_cache,omitzero" nullable:"true" enum:"auto,off" doc:"off: no key of a cache is sent. Default auto."`
}

// MergeSettings returns settings of which the later ones are narrower and take precedence,
// member by member. All of them were checked; nil has no members.
func MergeSettings(widestFirst ...[]byte) (s Settings) {
	merged := map[string]jsontext.Value{}
	for _, raw := range widestFirst {
		var members map[string]jsontext.Value
		if len(raw) == 0 || json.Unmarshal(raw, &members) != nil {
			continue
		}
		for name, value := range members {
			if value.Kind() == 'n' {
				delete(merged, name)
			} else {
				merged[name] = value
			}
		}
	}
	if len(merged) == 0 {
		return s
	}
	b, err := json.Marshal(merged)
	if err != nil || json.Unmarshal(b, &s) != nil {
		return Settings{}
	}
	return s
}

// Fields returns the settings that have no place of their own in a [Request], by the
// names of chat completions.
func (s *Settings) Fields() map[string]jsontext.Value {
	fields := map[string]jsontext.Value{}
	set := func(name string, isSet bool, v any) {
		if b, err := json.Marshal(v); isSet && err == nil {
			fields[name] = b
		}
	}
	set("seed", s.Seed != nil, s.Seed)
	set("presence_penalty", s.PresencePenalty != nil, s.PresencePenalty)
	set("frequency_penalty", s.FrequencyPenalty != nil, s.FrequencyPenalty)
	set("reasoning_effort", s.ReasoningEffort != nil, s.ReasoningEffort)
	set("parallel_tool_calls", s.ParallelCalls != nil, s.ParallelCalls)
	set("response_format", s.ResponseFormat.Kind() == '{', s.ResponseFormat)
	return fields
}
