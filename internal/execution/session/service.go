package session

import (
	"context"
	"fmt"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/quota"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the items that expire sessions and clear up after
// closed ones; the key is the session's id.
const WorkKind = "session"

// Runs is the port to runs; run.Service.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
	Release(tx txn.Tx, tenant, id string) error
}

// Agents is the port to agents; agent.Agents.
type Agents interface {
	Get(ctx context.Context, tenant, id string) (agent.Agent, error)
}

// Service is what callers can do with sessions. It also is what runs need of
// them: run.Sessions, run.Conversations, and the watcher Moved.
type Service struct {
	Store    Store
	Todos    TodoStore
	Notes    *resource.Store[Annotation]
	Shares   ShareStore
	Runs     Runs // see Connect
	Agents   Agents
	Writer   txn.Writer
	Queue    work.Queue
	Log      event.Log
	Hub      *event.Hub
	Cursors  *page.Cursors
	Clock    clock.Clock
	CheckURL func(url string) error // says why an endpoint cannot be called

	Files     Files          // nil: there are none
	Artifacts Artifacts      // nil: runs make none
	Audit     audit.Recorder // told who shares and closes what; nil: nobody
	Cron      CronFunc       // nil: todos cannot recur
	Quota     quota.Gate     // nil: there may be any number of active sessions
	Box       *secret.Box    // seals the secrets of links
	Public    func() string  // address under which clients reach the service

	// Changed is told, in the transaction, of a session whose metadata was set
	// or that was deleted. Nil: nobody is.
	Changed func(tx txn.Tx, tenant, id string) error
}

// Connect sets the runs, which are built after the service because they need it.
// It is called once, before the first request.
func (s *Service) Connect(runs Runs) { s.Runs = runs }

// changed tells of what else than a run changes a session: its metadata, or its
// end.
func (s *Service) changed(tx txn.Tx, r *Record) error {
	if s.Changed == nil {
		return nil
	}
	return s.Changed(tx, r.TenantID, r.SessionID)
}

// newSession is what a session is made of. It lives for a day unless its
// creator says otherwise (behaviours 36), and ten years at most.
type newSession struct {
	_ struct{} `json:"-" name:"SessionCreate"`

	AgentID       string         `json:"agent_id" format:"uuid" required:"true"`
	TeamID        *string        `json:"team_id,omitzero" format:"uuid" nullable:"true"`
	Metadata      schema.Object  `json:"metadata,omitzero"`
	QueueMode     string         `json:"queue_mode" enum:"allow,reject" default:"allow" doc:"What becomes of a message while a run of its branch is under way: allow, it waits its turn; reject, it is refused with 409."`
	ModelOverride *ModelOverride `json:"model_override"`
	ExpiresIn     int64          `json:"expires_in_seconds" minimum:"1" maximum:"315360000" default:"86400" doc:"Seconds until the session expires."`
}

// Create makes a session, always a new one (decisions.md D8).
func (s *Service) Create(ctx context.Context, who authz.Caller, in *newSession) (*Session, error) {
	if err := s.check(in.Metadata, in.ModelOverride); err != nil {
		return nil, err
	}
	g, err := s.Agents.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	r := &Record{
		TenantID: who.TenantID, SessionID: ident.New(), AgentID: g.ID, TeamID: in.TeamID, Status: Active,
		QueueMode: in.QueueMode, Model: in.ModelOverride, Metadata: in.Metadata, ActiveBranch: Root,
		CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(time.Duration(in.ExpiresIn) * time.Second),
	}
	out := r.show(now)
	out.Branches = newPlot(r, nil, nil).all()
	ctx = txn.Promise(ctx, func() any { return &out })
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.insert(tx, r); err != nil {
			return err
		}
		if len(r.Metadata) > 0 {
			if err := s.changed(tx, r); err != nil {
				return err
			}
		}
		return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: r.SessionID, TenantID: r.TenantID, Due: r.ExpiresAt})
	})
	return &out, err
}

