package modelcall

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"agentd/internal/kernel/model"
)

var noSpan = trace.SpanFromContext(context.Background())

// StartSpan starts a span by the GenAI conventions. Its name and attributes are set
// only if it is recorded.
func StartSpan(ctx context.Context, tracer trace.Tracer, req *model.Request) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, noSpan
	}
	ctx, span := tracer.Start(ctx, "chat", trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetName("chat " + req.Target.Model)
		span.SetAttributes(
			semconv.GenAIOperationNameChat,
			semconv.GenAIProviderNameKey.String(req.Target.Provider),
			semconv.GenAIRequestModel(req.Target.Model),
		)
		if req.MaxTokens > 0 {
			span.SetAttributes(semconv.GenAIRequestMaxTokens(req.MaxTokens))
		}
	}
	return ctx, span
}

// EndSpan ends the span of a model call with its answer or its error.
func EndSpan(span trace.Span, resp *model.Response, err error) {
	if span.IsRecording() {
		if err != nil {
			kind := "canceled"
			if e, ok := errors.AsType[*model.Error](err); ok {
				kind = e.Code
			}
			span.SetAttributes(semconv.ErrorTypeKey.String(kind))
			span.SetStatus(codes.Error, kind)
		} else {
			span.SetAttributes(
				semconv.GenAIResponseModel(resp.Model),
				semconv.GenAIResponseFinishReasons(resp.FinishReason),
				semconv.GenAIUsageInputTokens(resp.Usage.InputTokens),
				semconv.GenAIUsageOutputTokens(resp.Usage.OutputTokens),
			)
		}
	}
	span.End()
}
