package openaiclient

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// The members of an assistant's message that thinking models want back. extra_content
// (Gemini's signatures) stands with calls too. They are not those of OpenAI, so each
// endpoint has some of them or none.
const (
	reasoningContentField = "reasoning_content" // DeepSeek, Kimi, Qwen, vLLM
	reasoningField        = "reasoning"         // Groq, OpenRouter, newer vLLM
	detailsField          = "reasoning_details" // OpenRouter, MiniMax: also signatures and encrypted parts
	extraField            = "extra_content"     // Gemini
)

// opaqueParts collects these members of an answer.
type opaqueParts struct {
	content, reasoning bool // the reasoning came under that name
	details            []*detail
	extra              string
	size               int // of details and extra
}

// detail is an element of reasoning_details. The members that come in pieces are texts.
type detail struct {
	members map[string]jsontext.Value
	texts   map[string]*strings.Builder
}

// named notes under which name reasoning came.
func (o *opaqueParts) named(content, reasoning bool) {
	o.content, o.reasoning = o.content || content, o.reasoning || reasoning
}

// addOpaque adds what a message, or a piece of one, has.
func (a *answer) addOpaque(m *message) error {
	a.opaque.named(m.ReasoningContent != "", m.Reasoning != "")
	if len(m.ReasoningDetails) == 0 && len(m.ExtraContent) == 0 {
		return nil
	}
	a.opaque.size += len(m.ReasoningDetails) + len(m.ExtraContent)
	if a.opaque.size > model.MaxOpaque {
		return modelcall.ErrTooLong
	}
	if m.ExtraContent.Kind() == '{' {
		a.opaque.extra = strings.ToValidUTF8(string(m.ExtraContent), "\uFFFD")
	}
	var details []map[string]jsontext.Value
	if m.ReasoningDetails.Kind() == '[' && json.Unmarshal(m.ReasoningDetails, &details, modelcall.Lenient) == nil {
		for _, d := range details {
			a.opaque.addDetail(d)
		}
	}
	return nil
}

// addDetail adds an element, or the next piece of the last one: the texts of one
// element, which are the same type and index, are one text.
func (o *opaqueParts) addDetail(d map[string]jsontext.Value) {
	if d == nil {
		return
	}
	var last *detail
	if n := len(o.details); n > 0 {
		last = o.details[n-1]
	}
	if last == nil || string(last.members["type"]) != string(d["type"]) || string(last.members["index"]) != string(d["index"]) {
		last = &detail{map[string]jsontext.Value{}, map[string]*strings.Builder{}}
		o.details = append(o.details, last)
	}
	for name, value := range d {
		switch {
		case value.Kind() == '"' && (name == "text" || name == "summary" || name == "data"):
			var piece text
			_ = json.Unmarshal(value, &piece, modelcall.Lenient) // it is a string
			if last.texts[name] == nil {
				last.texts[name] = &strings.Builder{}
			}
			last.texts[name].WriteString(string(piece))
		case value.Kind() != 'n' || last.members[name] == nil:
			last.members[name] = value
		}
	}
}

// list returns the elements as JSON.
func (o *opaqueParts) list() jsontext.Value {
	all := make([]map[string]jsontext.Value, len(o.details))
	for i, d := range o.details {
		all[i] = d.members
		for name, text := range d.texts {
			all[i][name] = modelcall.AppendString(nil, text.String())
		}
	}
	return modelcall.MustMarshal(all)
}

// keptOpaque is the opaque data of a message.
type keptOpaque struct {
	ReasoningContent jsontext.Value `json:"reasoning_content,omitzero"`
	Reasoning        jsontext.Value `json:"reasoning,omitzero"`
	Details          jsontext.Value `json:"reasoning_details,omitzero"`
	Extra            jsontext.Value `json:"extra_content,omitzero"`
}

// encode returns the members as a JSON object, "" for none. Plain reasoning is wanted
// back only with tool calls, in whose loop it continues.
func (o *opaqueParts) encode(thinking string, calls bool) string {
	var k keptOpaque
	switch {
	case len(o.details) > 0:
		k.Details = o.list()
	case calls && thinking != "" && o.content:
		k.ReasoningContent = modelcall.AppendString(nil, thinking)
	case calls && thinking != "" && o.reasoning:
		k.Reasoning = modelcall.AppendString(nil, thinking)
	}
	if o.extra != "" {
		k.Extra = jsontext.Value(o.extra)
	}
	if k.Details == nil && k.ReasoningContent == nil && k.Reasoning == nil && k.Extra == nil {
		return ""
	}
	return strings.ToValidUTF8(string(modelcall.MustMarshal(k)), "\uFFFD")
}

// appendOpaque writes the members of a message that encode returned. A client may have
// kept them meanwhile, so they are read again: nothing else gets into the request.
func appendOpaque(b []byte, data string) []byte {
	var k keptOpaque
	if data == "" || json.Unmarshal([]byte(data), &k) != nil {
		return b
	}
	for _, m := range []struct {
		name  string
		value jsontext.Value
	}{
		{reasoningContentField, k.ReasoningContent}, {reasoningField, k.Reasoning}, {detailsField, k.Details}, {extraField, k.Extra},
	} {
		if m.value != nil {
			b = append(append(modelcall.AppendString(append(b, ','), m.name), ':'), m.value...)
		}
	}
	return b
}

// appendCallOpaque writes the member of a call, of which the same holds.
func appendCallOpaque(b []byte, data string) []byte {
	v := jsontext.Value(data)
	if v.Kind() != '{' || !v.IsValid(jsontext.AllowDuplicateNames(true)) {
		return b
	}
	return append(append(b, `,"extra_content":`...), v...)
}

// skippedSignature is what Gemini takes in place of the signature of a call that another
// model made. The first call of a message must have one or the other.
const skippedSignature = `,"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}`

func sendsCalls(req *model.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m model.Message) bool { return len(m.ToolCalls) > 0 })
}

func sendsOpaque(req *model.Request) bool {
	return slices.ContainsFunc(model.WithoutForeign(req.Messages, &req.Target), func(m model.Message) bool { return m.HasOpaque() })
}

// mentionsOpaque reports whether an endpoint's message is about a member that it does
// not want back.
func mentionsOpaque(message string) bool {
	message = strings.ToLower(message)
	if strings.Contains(message, "missing") || strings.Contains(message, "must be passed") { // it wants one that was lost
		return false
	}
	for _, field := range []string{reasoningContentField, detailsField, extraField} {
		if strings.Contains(message, field) {
			return true
		}
	}
	return strings.Contains(message, "messages") && strings.Contains(message, reasoningField)
}
