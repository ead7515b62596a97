package session

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"agentd/internal/base/fault"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
)

// memory is a Store of one session that counts what is read.
type memory struct {
	Store

	turns    []Turn
	branches []Branch
	journals map[string]run.Journal
	read     int // journals
}

func (m *memory) find(ok func(*Turn) bool) (Turn, error) {
	if i := slices.IndexFunc(m.turns, func(t Turn) bool { return ok(&t) }); i >= 0 {
		return m.turns[i], nil
	}
	return Turn{}, fault.NewNotFound("turn")
}

func (m *memory) GetTurn(_ context.Context, _, id string) (Turn, error) {
	return m.find(func(t *Turn) bool { return t.RunID == id })
}

func (m *memory) GetUnfinished(_ context.Context, _, _, branch string) (Turn, error) {
	return m.find(func(t *Turn) bool { return t.BranchID == branch && !t.Finished })
}

func (m *memory) back(ok func(*Turn) bool, limit int) (all []Turn) {
	for _, t := range slices.Backward(m.turns) {
		if len(all) < limit && ok(&t) {
			all = append(all, t)
		}
	}
	return all
}

func (m *memory) ListTurnsBack(_ context.Context, _, _, branch string, before int64, limit int) ([]Turn, error) {
	return m.back(func(t *Turn) bool { return t.BranchID == branch && t.Turn < before }, limit), nil
}

func (m *memory) GetSummarizedTurn(_ context.Context, _, _, branch string, through int64) (Turn, error) {
	found := m.back(func(t *Turn) bool { return t.BranchID == branch && t.Turn <= through && t.Summarized }, 1)
	if len(found) == 0 {
		return Turn{}, fault.NewNotFound("turn")
	}
	return found[0], nil
}

func (m *memory) ListBranches(context.Context, string, string) ([]Branch, error) {
	return m.branches, nil
}

func (m *memory) ListJournals(_ context.Context, _ string, ids []string) ([]run.Journal, error) {
	all := make([]run.Journal, len(ids))
	for i, id := range ids {
		all[i] = m.journals[id]
	}
	m.read += len(ids)
	return all, nil
}

