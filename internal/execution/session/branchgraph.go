package session

import "slices"

// branchGraph holds the branches and turns of a session.
type branchGraph struct {
	session  *Record
	branches []Branch // the root first
	turns    []Turn
}

// newBranchGraph adds the root, which is not stored, to the stored branches.
func newBranchGraph(r *Record, branches []Branch, turns []Turn) *branchGraph {
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
