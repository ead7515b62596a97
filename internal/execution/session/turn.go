package session

import (
	"context"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Join makes a request part of the session that it names: it takes a turn when
// it is stored, and uses the session's model. Errors: NotFound for the session,
// Invalid for one of another agent, Conflict where it takes no messages.
func (s *Service) Join(ctx context.Context, tenant string, req *run.Request) error {
	r, err := s.Store.Get(ctx, tenant, *req.SessionID)
	if err != nil {
		return err
	}
	if r.AgentID != req.AgentID {
		return fault.BadFields(fault.Field{Field: "session_id", Message: "it is a session of another agent"})
	}
	if err := s.open(r); err != nil {
		return err
	}
	if m := r.Model.Spec(); m != nil {
		req.Options.Model = m
	}
	req.Admit = s.admit
	return nil
}

// open refuses unless the session takes messages.
func (s *Service) open(r *Record) error {
	if status := r.status(s.Clock.Now()); status != Active {
		return fault.WrongState("session", string(status), "a new run")
	}
	return nil
}

// admit is the run.Admission of every session: the next turn of the active
// branch. Whoever holds the lock of the session's row is alone with its turns.
func (s *Service) admit(tx txn.Tx, r *run.Record) (now bool, err error) {
	rec, err := s.Store.LockTx(tx, r.TenantID, *r.SessionID)
	if err != nil {
		return false, err
	}
	if err := s.open(rec); err != nil {
		return false, err
	}
	before, err := s.Store.ListUnfinishedTx(tx, r.TenantID, rec.SessionID, rec.ActiveBranch)
	if err != nil {
		return false, err
	}
	final := r.Status.Final() // policy refused the run before it began
	if len(before) > 0 && rec.QueueMode == Reject && !final {
		return false, fault.New(fault.Conflict, "SESSION_BUSY",
			"The run %s of this session is still under way, and the session's queue_mode is reject; wait for its end, or set queue_mode to allow.", before[0].RunID)
	}
	// Who was taken up before the session last changed has waited for its lock: it
	// begins anew, so that no turn begins before the end of the one before.
	now = len(before) == 0 && (r.StartedAt == nil || !rec.UpdatedAt.After(*r.StartedAt))
	rec.Turns++
	t := Turn{SessionID: rec.SessionID, Turn: rec.Turns, BranchID: rec.ActiveBranch, RunID: r.RunID, Finished: final}
	if err := s.Store.CreateTurnTx(tx, r.TenantID, t); err != nil {
		return false, err
	}
	rec.Summary.add(messageOf(r), true)
	rec.UpdatedAt = s.Clock.Now()
	s.hint(tx, rec.SessionID, hintRun)
	return now, s.Store.UpdateTx(tx, rec)
}

// OnRunState is the run.Watcher of sessions: the end of a run is the turn of the
// next one.
func (s *Service) OnRunState(tx txn.Tx, r *run.Record) error {
	if !r.Status.Final() {
		return nil
	}
	if err := s.pass(tx, r); err != nil {
		return err
	}
	return s.todoDone(tx, r)
}

// pass gives a run's turn to the next one.
func (s *Service) pass(tx txn.Tx, r *run.Record) error {
	if r.SessionID == nil {
		return nil
	}
	rec, err := s.Store.LockTx(tx, r.TenantID, *r.SessionID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	t, ended, err := s.Store.FinishTurnTx(tx, r.TenantID, r.RunID)
	if err != nil || !ended {
		return err
	}
	rec.Summary.add(answerOf(r), false)
	rec.UpdatedAt = s.Clock.Now()
	if err := s.Store.UpdateTx(tx, rec); err != nil {
		return err
	}
	next, err := s.Store.ListUnfinishedTx(tx, r.TenantID, rec.SessionID, t.BranchID)
	if err != nil {
		return err
	}
	s.hint(tx, rec.SessionID, hintTurn)
	// The first that is left was waiting for this one, unless it came before:
	// then a turn in the middle was cancelled.
	if len(next) > 0 && next[0].Turn > t.Turn {
		return s.Runs.Release(tx, r.TenantID, next[0].RunID)
	}
	return nil
}

// Names of the hints that tell readers of a session's stream to look again.
// They are live only, on a stream named after the session.
const (
	hintRun  = "run_added"
	hintTurn = "turn_ended"
	hintEnd  = "session_closed"
)

func (s *Service) hint(tx txn.Tx, id, name string) {
	tx.AfterCommit(func() {
		s.Hub.Publish(event.Batch{Stream: id, Events: []event.Event{{Name: name, At: s.Clock.Now(), Data: jsontext.Value(`{}`)}}})
	})
}

func (s *Service) tellEnd(tx txn.Tx, id string) { s.hint(tx, id, hintEnd) }

// snippet is how much of a message a list shows.
const snippet = 200

func (s *Summary) add(text string, user bool) {
	if text == "" {
		return
	}
	s.Count++
	cut := text
	for i := range text {
		if i > snippet {
			cut = text[:i]
			break
		}
	}
	if !utf8.ValidString(cut) {
		cut = strconv.QuoteToASCII(cut)
	}
	if user && s.First == "" {
		s.First = cut
	}
	s.Last = cut
}

// messageOf is the user's message of a run.
func messageOf(r *run.Record) string { return r.ParsedInput().Message }

// answerOf is the text that a run came to, if it did.
func answerOf(r *run.Record) string {
	var out run.Output
	if len(r.Output) > 0 {
		_ = json.Unmarshal(r.Output, &out) // of another shape: no text
	}
	return out.Text
}

// todoOf is the todo that sent a run's message; empty for none.
func todoOf(r *run.Record) string {
	var meta struct {
		Source string `json:"source"`
		Todo   string `json:"todo_id"`
	}
	if json.Unmarshal(r.Metadata, &meta) != nil || meta.Source != todoSource {
		return "" // metadata is the caller's
	}
	return meta.Todo
}
