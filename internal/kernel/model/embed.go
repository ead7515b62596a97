package model

import "context"

// Embedder is the port to an embedding model. If no model is configured there is
// no Embedder, and texts are searched by their words alone.
type Embedder interface {
	// Model returns the name of the embedding model: vectors of two models cannot
	// be compared.
	Model() string
	// Embed returns one vector for each text, all of one length, in order. The
	// caller cuts texts that are too long. Calls that fail are retried if that can
	// help. Errors: *Error, or the context's.
	Embed(ctx context.Context, texts []string) (Embedded, error)
}

// Embedded is the result of an embedding call.
type Embedded struct {
	Vectors [][]float32
	Model   string // as the endpoint named it
	Tokens  int    // of all texts; estimated where the endpoint does not say
}
