package openaiclient

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// encode returns the request in an endpoint's dialect. Fields of Extra replace those
// that are written here, except for the essential ones.
func encode(req *model.Request, stream bool, style dialect) []byte {
	b := append(make([]byte, 0, sizeHint(req)), `{"model":`...)
	b = modelcall.AppendString(b, req.Target.Model)
	b = append(b, `,"messages":[`...)
	messages := model.WithoutForeign(req.Messages, &req.Target)
	for i := range messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendMessage(b, &messages[i], style)
	}
	b = append(b, ']')
	b = appendTools(b, req)
	b = appendSettings(b, req, style)
	if stream {
		b = append(b, `,"stream":true`...)
		if !style.noStreamOptions {
			b = append(b, `,"stream_options":{"include_usage":true}`...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Extra)) {
		switch name {
		case "model", "messages", "tools", "stream", "stream_options":
			continue
		}
		if style.noThinking && slices.Contains(thinkingFields, name) || style.dropped.Drops(name) {
			continue
		}
		b = append(b, ',')
		b = modelcall.AppendString(b, name)
		b = append(b, ':')
		b = append(b, req.Extra[name]...)
	}
	return append(b, '}')
}

// sizeHint estimates the size of the encoded request, usually a little above it, so
// that it is allocated once.
func sizeHint(req *model.Request) int {
	n := 512
	for i := range req.Messages {
		m := &req.Messages[i]
		n += 64 + len(m.Text) + len(m.Text)/16
		for _, part := range m.Parts {
			n += len(part) + 1
		}
		n += len(m.Opaque.Data)
		for j := range m.ToolCalls {
			n += 128 + len(m.ToolCalls[j].Opaque) + len(m.ToolCalls[j].Arguments)*5/4
		}
	}
	for i := range req.Tools {
		n += 128 + len(req.Tools[i].Description) + len(req.Tools[i].Parameters)
	}
	return n
}

func appendMessage(b []byte, m *model.Message, style dialect) []byte {
	opaque := m.HasOpaque() && !style.noOpaque
	b = append(b, `{"role":`...)
	b = modelcall.AppendString(b, string(m.Role))
	b = append(b, `,"content":`...)
	switch {
	case m.Parts != nil:
		b = append(b, '[')
		for i, part := range m.Parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, style.shown(part)...)
		}
		b = append(b, ']')
	case m.Text == "" && len(m.ToolCalls) > 0:
		b = append(b, "null"...)
	default:
		b = modelcall.AppendString(b, m.Text)
	}
	if len(m.ToolCalls) > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i := range m.ToolCalls {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendToolCall(b, &m.ToolCalls[i], opaque, i == 0 && style.skipSignatures)
		}
		b = append(b, ']')
	}
	if opaque {
		b = appendOpaque(b, m.Opaque.Data)
	}
	if m.Role == model.Tool {
		b = append(b, `,"tool_call_id":`...)
		b = modelcall.AppendString(b, m.ToolCallID)
	} else if m.Name != "" { // several endpoints reject a name on a tool's result
		b = append(b, `,"name":`...)
		b = modelcall.AppendString(b, m.Name)
	}
	return append(b, '}')
}

func appendToolCall(b []byte, call *model.ToolCall, opaque, skipSignature bool) []byte {
	b = append(b, `{"id":`...)
	b = modelcall.AppendString(b, call.ID)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = modelcall.AppendString(b, call.Name)
	b = append(b, `,"arguments":`...)
	b = modelcall.AppendString(b, call.Arguments)
	b = append(b, '}')
	switch {
	case opaque && call.Opaque != "":
		b = appendCallOpaque(b, call.Opaque)
	case skipSignature:
		b = append(b, skippedSignature...)
	}
	return append(b, '}')
}

func appendTools(b []byte, req *model.Request) []byte {
	if len(req.Tools) == 0 {
		return b
	}
	b = append(b, `,"tools":[`...)
	for i := range req.Tools {
		if i > 0 {
			b = append(b, ',')
		}
		t := &req.Tools[i]
		b = append(b, `{"type":"function","function":{"name":`...)
		b = modelcall.AppendString(b, t.Name)
		if t.Description != "" {
			b = append(b, `,"description":`...)
			b = modelcall.AppendString(b, t.Description)
		}
		if len(t.Parameters) > 0 {
			b = append(b, `,"parameters":`...)
			b = append(b, t.Parameters...)
		}
		if t.Strict { // many endpoints do not know this member
			b = append(b, `,"strict":true`...)
		}
		b = append(b, `}}`...)
	}
	b = append(b, ']')
	if len(req.ToolChoice) > 0 && !has(req, "tool_choice") {
		b = append(b, `,"tool_choice":`...)
		b = append(b, req.ToolChoice...)
	}
	return b
}

func appendSettings(b []byte, req *model.Request, style dialect) []byte {
	if req.MaxTokens > 0 && !has(req, "max_tokens") && !has(req, "max_completion_tokens") {
		if style.maxCompletionTokens {
			b = append(b, `,"max_completion_tokens":`...)
		} else {
			b = append(b, `,"max_tokens":`...)
		}
		b = strconv.AppendInt(b, int64(req.MaxTokens), 10)
	}
	if req.Temperature != nil && !has(req, "temperature") && !style.dropped.Drops("temperature") {
		b = append(b, `,"temperature":`...)
		b = strconv.AppendFloat(b, *req.Temperature, 'g', -1, 64)
	}
	if req.TopP != nil && !has(req, "top_p") && !style.dropped.Drops("top_p") {
		b = append(b, `,"top_p":`...)
		b = strconv.AppendFloat(b, *req.TopP, 'g', -1, 64)
	}
	if len(req.Stop) > 0 && !has(req, "stop") && !style.dropped.Drops("stop") {
		b = append(b, `,"stop":[`...)
		for i, s := range req.Stop {
			if i > 0 {
				b = append(b, ',')
			}
			b = modelcall.AppendString(b, s)
		}
		b = append(b, ']')
	}
	if req.CacheKey != "" && !style.noCacheKey && takesCacheKey(req) {
		b = append(b, `,"prompt_cache_key":`...)
		b = modelcall.AppendString(b, req.CacheKey)
	}
	return b
}

// takesCacheKey reports whether an endpoint is known to take a prompt_cache_key: others
// refuse fields that they do not know, or ignore them.
func takesCacheKey(req *model.Request) bool {
	return strings.HasPrefix(req.Target.BaseURL, "https://api.openai.com/") && !has(req, "prompt_cache_key")
}

func has(req *model.Request, field string) bool { return modelcall.Has(req, field) }
