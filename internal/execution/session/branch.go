package session

import (
	"context"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// maxBranches of a session, the root apart (behaviours 36).
const maxBranches = 100

// plot is where a session's runs stand: its branches and turns.
type plot struct {
	session  *Record
	branches []Branch // the root first
	turns    []TimedTurn
}

func (s *Service) plot(ctx context.Context, r *Record) (*plot, error) {
	branches, err := s.Store.ListBranches(ctx, r.TenantID, r.SessionID)
	if err != nil {
		return nil, err
	}
	turns, err := s.Store.ListTurns(ctx, r.TenantID, r.SessionID, 0)
	if err != nil {
		return nil, err
	}
	return newPlot(r, branches, turns), nil
}

func newPlot(r *Record, branches []Branch, turns []TimedTurn) *plot {
	root := Branch{BranchID: Root, Name: Root, Status: branchActive, Runs: []string{}, CreatedAt: r.CreatedAt}
	return &plot{session: r, branches: append([]Branch{root}, branches...), turns: turns}
}

func (p *plot) branch(id string) (Branch, bool) {
	i := slices.IndexFunc(p.branches, func(b Branch) bool { return b.BranchID == id })
	if i < 0 {
		return Branch{}, false
	}
	return p.branches[i], true
}

// all gives the branches with their runs.
func (p *plot) all() []Branch {
	out := slices.Clone(p.branches)
	for i := range out {
		out[i].Runs = []string{}
		for _, t := range p.turns {
			if t.BranchID == out[i].BranchID {
				out[i].Runs = append(out[i].Runs, t.RunID)
			}
		}
	}
	return out
}

// leg is a run on a branch's line, as far as the branch has it.
type leg struct {
	runID    string
	finished bool
	upto     int64 // the last step; 0: all of them; -1: none
}

// line gives a branch's runs from the beginning of the conversation: its
// parent's up to the fork, then its own.
func (p *plot) line(id string) []leg {
	b, ok := p.branch(id)
	if !ok {
		return nil
	}
	var line []leg
	if b.ParentID != "" && b.ForkRunID != "" {
		for _, l := range p.line(b.ParentID) {
			last := l.runID == b.ForkRunID
			if last && b.ForkStep != 0 && (l.upto == 0 || b.ForkStep < l.upto) {
				l.upto = b.ForkStep
			}
			line = append(line, l)
			if last {
				break
			}
		}
	}
	for _, t := range p.turns {
		if t.BranchID == id {
			line = append(line, leg{runID: t.RunID, finished: t.Finished})
		}
	}
	return line
}

// newBranch is what a branch is made of.
type newBranch struct {
	_ struct{} `json:"-" name:"SessionBranchCreate"`

	ForkRunID string `json:"fork_point_run_id,omitzero" format:"uuid" doc:"The last run to share. Left out: the last one that has ended."`
	ForkStep  int64  `json:"fork_point_step_seq,omitzero" minimum:"-1" doc:"The last step of that run to share; 0: all of them; -1: only the run's message."`
	ForkPoint *int64 `json:"fork_point,omitzero" nullable:"true" minimum:"0" doc:"Instead of both: the last entry of the parent's history to share, from 0."`
	ParentID  string `json:"parent_branch_id,omitzero" doc:"Left out: the active branch."`
	Name      string `json:"name,omitzero" maxLength:"200"`
}

// Fork makes a branch. It becomes active by Activate only.
func (s *Service) Fork(ctx context.Context, tenant, id string, in *newBranch) (*Branch, error) {
	r, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	p, err := s.plot(ctx, r)
	if err != nil {
		return nil, err
	}
	b := Branch{
		BranchID: ident.New(), ParentID: in.ParentID, Name: in.Name, Status: branchActive,
		ForkRunID: in.ForkRunID, ForkStep: in.ForkStep, Runs: []string{}, CreatedAt: s.Clock.Now(),
	}
	if b.ParentID == "" {
		b.ParentID = r.ActiveBranch
	}
	if _, ok := p.branch(b.ParentID); !ok {
		return nil, fault.NoSuch("branch")
	}
	if b.Name == "" {
		b.Name = "branch-" + b.BranchID[len(b.BranchID)-8:]
	}
	if err := s.forkPoint(ctx, p, &b, in); err != nil {
		return nil, err
	}
	ctx = txn.Promise(ctx, func() any { return &b })
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		r, err := s.Store.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		if status := r.status(b.CreatedAt); status != Active {
			return fault.WrongState("session", string(status), "a new branch")
		}
		now, err := s.Store.ListBranchesTx(tx, tenant, id)
		if err != nil {
			return err
		}
		if len(now) >= maxBranches {
			return fault.New(fault.Invalid, "limit_reached", "A session has at most %d branches; delete one that is not needed.", maxBranches)
		}
		if _, ok := newPlot(r, now, nil).branch(b.ParentID); !ok { // deleted meanwhile
			return fault.NoSuch("branch")
		}
		r.UpdatedAt = b.CreatedAt
		if err := s.Store.UpdateTx(tx, r); err != nil {
			return err
		}
		return s.Store.CreateBranchTx(tx, tenant, id, &b)
	})
	return &b, err
}

