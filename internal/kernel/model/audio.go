package model

import (
	"context"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// SpeechRequest is one call that has a text spoken.
type SpeechRequest struct {
	Target       Target
	Input        string
	Voice        string
	Format       string  // mp3, opus, aac, flac, wav, pcm; "": the endpoint's default
	Speed        float64 // 0: the endpoint's default
	Instructions string  // how to speak; "": none
}

// Speech is a text as it was spoken. Its bytes come as the endpoint makes them.
type Speech struct {
	Type string // media type, audio/…
	// Audio is to be closed. It ends with an *Error where the endpoint falls
	// silent, breaks off, or sends more than an answer may have.
	Audio io.ReadCloser
}

// TranscriptionRequest is one call that has speech written down.
type TranscriptionRequest struct {
	Target   Target
	File     []byte
	Name     string // of the file, by whose end endpoints tell formats
	Type     string // media type; "": not known
	Language string // as ISO 639-1; "": the endpoint finds out
	Prompt   string
	// Verbose asks for segments and duration too.
	Verbose     bool
	Temperature *float64
}

// Transcription is what was said.
type Transcription struct {
	Text string
	JSON jsontext.Value // the endpoint's whole answer, an object that holds text
	// Usage is what the endpoint says that it used; zero: nothing.
	Usage Usage
}

// AudioClient calls models that speak and listen. Errors: *Error, or the
// context's.
type AudioClient interface {
	Speak(ctx context.Context, req SpeechRequest) (*Speech, error)
	Transcribe(ctx context.Context, req TranscriptionRequest) (Transcription, error)
}

// Listed is a model as its endpoint lists it.
type Listed struct {
	ID      string
	Name    string // "": the endpoint gives none beside the id
	Created int64  // seconds since 1970; 0: not known
	Context int    // tokens; 0: not known
}

// Lister asks endpoints which models they have, each of which it gives once. The
// target needs no Model.
// Errors: *Error, or the context's.
type Lister interface {
	ListModels(ctx context.Context, t Target) ([]Listed, error)
}
