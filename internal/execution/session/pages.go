package session

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// entryPage is some successive entries of a path, with the runs that they are of.
type entryPage struct {
	parts []pagePart // newest run first
	next  string     // position of the page before this one; "": this is the first
}

// pagePart is the entries of one run on a page.
type pagePart struct {
	segment

	chapter *chapter
	entries []Entry
}

// entries returns the entries, oldest first.
func (p *entryPage) entries() []Entry {
	all := []Entry{}
	for i := range slices.Backward(p.parts) {
		all = append(all, p.parts[i].entries...)
	}
	return all
}

// page reads the newest n entries before a position, which is the next of an
// earlier page or "" for the end. It reads their runs and no others. Errors:
// Invalid for a position that the path does not have.
func (p *path) page(ctx context.Context, position string, n int) (*entryPage, error) {
	w, end, err := p.walkFrom(ctx, position)
	if err != nil {
		return nil, err
	}
	out, room := &entryPage{}, n
	for {
		segments, err := w.next(ctx, min(n/2+1, maxStretch))
		if err != nil {
			return nil, err
		}
		chapters, err := p.chapters(ctx, segments)
		if err != nil {
			return nil, err
		}
		for i := range segments {
			entries := chapters[i].entries()
			entries = entries[:min(end, len(entries))]
			end = math.MaxInt
			if over := len(entries) - room; over > 0 {
				out.next = segments[i].RunID + ":" + strconv.Itoa(over)
				entries = entries[over:]
			}
			room -= len(entries)
			out.parts = append(out.parts, pagePart{segments[i], chapters[i], entries})
			if out.next != "" {
				return out, p.markCompacted(ctx, out)
			}
		}
		if w.piece < 0 {
			return out, p.markCompacted(ctx, out)
		}
	}
}

// walkFrom returns a walk that begins with the run of a position, and how many of
// that run's entries precede it. Positions count from the beginning of a run:
// entries are added at its end only, so they stay valid.
func (p *path) walkFrom(ctx context.Context, position string) (w *walk, end int, err error) {
	if position == "" {
		return p.backwards(), math.MaxInt, nil
	}
	id, text, _ := strings.Cut(position, ":")
	if end, err = strconv.Atoi(text); err == nil && end >= 0 {
		seg, err := p.find(ctx, id)
		if err != nil {
			return nil, 0, err
		}
		if seg != nil {
			return p.backwardsFrom(seg), end, nil
		}
	}
	return nil, 0, fault.New(fault.Invalid, "INVALID_CURSOR",
		"This cursor was issued for another state of the conversation; start again without a cursor.")
}

// markCompacted marks the entries of a page that the model has read and reads no
// more, because a summary replaced them. A summary always includes the one before
// it, so that only the newest one of the path counts.
func (p *path) markCompacted(ctx context.Context, page *entryPage) error {
	at, summary, err := p.lastSummary(ctx)
	if err != nil || at == nil {
		return err
	}
	var start *segment
	if summary.Through != nil {
		if start, err = p.find(ctx, summary.Through.RunID); err != nil {
			return err
		}
	}
	if start == nil {
		return p.markByCount(ctx, page)
	}
	var kept map[model.Origin]bool // of the runs from start to at
	for i := range page.parts {
		part := &page.parts[i]
		if at.before(&part.segment) {
			continue
		}
		// A request that was kept may be of any run.
		replaced := part.before(start) && !summary.KeepRequest
		if !replaced && kept == nil {
			t := &tail{path: p, walk: p.backwardsFrom(at), summarized: -1}
			if err := t.read(ctx); err != nil {
				return err
			}
			if t.summarized < 0 || !t.anchored() {
				return p.markByCount(ctx, page)
			}
			kept = originsOf(t.assemble())
		}
		part.mark(func(from model.Origin) bool { return !replaced && kept[from] }, model.Origin{RunID: at.RunID, StepSeq: summary.Seq})
	}
	return nil
}

