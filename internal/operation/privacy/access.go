package privacy

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"iter"
	"path"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/personal"
)

const (
	maxIDs     = 1000 // of each kind in an answer
	mostRows   = 100_000
	rowsPage   = 100
	formatJSON = "json"
)

// Access is what is kept of a person.
type Access struct {
	_ struct{} `json:"-" name:"DataSubjectAccess"`

	SubjectID   string              `json:"subject_id" required:"true"`
	TenantID    string              `json:"tenant_id" required:"true"`
	Kind        string              `json:"kind" enum:"member,visitor" required:"true" doc:"A member of the company, or a visitor of one of its public agents."`
	GeneratedAt time.Time           `json:"generated_at" required:"true"`
	Account     schema.Object       `json:"account,omitzero" doc:"The record of a member."`
	Counts      map[string]int64    `json:"counts" required:"true" doc:"How much there is of each kind; of rows of a table at most 100000 are counted."`
	IDs         map[string][]string `json:"ids" required:"true" doc:"Ids of runs, sessions, files, artifacts and memories: the first 1000 of each."`
	Truncated   bool                `json:"truncated" required:"true" doc:"There are more ids than shown; the archive has all."`
	Archive     string              `json:"archive" required:"true" doc:"Path of the zip with all of it: a file of lines of JSON for each table, and the files themselves."`
	NotExported []Reason            `json:"not_exported" required:"true" doc:"What the archive leaves out, and why."`
}

type accessIn struct {
	SubjectID string `query:"subject_id" maxLength:"100" doc:"The person: id of a member, also of one that was removed, or of a visitor's session. Required."`
	Format    string `query:"format" enum:"json,zip" default:"json" doc:"json: ids and counts. zip: everything, as an archive."`
}

func (s *Service) access(ctx context.Context, caller authz.Caller, in *accessIn) (*route.Reply, error) {
	if in.SubjectID == "" {
		return nil, fault.New(fault.Invalid, "", "The query parameter subject_id is missing: it is the id of the person.")
	}
	who, err := s.subject(ctx, caller.TenantID, in.SubjectID)
	if err != nil {
		return nil, err
	}
	if in.Format != "" && in.Format != formatJSON {
		return &route.Reply{Pieces: s.archive(ctx, &who), Media: "application/zip"}, nil
	}
	about, err := s.about(ctx, &who)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(about, json.Deterministic(true))
	return &route.Reply{JSON: text}, err
}

