package retrieval

import "context"

// File is an uploaded file, read whole.
type File struct {
	Name     string
	MimeType string
	Data     []byte
}

// Files is the port to uploaded files, whose text is kept in memories and
// knowledge bases. Errors: fault.NotFound, also for another tenant's.
type Files interface {
	Read(ctx context.Context, tenant, fileID string) (File, error)
}
