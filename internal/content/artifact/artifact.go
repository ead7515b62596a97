// Package artifact stores the files of runs: those that tools write, and tool
// results that were too long for the conversation. An artifact is committed
// with the step that created it.
package artifact

import (
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/media"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/tool"
)

// Limits of a run. Files beyond them are not stored.
const (
	MaxPerRun = 1000
	MaxBytes  = 1 << 30
	maxName   = 1024
)

// Record is an artifact as it is stored.
type Record struct {
	run.Artifact

	SHA256 string
}

// Table is the port to stored artifacts.
type Table interface {
	CreateTx(tx txn.Tx, r *Record) error
	// GetUsage returns the number and the total size of a run's artifacts.
	GetUsage(ctx context.Context, tenant, runID string) (n int, size int64, err error)
	// Get returns an artifact. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*Record, error)
	// GetByName returns the newest artifact of a run with a name. Errors:
	// fault.NotFound.
	GetByName(ctx context.Context, tenant, runID, name string) (*Record, error)
	// ListByRun returns the artifacts of runs, ordered by run id, then oldest first.
	ListByRun(ctx context.Context, tenant string, runIDs []string) ([]Record, error)
	// DeleteByRunTx deletes the artifacts of a run, and returns the hashes of their
	// contents.
	DeleteByRunTx(tx txn.Tx, tenant, runID string) (sums []string, err error)
}

// Service stores and returns artifacts.
type Service struct {
	Table Table
	Blobs *blob.Store
	Clock clock.Clock
	// Exists returns fault.NotFound if there is no such run.
	Exists func(ctx context.Context, tenant, runID string) error
}