// insert stores a session that the tenant's plan has room for.
func (s *Service) insert(tx txn.Tx, r *Record) error {
	if s.Quota != nil {
		if err := s.Quota.Take(tx, r.TenantID, quota.ActiveSessions); err != nil {
			return err
		}
	}
	return s.Store.CreateTx(tx, r)
}

// check refuses what the types allow and the rules do not.
func (s *Service) check(metadata schema.Object, m *ModelOverride) error {
	var wrong []fault.Field
	if complaint := checkMetadata(metadata); complaint != "" {
		wrong = append(wrong, fault.Field{Field: "metadata", Message: complaint})
	}
	if m != nil && m.EndpointURL != "" {
		if err := s.CheckURL(m.EndpointURL); err != nil {
			wrong = append(wrong, fault.Field{Field: "model_override.endpoint_url", Message: err.Error()})
		}
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// Get reads a session with what was said on its active branch.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Session, error) {
	r, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return s.whole(ctx, r)
}

func (s *Service) whole(ctx context.Context, r *Record) (*Session, error) {
	out := r.show(s.Clock.Now())
	m, err := s.plot(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, t := range m.turns {
		out.Runs = append(out.Runs, t.RunID)
	}
	out.Branches = m.all()
	st, err := s.tell(ctx, r.TenantID, m.line(r.ActiveBranch))
	if err != nil {
		return nil, err
	}
	out.History = st.entries
	return &out, nil
}

// Listed is a session in a list.
type Listed struct {
	Session

	AgentName    string `json:"agent_name"`
	FirstMessage string `json:"first_user_message,omitzero" doc:"Its beginning."`
	LastMessage  string `json:"last_message,omitzero" doc:"Its beginning."`
	MessageCount int64  `json:"message_count" doc:"Messages of users and answers of the agent, on all branches."`
}

// Page is one page of sessions.
type Page struct {
	_ struct{} `json:"-" name:"SessionList"`

	Items   []Listed `json:"items" required:"true"`
	Cursor  *string  `json:"cursor" required:"true"`
	HasMore bool     `json:"has_more" required:"true"`
}

// Sessions per page (interface.md section 8).
const (
	defaultPage = 50
	maxPage     = 100
)

// List gives a page of sessions, newest first; of one agent where agentID is
// not empty.
func (s *Service) List(ctx context.Context, tenant, agentID, limit, cursor string) (*Page, error) {
	scope := page.Scope{Tenant: tenant, List: "sessions", Filter: []string{agentID}}
	after, err := s.Cursors.Open(scope, cursor)
	if err != nil {
		return nil, err
	}
	n, found := page.Limit(limit, defaultPage, maxPage), []Record{}
	if agentID == "" || ident.Valid(agentID) {
		if found, err = s.Store.List(ctx, tenant, agentID, after, n+1); err != nil {
			return nil, err
		}
	}
	p := &Page{Items: []Listed{}}
	if len(found) > n {
		found, p.HasMore = found[:n], true
		next := s.Cursors.Seal(scope, found[n-1].SessionID)
		p.Cursor = &next
	}
	names, now := map[string]string{}, s.Clock.Now()
	for _, r := range found {
		name, err := s.agentName(ctx, names, tenant, r.AgentID)
		if err != nil {
			return nil, err
		}
		p.Items = append(p.Items, Listed{
			Session: r.show(now), AgentName: name, FirstMessage: r.Summary.First, LastMessage: r.Summary.Last, MessageCount: r.Summary.Count,
		})
	}
	return p, nil
}

// agentName is empty where the agent is gone.
func (s *Service) agentName(ctx context.Context, known map[string]string, tenant, id string) (string, error) {
	if name, ok := known[id]; ok {
		return name, nil
	}
	g, err := s.Agents.Get(ctx, tenant, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	known[id] = g.Name
	return g.Name, nil
}

// change is what an update of a session sets. Model is set where SetModel says
// so, to none where it is nil.
type change struct {
	Metadata  schema.Object
	QueueMode string
	SetModel  bool
	Model     *ModelOverride
}

// Update changes a session, whatever its state.
func (s *Service) Update(ctx context.Context, tenant, id string, c change) (*Session, error) {
	if err := s.check(nil, c.Model); err != nil {
		return nil, err
	}
	var r *Record
	err := s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		if r, err = s.Store.LockTx(tx, tenant, id); err != nil {
			return err
		}
		if c.Metadata != nil {
			if r.Metadata, err = mergeObjects(r.Metadata, c.Metadata); err != nil {
				return err
			}
			if err := s.check(r.Metadata, nil); err != nil {
				return err
			}
			if err := s.changed(tx, r); err != nil {
				return err
			}
		}
		if c.QueueMode != "" {
			r.QueueMode = c.QueueMode
		}
		if c.SetModel {
			r.Model = c.Model
		}
		r.UpdatedAt = s.Clock.Now()
		return s.Store.UpdateTx(tx, r)
	})
	if err != nil {
		return nil, err
	}
	return s.whole(ctx, r)
}

// Deleted is the answer of a deletion (decisions.md D8).
type Deleted struct {
	_ struct{} `json:"-" name:"SessionDeleted"`

	Deleted   bool   `json:"deleted" required:"true"`
	SessionID string `json:"session_id" required:"true"`
}

// Close ends a session for good. A run that is under way goes on to its end;
// those that wait their turn behind it are cancelled. Closing twice is fine.
func (s *Service) Close(ctx context.Context, who authz.Caller, id string) (Deleted, error) {
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		r, err := s.Store.LockTx(tx, who.TenantID, id)
		if err != nil || r.Status == Closed {
			return err
		}
		r.Status, r.UpdatedAt = Closed, s.Clock.Now()
		s.tellEnd(tx, id)
		if err := s.changed(tx, r); err != nil {
			return err
		}
		if err := s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: id, TenantID: who.TenantID, Due: r.UpdatedAt}); err != nil {
			return err
		}
		if err := s.record(tx, who, "closed", id); err != nil {
			return err
		}
		return s.Store.UpdateTx(tx, r)
	})
	return Deleted{Deleted: true, SessionID: id}, err
}

