package modelcall

import (
	"github.com/go-json-experiment/json"

	"agentd/internal/kernel/model"
)

// Choice is whether a request has its model call tools.
type Choice struct {
	Mode     string // auto, none, required
	Name     string // with required: the only tool
	OneCall  bool   // at most one call in an answer
	Explicit bool   // the request says so
}

// ChoiceOf reads the tool_choice of chat completions.
func ChoiceOf(req *model.Request) Choice {
	c := Choice{Mode: "auto", OneCall: string(req.Extra["parallel_tool_calls"]) == "false"}
	raw := req.ToolChoice
	if own := req.Extra["tool_choice"]; own != nil {
		raw = own
	}
	switch raw.Kind() {
	case '"':
		_ = json.Unmarshal(raw, &c.Mode) // it is a string
		if c.Mode == "any" {
			c.Mode = "required"
		}
		c.Explicit = true
	case '{':
		var named struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(raw, &named) == nil && named.Function.Name != "" {
			c.Mode, c.Name, c.Explicit = "required", named.Function.Name, true
		}
	}
	return c
}
