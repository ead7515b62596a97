// Package artifact keeps the files that runs make (interface.md section 2,
// Artifact): what tools write, and results that were too long for the
// conversation. An artifact is stored with the commit of the step that made it,
// or not at all.
package artifact

import (
	"cmp"
	"context"
	"slices"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/media"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/blob"
	"agentd/internal/kernel/tool"
)

// Limits of a run. What comes beyond them is left out.
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
	// GetUsage gives how many a run has, and their bytes.
	GetUsage(ctx context.Context, tenant, runID string) (n int, size int64, err error)
	// Get reads one. Errors: fault.NotFound.
	Get(ctx context.Context, tenant, id string) (*Record, error)
	// GetByName reads the newest of a run with a name. Errors: fault.NotFound.
	GetByName(ctx context.Context, tenant, runID, name string) (*Record, error)
	// ListByRun lists those of runs, in the order of the runs' ids, then oldest first.
	ListByRun(ctx context.Context, tenant string, runIDs []string) ([]Record, error)
}

// Service keeps and gives out artifacts.
type Service struct {
	Table Table
	Blobs *blob.Store
	Clock clock.Clock
	// Exists says whether there is a run. Errors: fault.NotFound.
	Exists func(ctx context.Context, tenant, runID string) error
}

// Save stores the bytes of files that a run made, and gives the artifacts that
// they become when op is part of a commit. If it never is, the bytes are
// removed later. Files beyond the run's limits, or larger than a file may be,
// are left out. No files are a nil op. Errors: fault.Unavailable, ctx's.
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

// name keeps the folders that a file was written to, and nothing that a
// terminal or a database stumbles over.
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

// Of lists a run's artifacts, oldest first: an index walk over those rows. A
// run that is not there has none.
func (s *Service) Of(ctx context.Context, tenant, runID string) ([]run.Artifact, error) {
	return s.OfRuns(ctx, tenant, []string{runID})
}

// runsAtOnce is how many runs one statement asks for.
const runsAtOnce = 100

// OfRuns lists the artifacts of several runs, such as a session's: in the order
// of the runs' ids, which is that of their creation, then oldest first.
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

// Get reads one. Errors: fault.NotFound.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Record, error) {
	r, err := s.Table.Get(ctx, tenant, id)
	if err == nil {
		r.StorageRef = contentPath(id)
	}
	return r, err
}

// Open reads one's content. Errors: fault.NotFound.
func (s *Service) Open(ctx context.Context, tenant, id string) (*Record, *blob.Reader, error) {
	r, err := s.Get(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	content, err := s.Blobs.Open(ctx, tenant, r.SHA256)
	return r, content, err
}

// OpenNamed reads the content of the newest artifact of a run that has a name.
// Errors: fault.NotFound.
func (s *Service) OpenNamed(ctx context.Context, tenant, runID, name string) (mimeType string, content *blob.Reader, err error) {
	if !ident.Valid(runID) {
		return "", nil, fault.NoSuch("artifact")
	}
	r, err := s.Table.GetByName(ctx, tenant, runID, name)
	if err != nil {
		return "", nil, err
	}
	content, err = s.Blobs.Open(ctx, tenant, r.SHA256)
	return r.MimeType, content, err
}

// List is the answer of a run's artifacts.
type List struct {
	_ struct{} `json:"-" name:"RunArtifactList"`

	RunID     string         `json:"run_id" format:"uuid" required:"true"`
	Artifacts []run.Artifact `json:"artifacts" required:"true"`
	Total     int            `json:"total" required:"true"`
}
