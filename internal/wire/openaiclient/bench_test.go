package openaiclient

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/wire/modelcall"
)

// A stream of 1,000 chunks over HTTP; 6 ms is what we ask of it.
func BenchmarkStream1000Chunks(b *testing.B) {
	sim := modeltest.New(b, modeltest.Unrecorded(), modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(1000)}))
	benchmarkGenerate(b, sim, func(model.Delta) {})
}

func BenchmarkStream20Chunks(b *testing.B) {
	benchmarkGenerate(b, modeltest.New(b, modeltest.Unrecorded()), func(model.Delta) {})
}

func BenchmarkPlain(b *testing.B) {
	benchmarkGenerate(b, modeltest.New(b, modeltest.Unrecorded()), nil)
}

func benchmarkGenerate(b *testing.B, sim *modeltest.Server, sink func(model.Delta)) {
	transport := modelcall.NewTransport()
	defer transport.CloseIdleConnections()
	client := New(Config{Operator: transport})
	req := model.Request{
		Target:   model.Target{Provider: "default", Model: "sim-model", BaseURL: sim.URL},
		Messages: []model.Message{{Role: model.System, Text: "You are helpful."}, {Role: model.User, Text: "Hello!"}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Generate(b.Context(), req, sink); err != nil {
			b.Fatal(err)
		}
	}
}

// Reading alone, without HTTP: chunks of one shape, and chunks that all differ.
func BenchmarkRead(b *testing.B) {
	same := `data: {"id":"chatcmpl-sim","object":"chat.completion.chunk","created":1700000000,"model":"sim-model","choices":[{"index":0,"delta":{"content":"token "},"finish_reason":null}]}` + "\n\n"
	differs := strings.ReplaceAll(same, `"created"`, `"obfuscation":"X","created"`)
	for name, body := range map[string]string{
		"same":    strings.Repeat(same, 1000),
		"differs": strings.Repeat(differs+strings.Replace(differs, `"X"`, `"Y"`, 1), 500),
	} {
		b.Run(name, func(b *testing.B) {
			body := []byte(body + "data: [DONE]\n\n")
			b.ReportAllocs()
			for b.Loop() {
				watch := modelcall.NewWatchdog(func(error) {}, 0)
				in := modelcall.NewReader(io.MultiReader(bytes.NewReader(body)), watch, time.Minute)
				a := answer{Answer: modelcall.Answer{Sink: func(model.Delta) {}, Max: 1 << 20}}
				if err := readAnswer(in, &a); err != nil {
					b.Fatal(err)
				}
				watch.Stop()
			}
		})
	}
}
