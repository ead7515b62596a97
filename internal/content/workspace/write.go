package workspace

import (
	"context"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/media"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/blob"
)

// Conditions are the headers of a conditional write; "" means absent.
type Conditions struct {
	Match     string // If-Match
	NoneMatch string // If-None-Match
}

// check compares the conditions with the current file, nil if there is none. An
// invalid entity tag matches nothing.
func (c Conditions) check(now *File) error {
	tag := ""
	if now != nil {
		tag = `"` + now.ETag + `"`
	}
	if (c.Match == "" || matches(c.Match, tag)) && (c.NoneMatch == "" || !matches(c.NoneMatch, tag)) {
		return nil
	}
	e := fault.New(fault.Precondition, "", "The file does not match If-Match or If-None-Match; read it again.")
	if now != nil {
		e.Extra = map[string]any{"current_etag": tag}
	}
	return e
}

func matches(header, tag string) bool {
	if tag == "" {
		return false
	}
	for t := range strings.SplitSeq(header, ",") {
		if t = strings.TrimSpace(t); t == "*" || t == tag {
			return true
		}
	}
	return false
}

// Put writes a file to a clean path and reports whether the path is new.
// Errors: fault.NotFound, fault.Precondition, fault.Conflict if the path is a
// folder or leads through a file, and WORKSPACE_STORAGE_LIMIT.
func (s *Service) Put(
	ctx context.Context, tenant, id, path, mimeType string, st *blob.Staged, c Conditions,
) (f *File, created bool, err error) {
	mimeType = media.Best(mimeType, path)
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		w, err := s.Table.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		old, err := s.Table.GetFileTx(tx, tenant, id, path)
		if err != nil {
			return err
		}
		if err := c.check(old); err != nil {
			return err
		}
		now := s.Clock.Now()
		f = &File{
			FileID: ident.New(), Path: path, Filename: base(path), MimeType: mimeType,
			SizeBytes: st.Size, ETag: st.SHA256, CreatedAt: now, UpdatedAt: now,
		}
		if created = old == nil; !created {
			f.CreatedAt = old.CreatedAt
		}
		if err := s.Blobs.Keep(tx, tenant, st); err != nil {
			return err
		}
		return s.place(tx, w, old, f)
	})
	return f, created, err
}

// Write writes a file to a path as others name it, and replaces what stands there. Errors:
// those of Put, and fault.Invalid for a path that cannot be used.
func (s *Service) Write(ctx context.Context, tenant, id, path, mimeType string, st *blob.Staged) error {
	at, err := Clean(path)
	if err != nil {
		return err
	}
	_, _, err = s.Put(ctx, tenant, id, at, mimeType, st, Conditions{})
	return err
}

// place stores a file in a locked workspace and replaces old, if any. The
// reference to the file's content is already counted.
func (s *Service) place(tx txn.Tx, w *Workspace, old, f *File) error {
	if old == nil {
		if err := s.free(tx, w, f.Path); err != nil {
			return err
		}
		w.FileCount++
	} else {
		w.TotalSizeBytes -= old.SizeBytes
		if err := s.Blobs.Drop(tx, w.TenantID, old.ETag); err != nil {
			return err
		}
	}
	w.TotalSizeBytes += f.SizeBytes
	if err := fits(w); err != nil {
		return err
	}
	w.UpdatedAt = f.UpdatedAt
	if err := s.Table.PutFileTx(tx, w.TenantID, w.WorkspaceID, f); err != nil {
		return err
	}
	return s.Table.UpdateTx(tx, w)
}

// fits returns an error if a workspace exceeds its limits.
func fits(w *Workspace) error {
	switch {
	case w.FileCount > MaxFiles:
		return fault.New(fault.Forbidden, "WORKSPACE_STORAGE_LIMIT", "The workspace is full: its limit is %d files. Delete some first.", MaxFiles)
	case w.TotalSizeBytes > MaxBytes:
		return fault.New(fault.Forbidden, "WORKSPACE_STORAGE_LIMIT",
			"The workspace is full: its limit is %d MiB. Delete some files first.", MaxBytes>>20)
	}
	return nil
}

