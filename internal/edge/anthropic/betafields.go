package anthropic

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
)

// BetaFields is what the vendor's newer clients send that cannot be ignored without
// giving a wrong answer. What is of another shape than theirs is ignored like
// everything that is not known.
type BetaFields struct {
	_ struct{} `json:"-" name:"MessagesNewer"`

	Thread       schema.Any `json:"thread,omitzero" doc:"The type create is as if absent. The type continue is refused with the error_code thread_not_found, at which clients send the whole conversation."`
	OutputConfig schema.Any `json:"output_config,omitzero" doc:"Its format {type: json_schema, schema} is passed on to the model."`
	OutputFormat schema.Any `json:"output_format,omitzero" doc:"The same format by an older name."`
}

// codeNoThread is the error_code by which the vendor's clients know that a
// conversation is not kept by the server, and must be sent whole.
const codeNoThread = "thread_not_found"

// checkThread refuses to go on from what was said before: no conversation is kept,
// and the message alone would be answered as if it were the first.
func (n *BetaFields) checkThread() error {
	var thread struct {
		Type string `json:"type"`
	}
	if !decodeObject(n.Thread, &thread) || thread.Type != "continue" {
		return nil
	}
	return fault.New(fault.NotFound, codeNoThread, "Conversations are not kept here; send all of its messages, with the thread type create or without a thread.")
}

// applyFormat tells the model which JSON it is to answer with.
func (n *BetaFields) applyFormat(req *model.Request) {
	type format struct {
		Type   string         `json:"type"`
		Schema jsontext.Value `json:"schema"`
	}
	var asked struct {
		Format format `json:"format"`
	}
	if !decodeObject(n.OutputConfig, &asked) || asked.Format.Type == "" {
		_ = decodeObject(n.OutputFormat, &asked.Format)
	}
	if asked.Format.Type != "json_schema" || asked.Format.Schema.Kind() != '{' {
		return
	}
	if req.Extra == nil {
		req.Extra = map[string]jsontext.Value{}
	}
	b := append(jsontext.Value(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`), asked.Format.Schema...)
	req.Extra["response_format"] = append(b, `}}`...)
}

// decodeObject reads an object that may be absent or of another shape.
func decodeObject(v schema.Any, into any) bool {
	return jsontext.Value(v).Kind() == '{' && json.Unmarshal(v, into) == nil
}
