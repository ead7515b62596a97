package workspace

import (
	"context"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
)

// trashDir is the folder of what people deleted. A file in it has the path
// .trash/console/<file_id>/<its former path>, so that no two meet there. Nothing
// but the operations of the trash reads or writes below it: see clean.
const (
	trashDir = ".trash"
	trashOf  = trashDir + "/console/"
)

// inTrash reports whether a path is that of the trash or of something in it.
func inTrash(path string) bool { return path == trashDir || strings.HasPrefix(path, trashDir+"/") }

// trashed returns the former path of a file in the trash.
func trashed(path string) (original string, ok bool) {
	rest, ok := strings.CutPrefix(path, trashOf)
	id, original, found := strings.Cut(rest, "/")
	return original, ok && found && ident.Valid(id) && original != ""
}

// Trashed is what became of a file that a person deleted.
type Trashed struct {
	_ struct{} `json:"-" name:"WorkspaceFileTrashed"`

	Trashed      bool   `json:"trashed" required:"true"`
	TrashPath    string `json:"trash_path" required:"true" doc:"Names the file in the trash, for restoring it."`
	OriginalPath string `json:"original_path" required:"true"`
}

// TrashItem is a file in the trash of a workspace.
type TrashItem struct {
	_ struct{} `json:"-" name:"WorkspaceTrashItem"`

	TrashPath    string    `json:"trash_path" required:"true" doc:"Names the file in the trash, for restoring it."`
	OriginalPath string    `json:"original_path" required:"true"`
	FileID       string    `json:"file_id" format:"uuid" required:"true"`
	Filename     string    `json:"filename" required:"true"`
	MimeType     string    `json:"mime_type" required:"true"`
	SizeBytes    int64     `json:"size_bytes" required:"true"`
	TrashedAt    time.Time `json:"trashed_at" required:"true"`
}

// Trash is the trash of a workspace.
type Trash struct {
	_ struct{} `json:"-" name:"WorkspaceTrash"`

	Items []TrashItem `json:"items" required:"true" doc:"In the order in which the files were first written."`
}

// TrashEmptied is what emptying the trash did.
type TrashEmptied struct {
	_ struct{} `json:"-" name:"WorkspaceTrashEmptied"`

	Deleted      int64    `json:"deleted_count" required:"true" doc:"Number of files that are gone for good."`
	DeletedToo   int64    `json:"deleted" alias:"deleted_count"`
	Message      string   `json:"message" required:"true"`
	RefusedPaths []string `json:"refused_paths" required:"true" doc:"Files that could not be deleted: none."`
}

// Restored is a file that is back.
type Restored struct {
	_ struct{} `json:"-" name:"WorkspaceFileRestored"`

	Restored     bool   `json:"restored" required:"true"`
	OriginalPath string `json:"original_path" required:"true" doc:"Where the file is again."`
	WorkspaceID  string `json:"original_workspace_id" format:"uuid" required:"true"`
}

// Discard moves a file to the trash, where it goes on counting to the limits of the
// workspace. Errors: fault.NotFound.
func (s *Service) Discard(ctx context.Context, tenant, id, path string) (t *Trashed, err error) {
	ctx = txn.WithAnswer(ctx, func() any { return t })
	err = s.between(ctx, tenant, id, path, path, func(tx txn.Tx, w *Workspace, f *File) error {
		t = &Trashed{Trashed: true, TrashPath: trashOf + f.FileID + "/" + path, OriginalPath: path}
		return s.relocate(tx, w, f, t.TrashPath)
	})
	return t, err
}

// relocate moves a file of a locked workspace to a path at which there is none.
func (s *Service) relocate(tx txn.Tx, w *Workspace, f *File, to string) error {
	if err := s.Table.DeleteFileTx(tx, w.TenantID, w.WorkspaceID, f.Path); err != nil {
		return err
	}
	w.FileCount--
	w.TotalSizeBytes -= f.SizeBytes
	f.Path, f.Filename, f.UpdatedAt = to, base(to), s.Clock.Now()
	return s.place(tx, w, nil, f)
}

// ListTrash returns what is in the trash of a workspace. Errors: fault.NotFound.
func (s *Service) ListTrash(ctx context.Context, tenant, id string) (*Trash, error) {
	if _, err := s.Table.Get(ctx, tenant, id); err != nil {
		return nil, err
	}
	files, err := s.Table.ListFiles(ctx, tenant, id, trashDir, MaxFiles)
	if err != nil {
		return nil, err
	}
	t := &Trash{Items: make([]TrashItem, 0, len(files))}
	for _, f := range files {
		if original, ok := trashed(f.Path); ok {
			t.Items = append(t.Items, TrashItem{
				TrashPath: f.Path, OriginalPath: original, FileID: f.FileID, Filename: f.Filename, MimeType: f.MimeType,
				SizeBytes: f.SizeBytes, TrashedAt: f.UpdatedAt,
			})
		}
	}
	return t, nil
}

// Restore puts a file of the trash back where it was. Errors: fault.NotFound,
// ALREADY_EXISTS, fault.Conflict where its folder is a file by now.
func (s *Service) Restore(ctx context.Context, who authz.Caller, id, trashPath string) (r *Restored, err error) {
	original, ok := trashed(trashPath)
	if !ok {
		if err := s.Check(ctx, who.TenantID, id); err != nil {
			return nil, err
		}
		return nil, fault.NewNotFound("file in the trash")
	}
	ctx = txn.WithAnswer(ctx, func() any { return r })
	r = &Restored{Restored: true, OriginalPath: original, WorkspaceID: id}
	err = s.between(ctx, who.TenantID, id, trashPath, original, func(tx txn.Tx, w *Workspace, f *File) error {
		return s.relocate(tx, w, f, original)
	})
	return r, err
}

// EmptyTrash deletes what is in the trash for good. Errors: fault.NotFound.
func (s *Service) EmptyTrash(ctx context.Context, who authz.Caller, id string) (*TrashEmptied, error) {
	done := &TrashEmptied{RefusedPaths: []string{}}
	for more := true; more; {
		var deleted int64
		err := s.Writer.Write(ctx, func(tx txn.Tx) error {
			w, err := s.Table.LockTx(tx, who.TenantID, id)
			if err != nil {
				return err
			}
			before := w.FileCount
			if more, err = s.deleteBelow(tx, w, trashDir); err != nil {
				return err
			}
			deleted = before - w.FileCount
			if !more {
				if err := s.record(tx, who, "trash_emptied", id); err != nil {
					return err
				}
			}
			w.UpdatedAt = s.Clock.Now()
			return s.Table.UpdateTx(tx, w)
		})
		if err != nil {
			return nil, err
		}
		done.Deleted += deleted
	}
	done.DeletedToo, done.Message = done.Deleted, "The trash is empty."
	return done, nil
}
