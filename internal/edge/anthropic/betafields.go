package anthropic

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
)

// BetaFields are members of the vendor's newer clients that cannot be ignored
// without answering another question. Values of another shape are ignored, like
// unknown members.
type BetaFields struct {
	_ struct{} `json:"-" name:"MessagesNewer"`

	Thread       schema.Any `json:"thread,omitzero" doc:"Type create has no effect. Type continue is refused with thread_not_found; clients then send the whole conversation."`
	OutputConfig schema.Any `json:"output_config,omitzero" doc:"format {type: json_schema, schema} is passed on to the model."`
	OutputFormat schema.Any `json:"output_format,omitzero" doc:"Older name of output_config.format."`
}

// codeNoThread is the error_code that makes the vendor's clients send the whole
// conversation, because the server does not store it.
const codeNoThread = "thread_not_found"

// checkThread refuses to continue a thread: no conversation is stored, and the
// message alone would be answered as if it were the first.
func (n *BetaFields) checkThread() error {
	var thread struct {
		Type string `json:"type"`
	}
	if !decodeObject(n.Thread, &thread) || thread.Type != "continue" {
		return nil
	}
	return fault.New(fault.NotFound, codeNoThread,
		"Conversations are not stored here; send all messages, with the thread type create or without a thread.")
}

// applyFormat sets the JSON schema of the answer.
func (n *BetaFields) applyFormat(req *model.Request) {
	type format struct {
		Type   string         `json:"type"`
		Schema jsontext.Value `json:"schema"`
	}
	var config struct {
		Format format `json:"format"`
	}
	if !decodeObject(n.OutputConfig, &config) || config.Format.Type == "" {
		_ = decodeObject(n.OutputFormat, &config.Format)
	}
	if config.Format.Type != "json_schema" || config.Format.Schema.Kind() != '{' {
		return
	}
	if req.Extra == nil {
		req.Extra = map[string]jsontext.Value{}
	}
	b := append(jsontext.Value(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`), config.Format.Schema...)
	req.Extra["response_format"] = append(b, `}}`...)
}

// decodeObject reads an object, and reports whether it is one of the right shape.
func decodeObject(v schema.Any, into any) bool {
	return jsontext.Value(v).Kind() == '{' && json.Unmarshal(v, into) == nil
}
