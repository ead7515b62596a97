// Package file implements uploads: files with a name and a type, kept until
// they are deleted.
package file

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/media"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/blob"
)

// File is an upload as the API shows it. It is immutable.
type File struct {
	_ struct{} `json:"-" name:"File"`

	FileID    string    `json:"file_id" format:"uuid" required:"true"`
	TenantID  string    `json:"tenant_id" required:"true"`
	Filename  string    `json:"filename" required:"true"`
	MimeType  string    `json:"mime_type" required:"true"`
	SizeBytes int64     `json:"size_bytes" required:"true"`
	SHA256    string    `json:"sha256" required:"true" doc:"SHA-256 of the content in lower-case hex; also the ETag of the content."`
	CreatedAt time.Time `json:"created_at" required:"true"`
	URL       string    `json:"url" required:"true" doc:"Path of the content on this service."`
}

// Filter selects files. The zero Filter selects all.
type Filter struct {
	MimePrefix string // prefix of the media type, such as "image/"
	After      string // the id of the last file of the previous page
	Limit      int
}

// Table is the port to stored files, newest first.
type Table interface {
	CreateTx(tx txn.Tx, f *File) error
	// DeleteTx returns the deleted file. Errors: fault.NotFound.
	DeleteTx(tx txn.Tx, tenant, id string) (*File, error)
	// Get returns a file. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*File, error)
	List(ctx context.Context, tenant string, f Filter) ([]File, error)
}

// Service implements the operations on files.
type Service struct {
	Files   Table
	Blobs   *blob.Store
	Writer  txn.Writer
	Cursors *page.Cursors
	Clock   clock.Clock
	Audit   audit.Recorder // records deletions; optional
	// Allowed refuses files of a type or size that may not be uploaded; nil: all may.
	Allowed func(mimeType string, size int64) error
}

// Add stores staged bytes as a file. The name and the type are the client's; a
// missing name becomes "file", a missing type is guessed from the name.
func (s *Service) Add(ctx context.Context, tenant, name, mimeType string, st *blob.Staged) (*File, error) {
	return s.AddAnswering(ctx, tenant, name, mimeType, st, func(f *File) any { return f })
}

// AddAnswering is Add for a request that is answered with something other than the file.
func (s *Service) AddAnswering(
	ctx context.Context, tenant, name, mimeType string, st *blob.Staged, answer func(*File) any,
) (*File, error) {
	name = media.FileName(name, "file")
	f := &File{
		FileID: ident.New(), TenantID: tenant, Filename: name, MimeType: media.Best(mimeType, name),
		SizeBytes: st.Size, SHA256: st.SHA256, CreatedAt: s.Clock.Now(),
	}
	f.URL = contentPath(f.FileID)
	if s.Allowed != nil {
		if err := s.Allowed(f.MimeType, f.SizeBytes); err != nil {
			return nil, err
		}
	}
	ctx = txn.WithAnswer(ctx, func() any { return answer(f) })
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Blobs.Keep(tx, tenant, st); err != nil {
			return err
		}
		return s.Files.CreateTx(tx, f)
	})
	return f, err
}

// Get returns the record of a file. Errors: fault.NotFound.
func (s *Service) Get(ctx context.Context, tenant, id string) (*File, error) {
	if !ident.Valid(id) {
		return nil, fault.NewNotFound("file")
	}
	f, err := s.Files.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	f.URL = contentPath(id)
	return f, nil
}

// Open opens a file. Errors: fault.NotFound.
func (s *Service) Open(ctx context.Context, tenant, id string) (*File, *blob.Reader, error) {
	f, err := s.Get(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.Blobs.Open(ctx, tenant, f.SHA256)
	return f, r, err
}

// Delete deletes a file permanently. Errors: fault.NotFound.
func (s *Service) Delete(ctx context.Context, who authz.Caller, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		f, err := s.Files.DeleteTx(tx, who.TenantID, id)
		if err != nil {
			return err
		}
		if err := s.Blobs.Drop(tx, who.TenantID, f.SHA256); err != nil {
			return err
		}
		return audit.Write(s.Audit, tx, who, audit.Entry{Action: "file.deleted", TargetType: "file", TargetID: id})
	})
}

// Erase deletes a file on behalf of the person whose data is erased, and reports whether
// there was one. What is in the audit log is the erasure.
func (s *Service) Erase(ctx context.Context, tenant, id string) (deleted bool, err error) {
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		f, err := s.Files.DeleteTx(tx, tenant, id)
		if deleted = err == nil; fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.Blobs.Drop(tx, tenant, f.SHA256)
	})
	return deleted, err
}

func contentPath(id string) string { return "/api/v1/files/" + id + "/content" }