func (s *Service) record(tx txn.Tx, who authz.Caller, action, id string) error {
	return audit.Tell(s.Audit, tx, who, audit.Entry{Action: "session." + action, TargetType: "session", TargetID: id})
}

// Handle is the work handler of WorkKind: it expires a session whose time is
// over, and cancels the turns that wait in a closed one.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	tenant, id := held.TenantID, held.Key
	for {
		var waiting []string
		err := s.Writer.Write(ctx, func(tx txn.Tx) error {
			waiting = nil
			r, err := s.Store.LockTx(tx, tenant, id)
			if fault.Is(err, fault.NotFound) {
				return s.Queue.FinishTx(tx, held)
			}
			if err != nil {
				return err
			}
			if r.Status == Active {
				if r.ExpiresAt.IsZero() {
					return s.Queue.FinishTx(tx, held)
				}
				if r.status(s.Clock.Now()) == Active {
					return s.Queue.RescheduleTx(tx, held, r.ExpiresAt, nil)
				}
				r.Status, r.UpdatedAt = Expired, s.Clock.Now()
				s.tellEnd(tx, id)
				if err := s.Store.UpdateTx(tx, r); err != nil {
					return err
				}
			}
			if r.Status == Closed {
				if waiting, err = s.waiting(tx, tenant, id); err != nil {
					return err
				}
			}
			if waiting == nil {
				return s.Queue.FinishTx(tx, held)
			}
			return nil
		})
		if err != nil || waiting == nil {
			return err
		}
		for _, runID := range waiting {
			if _, err := s.Runs.Cancel(ctx, tenant, runID); err != nil {
				return fmt.Errorf("cancel a turn of a closed session: %w", err)
			}
		}
	}
}

// waiting gives the runs whose turn has not come.
func (s *Service) waiting(tx txn.Tx, tenant, id string) ([]string, error) {
	turns, err := s.Store.ListUnfinishedTx(tx, tenant, id, "")
	if err != nil {
		return nil, err
	}
	var ids []string
	first := map[string]bool{}
	for _, t := range turns {
		if first[t.BranchID] {
			ids = append(ids, t.RunID)
		}
		first[t.BranchID] = true
	}
	return ids, nil
}
