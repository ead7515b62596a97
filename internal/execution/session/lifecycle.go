package session

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the work items that expire sessions and cancel the
// waiting turns of closed ones; the key is the session's id.
const WorkKind = "session"

// lifecycle creates, lists, updates, closes and expires sessions.
type lifecycle struct {
	store    Store
	reader   *reader
	agents   Agents
	runs     Runs
	writer   txn.Writer
	queue    work.Queue
	cursors  *page.Cursors
	clock    clock.Clock
	checkURL egress.CheckFunc
	// providerOf returns the operator's provider of a model; nil: none is remembered.
	providerOf func(ref string) string
	audit      audit.Recorder
	quota      quota.Gate
	hints      hints
	onChange   ChangeHook
}

// newSession is the body of a session's creation.
type newSession struct {
	_ struct{} `json:"-" name:"SessionCreate"`

	AgentID       string         `json:"agent_id" format:"uuid" required:"true" doc:"The agent of the session."`
	TeamID        *string        `json:"team_id,omitzero" format:"uuid" nullable:"true" doc:"The team of the session. Teams do not exist yet: any id is refused with 404."`
	Metadata      schema.Object  `json:"metadata,omitzero" doc:"Data of yours, kept with the session."`
	QueueMode     string         `json:"queue_mode" enum:"allow,reject" default:"allow" doc:"While a run of the branch is under way: allow queues a message, reject refuses it with 409."`
	ModelOverride *ModelOverride `json:"model_override" doc:"The model of this session, instead of the agent's."`
	ExternalID    string         `json:"external_id,omitzero" maxLength:"128" doc:"An id of yours for the conversation, unique among the sessions of the agent. Front ends find the session by it: it is AG-UI's threadId, and the id of a chat of the AI SDK."`
	ExpiresIn     int64          `json:"expires_in_seconds" minimum:"1" maximum:"315360000" default:"86400" doc:"Seconds until the session expires."`
}

// create makes a new session. It expires after a day unless the body asks for
// another time, and after ten years at the latest.
func (l *lifecycle) create(ctx context.Context, who authz.Caller, in *newSession) (*Session, error) {
	if err := checkMetadataField(in.Metadata); err != nil {
		return nil, err
	}
	if in.ExternalID != "" {
		if message := CheckExternalID(in.ExternalID); message != "" {
			return nil, fault.BadFields(fault.Field{Field: "external_id", Message: message})
		}
	}
	if err := l.checkURL.CheckNew(ctx, who.TenantID, nil, in.ModelOverride.addresses()); err != nil {
		return nil, err
	}
	g, err := l.agents.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	in.ModelOverride.remember(nil, l.providerOf)
	now := l.clock.Now()
	r := &Record{
		TenantID: who.TenantID, SessionID: ident.New(), AgentID: g.ID, TeamID: in.TeamID, Status: Active, ExternalID: in.ExternalID,
		QueueMode: in.QueueMode, Model: in.ModelOverride, Metadata: in.Metadata, ActiveBranch: Root,
		CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(time.Duration(in.ExpiresIn) * time.Second),
	}
	out := r.show(now)
	out.Branches = newBranchGraph(r, nil, nil).withRuns()
	ctx = txn.WithAnswer(ctx, func() any { return &out })
	err = l.writer.Write(ctx, func(tx txn.Tx) error { return l.openTx(tx, r) })
	return &out, err
}

// openTx stores a new session, and that it expires.
func (l *lifecycle) openTx(tx txn.Tx, r *Record) error {
	if err := l.insert(tx, r); err != nil {
		return err
	}
	if len(r.Metadata) > 0 {
		if err := l.onChange(tx, r.TenantID, r.SessionID); err != nil {
			return err
		}
	}
	return l.queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: r.SessionID, TenantID: r.TenantID, Due: r.ExpiresAt})
}

