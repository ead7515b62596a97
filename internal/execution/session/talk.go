package session

import (
	"context"
	"iter"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// Opening is a session that is begun without a key of its company, by a stranger whom
// another package let in.
type Opening struct {
	TenantID, SessionID, AgentID string
	Metadata                     schema.Object
	ExpiresAt                    time.Time
}

// OpenTx stores a session that takes one message at a time. Errors: Forbidden if the
// plan has no room for it.
func (s *Service) OpenTx(tx txn.Tx, o Opening) error {
	now := s.Clock.Now()
	return s.lifecycle.openTx(tx, &Record{
		TenantID: o.TenantID, SessionID: o.SessionID, AgentID: o.AgentID, Status: Active, QueueMode: Reject,
		Metadata: o.Metadata, ActiveBranch: Root, CreatedAt: now, UpdatedAt: now, ExpiresAt: o.ExpiresAt,
	})
}

// Post sends a message as the next turn of a session. adjust changes the request of its
// run, whose Admit it may wrap. Errors: those of sendSessionMessage.
func (s *Service) Post(
	ctx context.Context, who authz.Caller, id, content string, fileIDs []string, adjust func(*run.Request),
) (Accepted, error) {
	return s.messages.send(ctx, who, id, &newMessage{Content: content, FileIDs: fileIDs}, adjust)
}

// Talk is a conversation as far as it was held.
type Talk struct {
	Status  Status
	Entries []Entry // the newest ones of the active branch, oldest first
	// UnderWay is the run that has not ended; "" if there is none. Ended is the newest
	// one that has.
	UnderWay, Ended string
}

// Talk reads the newest entries of a conversation, up to limit. Errors: NotFound.
func (s *Service) Talk(ctx context.Context, tenant, id string, limit int) (*Talk, error) {
	rec, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	p, err := s.reader.path(ctx, tenant, id, rec.ActiveBranch)
	if err != nil {
		return nil, err
	}
	newest, err := p.page(ctx, "", limit)
	if err != nil {
		return nil, err
	}
	t := &Talk{Status: rec.status(s.Clock.Now()), Entries: newest.entries()}
	if t.UnderWay, err = s.UnderWay(ctx, tenant, id); err != nil {
		return nil, err
	}
	for i := range newest.parts {
		if run := newest.parts[i].RunID; run != t.UnderWay && newest.parts[i].Finished {
			t.Ended = run
			break // parts count back from the newest
		}
	}
	return t, nil
}

// UnderWay returns the run of a session's active branch that has not ended; "" if there is
// none. Errors: NotFound for the session.
func (s *Service) UnderWay(ctx context.Context, tenant, id string) (string, error) {
	rec, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return "", err
	}
	active, err := s.Store.GetUnfinished(ctx, tenant, id, rec.ActiveBranch)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return active.RunID, err
}

// Follow returns the frames of a session's event stream. Errors: NotFound.
func (s *Service) Follow(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error) {
	return s.streams.stream(ctx, tenant, id, lastEventID)
}
