package openaiclient

import (
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"agentd/internal/kernel/model/modeltest"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	b := newBench(t, Config{MaxAttempts: 1, Tracer: tracer}, modeltest.Script(modeltest.Answer{Text: "a"}, modeltest.Answer{Status: 500}))
	for range 2 {
		b.call(t)
	}
	spans := recorder.Ended()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2", len(spans))
	}
	for i, want := range []map[string]string{
		{
			"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.model": "sim-model",
			"gen_ai.usage.input_tokens": "10", "gen_ai.usage.output_tokens": "1", "gen_ai.response.finish_reasons": `["stop"]`,
		},
		{"error.type": "model_error"},
	} {
		got := map[string]string{}
		for _, a := range spans[i].Attributes() {
			got[string(a.Key)] = a.Value.String()
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("span %d: %s = %q, want %q", i, key, got[key], value)
			}
		}
		if spans[i].Name() != "chat m" || (spans[i].Status().Code == codes.Error) != (i == 1) {
			t.Errorf("span %d: %q, status %v", i, spans[i].Name(), spans[i].Status())
		}
	}
}
