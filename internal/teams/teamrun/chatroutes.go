package teamrun

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/ptr"
	"agentd/internal/base/route"
)

// The states of a team's chat.
const (
	addressing = "ADDRESSING" // there is no message yet
	underWay   = "RUNNING"
	answered   = "DONE"
)

type (
	chatIn struct {
		TeamID   string `path:"teamId"`
		ThreadID string `query:"thread_id" doc:"Only the messages of this thread. Default: all."`
		Internal bool   `query:"include_internal" doc:"With what the members answered on the way."`
		Limit    string `query:"limit" doc:"Turns per page, 1 to 200; 100 if omitted."`
		Cursor   string `query:"cursor" doc:"From an earlier page: the turns before it."`
	}
	chatStreamIn struct {
		TeamID      string `path:"teamId"`
		ThreadID    string `query:"thread_id" doc:"Only the messages of this thread. Default: all."`
		LastEventID string `header:"Last-Event-ID"`
		After       string `query:"last_event_id" doc:"The same as the header Last-Event-ID."`
	}
)

type (
	chatState struct {
		_ struct{} `json:"-" name:"TeamChatState"`

		State  string `json:"state" enum:"ADDRESSING,RUNNING,DONE" required:"true" doc:"ADDRESSING: there is no message yet. RUNNING: a message is being answered. DONE: all are."`
		Active string `json:"active_team_run_id,omitzero" format:"uuid" doc:"The oldest run that is under way."`
	}
	turnMeta struct {
		_ struct{} `json:"-" name:"TeamChatTurnMeta"`

		Status  string `json:"status,omitzero" doc:"Of the run of the team; of an internal entry, of the member's run."`
		Error   string `json:"error,omitzero" doc:"Why there is no answer, in one sentence."`
		AgentID string `json:"agent_id,omitzero" doc:"Of an internal entry: who answered."`
		RunID   string `json:"run_id,omitzero" doc:"Of an internal entry: the member's run."`
		Purpose string `json:"purpose,omitzero" doc:"Of an internal entry: what the member's run was for."`
		Round   int    `json:"round,omitzero" doc:"Of an internal entry: the round of the team."`
	}
	chatTurn struct {
		_ struct{} `json:"-" name:"TeamChatTurn"`

		Role        string    `json:"role" enum:"user,assistant,member" required:"true" doc:"member: an internal entry."`
		Content     string    `json:"content" required:"true" doc:"Empty where there is no answer, or not yet."`
		TeamRunID   string    `json:"team_run_id" format:"uuid" required:"true"`
		Timestamp   time.Time `json:"timestamp" required:"true"`
		ThreadID    string    `json:"thread_id,omitzero"`
		AddressedTo []string  `json:"addressed_to,omitzero"`
		FromTask    bool      `json:"from_task" required:"true" doc:"The team works on the message as its topology says; false: members answer it."`
		RunMeta     turnMeta  `json:"run_meta" required:"true"`
		Pending     bool      `json:"run_pending" required:"true" doc:"The run has not ended."`
	}
	chatView struct {
		_ struct{} `json:"-" name:"TeamChat"`

		TeamID  string     `json:"team_id" format:"uuid" required:"true"`
		Turns   []chatTurn `json:"conversation_history" required:"true" doc:"The newest turns, oldest first: of each a message, and the answer."`
		Total   int        `json:"total" required:"true" doc:"Entries on this page."`
		State   chatState  `json:"chat_state" required:"true"`
		HasMore bool       `json:"has_more" required:"true" doc:"There are older turns."`
		Cursor  string     `json:"cursor,omitzero" doc:"Leads to older turns."`
	}
	idleChat struct {
		_ struct{} `json:"-" name:"TeamChatIdle"`

		TeamID string    `json:"team_id" format:"uuid" required:"true"`
		State  chatState `json:"chat_state" required:"true"`
	}
)

// threadFilter returns the thread that a caller asks for; nil: all.
func threadFilter(id string) *string {
	if id == "" {
		return nil
	}
	return &id
}

