package model

import (
	"context"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// SpeechRequest is one call that turns a text into speech.
type SpeechRequest struct {
	Target       Target
	Input        string
	Voice        string
	Format       string  // mp3, opus, aac, flac, wav, pcm; "": the endpoint's default
	Speed        float64 // 0: the endpoint's default
	Instructions string  // how to speak; "": none
}

// Speech is the audio of a text. Its bytes arrive as the endpoint produces them.
type Speech struct {
	Type string // media type, audio/…
	// Audio must be closed. It ends with an *Error if the endpoint stops sending,
	// closes the connection early, or sends more than an answer may have.
	Audio io.ReadCloser
}

// TranscriptionRequest is one call that transcribes speech.
type TranscriptionRequest struct {
	Target   Target
	File     []byte
	Name     string // of the file; endpoints derive the format from its extension
	Type     string // media type; "": not known
	Language string // as ISO 639-1; "": the endpoint detects it
	Prompt   string
	// Verbose asks for segments and duration too.
	Verbose     bool
	Temperature *float64
}

// Transcription is the text of speech.
type Transcription struct {
	Text string
	JSON jsontext.Value // the endpoint's whole answer, an object that holds text
	// Usage is what the endpoint reported; zero: it reported nothing.
	Usage Usage
}

// AudioClient calls models for speech and transcription. Errors: *Error, or the
// context's.
type AudioClient interface {
	Speak(ctx context.Context, req SpeechRequest) (*Speech, error)
	Transcribe(ctx context.Context, req TranscriptionRequest) (Transcription, error)
}

// Listed is a model as its endpoint lists it.
type Listed struct {
	ID      string
	Name    string // "": the endpoint has none beside the id
	Created int64  // seconds since 1970; 0: not known
	Context int    // tokens; 0: not known
}

// Lister lists the models of an endpoint, each of them once. The target needs no
// Model. Errors: *Error, or the context's.
type Lister interface {
	ListModels(ctx context.Context, t Target) ([]Listed, error)
}
