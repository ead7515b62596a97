package session

import "slices"

// branchGraph holds the branches and turns of a session.
type branchGraph struct {
	session  *Record
	branches []Branch // the root first
	turns    []TimedTurn
}

// newBranchGraph adds the root, which is not stored, to the stored branches.
func newBranchGraph(r *Record, branches []Branch, turns []TimedTurn) *branchGraph {
	root := Branch{BranchID: Root, Name: Root, Status: branchActive, Runs: []string{}, CreatedAt: r.CreatedAt}
	return &branchGraph{session: r, branches: append([]Branch{root}, branches...), turns: turns}
}

// branch returns the branch with an id, and whether it exists.
func (g *branchGraph) branch(id string) (Branch, bool) {
	i := slices.IndexFunc(g.branches, func(b Branch) bool { return b.BranchID == id })
	if i < 0 {
		return Branch{}, false
	}
	return g.branches[i], true
}

// withRuns returns the branches with the ids of their own runs.
func (g *branchGraph) withRuns() []Branch {
	out := slices.Clone(g.branches)
	for i := range out {
		out[i].Runs = []string{}
		for _, t := range g.turns {
			if t.BranchID == out[i].BranchID {
				out[i].Runs = append(out[i].Runs, t.RunID)
			}
		}
	}
	return out
}

// segment is the part of a run that a branch contains.
type segment struct {
	runID    string
	finished bool
	lastStep int64 // seq of the last step; 0: all steps; -1: only the message
}

// whole reports whether the branch contains the run to its end.
func (s segment) whole() bool { return s.lastStep == 0 }

// path returns the runs of a branch from the beginning of the conversation: its
// parent's up to the fork, then its own.
func (g *branchGraph) path(id string) []segment {
	b, ok := g.branch(id)
	if !ok {
		return nil
	}
	var path []segment
	if b.ParentID != "" && b.ForkRunID != "" {
		path = g.sharedWith(&b)
	}
	for _, t := range g.turns {
		if t.BranchID == id {
			path = append(path, segment{runID: t.RunID, finished: t.Finished})
		}
	}
	return path
}

// sharedWith returns the part of the parent's path that a branch shares.
func (g *branchGraph) sharedWith(b *Branch) (shared []segment) {
	for _, seg := range g.path(b.ParentID) {
		last := seg.runID == b.ForkRunID
		if last && b.ForkStep != 0 && (seg.whole() || b.ForkStep < seg.lastStep) {
			seg.lastStep = b.ForkStep
		}
		shared = append(shared, seg)
		if last {
			break
		}
	}
	return shared
}

func runIDs(path []segment) []string {
	ids := make([]string, len(path))
	for i, seg := range path {
		ids[i] = seg.runID
	}
	return ids
}