func (s *Service) chat(ctx context.Context, who authz.Caller, in *chatIn) (*chatView, error) {
	if _, err := s.Teams.Store().Get(ctx, who.TenantID, in.TeamID); err != nil {
		return nil, err
	}
	scope := page.ScopeOf(who.TenantID, "team_chat", in)
	after, err := s.Cursors.Open(scope, in.Cursor)
	if err != nil {
		return nil, err
	}
	limit := page.Limit(in.Limit, 100, 200)
	f := Filter{Thread: threadFilter(in.ThreadID), Newest: true}
	found, err := s.Store.List(ctx, who.TenantID, in.TeamID, f, page.Window{After: after, Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	v := &chatView{TeamID: in.TeamID, Turns: []chatTurn{}, HasMore: len(found) > limit}
	if v.HasMore {
		found = found[:limit]
		v.Cursor = s.Cursors.Seal(scope, found[limit-1].TeamRunID)
	}
	if v.State, err = s.chatState(ctx, who.TenantID, in.TeamID, in.ThreadID, len(found) > 0); err != nil {
		return nil, err
	}
	slices.Reverse(found)
	for i := range found {
		r := &found[i]
		v.Turns = append(v.Turns, r.turn("user", r.Message, r.CreatedAt))
		if in.Internal {
			if err := s.appendInternal(ctx, v, r); err != nil {
				return nil, err
			}
		}
		at := r.CreatedAt
		if r.Status.Final() {
			at = r.CompletedAt
		}
		v.Turns = append(v.Turns, r.turn("assistant", ptr.Value(r.answer()), at))
	}
	v.Total = len(v.Turns)
	return v, nil
}

// turn returns an entry of the chat.
func (r *Record) turn(role, content string, at time.Time) chatTurn {
	return chatTurn{
		Role: role, Content: content, TeamRunID: r.TeamRunID, Timestamp: at, ThreadID: r.Thread, AddressedTo: r.Spec.AddressedTo,
		FromTask: !r.Spec.Chat, RunMeta: turnMeta{Status: string(r.Status), Error: r.Error}, Pending: !r.Status.Final(),
	}
}

// appendInternal adds what the members answered in a run.
func (s *Service) appendInternal(ctx context.Context, v *chatView, r *Record) error {
	tasks, err := s.Store.ListTasks(ctx, r.TenantID, r.TeamRunID)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if !t.ended() {
			continue
		}
		e := r.turn("member", shown(t.Text), t.EndedAt)
		e.RunMeta = turnMeta{Status: string(t.Status), Error: t.Error, AgentID: t.AgentID, RunID: t.RunID, Purpose: t.Purpose, Round: t.Round}
		v.Turns = append(v.Turns, e)
	}
	return nil
}

// chatState returns the state of a team's chat, or of a thread. begun: there is a message.
func (s *Service) chatState(ctx context.Context, tenant, teamID, thread string, begun bool) (chatState, error) {
	open, err := s.Store.List(ctx, tenant, teamID, Filter{Thread: threadFilter(thread), Open: true}, page.Window{Limit: 1})
	switch {
	case err != nil:
		return chatState{}, err
	case len(open) > 0:
		return chatState{State: underWay, Active: open[0].TeamRunID}, nil
	case begun:
		return chatState{State: answered}, nil
	}
	return chatState{State: addressing}, nil
}

// streamChat returns the events of the runs that are under way, and of those that begin
// meanwhile, one run after another, until none is left. Ids name the run and the seq.
func (s *Service) streamChat(ctx context.Context, who authz.Caller, in *chatStreamIn) (iter.Seq2[route.Frame, error], error) {
	if _, err := s.Teams.Store().Get(ctx, who.TenantID, in.TeamID); err != nil {
		return nil, err
	}
	cursor := in.LastEventID
	if cursor == "" {
		cursor = in.After
	}
	from, after, err := s.resumed(ctx, who.TenantID, in, cursor)
	if err != nil {
		return nil, err
	}
	gap := cursor != "" && from == nil
	if from == nil {
		open, err := s.Store.List(ctx, who.TenantID, in.TeamID, Filter{Thread: threadFilter(in.ThreadID), Open: true}, page.Window{Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(open) > 0 {
			from = &open[0]
		}
	}
	if from == nil {
		return nil, s.idle(ctx, who.TenantID, in)
	}
	first := ""
	switch {
	case gap:
		first = cursor // which is none of the run's, so that a gap stands before its events
	case after > 0:
		first = strconv.FormatInt(after, 10)
	}
	return func(yield func(route.Frame, error) bool) {
		for r := from; r != nil; first = "" {
			if !s.relay(ctx, r, first, yield) {
				return
			}
			later, err := s.Store.List(ctx, r.TenantID, r.TeamID, Filter{Thread: threadFilter(in.ThreadID)},
				page.Window{After: r.TeamRunID, Limit: 1})
			if err != nil {
				return // the client reconnects with its last id
			}
			if r = nil; len(later) > 0 {
				r = &later[0]
			}
		}
		yield(streamEnd, nil)
	}, nil
}

var streamEnd = route.Frame{Data: []byte("[DONE]")}

// relay sends the events of a run of the chat, and reports whether all were sent.
func (s *Service) relay(ctx context.Context, r *Record, cursor string, yield func(route.Frame, error) bool) bool {
	for f, err := range s.frames(ctx, r, cursor) {
		if err == nil && f.Name == "" && string(f.Data) == string(streamEnd.Data) {
			return true
		}
		if f.ID != "" {
			f.ID = r.TeamRunID + ":" + f.ID
		}
		if !yield(f, err) {
			return false
		}
	}
	return false
}

// idle returns the answer where no run is under way.
func (s *Service) idle(ctx context.Context, tenant string, in *chatStreamIn) error {
	newest, err := s.Store.List(ctx, tenant, in.TeamID, Filter{Thread: threadFilter(in.ThreadID), Newest: true}, page.Window{Limit: 1})
	if err != nil {
		return err
	}
	state, err := s.chatState(ctx, tenant, in.TeamID, in.ThreadID, len(newest) > 0)
	if err != nil {
		return err
	}
	return route.Instead{Value: idleChat{TeamID: in.TeamID, State: state}}
}

// resumed returns the run from which a stream goes on after an id, and the seq; nil: the
// id is none of this chat, or all after it was sent.
func (s *Service) resumed(ctx context.Context, tenant string, in *chatStreamIn, cursor string) (*Record, int64, error) {
	id, seq, ok := strings.Cut(cursor, ":")
	after, err := strconv.ParseInt(seq, 10, 64)
	if !ok || err != nil || after < 0 {
		return nil, 0, nil
	}
	r, err := s.get(ctx, tenant, in.TeamID, id)
	if fault.Is(err, fault.NotFound) || err == nil && in.ThreadID != "" && r.Thread != in.ThreadID {
		return nil, 0, nil
	}
	return r, after, err
}
