// Package live shows a page what changes in its company while it looks: one stream of
// summary rows and counts for everything, and the events of the runs and sessions that
// it follows.
//
// A change is announced after the commit that made it, over the hub: nothing is stored,
// and where nobody listens nothing is rendered. All readers of a company on a node
// share one subscription, one read of each changed row and one rendering of it. What
// is lost between nodes, or is too old to resume after, is a gap, after which a reader
// loads its lists again.
package live

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/resource"
)

// The operations of a change. A kind's own moves have their names: activate, archive.
const (
	Created = resource.Created
	Updated = resource.Updated
	Deleted = resource.Deleted
)

// Change is announced after its commit.
type Change struct {
	Kind    string         `json:"k"`
	ID      string         `json:"i,omitzero"` // "": several, whose counts change
	Op      string         `json:"o"`
	Version int64          `json:"v,omitzero"` // 0: the kind has none
	User    string         `json:"u,omitzero"` // who alone may see it; "": everybody
	Row     jsontext.Value `json:"w,omitzero"` // nil: it is read from the kind's Source
	Parent  string         `json:"p,omitzero"` // of a run: the run that started it
}

// Announcer announces changes. The zero value drops them.
type Announcer struct{ Hub *event.Hub }

// StreamName returns the name of a company's changes on the hub.
func StreamName(tenant string) string { return "changes." + tenant }

// Tx announces a change once tx has committed.
func (a Announcer) Tx(tx txn.Tx, tenant string, c Change) {
	if a.Hub == nil || !a.Hub.Wanted(StreamName(tenant)) {
		return
	}
	tx.AfterCommit(func() {
		data, err := json.Marshal(c)
		if err != nil {
			return // a row that cannot be sent is read from its source by whoever loads it
		}
		a.Hub.Publish(event.Batch{Stream: StreamName(tenant), Events: []event.Event{{Seq: 1, Name: "change", Data: data}}})
	})
}

// Outbox is an outbox of resources that announces what it stores.
type Outbox struct {
	resource.Outbox
	Announcer
}

// Append implements resource.Outbox.
func (o Outbox) Append(tx txn.Tx, c resource.Change) error {
	if err := o.Outbox.Append(tx, c); err != nil {
		return err
	}
	o.Tx(tx, c.TenantID, Change{Kind: c.Kind, ID: c.ID, Op: c.Action, Version: c.Version})
	return nil
}

// OnRunState is a run.Watcher: it announces the run, its session, and what it waits for.
func (a Announcer) OnRunState(tx txn.Tx, r *run.Record) error {
	if a.Hub == nil || r.Options.Sandbox != nil || !a.Hub.Wanted(StreamName(r.TenantID)) {
		return nil
	}
	c := Change{Kind: "run", ID: r.RunID, Op: Updated}
	if r.ParentRunID != nil {
		c.Parent = *r.ParentRunID
	}
	a.Tx(tx, r.TenantID, c)
	if r.SessionID != nil {
		a.Tx(tx, r.TenantID, Change{Kind: "session", ID: *r.SessionID, Op: Updated})
	}
	if r.Status == run.AwaitingApproval {
		a.Tx(tx, r.TenantID, Change{Kind: approvalsOfRun, ID: r.RunID, Op: Created})
	}
	return nil
}

// approvalsOfRun is the kind of a change that stands for the pending approvals of a run.
const approvalsOfRun = "approvals of run"

// ApprovalDecided announces an approval.
func (a Announcer) ApprovalDecided(tx txn.Tx, tenant, id string) {
	a.Tx(tx, tenant, Change{Kind: "approval", ID: id, Op: Updated})
}

// SessionChanged announces a session.
func (a Announcer) SessionChanged(tx txn.Tx, tenant, id string) {
	a.Tx(tx, tenant, Change{Kind: "session", ID: id, Op: Updated})
}

// Source is a kind of things whose changes are shown.
type Source struct {
	Kind    string
	Readers resource.Access
	// Row returns a thing as lists show it. Errors: fault.NotFound.
	Row func(ctx context.Context, tenant, id string) (row jsontext.Value, version int64, err error)
}

// RowOf returns the Row of a kind that has no versions.
func RowOf[T any](
	read func(ctx context.Context, tenant, id string) (T, error),
) func(ctx context.Context, tenant, id string) (row jsontext.Value, version int64, err error) {
	return func(ctx context.Context, tenant, id string) (jsontext.Value, int64, error) {
		t, err := read(ctx, tenant, id)
		if err != nil {
			return nil, 0, err
		}
		row, err := json.Marshal(t)
		return row, 0, err
	}
}

// Counter is a number, or several, that pages show beside their lists.
type Counter struct {
	Name     string   // a member of the frame counts
	Kinds    []string // whose changes change it
	Readers  resource.Access
	Personal bool // it is the caller's own
	Count    func(ctx context.Context, tenant, user string) (any, error)
}

// Deps are the dependencies of a Service.
type Deps struct {
	Hub      *event.Hub
	Clock    clock.Clock
	Log      *slog.Logger
	Kinds    *resource.Registry // the kinds of resources; nil: none
	Sources  []Source           // the other kinds
	Counters []Counter
	// Runs and Sessions are followed.
	Runs interface {
		Stream(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error)
		// Children returns the runs that a run started and that have not ended.
		Children(ctx context.Context, tenant, id string) ([]string, error)
		PendingApprovals(ctx context.Context, tenant, runID string) ([]string, error)
	}
	Sessions interface {
		Stream(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error)
	}
}

// Service serves the stream of changes.
type Service struct {
	Deps

	node string // this process, in the ids of frames

	mu      sync.Mutex
	rooms   map[string]*room
	stopped bool
	ctx     context.Context //nolint:containedctx // of all rooms: they outlive the requests that open them
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New returns a Service.
func New(d Deps) *Service {
	s := &Service{Deps: d, node: ident.New()[28:], rooms: map[string]*room{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Stop ends what was started for readers.
func (s *Service) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

// source returns the source of a kind.
func (s *Service) source(kind string) (Source, bool) {
	i := slices.IndexFunc(s.Sources, func(o Source) bool { return o.Kind == kind })
	if i >= 0 {
		return s.Sources[i], true
	}
	for _, k := range s.kinds() {
		if k.Kind == kind {
			return k, true
		}
	}
	return Source{}, false
}

// kinds returns the kinds of resources.
func (s *Service) kinds() (all []Source) {
	if s.Kinds == nil {
		return nil
	}
	for _, k := range s.Kinds.Kinds() {
		all = append(all, Source{Kind: k.Kind, Readers: k.Readers, Row: k.Row})
	}
	return all
}

// readable returns the names of the kinds whose changes a caller may see.
func (s *Service) readable(who authz.Caller) (names []string) {
	for _, k := range append(s.kinds(), s.Sources...) {
		if who.Check(k.Readers.Role, k.Readers.Scopes...) == nil {
			names = append(names, k.Kind)
		}
	}
	slices.Sort(names)
	return names
}

// now returns the present time as a position, in microseconds.
func (s *Service) now() int64 { return s.Clock.Now().UnixMicro() }

// The times of a room.
const (
	// perObject is the least time between two frames of one thing.
	perObject = 250 * time.Millisecond
	// lingers is how long a room without readers keeps what happens, so that a page that
	// reconnects misses nothing.
	lingers = time.Minute
	// skew is how far the clocks of two nodes may be apart where a page resumes on
	// another node.
	skew = 2 * time.Second
)
