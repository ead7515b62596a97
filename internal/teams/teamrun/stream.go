package teamrun

import (
	"cmp"
	"context"
	"iter"

	"agentd/internal/base/authz"
	"agentd/internal/base/route"
	"agentd/internal/teams/group"
)

// stream returns the events of a run: those after lastEventID, then those that happen,
// until the run has ended.
func (s *Service) stream(ctx context.Context, who authz.Caller, in *streamIn) (iter.Seq2[route.Frame, error], error) {
	r, err := s.get(ctx, who.TenantID, in.TeamID, in.TeamRunID)
	if err != nil {
		return nil, err
	}
	return s.frames(ctx, r, cmp.Or(in.LastEventID, in.After)), nil
}

// frames returns the events of a run after a cursor, with its result and the end of the
// stream.
func (s *Service) frames(ctx context.Context, r *Record, cursor string) iter.Seq2[route.Frame, error] {
	st := group.Stream{
		Log: s.Log, Hub: s.Hub, Tenant: r.TenantID, ID: r.TeamRunID, Field: "team_run_id", Seq: r.EventSeq, Over: r.Status.Final(),
		Cursor: cursor, Now: s.Clock.Now, Final: finalEvent,
		Done: func(send func(string, any) bool) bool {
			now, err := s.Store.Get(ctx, r.TenantID, r.TeamRunID)
			return err == nil && send("done", result{now.Status, now.answer(), now.Error}) // otherwise the client reconnects
		},
	}
	return st.Frames(ctx)
}

// result is the data of the event done.
type result struct {
	Status Status  `json:"status"`
	Output *string `json:"output"`
	Error  string  `json:"error,omitzero"`
}

// finalEvent reports whether an event is the end of a run.
func finalEvent(name string) bool {
	switch Status(name[min(len(name), len("team.")):]) {
	case Completed, Failed, PartialFailure, Cancelled:
		return true
	}
	return false
}
