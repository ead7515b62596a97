package model

import "context"

// Embedder is the port to an embedding model. Where no model is configured
// there is no Embedder, and texts are found by their words alone.
type Embedder interface {
	// Model names what makes the vectors: those of two models do not compare.
	Model() string
	// Embed gives one vector for each text, all of one length, in order. Texts
	// are the caller's to cut. Calls that fail are retried where that can help.
	// Errors: *Error, or the context's.
	Embed(ctx context.Context, texts []string) (Embedded, error)
}

// Embedded is what a model made of texts.
type Embedded struct {
	Vectors [][]float32
	Model   string // as the endpoint named it
	Tokens  int    // of all texts; estimated where the endpoint does not say
}
