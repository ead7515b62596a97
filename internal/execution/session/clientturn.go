package session

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// clientLife is how long a session lives that a front end began.
const clientLife = 365 * 24 * time.Hour

// NextTurn is what a front end adds to a conversation.
type NextTurn struct {
	After    int             // how many turns of the conversation it follows; see Place
	Messages []ClientMessage // that the run brings: new ones, or known ones again on a branch
	Reply    string          // see ClientTurn
	State    jsontext.Value  // of the page; nil: the session's stays as it is
	Request  run.Request     // of the run, with its RunID
}

// Extend returns the request of the run that is the next turn of a conversation. Its
// admission begins the session, or the branch, that the turn needs. Errors: Conflict, also
// of the admission, if the turn cannot be added.
func (s *Service) Extend(c *Chat, n NextTurn) (run.Request, error) {
	req := n.Request
	req.AgentID = c.agent
	fresh := c.Session == nil
	rec := c.Session
	if fresh {
		now := s.Clock.Now()
		rec = &Record{
			TenantID: c.tenant, SessionID: ident.New(), AgentID: c.agent, ExternalID: c.externalID, Status: Active, QueueMode: Allow,
			ActiveBranch: Root, CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(clientLife), Metadata: []byte(`{}`),
		}
	} else if err := s.turns.checkOpen(rec); err != nil {
		return req, err
	}
	req.SessionID = &rec.SessionID
	if m := rec.Model.Spec(); m != nil {
		req.Options.Model = m
	}
	branch, err := c.branchFor(n.After, s.Clock.Now())
	if err != nil {
		return req, err
	}
	req.Admit = func(tx txn.Tx, r *run.Record) (bool, error) {
		if fresh {
			if err := s.lifecycle.openTx(tx, rec); err != nil {
				return false, err
			}
		}
		if branch != nil {
			if err := s.branches.beginTx(tx, c.Session, branch); err != nil {
				return false, err
			}
		}
		now, err := s.turns.admit(tx, r)
		if err != nil {
			return false, err
		}
		if err := s.Clients.CreateClientTurnTx(tx, c.tenant, r.RunID, n.Messages, n.Reply); err != nil || n.State == nil {
			return now, err
		}
		return now, s.Clients.PutStateTx(tx, c.tenant, rec.SessionID, n.State, "")
	}
	return req, nil
}

// branchFor returns the branch on which a turn follows a number of turns; nil if it
// follows the last one.
func (c *Chat) branchFor(after int, now time.Time) (*Branch, error) {
	if after >= len(c.turns) {
		return nil, nil
	}
	b := &Branch{BranchID: ident.New(), ParentID: c.Session.ActiveBranch, Status: branchActive, Runs: []string{}, CreatedAt: now}
	b.Name = "branch-" + b.BranchID[len(b.BranchID)-8:]
	if after > 0 {
		last := &c.turns[after-1]
		if !last.Finished {
			return nil, fault.New(fault.Conflict, "RUN_ACTIVE",
				"The run %s, after which the conversation would go on differently, is still under way; cancel it or wait for its end.", last.RunID)
		}
		b.ForkRunID = last.RunID
	}
	return b, nil
}

// beginTx stores a branch and makes it the active one, unless the session has changed
// since it was read.
func (b *branchService) beginTx(tx txn.Tx, read *Record, branch *Branch) error {
	if err := b.insert(tx, read.TenantID, read.SessionID, branch); err != nil {
		return err
	}
	r, err := b.store.LockTx(tx, read.TenantID, read.SessionID)
	if err != nil {
		return err
	}
	if r.Turns != read.Turns || r.ActiveBranch != read.ActiveBranch {
		return fault.New(fault.Conflict, "CONVERSATION_CHANGED",
			"Another message was added to the conversation meanwhile; load it again, then repeat the change.")
	}
	r.ActiveBranch = branch.BranchID
	return b.store.UpdateTx(tx, r)
}

// State returns the state that pages share with a session; nil if there is none.
func (s *Service) State(ctx context.Context, tenant, id string) (jsontext.Value, error) {
	return s.Clients.GetState(ctx, tenant, id)
}

// KeepState replaces the state that pages share with a session.
func (s *Service) KeepState(ctx context.Context, tenant, id string, state jsontext.Value) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Clients.PutStateTx(tx, tenant, id, state, "") })
}
