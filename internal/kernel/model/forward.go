package model

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Span is a part of a body, in bytes; the zero value is none.
type Span struct{ From, To int }

// Forward is a chat completion that is passed on unchanged, except for the
// model's name and the option that asks a stream for its usage.
type Forward struct {
	Target  Target
	Body    []byte // a JSON object that was checked; it must last as long as the call
	Model   Span   // of the value of its member model
	Options Span   // of the value of its member stream_options
	Stream  bool
	Usage   bool // the caller wants the stream's chunk of usage

	LimitWait time.Duration // see Request
	OnRate    func(Rate)    // see Request
}

// Forwarded is the outcome of a [Forward].
type Forwarded struct {
	Usage Usage
	// Response is set if the endpoint answered in another form than requested,
	// and for builtin models. Nothing was passed on then.
	Response *Response
}

// Forwarder passes chat completions on. The sink receives the answer as the
// endpoint sent it: a whole one in one piece, as JSON; a streamed one in pieces
// of one or more server-sent events, which are all chunks except the last,
// data: [DONE]. The sink is called from the calling goroutine; a piece is valid
// until the next call. An error of the sink ends the call.
//
// A stream that breaks off, or that turns out to be an error, is an error after
// the pieces that were passed on. Calls that fail before the first piece are
// retried if that can help. Errors: *Error, the sink's, the context's.
type Forwarder interface {
	Forward(ctx context.Context, f Forward, sink func(piece []byte) error) (Forwarded, error)
}

// Forward implements [Forwarder].
func (r Router) Forward(ctx context.Context, f Forward, sink func([]byte) error) (Forwarded, error) {
	if f.Target.Provider != Builtin {
		return r.Forwards.Forward(ctx, f, sink)
	}
	req, err := f.request()
	if err != nil {
		return Forwarded{}, err
	}
	resp, err := r.Generate(ctx, req, nil)
	return Forwarded{Usage: resp.Usage, Response: &resp}, err
}

// ForwardWithFallback is [GenerateWithFallback] for a [Forward].
func ForwardWithFallback(
	ctx context.Context, c Forwarder, f Forward, fallback *Fallback, sink func([]byte) error,
) (Forwarded, Target, error) {
	started := false
	return withFallback(ctx, f.Target, fallback, &started, func(to Target) (Forwarded, error) {
		f.Target = to
		return c.Forward(ctx, f, func(piece []byte) error {
			started = true
			return sink(piece)
		})
	})
}

// request returns the forwarded body as a request to a builtin model, without
// the members that such models do not use.
func (f *Forward) request() (Request, error) {
	var body struct {
		Messages []struct {
			Role    Role           `json:"role"`
			Content jsontext.Value `json:"content"`
			CallID  string         `json:"tool_call_id"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name       string         `json:"name"`
				Parameters jsontext.Value `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.Unmarshal(f.Body, &body); err != nil {
		const detail = "The builtin model cannot read these messages: each has a role and a content."
		return Request{}, &Error{Code: "model_error", Status: 400, Detail: detail, Cause: err}
	}
	req := Request{Target: f.Target, MaxTokens: body.MaxTokens}
	for _, m := range body.Messages {
		turn := Message{Role: m.Role, ToolCallID: m.CallID}
		switch m.Content.Kind() {
		case '"':
			_ = json.Unmarshal(m.Content, &turn.Text) // it is a string
		case '[':
			_ = json.Unmarshal(m.Content, &turn.Parts) // and that a list
		}
		turn.Text, turn.Parts = Plain(&turn), nil
		req.Messages = append(req.Messages, turn)
	}
	for _, t := range body.Tools {
		req.Tools = append(req.Tools, ToolSpec{Name: t.Function.Name, Parameters: t.Function.Parameters})
	}
	return req, nil
}
