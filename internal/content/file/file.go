// Package file is what callers upload and download: bytes with a name and a
// type, kept until somebody deletes them (interface.md section 8;
// behaviours.md section 16).
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

// File is an upload as callers see it. It does not change.
type File struct {
	_ struct{} `json:"-" name:"File"`

	FileID    string    `json:"file_id" format:"uuid" required:"true"`
	TenantID  string    `json:"tenant_id" required:"true"`
	Filename  string    `json:"filename" required:"true"`
	MimeType  string    `json:"mime_type" required:"true"`
	SizeBytes int64     `json:"size_bytes" required:"true"`
	SHA256    string    `json:"sha256" required:"true" doc:"Of the content, in lower-case hex; also the content's ETag."`
	CreatedAt time.Time `json:"created_at" required:"true"`
	URL       string    `json:"url" required:"true" doc:"Path of the content, on this service."`
}

// Filter selects files. The zero Filter is all of them.
type Filter struct {
	MimePrefix string // "image/": of types that begin so
	After      string // behind this file, in the order of the list
	Limit      int
}

// Table is the port to stored files, newest first.
type Table interface {
	CreateTx(tx txn.Tx, f *File) error
	// DeleteTx gives what it removed. Errors: fault.NotFound.
	DeleteTx(tx txn.Tx, tenant, id string) (*File, error)
	// Get reads one. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*File, error)
	List(ctx context.Context, tenant string, f Filter) ([]File, error)
}

// Service is what callers can do with files.
type Service struct {
	Files   Table
	Blobs   *blob.Store
	Writer  txn.Writer
	Cursors *page.Cursors
	Clock   clock.Clock
	Audit   audit.Recorder // told what is deleted; nil: nobody
}

// Add keeps what was staged as a file. The name and the type are as a client
// gave them; what it did not say is made up for.
func (s *Service) Add(ctx context.Context, tenant, name, mimeType string, st *blob.Staged) (*File, error) {
	name = media.FileName(name, "file")
	f := &File{
		FileID: ident.New(), TenantID: tenant, Filename: name, MimeType: media.Best(mimeType, name),
		SizeBytes: st.Size, SHA256: st.SHA256, CreatedAt: s.Clock.Now(),
	}
	f.URL = contentPath(f.FileID)
	ctx = txn.Promise(ctx, func() any { return f })
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Blobs.Keep(tx, tenant, st); err != nil {
			return err
		}
		return s.Files.CreateTx(tx, f)
	})
	return f, err
}

// Get reads one file's record. Errors: fault.NotFound.
func (s *Service) Get(ctx context.Context, tenant, id string) (*File, error) {
	if !ident.Valid(id) {
		return nil, fault.NoSuch("file")
	}
	f, err := s.Files.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	f.URL = contentPath(id)
	return f, nil
}

// Open reads a file. Errors: fault.NotFound.
func (s *Service) Open(ctx context.Context, tenant, id string) (*File, *blob.Reader, error) {
	f, err := s.Get(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.Blobs.Open(ctx, tenant, f.SHA256)
	return f, r, err
}

// Delete removes a file for good. Errors: fault.NotFound.
func (s *Service) Delete(ctx context.Context, who authz.Caller, id string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		f, err := s.Files.DeleteTx(tx, who.TenantID, id)
		if err != nil {
			return err
		}
		if err := s.Blobs.Drop(tx, who.TenantID, f.SHA256); err != nil {
			return err
		}
		return audit.Tell(s.Audit, tx, who, audit.Entry{Action: "file.deleted", TargetType: "file", TargetID: id})
	})
}

func contentPath(id string) string { return "/api/v1/files/" + id + "/content" }
