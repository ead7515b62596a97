package bedrockclient

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/wiretest"
	"agentd/internal/wire/wiretest/bedrocktest"
)

// canned answers every call with the same stream.
type canned []byte

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}},
		Body: io.NopCloser(bytes.NewReader(c)),
	}, nil
}

func BenchmarkStream(b *testing.B) {
	text := strings.TrimSpace(strings.Repeat("token ", 20))
	config := wiretest.Config()
	config.Operator = canned(bytes.Join(bedrocktest.Converse{}.Stream(wiretest.Answer{
		Blocks: []wiretest.Block{{Text: text}}, Usage: wiretest.Usage{Input: 10, Output: 20},
	}), nil))
	client := New(config)
	req := model.Request{
		Target:   bedrocktest.Converse{}.Target("https://bedrock.example"),
		Messages: []model.Message{{Role: model.User, Text: "Say something in twenty tokens."}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := client.Generate(b.Context(), req, func(model.Delta) {}); err != nil || got.Text != text {
			b.Fatalf("%q, %v", got.Text, err)
		}
	}
}