// about returns what is kept of a person, in numbers.
func (s *Service) about(ctx context.Context, who *Subject) (*Access, error) {
	a := &Access{
		SubjectID: who.ID, TenantID: who.TenantID, Kind: "member", GeneratedAt: s.Clock.Now(), Counts: map[string]int64{},
		IDs:     map[string][]string{"runs": {}, "sessions": {}, "files": {}, "artifacts": {}, "memory": {}},
		Archive: "/api/v1/data-subject/access?subject_id=" + who.ID + "&format=zip", NotExported: s.notExported(),
	}
	if who.Visitor {
		a.Kind = "visitor"
	}
	for kind := range a.IDs {
		a.Counts[kind] = 0
	}
	add := func(kind, id string) {
		if a.Counts[kind]++; len(a.IDs[kind]) == maxIDs {
			a.Truncated = true
			return
		}
		a.IDs[kind] = append(a.IDs[kind], id)
	}
	err := s.visit(ctx, who, func(id string) error { add("sessions", id); return nil }, func(r *Run) error {
		add("runs", r.RunID)
		for _, id := range r.Files {
			add("files", id)
		}
		artifacts, err := s.Holdings.ListArtifacts(ctx, who.TenantID, r.RunID)
		if err != nil {
			return err
		}
		for i := range artifacts {
			add("artifacts", artifacts[i].ID)
		}
		memories, _, err := s.Holdings.ListMemories(ctx, who.TenantID, r.AgentID, r.RunID)
		for _, id := range memories {
			add("memory", id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range s.Tables {
		t := &s.Tables[i]
		value := who.valueOf(t)
		if value == "" {
			continue
		}
		n, err := s.Store.CountRows(ctx, who.TenantID, t, value, mostRows)
		if err != nil {
			return nil, err
		}
		a.Counts[t.Name] += n
		if t.Name == "users" {
			rows, err := s.Store.ListRows(ctx, who.TenantID, t, value, nil, 1)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				a.Account = schema.Object(row.JSON)
			}
		}
	}
	return a, nil
}

// notExported returns what an export leaves out.
func (s *Service) notExported() []Reason {
	all := []Reason{}
	for i := range s.Tables {
		if t := &s.Tables[i]; !t.Exports() && t.Why != "" {
			all = append(all, Reason{What: t.Name, Why: t.Why})
		}
	}
	return append(all, elsewhere...)
}

// errStopped is returned by writes to an archive that nobody reads any more.
var errStopped = errors.New("privacy: the archive is not read any more")

// pieces hands what is written to the reader of an answer.
type pieces struct {
	yield func([]byte, error) bool
}

// Write implements io.Writer.
func (p pieces) Write(b []byte) (int, error) {
	if !p.yield(slices.Clone(b), nil) {
		return 0, errStopped
	}
	return len(b), nil
}

// archive returns the zip of what is kept of a person, which is read while it is sent.
func (s *Service) archive(ctx context.Context, who *Subject) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		z := zip.NewWriter(pieces{yield})
		err := s.writeArchive(ctx, who, z)
		if err == nil {
			err = z.Close()
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

func (s *Service) writeArchive(ctx context.Context, who *Subject, z *zip.Writer) error {
	about, err := s.about(ctx, who)
	if err != nil {
		return err
	}
	text, err := json.Marshal(about, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	file, err := z.Create("about.json")
	if err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Exports() {
			if err := s.writeTable(ctx, who, z, t); err != nil {
				return err
			}
		}
	}
	return s.writeHoldings(ctx, who, z)
}

// writeTable writes the rows of a person as lines of JSON.
func (s *Service) writeTable(ctx context.Context, who *Subject, z *zip.Writer, t *personal.Table) error {
	file, err := z.Create(t.Name + ".ndjson")
	if err != nil {
		return err
	}
	rows := func(value string) error { return s.rows(ctx, who.TenantID, t, value, file) }
	none := func(string) error { return nil }
	switch t.By {
	case personal.Run:
		return s.visit(ctx, who, none, func(r *Run) error { return rows(r.RunID) })
	case personal.Session:
		return s.visit(ctx, who, rows, func(*Run) error { return nil })
	}
	if value := who.valueOf(t); value != "" {
		return rows(value)
	}
	return nil
}

func (s *Service) rows(ctx context.Context, tenant string, t *personal.Table, value string, to io.Writer) error {
	for after := []any(nil); ; {
		page, err := s.Store.ListRows(ctx, tenant, t, value, after, rowsPage)
		if err != nil {
			return err
		}
		for _, row := range page {
			if _, err := to.Write(append(row.JSON, '\n')); err != nil {
				return err
			}
		}
		if len(page) < rowsPage || t.Order == nil {
			return nil
		}
		after = page[len(page)-1].At
	}
}

// writeHoldings writes memories, files and artifacts.
func (s *Service) writeHoldings(ctx context.Context, who *Subject, z *zip.Writer) error {
	lines, err := z.Create("memory.ndjson")
	if err != nil {
		return err
	}
	none := func(string) error { return nil }
	err = s.visit(ctx, who, none, func(r *Run) error {
		_, entries, err := s.Holdings.ListMemories(ctx, who.TenantID, r.AgentID, r.RunID)
		for _, entry := range entries {
			if _, err := lines.Write(append(entry, '\n')); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	written := map[string]bool{}
	return s.visit(ctx, who, none, func(r *Run) error {
		all, err := s.Holdings.ListArtifacts(ctx, who.TenantID, r.RunID)
		if err != nil {
			return err
		}
		for i := range all {
			if err := writeContent(ctx, z, "artifacts", &all[i]); err != nil {
				return err
			}
		}
		for _, id := range r.Files {
			if written[id] {
				continue
			}
			written[id] = true
			one, err := s.Holdings.GetFile(ctx, who.TenantID, id)
			if fault.Is(err, fault.NotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if err := writeContent(ctx, z, "files", &one); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeContent copies a file. One that was deleted meanwhile is left out.
func writeContent(ctx context.Context, z *zip.Writer, folder string, c *Content) error {
	from, err := c.Open(ctx)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	// Names come from outside: only the last element, so that nothing is unpacked elsewhere.
	to, err := z.Create(path.Join(folder, c.ID, path.Base(path.Clean("/"+c.Name))))
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return err
}

// Routes returns the operations.
func (s *Service) Routes() []route.Route {
	row := func(method, path, id, summary, doc string, errors ...int) route.Row {
		return route.Row{
			Method: method, Path: "/api/v1/data-subject" + path, ID: id, Tag: "GDPR", Summary: summary, Doc: doc,
			Role: authz.Admin, Errors: append(errors, 404, 422),
		}
	}
	access := row("GET", "/access", "dataSubjectAccess", "Read what is kept of a person",
		"What the company keeps of a member, or of a visitor of a public agent: the runs that the person or a key of theirs started, "+
			"sessions in which nobody else started a run, files, memories, and rows with the person's id or address. "+
			"With `format=zip` all of it, as an archive.")
	access.Scopes, access.Reads, access.AnswerOf = []authz.Scope{"users:read"}, "data_subject.accessed", reflect.TypeFor[Access]()
	erase := row("POST", "/erasure", "dataSubjectErasure", "Erase what is kept of a person",
		"Deletes what GET /data-subject/access names, but for what `kept` lists with its reason. Runs that are under way are cancelled first. "+
			"What is not erased within the request is erased in the background; repeat the request to see how far it is. "+
			"Under a legal hold it is 423. It cannot be undone.", 423)
	erase.Scopes, erase.Fresh = []authz.Scope{"users:write"}, true
	erase.Example = `{"subject_id": "0199a3b0-0000-7000-8000-000000000000", "dry_run": true}`
	return []route.Route{route.Action(access, s.access), route.Action(erase, s.erase)}
}
