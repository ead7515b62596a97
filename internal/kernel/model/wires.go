package model

import (
	"cmp"
	"context"
	"fmt"
)

// Wires is the client of all wires: it calls the adapter of a target's wire.
type Wires struct {
	Chat interface {
		Client
		Forwarder
		Lister
		AudioClient
		ImageClient
	}
	Others map[Wire]Adapter
}

// Adapter is a client of another wire than chat completions.
type Adapter interface {
	Client
	Lister
}

// adapter returns the adapter of a target; nil for chat completions.
func (w *Wires) adapter(t *Target) (Adapter, error) {
	if t.Wire == "" || t.Wire == WireChat {
		return nil, nil
	}
	a := w.Others[t.Wire]
	if a == nil {
		return nil, notConfigured("The wire %q of the provider %q is not known; it must be one of %s.", t.Wire, t.Provider, WireNames())
	}
	return a, nil
}

// Generate implements [Client].
func (w *Wires) Generate(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	a, err := w.adapter(&req.Target)
	switch {
	case err != nil:
		return Response{}, err
	case a == nil:
		return w.Chat.Generate(ctx, req, sink)
	}
	return a.Generate(ctx, req, sink)
}

// Forward implements [Forwarder]. For other wires the chat completion is converted, and
// so is the answer.
func (w *Wires) Forward(ctx context.Context, f Forward, sink func([]byte) error) (Forwarded, error) {
	a, err := w.adapter(&f.Target)
	switch {
	case err != nil:
		return Forwarded{}, err
	case a == nil:
		return w.Chat.Forward(ctx, f, sink)
	}
	if forwarder, ok := a.(Forwarder); ok { // of chat completions too
		return forwarder.Forward(ctx, f, sink)
	}
	return f.convert(ctx, a, sink)
}

// ListModels implements [Lister].
func (w *Wires) ListModels(ctx context.Context, to Target) ([]Listed, error) {
	a, err := w.adapter(&to)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return w.Chat.ListModels(ctx, to)
	}
	return a.ListModels(ctx, to)
}

// Speak implements [AudioClient].
func (w *Wires) Speak(ctx context.Context, req SpeechRequest) (*Speech, error) {
	if err := chatOnly(&req.Target, "speech"); err != nil {
		return nil, err
	}
	return w.Chat.Speak(ctx, req)
}

// Transcribe implements [AudioClient].
func (w *Wires) Transcribe(ctx context.Context, req TranscriptionRequest) (Transcription, error) {
	if err := chatOnly(&req.Target, "transcriptions"); err != nil {
		return Transcription{}, err
	}
	return w.Chat.Transcribe(ctx, req)
}

// Image implements [ImageClient].
func (w *Wires) Image(ctx context.Context, req ImageRequest) (Image, error) {
	if err := chatOnly(&req.Target, "images"); err != nil {
		return Image{}, err
	}
	return w.Chat.Image(ctx, req)
}

// chatOnly returns the error of a call that only OpenAI-compatible endpoints serve.
func chatOnly(t *Target, what string) error {
	if cmp.Or(t.Wire, WireChat) == WireChat {
		return nil
	}
	return &Error{Code: "provider_not_configured", Detail: fmt.Sprintf(
		"The provider %q has the wire %s, over which agentd makes no %s; configure a provider with the wire %s for them.",
		t.Provider, t.Wire, what, WireChat)}
}