func (m *memory) path(t *rapid.T, branch string) *path {
	p, err := (&reader{store: m}).path(context.Background(), "t", "s", branch)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// whole reads the history of a path from its beginning.
func (m *memory) whole(t *rapid.T, p *path) *history {
	segments, err := p.segments(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	h, err := p.history(context.Background(), segments)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// drawSession draws a session with branches, calls, notes, cancelled and changed
// runs, and summaries that were planned as the engine plans them.
func drawSession(t *rapid.T) *memory {
	m := &memory{journals: map[string]run.Journal{}}
	branch, carries := Root, rapid.IntRange(0, 9).Draw(t, "carries") == 0
	last := rapid.Int64Range(1, 14).Draw(t, "turns")
	for n := int64(1); n <= last; n++ {
		if n > 1 && rapid.IntRange(0, 5).Draw(t, "fork") == 0 {
			branch = m.drawFork(t, branch)
		}
		m.drawRun(t, n, branch, carries)
	}
	if rapid.IntRange(0, 3).Draw(t, "under_way") == 0 {
		last := &m.turns[len(m.turns)-1]
		last.Finished, last.Entries, last.Summarized = false, uncounted, false
	}
	return m
}

// drawFork adds a branch at an entry of another one, and returns its id.
func (m *memory) drawFork(t *rapid.T, parent string) string {
	b := Branch{BranchID: fmt.Sprint("b", len(m.branches)), ParentID: parent}
	entries := m.whole(t, m.path(t, parent)).entries
	if at := rapid.IntRange(-1, len(entries)-1).Draw(t, "at"); at >= 0 {
		b.ForkRunID, b.ForkStep = entries[at].RunID, cmp.Or(entries[at].step, -1)
		if rapid.Bool().Draw(t, "all of the run") {
			b.ForkStep = 0
		}
	}
	m.branches = append(m.branches, b)
	return b.BranchID
}

func (m *memory) drawRun(t *rapid.T, n int64, branch string, carries bool) {
	r := run.Record{Run: run.Run{RunID: fmt.Sprint("r", n), Status: run.Completed}}
	in := run.Input{Message: fmt.Sprint("message ", n)}
	if rapid.IntRange(0, 9).Draw(t, "empty") == 0 {
		in.Message = ""
	}
	if carries && rapid.Bool().Draw(t, "history") {
		in.History = []model.Message{{Role: model.System, Text: "rule"}, {Role: model.User, Text: "before"}, {Role: model.Assistant, Text: "yes"}}
	}
	r.Input = must(in)
	w := &runDraw{t: t, id: r.RunID, before: m.whole(t, m.path(t, branch)).messages, journal: run.Journal{Run: r}}
	for range rapid.IntRange(0, 5).Draw(t, "steps") {
		w.draw()
	}
	switch rapid.IntRange(0, 5).Draw(t, "end") {
	case 0:
		w.journal.Run.Status = run.Cancelled
	case 1:
		w.add(run.Step{Type: run.StepLLM, Output: must(run.LLMOutput{Text: "secret"})})
		w.journal.Run.Status = run.GuardrailBlocked
	case 2:
		w.add(run.Step{Type: run.StepLLM, Output: must(run.LLMOutput{Text: "secret"})})
		w.journal.Run.Output = must(run.Output{Text: "changed"})
	default:
		w.add(run.Step{Type: run.StepLLM, Output: must(run.LLMOutput{Text: "answer"})})
		w.journal.Run.Output = must(run.Output{Text: "answer"})
	}
	turn := Turn{SessionID: "s", Turn: n, BranchID: branch, RunID: r.RunID, Finished: true}
	if err := turn.count(&w.journal.Run, w.journal.Steps); err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 5).Draw(t, "old") == 0 {
		turn.Entries = uncounted
	}
	m.turns, m.journals[r.RunID] = append(m.turns, turn), w.journal
}

// runDraw draws the steps of a run.
type runDraw struct {
	t       *rapid.T
	id      string
	before  []model.Message
	journal run.Journal
}

func (w *runDraw) add(s run.Step) {
	at := time.Unix(int64(len(w.journal.Steps)), 0)
	s.RunID, s.Seq, s.CompletedAt, s.Status = w.id, int64(len(w.journal.Steps)+1), &at, cmp.Or(s.Status, run.StepCompleted)
	w.journal.Steps = append(w.journal.Steps, s)
}

func (w *runDraw) draw() {
	switch rapid.IntRange(0, 4).Draw(w.t, "step") {
	case 0:
		w.add(run.Step{Type: run.StepInput, Output: must(run.NoteOutput{Message: "note"})})
	case 1:
		w.add(run.Step{Type: run.StepLLM, Status: run.StepFailed, Output: must(run.LLMOutput{Text: "half"})})
	case 2, 3:
		w.drawCalls()
	case 4:
		w.drawSummary()
	}
}

func (w *runDraw) drawCalls() {
	n := rapid.IntRange(1, 3).Draw(w.t, "calls")
	var out run.LLMOutput
	for i := range n { // ids repeat, as those of some models do
		out.ToolCalls = append(out.ToolCalls, model.ToolCall{ID: fmt.Sprint("c", i), Name: "tool"})
	}
	w.add(run.Step{Type: run.StepLLM, Output: must(out)})
	for i := range n {
		w.add(run.Step{
			Type: run.StepTool, Input: must(run.ToolInput{ToolCallID: fmt.Sprint("c", i), Name: "tool"}),
			Output: must(run.ToolOutput{Content: strings.Repeat("data ", 1+i)}),
		})
	}
}

// drawSummary adds a compaction, as the engine plans it.
func (w *runDraw) drawSummary() {
	c, err := readChapter(&w.journal, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	all := c.transcript.After(append(slices.Clip(w.before), c.opening...))
	budget := contextwindow.Budget{
		Keep: rapid.IntRange(0, 40).Draw(w.t, "keep"), Most: rapid.IntRange(0, 60).Draw(w.t, "most"),
		Recent: rapid.IntRange(0, 6).Draw(w.t, "recent"), Take: rapid.IntRange(5, 200).Draw(w.t, "take"),
	}
	plan, _, ok := contextwindow.PlanCompaction(all, contextwindow.Sizes(all), budget)
	if !ok {
		return
	}
	in := run.CompactionInput{Compaction: plan}
	for _, m := range contextwindow.Compacted(all, plan) {
		if m.From.RunID != "" {
			in.Through = &m.From
		}
	}
	w.add(run.Step{
		Type: run.StepCompaction, Input: must(in),
		Output: must(run.CompactionOutput{Summary: fmt.Sprint("summary of ", w.id, " ", len(w.journal.Steps))}),
	})
}

// What is read from the end of a conversation is what its whole history says: the
// messages, what each strategy shows of them, the pages, and their number.
func TestTailIsTheEndOfTheHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawSession(t)
		branch := m.turns[rapid.IntRange(0, len(m.turns)-1).Draw(t, "turn")].BranchID
		p := m.path(t, branch)
		want := m.whole(t, p)
		got, err := messagesOf(context.Background(), p, run.Reach{})
		if diff := gocmp.Diff(withoutRules(want.messages), withoutRules(got), cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatalf("all messages: %v (-want +got):\n%s", err, diff)
		}
		m.checkShown(t, p, want.messages)
		m.checkPages(t, p, want.entries)
		index := rapid.IntRange(0, len(want.entries)).Draw(t, "index")
		e, err := p.entryAt(context.Background(), int64(index))
		if err != nil || index == len(want.entries) && e != nil || index < len(want.entries) && e.MessageID != want.entries[index].MessageID {
			t.Fatalf("entry %d: %+v, %v", index, e, err)
		}
	})
}

