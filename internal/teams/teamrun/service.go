package teamrun

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/ptr"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/quota"
	kernelwork "agentd/internal/kernel/work"
	"agentd/internal/teams/group"
	"agentd/internal/teams/team"
)

// Service runs teams.
type Service struct {
	Store    Store
	Teams    *team.Teams
	Runs     group.Runs
	Writer   txn.Writer
	Queue    kernelwork.Queue
	Log      event.Log
	Hub      *event.Hub
	Cursors  *page.Cursors
	Clock    clock.Clock
	Governor policy.Governor // nil: there is no governance
	Lease    time.Duration
	// External does the tasks of workers that are not agents of the company; nil: there
	// are none.
	External External
	Quota    quota.Gate // nil: there may be any number of runs at a time
	// Agent reports whether a company has an agent. Errors: fault.NotFound.
	Agent func(tx txn.Tx, tenant, id string) error
	// AgentName returns what an agent is called. Errors: fault.NotFound.
	AgentName func(ctx context.Context, tenant, id string) (string, error)
	// Children returns the runs that a run started, oldest first; see run.Store.
	Children func(ctx context.Context, tenant, id string, limit int) ([]run.Child, error)
	// WorkingTx returns up to limit runs that the tool calls of a run started and that have
	// not ended; see run.Store.
	WorkingTx func(tx txn.Tx, tenant, id string, limit int) ([]string, error)
	// Unfinished returns how many of the runs exist and have not ended; see run.Store.
	Unfinished func(tx txn.Tx, tenant string, ids []string) (int, error)
	Tell       group.Teller // of the events of team runs; nil: nobody is notified
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func (s *Service) item(r *Record) kernelwork.Item {
	return kernelwork.Item{Kind: WorkKind, Key: r.TeamRunID, TenantID: r.TenantID, Due: s.Clock.Now()}
}

// request is what a team is to do.
type request struct {
	message      string
	addressed    []string // members; nil: those that the message mentions, or all
	chat         bool     // the members answer, without the topology
	metadata     schema.Object
	history      []model.Message // nil, with chat: the turns of the thread
	instructions string
	answer       func(*Record) any // to the request; see txn.WithAnswer
	job          *group.TeamJob    // what it is part of; nil: a caller asked for it
}

// create stores a run of a team. Errors: fault.NotFound for the team; fault.Malformed if no
// member can take part, fault.Invalid for one that cannot, fault.Limited where the
// company has as many runs of teams as its plan allows at a time.
func (s *Service) create(ctx context.Context, who authz.Caller, teamID string, req request) (*Record, error) {
	t, err := s.Teams.Store().Get(ctx, who.TenantID, teamID)
	if err != nil {
		return nil, err
	}
	active, err := s.Teams.Active(ctx, who.TenantID, teamID)
	if err != nil {
		return nil, err
	}
	if len(req.addressed) == 0 {
		if req.addressed, err = s.mentioned(ctx, t, req); err != nil {
			return nil, err
		}
	}
	spec, err := specOf(t, active, &req)
	if err != nil {
		return nil, err
	}
	r := &Record{
		TenantID: who.TenantID, TeamRunID: ident.New(), TeamID: teamID, Status: Pending, Spec: spec, Message: req.message,
		Thread: threadOf(teamID, spec.AddressedTo), Metadata: req.metadata, KeyID: who.KeyID, UserID: who.UserID, CreatedAt: s.Clock.Now(),
	}
	if len(r.Metadata) == 0 {
		r.Metadata = schema.Object("{}")
	}
	if r.Spec.History = req.history; req.chat && req.history == nil {
		if r.Spec.History, r.Spec.Sources, err = s.earlier(ctx, r); err != nil {
			return nil, err
		}
	}
	applyJob(req.job, r)
	if req.answer == nil {
		req.answer = func(r *Record) any { return accepted{TeamRunID: r.TeamRunID} }
	}
	ctx = txn.WithAnswer(ctx, func() any { return req.answer(r) })
	return r, s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.admitTx(tx, req.job, r); err != nil {
			return err
		}
		if s.Quota != nil {
			if err := s.Quota.Reserve(tx, r.TenantID, quota.TeamRuns); err != nil {
				return err
			}
		}
		if err := s.prune(tx, r); err != nil {
			return err
		}
		if err := s.Store.CreateTx(tx, r); err != nil {
			return err
		}
		return s.Queue.EnqueueTx(tx, s.item(r))
	})
}

// prune leaves out members whose agents were deleted. Errors: fault.Malformed if none
// is left, or if the one that leads them was.
func (s *Service) prune(tx txn.Tx, r *Record) error {
	gone := func(id string) (bool, error) {
		err := s.Agent(tx, r.TenantID, id)
		if fault.Is(err, fault.NotFound) {
			return true, nil
		}
		return false, err
	}
	var left []Member
	for _, m := range r.Spec.Members {
		if m.External == nil {
			deleted, err := gone(m.AgentID)
			if err != nil {
				return err
			}
			if deleted {
				continue
			}
		}
		left = append(left, m)
	}
	if r.Spec.Members = left; len(left) == 0 {
		return fault.New(fault.Malformed, "", "No member of the team can take part: their agents were deleted. Name others in workers.")
	}
	if r.Spec.Topology == team.Swarm && !slices.ContainsFunc(left, func(m Member) bool { return m.AgentID == r.Spec.Initial }) {
		r.Spec.Initial = left[0].AgentID
	}
	if r.Spec.Supervisor == "" || r.Spec.Chat {
		return nil
	}
	deleted, err := gone(r.Spec.Supervisor)
	if deleted {
		err = fault.New(fault.Malformed, "", "The supervisor of the team was deleted. Name another one in supervisor_agent_id.")
	}
	return err
}

