package session

import (
	"context"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
)

// maxBranches is how many branches a session has at most besides the root.
const maxBranches = 100

// branchService forks, activates and deletes the branches of sessions.
type branchService struct {
	store  Store
	reader *reader
	writer txn.Writer
	clock  clock.Clock
}

// newBranch is the body of a fork.
type newBranch struct {
	_ struct{} `json:"-" name:"SessionBranchCreate"`

	ForkRunID string `json:"fork_point_run_id,omitzero" format:"uuid" doc:"The last run to share. Default: the last one that has ended."`
	ForkStep  int64  `json:"fork_point_step_seq,omitzero" minimum:"-1" doc:"The last step of that run to share; 0 for all steps, -1 for the run's message only."`
	ForkPoint *int64 `json:"fork_point,omitzero" nullable:"true" minimum:"-1" doc:"Instead of run and step: index of the last entry of the parent's history to share, from 0; -1 for none."`
	ParentID  string `json:"parent_branch_id,omitzero" doc:"Default: the active branch."`
	Name      string `json:"name,omitzero" maxLength:"200" doc:"Name of the branch, as people see it."`
}

// fork makes a branch. New messages go to it only once it is activated.
func (b *branchService) fork(ctx context.Context, tenant, id string, in *newBranch) (*Branch, error) {
	r, err := b.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	branches, err := b.store.ListBranches(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	branch := &Branch{
		BranchID: ident.New(), ParentID: in.ParentID, Name: in.Name, Status: branchActive,
		ForkRunID: in.ForkRunID, ForkStep: in.ForkStep, Runs: []string{}, CreatedAt: b.clock.Now(),
	}
	if branch.ParentID == "" {
		branch.ParentID = r.ActiveBranch
	}
	if _, ok := newBranchGraph(r, branches, nil).branch(branch.ParentID); !ok {
		return nil, fault.NewNotFound("branch")
	}
	if branch.Name == "" {
		branch.Name = "branch-" + branch.BranchID[len(branch.BranchID)-8:]
	}
	if err := b.setForkPoint(ctx, r, branch, in); err != nil {
		return nil, err
	}
	ctx = txn.WithAnswer(ctx, func() any { return branch })
	err = b.writer.Write(ctx, func(tx txn.Tx) error { return b.insert(tx, tenant, id, branch) })
	return branch, err
}

// insert stores a branch, unless the session has changed so that it cannot exist.
func (b *branchService) insert(tx txn.Tx, tenant, id string, branch *Branch) error {
	r, err := b.store.LockTx(tx, tenant, id)
	if err != nil {
		return err
	}
	if err := r.checkActive(branch.CreatedAt, "a new branch"); err != nil {
		return err
	}
	stored, err := b.store.ListBranchesTx(tx, tenant, id)
	if err != nil {
		return err
	}
	if len(stored) >= maxBranches {
		return fault.New(fault.Invalid, "limit_reached",
			"A session has at most %d branches; delete one that is not needed.", maxBranches)
	}
	if _, ok := newBranchGraph(r, stored, nil).branch(branch.ParentID); !ok { // deleted meanwhile
		return fault.NewNotFound("branch")
	}
	r.UpdatedAt = branch.CreatedAt
	if err := b.store.UpdateTx(tx, r); err != nil {
		return err
	}
	return b.store.CreateBranchTx(tx, tenant, id, branch)
}

// setForkPoint sets where a branch leaves its parent: at the entry, or at the
// run and step, that the body names, otherwise after the last run that has ended.
func (b *branchService) setForkPoint(ctx context.Context, r *Record, branch *Branch, in *newBranch) error {
	p, err := b.reader.path(ctx, r.TenantID, r.SessionID, branch.ParentID)
	if err != nil {
		return err
	}
	if in.ForkPoint != nil && *in.ForkPoint < 0 { // it begins without any
		branch.ForkRunID, branch.ForkStep = "", 0
		return nil
	}
	if in.ForkPoint != nil {
		if err := p.forkAt(ctx, branch, *in.ForkPoint); err != nil {
			return err
		}
	}
	if branch.ForkRunID == "" {
		branch.ForkRunID, err = p.lastEnded(ctx)
		return err
	}
	seg, err := p.find(ctx, branch.ForkRunID)
	if err != nil {
		return err
	}
	if seg == nil {
		return fault.NewNotFound("run")
	}
	return b.checkForkStep(ctx, r.TenantID, seg, branch.ForkStep)
}

// lastEnded returns the last run of the path that has ended, or that the path has
// a part of; "" if there is none.
func (p *path) lastEnded(ctx context.Context) (string, error) {
	for w := p.backwards(); w.piece >= 0; {
		segments, err := w.next(ctx, firstStretch)
		if err != nil {
			return "", err
		}
		for i := range segments {
			if segments[i].Finished || !segments[i].whole() {
				return segments[i].RunID, nil
			}
		}
	}
	return "", nil
}

// forkAt sets the fork point of a branch to an entry of its parent's history.
func (p *path) forkAt(ctx context.Context, branch *Branch, index int64) error {
	e, err := p.entryAt(ctx, index)
	if err != nil {
		return err
	}
	if e == nil {
		return fault.BadFields(fault.Field{Field: "fork_point", Message: "the history has no entry with this index"})
	}
	branch.ForkRunID, branch.ForkStep = e.RunID, e.step
	if e.step == 0 {
		branch.ForkStep = -1
	}
	return nil
}

// checkForkStep checks that a run has the step on this branch, and that it has
// ended if all of it is to be shared.
func (b *branchService) checkForkStep(ctx context.Context, tenant string, seg *segment, step int64) error {
	runs, err := b.store.ListJournals(ctx, tenant, []string{seg.RunID})
	if err != nil {
		return err
	}
	if step == 0 && !seg.Finished && seg.whole() {
		return fault.WrongState("run", string(runs[0].Run.Status), "a branch from its end")
	}
	if step <= 0 {
		return nil
	}
	hasStep := slices.ContainsFunc(runs[0].Steps, func(st run.Step) bool { return st.Seq == step })
	if !hasStep || !seg.whole() && step > seg.lastStep {
		return fault.BadFields(fault.Field{Field: "fork_point_step_seq", Message: "the run has no such step on this branch"})
	}
	return nil
}

// list returns the branches of a session.
func (b *branchService) list(ctx context.Context, tenant, id string) (*BranchList, error) {
	r, err := b.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	g, err := b.reader.graph(ctx, r)
	if err != nil {
		return nil, err
	}
	return &BranchList{SessionID: id, Branches: g.withRuns(), ActiveBranch: r.ActiveBranch, Total: len(g.branches)}, nil
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

// activate makes new messages go to a branch.
func (b *branchService) activate(ctx context.Context, tenant, id, branch string) (Activated, error) {
	err := b.writer.Write(ctx, func(tx txn.Tx) error {
		r, err := b.store.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		all, err := b.store.ListBranchesTx(tx, tenant, id)
		if err != nil {
			return err
		}
		target, ok := newBranchGraph(r, all, nil).branch(branch)
		if !ok {
			return fault.NewNotFound("branch")
		}
		if target.Status != branchActive {
			return fault.New(fault.Invalid, "", "The branch is %s and cannot be activated.", target.Status)
		}
		r.ActiveBranch, r.UpdatedAt = branch, b.clock.Now()
		return b.store.UpdateTx(tx, r)
	})
	return Activated{SessionID: id, ActiveBranch: branch}, err
}

// BranchDeleted answers a deletion.
type BranchDeleted struct {
	_ struct{} `json:"-" name:"SessionBranchDeleted"`

	Deleted   bool   `json:"deleted" required:"true"`
	SessionID string `json:"session_id" required:"true"`
	BranchID  string `json:"branch_id" required:"true"`
	Runs      int64  `json:"runs" required:"true" doc:"How many runs were removed from the session. They can still be read as runs."`
}

// delete removes a branch and its turns from the session.
func (b *branchService) delete(ctx context.Context, tenant, id, branch string) (BranchDeleted, error) {
	out := BranchDeleted{Deleted: true, SessionID: id, BranchID: branch}
	err := b.writer.Write(ctx, func(tx txn.Tx) error {
		r, err := b.store.LockTx(tx, tenant, id)
		if err != nil {
			return err
		}
		if err := b.checkDeletable(tx, r, branch); err != nil {
			return err
		}
		if out.Runs, err = b.store.DeleteTurnsTx(tx, tenant, id, branch); err != nil {
			return err
		}
		r.UpdatedAt = b.clock.Now()
		if err := b.store.UpdateTx(tx, r); err != nil {
			return err
		}
		return b.store.DeleteBranchTx(tx, tenant, id, branch)
	})
	return out, err
}

func (b *branchService) checkDeletable(tx txn.Tx, r *Record, branch string) error {
	all, err := b.store.ListBranchesTx(tx, r.TenantID, r.SessionID)
	if err != nil {
		return err
	}
	busy, err := b.store.ListUnfinishedTx(tx, r.TenantID, r.SessionID, branch)
	if err != nil {
		return err
	}
	switch _, ok := newBranchGraph(r, all, nil).branch(branch); {
	case !ok:
		return fault.NewNotFound("branch")
	case branch == Root:
		return fault.New(fault.Invalid, "", "The branch main is the root of the session and cannot be deleted.")
	case branch == r.ActiveBranch:
		return fault.New(fault.Conflict, "", "The branch is the active one; activate another first.")
	case slices.ContainsFunc(all, func(b Branch) bool { return b.ParentID == branch }):
		return fault.New(fault.Conflict, "", "Other branches were forked from this one; delete them first.")
	case len(busy) > 0:
		return fault.New(fault.Conflict, "RUN_ACTIVE",
			"The run %s of this branch is still under way; cancel it first.", busy[0].RunID)
	}
	return nil
}

type branchIn struct {
	SessionID string `path:"sessionId"`
	Body      newBranch
}

type branchIDIn struct {
	SessionID string `path:"sessionId"`
	BranchID  string `path:"branchId" format:"any"`
}

func (b *branchService) routes() []route.Route {
	const branches, one = "/{sessionId}/branches", "/{sessionId}/branches/{branchId}"
	fork := with(write("POST", "/{sessionId}/branch", "createSessionBranch", "Fork a conversation", writers), 201, 409)
	fork.Optional = true
	fork.Doc = "The new branch shares the conversation up to the fork point and continues on its own from there. " +
		"Activate it to send new messages to it."
	return []route.Route{
		route.Action(fork, b.forkRoute),
		route.Action(read(branches, "listSessionBranches", "List the branches of a session"), b.listRoute),
		route.Action(with(write("PUT", one+"/activate", "activateSessionBranch", "Activate a branch", writers), 200), b.activateRoute),
		route.Action(destroys(with(write("DELETE", one, "deleteSessionBranch", "Delete a branch", writers), 200, 409)), b.deleteRoute),
	}
}

func (b *branchService) forkRoute(ctx context.Context, who authz.Caller, in *branchIn) (*Branch, error) {
	return b.fork(ctx, who.TenantID, in.SessionID, &in.Body)
}

func (b *branchService) listRoute(ctx context.Context, who authz.Caller, in *idIn) (*BranchList, error) {
	return b.list(ctx, who.TenantID, in.SessionID)
}

func (b *branchService) activateRoute(ctx context.Context, who authz.Caller, in *branchIDIn) (Activated, error) {
	return b.activate(ctx, who.TenantID, in.SessionID, in.BranchID)
}

func (b *branchService) deleteRoute(ctx context.Context, who authz.Caller, in *branchIDIn) (BranchDeleted, error) {
	return b.delete(ctx, who.TenantID, in.SessionID, in.BranchID)
}
