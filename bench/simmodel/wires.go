package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/wiretest"
	"agentd/internal/wire/wiretest/anthropictest"
	"agentd/internal/wire/wiretest/bedrocktest"
	"agentd/internal/wire/wiretest/geminitest"
	"agentd/internal/wire/wiretest/responsestest"
)

// wires returns the endpoints of the other wires, which say a text at once.
func wires(text string) []modeltest.Option {
	text = strings.TrimSpace(text)
	said := wiretest.Answer{
		Blocks: []wiretest.Block{{Text: text}}, Usage: wiretest.Usage{Input: 10, Output: 1 + strings.Count(text, " ")},
	}
	const events = "text/event-stream"
	return []modeltest.Option{
		modeltest.Handle("POST /v1/messages", wire(anthropictest.Messages{}, said, events)),
		modeltest.Handle("POST /v1/responses", wire(responsestest.Responses{}, said, events)),
		modeltest.Handle("POST /v1beta/models/{method}", wire(geminitest.Generate{}, said, events)),
		modeltest.Handle("POST /model/{model}/{method}", wire(bedrocktest.Converse{}, said, "application/vnd.amazon.eventstream")),
	}
}

// wire answers every call of a wire, without checking it.
func wire(p wiretest.Protocol, said wiretest.Answer, streamType string) http.Handler {
	plain, streamed := p.Whole(said), bytes.Join(p.Stream(said), nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		answer, kind := plain, "application/json"
		if strings.Contains(strings.ToLower(r.URL.Path), "stream") || bytes.Contains(body, []byte(`"stream":true`)) {
			answer, kind = streamed, streamType
		}
		w.Header()["Content-Type"] = []string{kind}
		w.Write(answer)
	})
}
