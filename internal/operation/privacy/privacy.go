// Package privacy answers what is kept of a person, and erases it.
//
// A person is a member of a company, or a visitor of one of its public agents. What is
// kept of them follows from rows of data that packages of tables declare (package
// personal): the runs that the person or a key of theirs started, what these runs started
// in turn, the sessions in which nobody else started anything, and rows that have the
// person's id or address. What belongs to runs without a row of its own (files, artifacts,
// memories) is reached through the ports of Deps.
//
// Erasing is leased work in small transactions. It begins with the request, which answers
// what was erased within its time; the rest is erased in the background, also after a
// crash. Each transaction leaves things by which the rest is found: a run goes after the
// runs that it started, and a session together with its last run.
package privacy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/personal"
	"agentd/internal/kernel/work"
)

// ErrNotFound is returned by a Store for a person who does not exist.
var ErrNotFound = errors.New("privacy: not found")

// Subject is a person.
type Subject struct {
	TenantID string
	ID       string // of the member, or of the visitor's session
	Visitor  bool
	Email    string   // "": not known
	Keys     []string // IDs of the member's keys
}

// Initiators returns how runs name the person who started them.
func (s *Subject) Initiators() []string {
	if s.Visitor {
		return []string{"visitor:" + s.ID}
	}
	all := []string{"member:" + s.ID}
	for _, key := range s.Keys {
		all = append(all, "key:"+key)
	}
	return all
}

// Run is what is known of a run here.
type Run struct {
	RunID     string
	AgentID   string
	SessionID string // "": none
	StartedBy string
	Ended     bool
	CreatedAt time.Time
	Files     []string // IDs of the files that were attached to its message
}

// Row is a row of a table as an export shows it.
type Row struct {
	JSON jsontext.Value
	At   []any // its place in the order of the table
}

// Store is the port to the tables. Runs are listed in the order of their creation, after
// a run of the list.
type Store interface {
	// GetSubject returns a person. Errors: ErrNotFound.
	GetSubject(ctx context.Context, tenant, id string) (Subject, error)
	// HasHold reports whether a tenant is under a legal hold.
	HasHold(ctx context.Context, tenant string) (bool, error)

	ListStarted(ctx context.Context, tenant, initiator string, after Run, n int) ([]Run, error)
	ListFamily(ctx context.Context, tenant, root string, after Run, n int) ([]Run, error)
	ListBySession(ctx context.Context, tenant, session string, after Run, n int) ([]Run, error)
	// HasOthers reports whether somebody other than the initiators has started a run in
	// a session. Todos of the session do not count.
	HasOthers(ctx context.Context, tenant, session string, initiators []string) (bool, error)

	// ListRows lists rows of a table that have a value in its column.
	ListRows(ctx context.Context, tenant string, t *personal.Table, value string, after []any, n int) ([]Row, error)
	// CountRows counts up to most of them.
	CountRows(ctx context.Context, tenant string, t *personal.Table, value string, most int) (int64, error)
	// DeleteRowsTx deletes them, and returns how many.
	DeleteRowsTx(tx txn.Tx, tenant string, t *personal.Table, value string) (int64, error)
	// ListEndedTx lists the ids of up to n of them that have ended.
	ListEndedTx(tx txn.Tx, tenant string, t *personal.Table, value string, n int) ([]string, error)
	// DeleteRowTx deletes the row with an id.
	DeleteRowTx(tx txn.Tx, tenant string, t *personal.Table, id string) error
	// ResetSummaryTx removes what a session's summary quotes.
	ResetSummaryTx(tx txn.Tx, tenant, session string) error
}

// Content is a file, or an artifact of a run.
type Content struct {
	ID, Name string
	Open     func(ctx context.Context) (io.ReadCloser, error)
}

// Holdings is the port to what belongs to runs and is not in their tables.
type Holdings interface {
	// GetFile returns an uploaded file. Errors: fault.NotFound.
	GetFile(ctx context.Context, tenant, id string) (Content, error)
	// DeleteFile deletes an uploaded file, and reports whether there was one.
	DeleteFile(ctx context.Context, tenant, id string) (bool, error)
	// ListArtifacts lists the artifacts of a run.
	ListArtifacts(ctx context.Context, tenant, run string) ([]Content, error)
	// DeleteArtifactsTx deletes them, and returns how many.
	DeleteArtifactsTx(tx txn.Tx, tenant, run string) (int64, error)
	// ListMemories lists what an agent remembers from a run, as the API shows it.
	ListMemories(ctx context.Context, tenant, agent, run string) (ids []string, entries []jsontext.Value, err error)
	// DeleteMemory deletes one of them.
	DeleteMemory(ctx context.Context, tenant, agent, id string) error
	// CancelRun ends a run that has not ended.
	CancelRun(ctx context.Context, tenant, run string) error
}