// forkPoint finds where a branch leaves its parent.
func (s *Service) forkPoint(ctx context.Context, p *plot, b *Branch, in *newBranch) error {
	line := p.line(b.ParentID)
	if in.ForkPoint != nil {
		st, err := s.tell(ctx, p.session.TenantID, line)
		if err != nil {
			return err
		}
		entries := st.entries
		if *in.ForkPoint >= int64(len(entries)) {
			return fault.BadFields(fault.Field{Field: "fork_point", Message: "the history has no such entry"})
		}
		e := entries[*in.ForkPoint]
		b.ForkRunID, b.ForkStep = e.RunID, e.step
		if e.step == 0 {
			b.ForkStep = -1
		}
	}
	if b.ForkRunID == "" {
		for _, l := range line {
			if l.finished || l.upto != 0 {
				b.ForkRunID = l.runID
			}
		}
		return nil
	}
	at := slices.IndexFunc(line, func(l leg) bool { return l.runID == b.ForkRunID })
	if at < 0 {
		return fault.NoSuch("run")
	}
	l := line[at]
	switch told, err := s.Store.ListJournals(ctx, p.session.TenantID, []string{l.runID}); {
	case err != nil:
		return err
	case b.ForkStep == 0 && !l.finished && l.upto == 0:
		return fault.WrongState("run", string(told[0].Run.Status), "a branch from its end")
	case b.ForkStep > 0 && (l.upto != 0 && b.ForkStep > l.upto || !slices.ContainsFunc(told[0].Steps, func(st run.Step) bool { return st.Seq == b.ForkStep })):
		return fault.BadFields(fault.Field{Field: "fork_point_step_seq", Message: "the run has no such step on this branch"})
	}
	return nil
}

// Branches gives a session's branches.
func (s *Service) Branches(ctx context.Context, tenant, id string) (*BranchList, error) {
	r, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	p, err := s.plot(ctx, r)
	if err != nil {
		return nil, err
	}
	return &BranchList{SessionID: id, Branches: p.all(), ActiveBranch: r.ActiveBranch, Total: len(p.branches)}, nil
}

// BranchList answers a list of branches.
type BranchList struct {
	_ struct{} `json:"-" name:"SessionBranchList"`

	SessionID    string   `json:"session_id" required:"true"`
	Branches     []Branch `json:"branches" required:"true"`
	ActiveBranch string   `json:"active_branch" required:"true"`
	Total        int      `json:"total" required:"true"`
}

// Activated answers an activation.
type Activated struct {
	_ struct{} `json:"-" name:"SessionBranchActivated"`

	SessionID    string `json:"session_id" required:"true"`
	ActiveBranch string `json:"active_branch" required:"true"`
}

// Activate makes new messages go to a branch.
func (s *Service) Activate(ctx context.Context, tenant, id, branch string) (Activated, error) {
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		r, err := s.Store.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		all, err := s.Store.ListBranchesTx(tx, tenant, id)
		if err != nil {
			return err
		}
		b, ok := newPlot(r, all, nil).branch(branch)
		if !ok {
			return fault.NoSuch("branch")
		}
		if b.Status != branchActive {
			return fault.New(fault.Invalid, "", "The branch is %s and cannot be made the active one.", b.Status)
		}
		r.ActiveBranch, r.UpdatedAt = branch, s.Clock.Now()
		return s.Store.UpdateTx(tx, r)
	})
	return Activated{SessionID: id, ActiveBranch: branch}, err
}

// BranchDeleted answers a deletion.
type BranchDeleted struct {
	_ struct{} `json:"-" name:"SessionBranchDeleted"`

	Deleted   bool   `json:"deleted" required:"true"`
	SessionID string `json:"session_id" required:"true"`
	BranchID  string `json:"branch_id" required:"true"`
	Runs      int64  `json:"runs" required:"true" doc:"How many runs the session has no more. They can still be read as runs."`
}

// DeleteBranch takes a branch and its turns out of the session.
func (s *Service) DeleteBranch(ctx context.Context, tenant, id, branch string) (BranchDeleted, error) {
	out := BranchDeleted{Deleted: true, SessionID: id, BranchID: branch}
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		r, err := s.Store.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		all, err := s.Store.ListBranchesTx(tx, tenant, id)
		if err != nil {
			return err
		}
		busy, err := s.Store.ListUnfinishedTx(tx, tenant, id, branch)
		if err != nil {
			return err
		}
		switch _, ok := newPlot(r, all, nil).branch(branch); {
		case !ok:
			return fault.NoSuch("branch")
		case branch == Root:
			return fault.New(fault.Invalid, "", "The branch main is the root of the session and cannot be deleted.")
		case branch == r.ActiveBranch:
			return fault.New(fault.Conflict, "", "The branch is the active one; activate another first.")
		case slices.ContainsFunc(all, func(b Branch) bool { return b.ParentID == branch }):
			return fault.New(fault.Conflict, "", "Other branches grow from this one; delete them first.")
		case len(busy) > 0:
			return fault.New(fault.Conflict, "RUN_ACTIVE", "The run %s of this branch is still under way; cancel it first.", busy[0].RunID)
		}
		if out.Runs, err = s.Store.DeleteTurnsTx(tx, tenant, id, branch); err != nil {
			return err
		}
		r.UpdatedAt = s.Clock.Now()
		if err := s.Store.UpdateTx(tx, r); err != nil {
			return err
		}
		return s.Store.DeleteBranchTx(tx, tenant, id, branch)
	})
	return out, err
}