// insert stores a session if the tenant's plan has room for it.
func (l *lifecycle) insert(tx txn.Tx, r *Record) error {
	if l.quota != nil {
		if err := l.quota.Reserve(tx, r.TenantID, quota.ActiveSessions); err != nil {
			return err
		}
	}
	return l.store.CreateTx(tx, r)
}

// checkMetadataField validates what the schema cannot express.
func checkMetadataField(metadata schema.Object) error {
	if message := checkMetadata(metadata); message != "" {
		return fault.BadFields(fault.Field{Field: "metadata", Message: message})
	}
	return nil
}

// checkModel checks the endpoint of an override unless the session has it already.
func (l *lifecycle) checkModel(ctx context.Context, tenant, id string, m *ModelOverride) error {
	sent := m.addresses()
	if sent == nil {
		return nil
	}
	r, err := l.store.Get(ctx, tenant, id)
	if err != nil {
		return err
	}
	return l.checkURL.CheckNew(ctx, tenant, r.Model.addresses(), sent)
}

// shownHistory is how many entries a session is shown with.
const shownHistory = 100

// get reads a session with the newest entries of its active branch.
func (l *lifecycle) get(ctx context.Context, tenant, id string) (*Session, error) {
	r, err := l.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return l.withHistory(ctx, r)
}

func (l *lifecycle) withHistory(ctx context.Context, r *Record) (*Session, error) {
	last, err := lastEventID(ctx, l.store, l.runs, r) // before the messages are read
	if err != nil {
		return nil, err
	}
	graph, err := l.reader.graph(ctx, r)
	if err != nil {
		return nil, err
	}
	p, err := l.reader.path(ctx, r.TenantID, r.SessionID, r.ActiveBranch)
	if err != nil {
		return nil, err
	}
	newest, err := p.page(ctx, "", shownHistory)
	if err != nil {
		return nil, err
	}
	out := r.show(l.clock.Now())
	out.LastEventID = last
	for _, t := range graph.turns {
		out.Runs = append(out.Runs, t.RunID)
	}
	out.Branches, out.History, out.HistoryTruncated = graph.withRuns(), newest.entries(), newest.next != ""
	return &out, nil
}

// ListItem is a session in a list.
type ListItem struct {
	_ struct{} `json:"-" name:"SessionListItem"`

	Session

	AgentName    string `json:"agent_name"`
	FirstMessage string `json:"first_user_message,omitzero" doc:"The beginning of it."`
	LastMessage  string `json:"last_message,omitzero" doc:"The beginning of it."`
	MessageCount int64  `json:"message_count" doc:"Messages of users and answers of the agent, on all branches."`
}

// Page is one page of sessions.
type Page struct {
	_ struct{} `json:"-" name:"SessionList"`

	Items   []ListItem `json:"items" required:"true"`
	Cursor  *string    `json:"cursor" required:"true"`
	HasMore bool       `json:"has_more" required:"true"`
}

// Sessions per page.
const (
	defaultPage = 50
	maxPage     = 100
)

// list returns a page of sessions, newest first.
func (l *lifecycle) list(ctx context.Context, tenant string, in *listIn) (*Page, error) {
	if err := in.Created.Check(); err != nil {
		return nil, err
	}
	scope := page.ScopeOf(tenant, "sessions", in)
	after, err := l.cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	n := page.Limit(in.Limit, defaultPage, maxPage)
	found, err := l.store.List(ctx, tenant, in.Filter, page.Window{After: after, Limit: n + 1})
	if err != nil {
		return nil, err
	}
	p := &Page{Items: []ListItem{}}
	if len(found) > n {
		found, p.HasMore = found[:n], true
		next := l.cursors.Seal(scope, page.MomentOf(found[n-1].CreatedAt, found[n-1].SessionID))
		p.Cursor = &next
	}
	names := l.reader.agentNames(tenant)
	for i := range found {
		item, err := l.item(ctx, &found[i], names)
		if err != nil {
			return nil, err
		}
		p.Items = append(p.Items, item)
	}
	return p, nil
}