// Deps is what a Service needs.
type Deps struct {
	Store    Store
	Holdings Holdings
	Tables   []personal.Table
	Writer   txn.Writer
	Queue    work.Queue
	Clock    clock.Clock
	Log      *slog.Logger
	Audit    audit.Recorder
	Node     string        // as the owner of leases
	Lease    time.Duration // without a heartbeat
}

// Service is the slice.
type Service struct{ Deps }

// New returns a service.
func New(d Deps) *Service { return &Service{d} }

// Reason is data that is left out, and why.
type Reason struct {
	_ struct{} `json:"-" name:"DataSubjectReason"`

	What string `json:"what" required:"true" doc:"The kind of data."`
	Why  string `json:"why" required:"true"`
}

// elsewhere is what no person is named in, though what people said may be.
var elsewhere = []Reason{
	{What: "datasets", Why: "Cases that were made of runs are test data of the company; delete the dataset."},
	{What: "core_memory",
		Why: "The blocks of an agent's memory are about the agent's work and name no source; change them with PUT " +
			"/agents/{agentId}/core-memory."},
	{What: "knowledge_bases", Why: "Documents are the company's and do not say who uploaded them; delete the document."},
	{What: "workspaces", Why: "Files in workspaces are the agents' and do not say who wrote them; delete the file."},
	{What: "webhook_deliveries", Why: "What was sent to webhooks is deleted after seven days."},
	{What: "answers_to_others", Why: "Runs of others, in a session that the person shared with them, may quote the person."},
	{What: "backups", Why: "Backups are the operator's; they end with their own retention."},
}

// subject returns a person. Errors: fault.NotFound.
func (s *Service) subject(ctx context.Context, tenant, id string) (Subject, error) {
	found, err := s.Store.GetSubject(ctx, tenant, id)
	if errors.Is(err, ErrNotFound) {
		return found, fault.New(fault.NotFound, "", "There is no such person in this company: "+
			"subject_id is the id of a member, also of one that was removed, or of a visitor's session.")
	}
	return found, err
}

const runsPage = 200

// pages calls do with each run of a list.
func pages(list func(after Run, n int) ([]Run, error), do func(r *Run) error) error {
	for after := (Run{}); ; {
		page, err := list(after, runsPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := do(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < runsPage {
			return nil
		}
		after = page[len(page)-1]
	}
}

// started calls do with each run that the person started.
func (s *Service) started(ctx context.Context, who *Subject, do func(r *Run) error) error {
	for _, initiator := range who.Initiators() {
		err := pages(func(after Run, n int) ([]Run, error) {
			return s.Store.ListStarted(ctx, who.TenantID, initiator, after, n)
		}, do)
		if err != nil {
			return err
		}
	}
	return nil
}

// visit calls run with each run of the person: those that the person started, the todos
// of sessions that are the person's alone, and what all these started. It calls session
// with each such session before its runs.
func (s *Service) visit(ctx context.Context, who *Subject, session func(id string) error, run func(r *Run) error) error {
	family := func(root *Run) error {
		if err := run(root); err != nil {
			return err
		}
		return pages(func(after Run, n int) ([]Run, error) {
			return s.Store.ListFamily(ctx, who.TenantID, root.RunID, after, n)
		}, run)
	}
	own, seen := owned{}, map[string]bool{}
	if who.Visitor {
		if err := session(who.ID); err != nil {
			return err
		}
		own[who.ID] = true
	}
	return s.started(ctx, who, func(r *Run) error {
		mine, err := own.of(ctx, s.Store, who, r.SessionID)
		switch {
		case err != nil:
			return err
		case !mine:
			return family(r)
		case seen[r.SessionID]:
			return nil // with its session
		}
		seen[r.SessionID] = true
		if !who.Visitor {
			if err := session(r.SessionID); err != nil {
				return err
			}
		}
		return pages(func(after Run, n int) ([]Run, error) {
			return s.Store.ListBySession(ctx, who.TenantID, r.SessionID, after, n)
		}, family)
	})
}

// owned is whether sessions are a person's alone.
type owned map[string]bool

func (o owned) of(ctx context.Context, store Store, who *Subject, session string) (bool, error) {
	if session == "" {
		return false, nil
	}
	mine, known := o[session]
	if known {
		return mine, nil
	}
	others, err := store.HasOthers(ctx, who.TenantID, session, who.Initiators())
	o[session] = !others
	return !others, err
}

// valueOf returns what a table's column has in the rows of a person; "": there are none.
func (s *Subject) valueOf(t *personal.Table) string {
	switch {
	case t.By == personal.Member && !s.Visitor:
		return s.ID
	case t.By == personal.Email:
		return s.Email
	}
	return ""
}