// free returns an error if no file can be created at a path, because a file is
// above it or a folder has its name.
func (s *Service) free(tx txn.Tx, w *Workspace, path string) error {
	above, err := s.Table.GetFirstFileTx(tx, w.TenantID, w.WorkspaceID, parents(path))
	if err != nil {
		return err
	}
	if above != "" {
		return fault.New(fault.Conflict, "", "The path %s is a file, so it cannot contain other files.", above)
	}
	below, err := s.Table.ListFilesTx(tx, w.TenantID, w.WorkspaceID, path, 1)
	if err != nil {
		return err
	}
	if len(below) > 0 {
		return fault.New(fault.Conflict, "", "The path %s is a folder, so it cannot be a file.", path)
	}
	return nil
}

// Remove deletes a file, or a folder with everything in it. Errors:
// fault.NotFound.
func (s *Service) Remove(ctx context.Context, tenant, id, path string) error {
	found := false
	for more := true; more; {
		err := s.Writer.Write(ctx, func(tx txn.Tx) error {
			w, err := s.Table.LockTx(tx, tenant, id)
			if err != nil {
				return err
			}
			f, err := s.Table.GetFileTx(tx, tenant, id, path)
			if err != nil {
				return err
			}
			before := w.FileCount
			if more = false; f != nil {
				err = s.drop(tx, w, f)
			} else {
				more, err = s.deleteBelow(tx, w, path)
			}
			if err != nil {
				return err
			}
			if w.FileCount == before {
				if found {
					return nil
				}
				return fault.NewNotFound("file")
			}
			w.UpdatedAt = s.Clock.Now()
			return s.Table.UpdateTx(tx, w)
		})
		if err != nil {
			return err
		}
		found = true
	}
	return nil
}

// deleteBelow deletes up to batch files of a folder and reports whether there
// may be more.
func (s *Service) deleteBelow(tx txn.Tx, w *Workspace, dir string) (more bool, err error) {
	files, err := s.Table.ListFilesTx(tx, w.TenantID, w.WorkspaceID, dir, batch)
	if err != nil {
		return false, err
	}
	for i := range files {
		if err := s.drop(tx, w, &files[i]); err != nil {
			return false, err
		}
	}
	return len(files) == batch, nil
}

func (s *Service) drop(tx txn.Tx, w *Workspace, f *File) error {
	w.FileCount--
	w.TotalSizeBytes -= f.SizeBytes
	if err := s.Blobs.Drop(tx, w.TenantID, f.ETag); err != nil {
		return err
	}
	return s.Table.DeleteFileTx(tx, w.TenantID, w.WorkspaceID, f.Path)
}

// Move changes the path of a file and keeps its id. Errors:
// fault.NotFound, ALREADY_EXISTS, fault.Conflict.
func (s *Service) Move(ctx context.Context, tenant, id, from, to string) (f *File, err error) {
	ctx = txn.WithAnswer(ctx, func() any { return f })
	err = s.between(ctx, tenant, id, from, to, func(tx txn.Tx, w *Workspace, file *File) error {
		f = file
		if from == to {
			return nil
		}
		return s.relocate(tx, w, f, to)
	})
	return f, err
}

// Copy creates a file with the content of another. Errors: those of Move, and
// WORKSPACE_STORAGE_LIMIT.
func (s *Service) Copy(ctx context.Context, tenant, id, from, to string) (f *File, err error) {
	ctx = txn.WithAnswer(ctx, func() any { return f })
	err = s.between(ctx, tenant, id, from, to, func(tx txn.Tx, w *Workspace, file *File) error {
		if from == to {
			return exists(to)
		}
		if err := s.Blobs.Share(tx, tenant, file.ETag); err != nil {
			return err
		}
		f = file
		f.FileID, f.Path, f.Filename = ident.New(), to, base(to)
		f.CreatedAt = s.Clock.Now()
		f.UpdatedAt = f.CreatedAt
		return s.place(tx, w, nil, f)
	})
	return f, err
}

func exists(path string) error {
	return fault.New(fault.Conflict, "ALREADY_EXISTS", "The file %s already exists; delete it first.", path)
}

// between calls do with the file at from, after checking that to is free.
func (s *Service) between(ctx context.Context, tenant, id, from, to string, do func(txn.Tx, *Workspace, *File) error) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		w, err := s.Table.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		f, err := s.Table.GetFileTx(tx, tenant, id, from)
		if err != nil {
			return err
		}
		if f == nil {
			return fault.NewNotFound("file")
		}
		if from != to {
			existing, err := s.Table.GetFirstFileTx(tx, tenant, id, []string{to})
			if err != nil {
				return err
			}
			if existing != "" {
				return exists(to)
			}
		}
		return do(tx, w, f)
	})
}