// item returns a session as lists show it.
func (l *lifecycle) item(ctx context.Context, r *Record, names *agentNames) (ListItem, error) {
	name, err := names.of(ctx, r.AgentID)
	return ListItem{
		Session: r.show(l.clock.Now()), AgentName: name,
		FirstMessage: r.Summary.First, LastMessage: r.Summary.Last, MessageCount: r.Summary.Count,
	}, err
}

// Row returns a session as lists show it.
func (s *Service) Row(ctx context.Context, tenant, id string) (ListItem, error) {
	r, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return ListItem{}, err
	}
	return s.lifecycle.item(ctx, r, s.reader.agentNames(tenant))
}

// Stream returns the frames of a session's event stream.
func (s *Service) Stream(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error) {
	return s.streams.stream(ctx, tenant, id, lastEventID)
}

// change holds what an update of a session sets. Empty fields change nothing.
type change struct {
	Metadata  schema.Object
	QueueMode string
	SetModel  bool           // Model replaces the override
	Model     *ModelOverride // nil removes it
}

// update changes a session, whatever its status.
func (l *lifecycle) update(ctx context.Context, tenant, id string, c change) (*Session, error) {
	if err := l.checkModel(ctx, tenant, id, c.Model); err != nil {
		return nil, err
	}
	var r *Record
	err := l.writer.Write(ctx, func(tx txn.Tx) (err error) {
		if r, err = l.store.LockTx(tx, tenant, id); err != nil {
			return err
		}
		if err := l.match(tx, r); err != nil {
			return err
		}
		if c.Metadata != nil {
			if err := l.mergeMetadata(tx, r, c.Metadata); err != nil {
				return err
			}
		}
		if c.QueueMode != "" {
			r.QueueMode = c.QueueMode
		}
		if c.SetModel {
			c.Model.remember(r.Model, l.providerOf)
			r.Model = c.Model
		}
		r.UpdatedAt = l.clock.Now()
		return l.store.UpdateTx(tx, r)
	})
	if err != nil {
		return nil, err
	}
	return l.withHistory(ctx, r)
}

func (l *lifecycle) match(tx txn.Tx, r *Record) error {
	current := r.show(l.clock.Now())
	return route.Match(tx.Context(), &current)
}

func (l *lifecycle) mergeMetadata(tx txn.Tx, r *Record, patch schema.Object) error {
	merged, err := schema.MergePatch(jsontext.Value(r.Metadata), jsontext.Value(patch))
	if err != nil {
		return err
	}
	r.Metadata = schema.Object(merged)
	if err := checkMetadataField(r.Metadata); err != nil {
		return err
	}
	if err := l.store.UpdateLabelsTx(tx, r); err != nil {
		return err
	}
	return l.onChange(tx, r.TenantID, r.SessionID)
}

// Deleted answers a deletion, which closes the session.
type Deleted struct {
	_ struct{} `json:"-" name:"SessionDeleted"`

	Deleted   bool   `json:"deleted" required:"true"`
	SessionID string `json:"session_id" required:"true"`
}

// close closes a session for good. A run that is under way continues to its end;
// the turns that wait behind it are cancelled. Closing twice is no error.
func (l *lifecycle) close(ctx context.Context, who authz.Caller, id string) (Deleted, error) {
	err := l.writer.Write(ctx, func(tx txn.Tx) error {
		r, err := l.store.LockTx(tx, who.TenantID, id)
		if err != nil || r.Status == Closed {
			return err
		}
		if err := l.match(tx, r); err != nil {
			return err
		}
		r.Status, r.UpdatedAt = Closed, l.clock.Now()
		l.hints.publish(tx, id, hintClosed)
		if err := l.onChange(tx, r.TenantID, id); err != nil {
			return err
		}
		if err := l.queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: id, TenantID: who.TenantID, Due: r.UpdatedAt}); err != nil {
			return err
		}
		if err := recordAudit(l.audit, tx, who, "closed", id); err != nil {
			return err
		}
		return l.store.UpdateTx(tx, r)
	})
	return Deleted{Deleted: true, SessionID: id}, err
}

