package httpapi

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// startSpan starts the server's span, as a child of the caller's if it sent one.
func (s *Server) startSpan(x *exchange, r *http.Request) context.Context {
	ctx := propagation.TraceContext{}.Extract(x.Context, propagation.HeaderCarrier(r.Header))
	name := r.Method
	if x.op.row.Path != "" {
		name += " " + x.op.row.Path
	}
	ctx, _ = s.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(r.Method),
		semconv.HTTPRoute(x.op.row.Path),
		attribute.String("agentd.request_id", x.id)))
	return ctx
}

func endSpan(span trace.Span, x *exchange) {
	span.SetAttributes(semconv.HTTPResponseStatusCode(x.status))
	if x.who.TenantID != "" {
		span.SetAttributes(attribute.String("agentd.tenant_id", x.who.TenantID))
	}
	if x.status >= 500 && x.failed != nil {
		span.SetStatus(codes.Error, x.failed.Code)
	}
	span.End()
}