// mark marks the entries of a run as compacted that a model has read and does not
// read now, and all summaries but the newest.
func (p *pagePart) mark(reads func(model.Origin) bool, newest model.Origin) {
	read := map[model.Origin]bool{}
	for from := range p.chapter.origins() {
		read[from] = true
	}
	for i := range p.entries {
		e := &p.entries[i]
		from := model.Origin{RunID: e.RunID, StepSeq: e.step}
		if e.Role == roleSystem {
			e.Compacted = from != newest
		} else {
			e.Compacted = read[from] && !reads(from)
		}
	}
}

// markByCount marks the entries of a page by the history of the whole path. It is
// needed where the origins of messages do not show what a summary replaced.
func (p *path) markByCount(ctx context.Context, page *entryPage) error {
	segments, err := p.segments(ctx)
	if err != nil {
		return err
	}
	h, err := p.history(ctx, segments)
	if err != nil {
		return err
	}
	compacted := map[string]bool{}
	for i := range h.entries {
		compacted[h.entries[i].MessageID] = h.entries[i].Compacted
	}
	for i := range page.parts {
		for j := range page.parts[i].entries {
			e := &page.parts[i].entries[j]
			e.Compacted = compacted[e.MessageID]
		}
	}
	return nil
}

func originsOf(messages []model.Message) map[model.Origin]bool {
	all := map[model.Origin]bool{}
	for i := range messages {
		all[messages[i].From] = true
	}
	return all
}

// lastSummary returns the newest summary of the path and its run, which may be
// under way; nil if there is none.
func (p *path) lastSummary(ctx context.Context) (*segment, *run.Summary, error) {
	own := len(p.pieces) - 1
	t, err := p.store.GetUnfinished(ctx, p.tenant, p.session, p.pieces[own].branch)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, nil, err
	}
	if err == nil {
		seg := p.segment(own, t)
		c, err := p.chapter(ctx, &seg)
		if err != nil {
			return nil, nil, err
		}
		if s := c.summary(); s != nil {
			return &seg, s, nil
		}
	}
	seg, err := p.newestSummary(ctx)
	if err != nil || seg == nil {
		return nil, nil, err
	}
	c, err := p.chapter(ctx, seg)
	if err != nil || c.summary() == nil {
		return nil, nil, err
	}
	return seg, c.summary(), nil
}

// maxTotal is how far entries are counted.
const maxTotal = 1000

// total counts the entries of a path: exactly up to maxTotal, which it returns as
// a lower bound where there are more.
func (p *path) total(ctx context.Context) (n int, lowerBound bool, err error) {
	for w := p.backwards(); w.piece >= 0; {
		segments, err := w.next(ctx, maxStretch)
		if err != nil {
			return 0, false, err
		}
		counts, err := p.count(ctx, segments)
		if err != nil {
			return 0, false, err
		}
		for _, count := range counts {
			if n += count; n > maxTotal {
				return maxTotal, true, nil
			}
		}
	}
	return n, false, nil
}

// count returns how many entries runs have. It reads those that were not counted
// when they ended, and those of which the path has a part.
func (p *path) count(ctx context.Context, segments []segment) ([]int, error) {
	counts := make([]int, len(segments))
	var unknown []segment
	var at []int
	for i := range segments {
		counts[i] = int(segments[i].Entries)
		if segments[i].Entries == uncounted || !segments[i].whole() {
			unknown, at = append(unknown, segments[i]), append(at, i)
		}
	}
	chapters, err := p.chapters(ctx, unknown)
	if err != nil {
		return nil, err
	}
	for i, c := range chapters {
		counts[at[i]] = len(c.entries())
	}
	return counts, nil
}

// entryAt returns the entry with an index, counted from the beginning of the
// conversation; nil if there is none.
func (p *path) entryAt(ctx context.Context, index int64) (*Entry, error) {
	segments, err := p.segments(ctx)
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(segments, maxStretch) {
		counts, err := p.count(ctx, part)
		if err != nil {
			return nil, err
		}
		for i, n := range counts {
			if index >= int64(n) {
				index -= int64(n)
				continue
			}
			c, err := p.chapter(ctx, &part[i])
			if err != nil || index >= int64(len(c.entries())) {
				return nil, err
			}
			return &c.entries()[index], nil
		}
	}
	return nil, nil
}