// specOf returns the part of a team that a run of it needs: the members that are active
// and addressed.
func specOf(t *team.Team, active map[string]bool, req *request) (Spec, error) {
	s := Spec{
		Topology: t.Topology, Supervisor: t.SupervisorAgentID, Delegation: t.DelegationStrategy, Merge: t.MergeStrategy,
		Shared: t.MessageProtocol == team.SharedContext, Policies: t.Policies, Handoffs: 10, Workspace: ptr.Value(t.WorkspaceID),
		Mode: t.OrchestrationMode, ToolDriven: t.SupervisorMode == team.ToolDriven, Goal: t.GoalConfig,
		Chat: req.chat, AddressedTo: req.addressed, Instructions: req.instructions,
	}
	all := t.Members()
	if req.chat && t.SupervisorAgentID != "" {
		all = append(all, team.Worker{AgentID: t.SupervisorAgentID, Role: "supervisor"})
	}
	if err := checkAddressed(all, active, req.addressed); err != nil {
		return s, err
	}
	if c := t.SwarmConfig; c != nil {
		s.Initial, s.Summary = c.InitialAgentID, c.Context == team.Summary
		if c.MaxHandoffs != nil {
			s.Handoffs = *c.MaxHandoffs
		}
	}
	speaker := s.Supervisor
	if speaker == "" {
		speaker = s.Initial
	}
	for _, w := range all {
		if !active[w.AgentID] || len(req.addressed) > 0 && !slices.Contains(req.addressed, w.AgentID) {
			continue
		}
		if req.chat && len(req.addressed) == 0 && w.AgentID != speaker {
			continue
		}
		m := Member{AgentID: w.AgentID, Role: w.Role, ReadOthers: true}
		if p := w.Permissions; p != nil {
			m.ReadOthers, m.MaxTokens, m.MaxSteps = p.ReadOthers == nil || *p.ReadOthers, p.MaxTokens, p.MaxSteps
		}
		if w.External != nil {
			var err error
			if m.External, err = json.Marshal(w.External); err != nil {
				return s, err
			}
		}
		s.Members = append(s.Members, m)
	}
	if len(s.Members) == 0 {
		return s, fault.New(fault.Malformed, "", "No member of the team can take part: their nodes in its graph are not active.")
	}
	if t.Topology == team.Swarm && !slices.ContainsFunc(s.Members, func(m Member) bool { return m.AgentID == s.Initial }) {
		s.Initial = s.Members[0].AgentID
	}
	return s, nil
}

// checkAddressed refuses whom a message is addressed to and who cannot take part.
func checkAddressed(all []team.Worker, active map[string]bool, addressed []string) error {
	var wrong []fault.Field
	for i, id := range addressed {
		known := slices.ContainsFunc(all, func(w team.Worker) bool { return w.AgentID == id })
		if known && active[id] {
			continue
		}
		message := "this agent is no member of the team beside its supervisor"
		if known {
			message = "this member takes part in no run: its node in the graph of the team is not active"
		}
		wrong = append(wrong, fault.Field{Field: "addressed_to[" + strconv.Itoa(i) + "]", Message: message})
	}
	if wrong != nil {
		return fault.BadFields(wrong...)
	}
	return nil
}

// get returns a run of a team. Errors: fault.NotFound.
func (s *Service) get(ctx context.Context, tenant, teamID, id string) (*Record, error) {
	r, err := s.Store.Get(ctx, tenant, id)
	if err == nil && r.TeamID != teamID {
		return nil, fault.NewNotFound("team run")
	}
	return r, err
}

// cancel requests the end of a run. Its work ends it, and then the runs of its members.
func (s *Service) cancel(ctx context.Context, tenant, teamID, id string) (cancelled, error) {
	r, err := s.get(ctx, tenant, teamID, id)
	if err != nil {
		return cancelled{}, err
	}
	answer := cancelled{TeamRunID: id, Cancelled: !r.Status.Final(), Stopped: !r.Status.Final()}
	tasks, err := s.Store.ListTasks(ctx, tenant, id)
	if err != nil {
		return answer, err
	}
	for i := range tasks {
		if tasks[i].Started && !tasks[i].ended() {
			answer.Count++
		}
	}
	ctx = txn.WithAnswer(ctx, func() any { return answer })
	return answer, s.Writer.Write(ctx, func(tx txn.Tx) error {
		if !answer.Cancelled {
			return nil
		}
		// The item first, the row second, as its worker does.
		if err := s.Queue.EnqueueTx(tx, s.item(r)); err != nil {
			return err
		}
		return s.Store.RequestCancelTx(tx, tenant, id)
	})
}

// maxOrphans bounds the runs of members that are cancelled with their team.
const maxOrphans = 1000

// TeamDeletedTx deletes the runs of a team that is deleted, and has those of its members
// cancelled.
func (s *Service) TeamDeletedTx(tx txn.Tx, tenant, teamID string) error {
	unfinished, err := s.Store.DeleteTeamTx(tx, tenant, teamID, maxOrphans)
	if err != nil || len(unfinished) == 0 {
		return err
	}
	items := make([]kernelwork.Item, len(unfinished))
	for i, id := range unfinished {
		items[i] = kernelwork.Item{Kind: run.CancelWorkKind, Key: id, TenantID: tenant, Due: s.Clock.Now()}
	}
	return s.Queue.EnqueueTx(tx, items...)
}

// blank reports whether a message says nothing.
func blank(message string) bool { return strings.TrimSpace(message) == "" }

// IsOver reports whether a run has ended or is gone.
func (s *Service) IsOver(ctx context.Context, tenant, id string) (bool, error) {
	r, err := s.Store.Get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return err == nil && r.Status.Final(), err
}