// checkShown checks that a tail is the end of all messages, behind the newest
// summary, and that it has more than a model is shown unless it has everything.
func (m *memory) checkShown(t *rapid.T, p *path, all []model.Message) {
	if len(withoutRules(all)) < len(all) {
		return // a session with system messages is read whole
	}
	for _, reach := range []run.Reach{
		{Messages: rapid.IntRange(1, 12).Draw(t, "window")}, {Tokens: rapid.IntRange(1, 200).Draw(t, "tokens")},
	} {
		got, err := messagesOf(context.Background(), p, reach)
		if err != nil {
			t.Fatal(err)
		}
		rest, end := got, all
		if len(all) > 0 && all[0].Summary {
			if len(got) == 0 || gocmp.Diff(all[0], got[0]) != "" {
				t.Fatalf("%+v: the summary is missing", reach)
			}
			rest, end = got[1:], all[1:]
		}
		end = end[max(0, len(end)-len(rest)):]
		if diff := gocmp.Diff(end, rest, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%+v (-want +got):\n%s", reach, diff)
		}
		tokens := 0
		for _, n := range contextwindow.Sizes(rest) {
			tokens += n
		}
		if len(got) < len(all) && (reach.Messages > 0 && len(rest) <= reach.Messages || reach.Tokens > 0 && tokens <= reach.Tokens) {
			t.Fatalf("%+v: only %d messages of %d tokens", reach, len(rest), tokens)
		}
	}
}

// What a model is shown begins with the same message for many turns, so that caches of
// prompts know it.
func TestTailsBeginAlike(t *testing.T) {
	t.Parallel()
	m := &memory{journals: map[string]run.Journal{}}
	limits := contextwindow.Limits{Messages: 40}
	begins := map[string]bool{}
	const turns = 400
	for n := int64(1); n <= turns; n++ {
		r := runOf(t, fmt.Sprint("r", n), "hello", run.Completed, "yes", llm(t, "yes"))
		m.turns = append(m.turns, Turn{SessionID: "s", Turn: n, BranchID: Root, RunID: r.Run.RunID, Finished: true, Entries: 2})
		m.journals[r.Run.RunID] = *r
		p, err := (&reader{store: m}).path(t.Context(), "t", "s", Root)
		if err != nil {
			t.Fatal(err)
		}
		got, err := messagesOf(t.Context(), p, run.Reach{Messages: limits.Messages})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, model.Message{Role: model.User, Text: "and now?"})
		begins[contextwindow.Fit(got, contextwindow.Sizes(got), limits)[0].From.RunID] = true
	}
	// The cut moves each time that 40 messages became too many for 24, which is every
	// eight turns, and with each block of 16.
	if most := turns/8 + turns/16 + 10; len(begins) > most {
		t.Errorf("%d beginnings in %d turns, instead of at most %d", len(begins), turns, most)
	}
}

func (m *memory) checkPages(t *rapid.T, p *path, want []Entry) {
	n := rapid.IntRange(1, 7).Draw(t, "page")
	var got []Entry
	for position := ""; ; {
		page, err := p.page(context.Background(), position, n)
		if err != nil {
			t.Fatal(err)
		}
		entries := page.entries()
		if position = page.next; position != "" && len(entries) != n {
			t.Fatalf("a page of %d entries has %d, and others follow", n, len(entries))
		}
		if got = append(entries, got...); position == "" {
			break
		}
	}
	if diff := gocmp.Diff(want, got, cmpopts.IgnoreUnexported(Entry{}), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("pages of %d (-want +got):\n%s", n, diff)
	}
	if total, more, err := p.total(context.Background()); total != len(want) || more || err != nil {
		t.Fatalf("%d entries, %v, %v, instead of %d", total, more, err, len(want))
	}
	whole, err := p.page(context.Background(), "", math.MaxInt)
	if err != nil || len(whole.entries()) != len(want) || whole.next != "" {
		t.Fatalf("a page without a limit has %d entries, %v", len(whole.entries()), err)
	}
}

func withoutRules(messages []model.Message) []model.Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m model.Message) bool { return m.Role == model.System })
}

func must(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