// Save stores the bytes of a run's files and returns the artifacts that they
// become once op is committed. Without that commit the bytes are removed later.
// Files beyond the run's limits, or over blob.MaxSize, are skipped. Without files
// op is nil. Errors: fault.Unavailable, those of ctx.
func (s *Service) Save(ctx context.Context, tenant, runID string, files []tool.File) ([]run.Artifact, txn.Op, error) {
	if len(files) == 0 {
		return nil, nil, nil
	}
	n, size, err := s.Table.GetUsage(ctx, tenant, runID)
	if err != nil {
		return nil, nil, err
	}
	var made []run.Artifact
	var staged []*blob.Staged
	for _, f := range files {
		if len(f.Data) > blob.MaxSize || n >= MaxPerRun || size+int64(len(f.Data)) > MaxBytes {
			continue
		}
		st, err := s.Blobs.StageBytes(ctx, tenant, f.Data)
		if err != nil {
			return nil, nil, err
		}
		n, size = n+1, size+st.Size
		made = append(made, s.artifact(tenant, runID, &f))
		staged = append(staged, st)
	}
	if made == nil {
		return nil, nil, nil
	}
	return made, func(tx txn.Tx) error {
		for i, a := range made {
			if err := s.Blobs.Keep(tx, tenant, staged[i]); err != nil {
				return err
			}
			if err := s.Table.CreateTx(tx, &Record{a, staged[i].SHA256}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (s *Service) artifact(tenant, runID string, f *tool.File) run.Artifact {
	a := run.Artifact{
		ArtifactID: ident.New(), RunID: runID, TenantID: tenant, Name: name(f.Name),
		MimeType: media.Best(f.MimeType, f.Name), SizeBytes: int64(len(f.Data)), CreatedAt: s.Clock.Now(),
	}
	a.StorageRef = contentPath(a.ArtifactID)
	return a
}

// name returns a file's path without characters that a terminal or a database
// cannot handle.
func name(sent string) string {
	clean := make([]rune, 0, len(sent))
	for _, r := range sent {
		if media.Printable(r) && r != '\\' && len(clean) < maxName/4 {
			clean = append(clean, r)
		}
	}
	return cmp.Or(string(clean), "file")
}

func contentPath(id string) string { return "/api/v1/artifacts/" + id + "/content" }

// Of returns a run's artifacts, oldest first, by an index. An absent run has
// none.
func (s *Service) Of(ctx context.Context, tenant, runID string) ([]run.Artifact, error) {
	return s.OfRuns(ctx, tenant, []string{runID})
}

// runsAtOnce is the number of runs per statement.
const runsAtOnce = 100

// OfRuns returns the artifacts of several runs, such as a session's, ordered by
// run id (the order of creation), then oldest first.
func (s *Service) OfRuns(ctx context.Context, tenant string, runIDs []string) ([]run.Artifact, error) {
	all := []run.Artifact{}
	ids := slices.Clone(runIDs)
	slices.Sort(ids)
	for some := range slices.Chunk(slices.Compact(ids), runsAtOnce) {
		records, err := s.Table.ListByRun(ctx, tenant, some)
		if err != nil {
			return nil, err
		}
		for i := range records {
			records[i].StorageRef = contentPath(records[i].ArtifactID)
			all = append(all, records[i].Artifact)
		}
	}
	return all, nil
}

// What a judge sees of a run's files.
const (
	maxShown = 20       // the newest ones
	maxHead  = 4 << 10  // bytes of each
	maxHeads = 40 << 10 // bytes of all
)

// Written returns the files of a run as a judge sees them: the newest of each name, with
// the beginnings of texts. What looks like credentials is only named.
func (s *Service) Written(ctx context.Context, tenant, runID string) (files []judge.File, err error) {
	all, err := s.Table.ListByRun(ctx, tenant, []string{runID})
	if err != nil {
		return nil, err
	}
	seen, left := map[string]bool{}, maxHeads
	for i := range slices.Backward(all) {
		r := &all[i]
		if seen[r.Name] {
			continue
		}
		if seen[r.Name] = true; len(files) == maxShown {
			break
		}
		f := judge.File{Name: r.Name, Size: r.SizeBytes}
		if !hasCredentials(r.Name) && left > 0 {
			if f.Head, err = s.head(ctx, r, min(left, maxHead)); err != nil {
				return nil, err
			}
			left -= len(f.Head)
			f.Cut = f.Head != "" && int64(len(f.Head)) < r.SizeBytes
		}
		files = append(files, f)
	}
	return files, nil
}

// head returns the beginning of an artifact that is a text; "" for another, and for one
// whose content is gone.
func (s *Service) head(ctx context.Context, r *Record, limit int) (string, error) {
	content, err := s.Blobs.Open(ctx, r.TenantID, r.SHA256)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer content.Close()
	b, err := io.ReadAll(io.LimitReader(content, int64(limit)))
	if err != nil {
		return "", err
	}
	if head := text.PrefixBytes(string(b), limit); len(b)-len(head) < utf8.UTFMax && !strings.ContainsRune(head, 0) {
		return head, nil
	}
	return "", nil
}

// hasCredentials reports whether a file's name is one that programs keep keys and passwords
// under.
func hasCredentials(name string) bool {
	base := strings.ToLower(path.Base(name))
	for _, beginning := range []string{
		".env", ".netrc", ".npmrc", ".pgpass", ".git-credentials", "id_rsa", "id_ed25519", "id_ecdsa", "credentials",
	} {
		if strings.HasPrefix(base, beginning) {
			return true
		}
	}
	return slices.Contains([]string{".pem", ".key", ".p12", ".pfx", ".kdbx"}, path.Ext(base))
}

// Get returns an artifact. Errors: fault.NotFound.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Record, error) {
	r, err := s.Table.Get(ctx, tenant, id)
	if err == nil {
		r.StorageRef = contentPath(id)
	}
	return r, err
}

// Open opens the content of an artifact. Errors: fault.NotFound.
func (s *Service) Open(ctx context.Context, tenant, id string) (*Record, *blob.Reader, error) {
	r, err := s.Get(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	content, err := s.Blobs.Open(ctx, tenant, r.SHA256)
	return r, content, err
}

// OpenNamed opens the content of the newest artifact of a run with a name.
// Errors: fault.NotFound.
func (s *Service) OpenNamed(ctx context.Context, tenant, runID, name string) (mimeType string, content *blob.Reader, err error) {
	if !ident.Valid(runID) {
		return "", nil, fault.NewNotFound("artifact")
	}
	r, err := s.Table.GetByName(ctx, tenant, runID, name)
	if err != nil {
		return "", nil, err
	}
	content, err = s.Blobs.Open(ctx, tenant, r.SHA256)
	return r.MimeType, content, err
}

// List is the list of a run's artifacts.
type List struct {
	_ struct{} `json:"-" name:"RunArtifactList"`

	RunID     string         `json:"run_id" format:"uuid" required:"true"`
	Artifacts []run.Artifact `json:"artifacts" required:"true"`
	Total     int            `json:"total" required:"true"`
}

// DeleteOfRunTx deletes the artifacts of a run, and returns how many.
func (s *Service) DeleteOfRunTx(tx txn.Tx, tenant, runID string) (int64, error) {
	sums, err := s.Table.DeleteByRunTx(tx, tenant, runID)
	if err != nil {
		return 0, err
	}
	for _, sum := range sums {
		if err := s.Blobs.Drop(tx, tenant, sum); err != nil {
			return 0, err
		}
	}
	return int64(len(sums)), nil
}
