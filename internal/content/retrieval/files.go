package retrieval

import "context"

// File is an uploaded file with its whole content.
type File struct {
	Name     string
	MimeType string
	Data     []byte
}

// Files is the port to uploaded files whose text becomes memory entries or
// documents. Errors: fault.NotFound, also for files of other tenants.
type Files interface {
	Read(ctx context.Context, tenant, fileID string) (File, error)
}