// recordAudit records an action on a session in the audit log.
func recordAudit(log audit.Recorder, tx txn.Tx, who authz.Caller, action, id string) error {
	return audit.Write(log, tx, who, audit.Entry{Action: "session." + action, TargetType: "session", TargetID: id})
}

// handle expires a session whose time is over, and cancels the turns that wait in
// a closed one. Cancelling needs transactions of its own, so it looks again
// until none is left.
func (l *lifecycle) handle(ctx context.Context, held work.Lease) error {
	for {
		var waiting []string
		err := l.writer.Write(ctx, func(tx txn.Tx) (err error) {
			waiting, err = l.settle(tx, held)
			return err
		})
		if err != nil || waiting == nil {
			return err
		}
		for _, runID := range waiting {
			if _, err := l.runs.Cancel(ctx, held.TenantID, runID); err != nil {
				return fmt.Errorf("cancel a turn of a closed session: %w", err)
			}
		}
	}
}

// settle returns the runs to cancel. If there are none, it has finished the work
// item, or rescheduled it for the expiry of a session that is still active.
func (l *lifecycle) settle(tx txn.Tx, held work.Lease) (waiting []string, err error) {
	r, err := l.store.LockTx(tx, held.TenantID, held.Key)
	if fault.Is(err, fault.NotFound) {
		return nil, l.queue.FinishTx(tx, held)
	}
	if err != nil {
		return nil, err
	}
	now := l.clock.Now()
	switch {
	case r.Status == Active && r.ExpiresAt.IsZero():
		return nil, l.queue.FinishTx(tx, held)
	case r.status(now) == Active:
		return nil, l.queue.RescheduleTx(tx, held, r.ExpiresAt, nil)
	case r.Status == Active:
		r.Status, r.UpdatedAt = Expired, now
		l.hints.publish(tx, r.SessionID, hintClosed)
		if err := l.store.UpdateTx(tx, r); err != nil {
			return nil, err
		}
	case r.Status == Closed:
		if waiting, err = l.waitingRuns(tx, r); err != nil || waiting != nil {
			return waiting, err
		}
	}
	return nil, l.queue.FinishTx(tx, held)
}

// waitingRuns returns the runs that wait for their turn: all unfinished ones but
// the first of each branch, which is under way.
func (l *lifecycle) waitingRuns(tx txn.Tx, r *Record) ([]string, error) {
	turns, err := l.store.ListUnfinishedTx(tx, r.TenantID, r.SessionID, "")
	if err != nil {
		return nil, err
	}
	var ids []string
	underWay := map[string]bool{}
	for _, t := range turns {
		if underWay[t.BranchID] {
			ids = append(ids, t.RunID)
		}
		underWay[t.BranchID] = true
	}
	return ids, nil
}

type (
	bulkDeleteBody struct {
		_ struct{} `json:"-" name:"SessionBulkDelete"`

		SessionIDs []string `json:"session_ids" required:"true" minItems:"1" maxItems:"200" doc:"The sessions to delete."`
	}
	bulkDeleted struct {
		_ struct{} `json:"-" name:"SessionBulkDeleted"`

		Deleted int      `json:"deleted" required:"true"`
		Failed  []string `json:"failed" required:"true" doc:"Ids that do not exist."`
	}
)

// closeMany closes sessions. An id that does not exist in the tenant is reported
// and does not stop the others from being closed.
func (l *lifecycle) closeMany(ctx context.Context, who authz.Caller, ids []string) (bulkDeleted, error) {
	out := bulkDeleted{Failed: []string{}}
	for _, id := range ids {
		err := error(fault.NewNotFound("session"))
		if ident.Valid(id) {
			_, err = l.close(ctx, who, id)
		}
		switch {
		case err == nil:
			out.Deleted++
		case fault.Is(err, fault.NotFound):
			out.Failed = append(out.Failed, id)
		default:
			return out, err
		}
	}
	return out, nil
}
