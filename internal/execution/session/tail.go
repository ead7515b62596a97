package session

import (
	"context"
	"math/bits"
	"slices"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

// firstStretch is how many runs a tail reads first where nothing says how many it
// needs. Each further stretch is twice as long.
const firstStretch = 8

// tail is the end of a path, read backwards until it has what a model is shown:
// to the last message that a summary replaced, or as far as the model reaches.
type tail struct {
	*path

	walk  *walk
	reach run.Reach

	segments []segment // newest first
	chapters []*chapter
	needed   int  // of them; 0: not reached yet
	cut      bool // older ones were read and dropped, see trim
	messages int  // that were counted, of the chapters behind the summary
	tokens   int

	summarized int // index of the chapter with the newest summary; -1: none was read
	summary    *run.Summary
	start      *segment // with the last message that the summary replaced
}

// messagesOf returns what a model reads of a path.
func messagesOf(ctx context.Context, p *path, reach run.Reach) ([]model.Message, error) {
	t := &tail{path: p, walk: p.backwards(), reach: reach, summarized: -1}
	if err := t.read(ctx); err != nil {
		return nil, err
	}
	if t.summarized >= 0 && !t.anchored() {
		return p.allMessages(ctx)
	}
	messages := t.assemble()
	if t.summarized >= 0 || t.walk.piece < 0 && !t.cut {
		return messages, nil
	}
	return t.withOlderSummary(ctx, messages)
}

// read reads until there is enough, or up to the beginning.
func (t *tail) read(ctx context.Context) error {
	stretch := firstStretch
	if t.reach.Messages > 0 { // most turns have two
		stretch = min(t.reach.Messages/2+1, maxStretch)
	}
	for {
		segments, err := t.walk.next(ctx, stretch)
		if err != nil || len(segments) == 0 {
			t.trim()
			return err
		}
		chapters, err := t.path.chapters(ctx, segments)
		if err != nil {
			return err
		}
		for i := range segments {
			if err := t.add(ctx, &segments[i], chapters[i]); err != nil {
				return err
			}
			if t.needed == 0 && t.reached() {
				t.needed = len(t.chapters)
			}
		}
		if t.enough() {
			t.trim()
			return nil
		}
		stretch = min(2*stretch, maxStretch)
		if t.needed > 0 && t.segments[t.needed-1].piece == t.walk.piece && t.block() < t.walk.before {
			stretch = int(min(int64(stretch), t.walk.before-t.block()))
		} else if t.start != nil && t.start.piece == t.walk.piece && t.start.Turn.Turn < t.walk.before {
			stretch = int(min(int64(stretch), t.walk.before-t.start.Turn.Turn))
		}
	}
}

// add adds the next older run.
func (t *tail) add(ctx context.Context, seg *segment, c *chapter) error {
	t.segments, t.chapters = append(t.segments, *seg), append(t.chapters, c)
	if t.summarized >= 0 {
		return nil
	}
	messages := c.messages()
	if s := c.summary(); s != nil {
		t.summarized, t.summary = len(t.chapters)-1, s
		messages = messages[min(len(messages), len(c.opening)+s.At):]
		if s.Through != nil {
			var err error
			if t.start, err = t.find(ctx, s.Through.RunID); err != nil {
				return err
			}
		}
	}
	for i := range messages {
		t.tokens += model.EstimateMessage(&messages[i])
		if messages[i].Role != model.System {
			t.messages++
		}
	}
	return nil
}

// reached reports whether the model is shown no more than the messages behind the
// newest summary that was read.
func (t *tail) reached() bool {
	return t.reach.Messages > 0 && t.messages > t.reach.Messages || t.reach.Tokens > 0 && t.tokens > t.reach.Tokens
}

// enough reports whether nothing older has to be read.
func (t *tail) enough() bool {
	if t.needed > 0 {
		oldest := &t.segments[len(t.segments)-1]
		return t.beyond(oldest) || oldest.Turn.Turn == t.block()
	}
	if t.summarized < 0 {
		return false
	}
	if t.start == nil { // then all is counted; see allMessages
		return t.reach == run.Reach{}
	}
	if oldest := &t.segments[len(t.segments)-1]; t.start.before(oldest) {
		return false
	}
	return !t.summary.KeepRequest || t.hasRequest()
}

// block returns the first turn of the tail that is more than a model is shown. It is
// the beginning of a block of turns, of a power of two below the number that is needed,
// so that it moves seldom: contextwindow.Fit cuts the tail from there, and providers'
// caches know prompts by their beginning.
func (t *tail) block() int64 {
	size := int64(1) << max(0, bits.Len(uint(t.needed-1))-1)
	return t.segments[t.needed-1].Turn.Turn / size * size
}

// beyond reports whether a run precedes the first block.
func (t *tail) beyond(seg *segment) bool {
	return seg.piece < t.segments[t.needed-1].piece || seg.Turn.Turn < t.block()
}

// trim drops the runs before the first block.
func (t *tail) trim() {
	for n := len(t.segments); t.needed > 0 && n > 0 && t.beyond(&t.segments[n-1]); n-- {
		t.segments, t.chapters, t.cut = t.segments[:n-1], t.chapters[:n-1], true
		if t.summarized == n-1 {
			t.summarized, t.summary, t.start = -1, nil, nil
		}
	}
}

// hasRequest reports whether the message of the user was read that the newest
// summary left beside it.
func (t *tail) hasRequest() bool {
	return slices.ContainsFunc(t.chapters[t.summarized:], func(c *chapter) bool {
		return slices.ContainsFunc(c.messages(), func(m model.Message) bool { return m.Role == model.User })
	})
}

// anchored reports whether the origin of the last replaced message is enough to
// apply the newest summary. It is not where replaced messages have no origin.
func (t *tail) anchored() bool {
	if t.reached() {
		return true
	}
	return t.start != nil && !slices.ContainsFunc(t.chapters[t.summarized:], func(c *chapter) bool { return c.carries })
}

// allMessages returns what a model reads of the whole path. It applies the summaries
// as they were made: by the number of messages that each of them replaced.
func (p *path) allMessages(ctx context.Context) ([]model.Message, error) {
	segments, err := p.segments(ctx)
	if err != nil {
		return nil, err
	}
	h, err := p.history(ctx, segments)
	if err != nil {
		return nil, err
	}
	return h.messages, nil
}

// assemble returns the messages that were read, with the newest summary in place
// of what it replaced.
func (t *tail) assemble() (messages []model.Message) {
	made := -1 // how many messages there were when the newest summary was made
	for i, c := range slices.Backward(t.chapters) {
		if i == t.summarized {
			made = len(messages) + min(len(c.messages()), len(c.opening)+t.summary.At)
		}
		messages = append(messages, c.messages()...)
	}
	if made < 0 {
		return messages
	}
	if t.reached() { // more than the model is shown follows the summary
		return append([]model.Message{t.summary.Message()}, messages[made:]...)
	}
	return append(applySummary(messages[:made], t.replaced(), t.summary), messages[made:]...)
}

// replaced returns the index of the last message that was read and that a summary
// replaced; -1: none. A request that one summary left is replaced by the next, so
// that what an earlier one replaced may be newer.
func (t *tail) replaced() int {
	through := map[string][]*model.Origin{} // by run
	for _, c := range t.chapters[t.summarized:] {
		for _, s := range c.transcript.Summaries() {
			if s.Through != nil {
				through[s.Through.RunID] = append(through[s.Through.RunID], s.Through)
			}
		}
	}
	last, n := -1, 0
	for i, c := range slices.Backward(t.chapters) {
		own := c.messages()
		for _, origin := range through[t.segments[i].RunID] {
			last = max(last, n+lastReplaced(own, origin))
		}
		n += len(own)
	}
	return last
}

// lastReplaced returns the index of the last message of a run that a summary
// replaced; -1: none of it did. The message itself may be gone, because the run's
// output or its record was removed later.
func lastReplaced(own []model.Message, through *model.Origin) int {
	if i := slices.IndexFunc(own, func(m model.Message) bool { return m.From == *through }); i >= 0 {
		return i
	}
	last := -1
	for i := range own {
		if own[i].From.StepSeq <= through.StepSeq {
			last = i
		}
	}
	return last
}

// applySummary returns messages with a summary in place of those that it replaced:
// all up to an index, but for the request and the calls that stay beside it.
func applySummary(messages []model.Message, replaced int, s *run.Summary) []model.Message {
	fold := contextwindow.Compaction{}
	request := -1
	for i := range messages {
		if i <= replaced && messages[i].Role != model.System {
			fold.Messages++
		}
		if messages[i].Role == model.User {
			request = i
		}
	}
	fold.KeepRequest = s.KeepRequest && request <= replaced
	if len(contextwindow.Compacted(messages, fold)) == 0 {
		return append([]model.Message{s.Message()}, messages...)
	}
	return contextwindow.Apply(messages, fold, s.Text, s.Sources...)
}

// withOlderSummary puts the newest summary, of a run before those that were read,
// in front of the messages. The agent's strategy was another one when it was made.
func (t *tail) withOlderSummary(ctx context.Context, messages []model.Message) ([]model.Message, error) {
	seg, err := t.newestSummary(ctx)
	if err != nil || seg == nil {
		return messages, err
	}
	c, err := t.path.chapter(ctx, seg)
	if err != nil {
		return nil, err
	}
	s := c.summary()
	if s == nil {
		return messages, nil
	}
	return append([]model.Message{s.Message()}, messages...), nil
}
