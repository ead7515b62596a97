package session

import (
	"context"
	"math"
	"slices"

	"agentd/internal/base/fault"
)

// segment is the part of a run that a branch contains.
type segment struct {
	Turn

	piece    int   // of the path
	lastStep int64 // seq of the last step; 0: all steps; -1: only the message
}

// whole reports whether the branch contains the run to its end.
func (s *segment) whole() bool { return s.lastStep == 0 }

// before reports whether a run precedes another one on their path.
func (s *segment) before(t *segment) bool {
	if s.piece != t.piece {
		return s.piece < t.piece
	}
	return s.Turn.Turn < t.Turn.Turn
}

// path is a branch from the beginning of the conversation: pieces of its
// ancestors, then its own turns. Its turns are not read before they are needed.
type path struct {
	store           Store
	tenant, session string
	pieces          []piece
}

// piece is the part of a branch up to one of its turns.
type piece struct {
	branch   string
	through  int64 // the last turn
	lastStep int64 // of its run; see segment
}

// path returns the path of a branch. Errors: NotFound if there is no such branch.
func (r *reader) path(ctx context.Context, tenant, session, branch string) (*path, error) {
	p := &path{store: r.store, tenant: tenant, session: session}
	if branch == Root { // needs nothing that is stored about branches
		p.pieces = []piece{{branch: Root, through: math.MaxInt64}}
		return p, nil
	}
	branches, err := r.store.ListBranches(ctx, tenant, session)
	if err != nil {
		return nil, err
	}
	p.pieces, err = piecesOf(branches, branch, func(run string) (Turn, error) { return r.store.GetTurn(ctx, tenant, run) })
	return p, err
}

// piecesOf returns the pieces of a branch: its parent's up to the fork, then its
// own.
func piecesOf(branches []Branch, id string, turnOf func(run string) (Turn, error)) ([]piece, error) {
	own := piece{branch: id, through: math.MaxInt64}
	if id == Root {
		return []piece{own}, nil
	}
	i := slices.IndexFunc(branches, func(b Branch) bool { return b.BranchID == id })
	if i < 0 {
		return nil, fault.NewNotFound("branch")
	}
	b := &branches[i]
	if b.ParentID == "" || b.ForkRunID == "" {
		return []piece{own}, nil
	}
	shared, err := piecesOf(branches, b.ParentID, turnOf)
	if err != nil {
		return nil, err
	}
	fork, err := turnOf(b.ForkRunID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if err == nil {
		shared = cutAt(shared, fork, b.ForkStep)
	}
	return append(shared, own), nil
}

// cutAt returns the pieces up to a turn, and up to a step of it (see segment).
func cutAt(pieces []piece, fork Turn, step int64) []piece {
	at := pieceOf(pieces, fork)
	if at < 0 {
		return pieces
	}
	p := &pieces[at]
	if p.through != fork.Turn {
		p.through, p.lastStep = fork.Turn, 0
	}
	if step != 0 && (p.lastStep == 0 || step < p.lastStep) {
		p.lastStep = step
	}
	return pieces[:at+1]
}

// pieceOf returns the index of the piece that has a turn, or -1.
func pieceOf(pieces []piece, t Turn) int {
	return slices.IndexFunc(pieces, func(p piece) bool { return p.branch == t.BranchID && t.Turn <= p.through })
}

// segmentOf returns the part of a run that the path has, or nil.
func (p *path) segmentOf(t Turn) *segment {
	if t.SessionID != p.session {
		return nil
	}
	at := pieceOf(p.pieces, t)
	if at < 0 {
		return nil
	}
	seg := p.segment(at, t)
	return &seg
}

func (p *path) segment(at int, t Turn) segment {
	seg := segment{Turn: t, piece: at}
	if t.Turn == p.pieces[at].through {
		seg.lastStep = p.pieces[at].lastStep
	}
	return seg
}

// find returns the part of a run that the path has, or nil if it has none.
func (p *path) find(ctx context.Context, run string) (*segment, error) {
	t, err := p.store.GetTurn(ctx, p.tenant, run)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return p.segmentOf(t), nil
}

// upTo returns the path before a turn of its last piece.
func (p *path) upTo(turn int64) *path {
	q := *p
	q.pieces = slices.Clone(p.pieces)
	last := &q.pieces[len(q.pieces)-1]
	last.through, last.lastStep = turn-1, 0
	return &q
}

// walk reads the turns of a path backwards.
type walk struct {
	*path

	piece  int   // -1: the beginning was reached
	before int64 // turns of the piece from here on were read
}

// backwards starts at the end of the path.
func (p *path) backwards() *walk {
	w := &walk{path: p}
	w.enter(len(p.pieces) - 1)
	return w
}

// backwardsFrom starts with a run of the path.
func (p *path) backwardsFrom(seg *segment) *walk {
	return &walk{path: p, piece: seg.piece, before: seg.Turn.Turn + 1}
}

func (w *walk) enter(at int) {
	w.piece, w.before = at, math.MaxInt64
	if at >= 0 && w.pieces[at].through < math.MaxInt64 {
		w.before = w.pieces[at].through + 1
	}
}

// next returns up to limit more runs, newest first; fewer at the beginning of
// the conversation only.
func (w *walk) next(ctx context.Context, limit int) ([]segment, error) {
	var all []segment
	for w.piece >= 0 && len(all) < limit {
		turns, err := w.store.ListTurnsBack(ctx, w.tenant, w.session, w.pieces[w.piece].branch, w.before, limit-len(all))
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			all = append(all, w.segment(w.piece, t))
			w.before = t.Turn
		}
		if len(all) < limit {
			w.enter(w.piece - 1)
		}
	}
	return all, nil
}

// maxStretch is how many runs a walk reads at once at most.
const maxStretch = 256

// newestSummary returns the newest run of the path, which has ended, with a
// summary in the part that the path has; nil if there is none.
func (p *path) newestSummary(ctx context.Context) (*segment, error) {
	for at := range slices.Backward(p.pieces) {
		through := p.pieces[at].through
		for {
			t, err := p.store.GetSummarizedTurn(ctx, p.tenant, p.session, p.pieces[at].branch, through)
			if fault.Is(err, fault.NotFound) {
				break
			}
			if err != nil {
				return nil, err
			}
			seg := p.segment(at, t)
			if seg.whole() {
				return &seg, nil
			}
			c, err := p.chapter(ctx, &seg) // the summary may be behind the fork
			if err != nil {
				return nil, err
			}
			if c.summary() != nil {
				return &seg, nil
			}
			through = t.Turn - 1
		}
	}
	return nil, nil
}

// chapter reads one run of the path.
func (p *path) chapter(ctx context.Context, seg *segment) (*chapter, error) {
	all, err := p.chapters(ctx, []segment{*seg})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// chapters reads runs of the path, in their order. One that does not exist is
// empty.
func (p *path) chapters(ctx context.Context, segments []segment) ([]*chapter, error) {
	if len(segments) == 0 {
		return nil, nil
	}
	ids := make([]string, len(segments))
	for i := range segments {
		ids[i] = segments[i].RunID
	}
	journals, err := p.store.ListJournals(ctx, p.tenant, ids)
	if err != nil {
		return nil, err
	}
	all := make([]*chapter, len(segments))
	for i := range journals {
		if all[i], err = readChapter(&journals[i], segments[i].lastStep); err != nil { //nolint:gosec // G602: one journal for each id
			return nil, err
		}
	}
	return all, nil
}
