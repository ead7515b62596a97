package privacy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/personal"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of this package's items of work.
const WorkKind = "erasure"

const (
	// requestTime is how long a request erases before it leaves the rest to the background.
	requestTime = 20 * time.Second
	// againAfter is when what could not be erased yet is tried again.
	againAfter = 10 * time.Second
	// heldAfter is when an erasure that a legal hold stopped is tried again.
	heldAfter = time.Hour
	endedPage = 50
)

type eraseIn struct {
	Body struct {
		SubjectID string     `json:"subject_id" required:"true" minLength:"1" maxLength:"100" doc:"The person: id of a member, also of one that was removed, or of a visitor's session."`
		Confirm   schema.Any `json:"confirm,omitzero" doc:"true, or the subject_id once more; anything else is refused. May be left out."`
		DryRun    bool       `json:"dry_run,omitzero" doc:"Count what would be erased, and erase nothing."`
	}
}

// Erased is what was erased of a person.
type Erased struct {
	_ struct{} `json:"-" name:"DataSubjectErased"`

	SubjectID string           `json:"subject_id" required:"true"`
	Status    string           `json:"status" enum:"completed,running,dry_run" required:"true" doc:"running: the rest is erased in the background."`
	Erased    map[string]int64 `json:"erased" required:"true" doc:"How much was erased, by kind: runs, sessions, memory, files, feedback and others. For a dry run: how much would be."`
	Kept      []Reason         `json:"kept" required:"true" doc:"What is kept, and why."`
}

func (s *Service) checkHold(ctx context.Context, tenant string) error {
	held, err := s.Store.HasHold(ctx, tenant)
	if err == nil && held {
		return fault.UnderHold()
	}
	return err
}

func confirmed(confirm schema.Any, id string) bool {
	var text string
	switch {
	case len(confirm) == 0, string(confirm) == "true":
		return true
	case json.Unmarshal(confirm, &text) == nil:
		return text == id
	}
	return false
}

func (s *Service) erase(ctx context.Context, caller authz.Caller, in *eraseIn) (*Erased, error) {
	who, err := s.subject(ctx, caller.TenantID, in.Body.SubjectID)
	if err != nil {
		return nil, err
	}
	if !confirmed(in.Body.Confirm, who.ID) {
		return nil, fault.BadFields(fault.Field{Field: "confirm", Message: "must be true or the subject_id"})
	}
	if err := s.checkHold(ctx, who.TenantID); err != nil {
		return nil, err
	}
	if in.Body.DryRun {
		return s.dryRun(ctx, &who)
	}
	var held work.Lease
	err = s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		held, err = s.Queue.EnqueueHeldTx(tx, work.Item{Kind: WorkKind,
			Key: who.TenantID + "/" + who.ID, TenantID: who.TenantID}, s.Node, s.Lease)
		if err != nil {
			return err
		}
		return audit.Write(s.Audit, tx, caller, audit.Entry{Action: "data_subject.erasure", TargetType: "user", TargetID: who.ID})
	})
	out := &Erased{SubjectID: who.ID, Status: "running", Erased: counts()}
	if errors.Is(err, work.ErrExists) { // an earlier request's is under way
		out.Kept, err = s.kept(ctx, &who)
		return out, err
	}
	if err != nil {
		return nil, err
	}
	// The client may hang up; what has begun goes on until its time is over.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer stop()
	e := &erasure{Service: s, who: &who, held: held, erased: out.Erased}
	complete, err := e.run(ctx)
	switch {
	case err == nil && complete:
		out.Status = "completed"
		err = s.Writer.Write(context.WithoutCancel(ctx), func(tx txn.Tx) error { return s.Queue.FinishTx(tx, held) })
	case err == nil || ctx.Err() != nil:
		err = s.Queue.Release(context.WithoutCancel(ctx), []work.Lease{held}, s.Clock.Now())
	}
	if err != nil {
		return nil, err
	}
	out.Kept, err = s.kept(context.WithoutCancel(ctx), &who)
	return out, err
}

// counts are the counts that every answer has.
func counts() map[string]int64 {
	return map[string]int64{"runs": 0, "sessions": 0, "memory": 0, "files": 0, "feedback": 0}
}

// dryRun counts what an erasure would delete.
func (s *Service) dryRun(ctx context.Context, who *Subject) (*Erased, error) {
	about, err := s.about(ctx, who)
	if err != nil {
		return nil, err
	}
	out := &Erased{SubjectID: who.ID, Status: "dry_run", Erased: counts()}
	for _, kind := range []string{"runs", "sessions", "memory"} {
		out.Erased[kind] = about.Counts[kind]
	}
	out.Erased["files"] = about.Counts["files"] + about.Counts["artifacts"]
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Erased != personal.Kept && who.valueOf(t) != "" && about.Counts[t.Name] > 0 {
			out.Erased[counted(t)] = about.Counts[t.Name]
		}
	}
	out.Kept, err = s.kept(ctx, who)
	return out, err
}

// counted returns the member of the counts that a table's rows are in.
func counted(t *personal.Table) string {
	if t.Name == "run_feedback" {
		return "feedback"
	}
	return t.Name
}

// kept returns what an erasure leaves, and why.
func (s *Service) kept(ctx context.Context, who *Subject) ([]Reason, error) {
	all := []Reason{}
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.Erased == personal.Deleted {
			continue
		}
		if t.By != personal.Nobody {
			value := who.valueOf(t)
			if value == "" {
				continue
			}
			n, err := s.Store.CountRows(ctx, who.TenantID, t, value, 1)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				continue
			}
		}
		all = append(all, Reason{What: t.Name, Why: t.Why})
	}
	return append(all, elsewhere...), nil
}

// Handle is the work.Handler of erasures.
func (s *Service) Handle(ctx context.Context, held work.Lease) error {
	tenant, id, _ := strings.Cut(held.Key, "/")
	reschedule := func(after time.Duration) error {
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.RescheduleTx(tx, held, s.Clock.Now().Add(after), nil) })
	}
	who, err := s.Store.GetSubject(ctx, tenant, id)
	if errors.Is(err, ErrNotFound) { // of a visitor: the erasure is complete
		return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, held) })
	}
	if err != nil {
		return err
	}
	switch held, err := s.Store.HasHold(ctx, tenant); {
	case err != nil:
		return err
	case held:
		return reschedule(heldAfter)
	}
	e := &erasure{Service: s, who: &who, held: held, erased: counts()}
	complete, err := e.run(ctx)
	if err != nil {
		return err
	}
	if !complete {
		return reschedule(againAfter)
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Queue.FinishTx(tx, held) })
}

// erasure is an erasure that is under way.
type erasure struct {
	*Service

	who    *Subject
	held   work.Lease
	erased map[string]int64
	busy   bool // something has not ended yet
}

// write runs a transaction that fails once the lease is lost.
func (e *erasure) write(ctx context.Context, do func(tx txn.Tx, erased map[string]int64) error) error {
	if err := errors.Join(ctx.Err(), work.StopIfDraining(ctx)); err != nil {
		return err
	}
	var erased map[string]int64
	err := e.Writer.Write(ctx, func(tx txn.Tx) error {
		erased = map[string]int64{}
		if err := e.Queue.HoldTx(tx, e.held, e.Lease); err != nil {
			return err
		}
		return do(tx, erased)
	})
	if err == nil {
		for kind, n := range erased {
			e.erased[kind] += n
		}
	}
	return err
}

// run erases, and reports whether nothing is left.
func (e *erasure) run(ctx context.Context) (complete bool, err error) {
	own := owned{}
	done := map[string]bool{}
	err = e.started(ctx, e.who, func(r *Run) error {
		mine, err := own.of(ctx, e.Store, e.who, r.SessionID)
		switch {
		case err != nil:
			return err
		case !mine:
			return e.eraseFamily(ctx, r, false)
		case done[r.SessionID]:
			return nil
		}
		done[r.SessionID] = true
		return e.eraseSession(ctx, r.SessionID)
	})
	if err != nil {
		return false, err
	}
	if e.who.Visitor {
		err = e.write(ctx, func(tx txn.Tx, erased map[string]int64) error { return e.deleteSessionTx(tx, e.who.ID, erased) })
	}
	for i := range e.Tables {
		if err == nil {
			err = e.eraseRows(ctx, &e.Tables[i])
		}
	}
	return err == nil && !e.busy, err
}

// eraseSession erases the runs of a session, those that the person started last: with
// the last one goes the session.
func (e *erasure) eraseSession(ctx context.Context, session string) error {
	var own, others []Run
	initiators := map[string]bool{}
	for _, initiator := range e.who.Initiators() {
		initiators[initiator] = true
	}
	err := pages(func(after Run, n int) ([]Run, error) {
		return e.Store.ListBySession(ctx, e.who.TenantID, session, after, n)
	}, func(r *Run) error {
		if initiators[r.StartedBy] {
			own = append(own, *r)
		} else {
			others = append(others, *r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range append(others, own...) {
		last := len(own) > 0 && r.RunID == own[len(own)-1].RunID && !e.busy
		if err := e.eraseFamily(ctx, &r, last); err != nil {
			return err
		}
	}
	return nil
}

// eraseFamily erases what a run started, and then the run. session: its session goes
// with it.
func (e *erasure) eraseFamily(ctx context.Context, root *Run, session bool) error {
	var family []Run
	err := pages(func(after Run, n int) ([]Run, error) {
		return e.Store.ListFamily(ctx, e.who.TenantID, root.RunID, after, n)
	}, func(r *Run) error {
		family = append(family, *r)
		return nil
	})
	if err != nil {
		return err
	}
	if !root.Ended {
		// Its children end with it, as soon as the engine gets to them.
		if err := e.cancel(ctx, root); err != nil {
			return err
		}
	}
	for i := range family {
		if r := &family[i]; !r.Ended {
			if err := e.cancel(ctx, r); err != nil {
				return err
			}
		}
	}
	for _, r := range family {
		if err := e.eraseRun(ctx, &r, false); err != nil {
			return err
		}
	}
	return e.eraseRun(ctx, root, session)
}

func (e *erasure) cancel(ctx context.Context, r *Run) error {
	err := e.Holdings.CancelRun(ctx, e.who.TenantID, r.RunID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// eraseRun erases a run that has ended.
func (e *erasure) eraseRun(ctx context.Context, r *Run, session bool) error {
	memories, _, err := e.Holdings.ListMemories(ctx, e.who.TenantID, r.AgentID, r.RunID)
	if err != nil {
		return err
	}
	for _, id := range memories {
		if err := e.Holdings.DeleteMemory(ctx, e.who.TenantID, r.AgentID, id); err != nil {
			return err
		}
		e.erased["memory"]++
	}
	for _, id := range r.Files {
		deleted, err := e.Holdings.DeleteFile(ctx, e.who.TenantID, id)
		if err != nil {
			return err
		}
		if deleted {
			e.erased["files"]++
		}
	}
	return e.write(ctx, func(tx txn.Tx, erased map[string]int64) error {
		n, err := e.Holdings.DeleteArtifactsTx(tx, e.who.TenantID, r.RunID)
		if err != nil {
			return err
		}
		erased["files"] = n
		for i := range e.Tables {
			t := &e.Tables[i]
			if t.By != personal.Run {
				continue
			}
			n, err := e.Store.DeleteRowsTx(tx, e.who.TenantID, t, r.RunID)
			if err != nil {
				return err
			}
			if t.Name == "runs" {
				erased["runs"] = n
			}
		}
		switch {
		case session:
			return e.deleteSessionTx(tx, r.SessionID, erased)
		case r.SessionID != "":
			return e.Store.ResetSummaryTx(tx, e.who.TenantID, r.SessionID)
		}
		return nil
	})
}

func (e *erasure) deleteSessionTx(tx txn.Tx, session string, erased map[string]int64) error {
	for i := range e.Tables {
		t := &e.Tables[i]
		if t.By != personal.Session {
			continue
		}
		n, err := e.Store.DeleteRowsTx(tx, e.who.TenantID, t, session)
		if err != nil {
			return err
		}
		if t.Name == "sessions" {
			erased["sessions"] = n
		}
	}
	return nil
}

// eraseRows erases the rows of a table that have the person's id or address.
func (e *erasure) eraseRows(ctx context.Context, t *personal.Table) error {
	value := e.who.valueOf(t)
	switch {
	case value == "" || t.Erased == personal.Kept:
		return nil
	case t.Erased == personal.WhenEnded:
		return e.eraseEnded(ctx, t, value)
	}
	return e.write(ctx, func(tx txn.Tx, erased map[string]int64) error {
		n, err := e.Store.DeleteRowsTx(tx, e.who.TenantID, t, value)
		if n > 0 {
			erased[counted(t)] = n
		}
		return err
	})
}

// eraseEnded erases those of the rows that have ended, with their parts.
func (e *erasure) eraseEnded(ctx context.Context, t *personal.Table, value string) error {
	for found := endedPage; found == endedPage; {
		err := e.write(ctx, func(tx txn.Tx, erased map[string]int64) error {
			ids, err := e.Store.ListEndedTx(tx, e.who.TenantID, t, value, endedPage)
			if err != nil {
				return err
			}
			for _, id := range ids {
				for i := range e.Tables {
					if part := &e.Tables[i]; part.By == personal.Part && part.Of == t.Name {
						if _, err := e.Store.DeleteRowsTx(tx, e.who.TenantID, part, id); err != nil {
							return err
						}
					}
				}
				if err := e.Store.DeleteRowTx(tx, e.who.TenantID, t, id); err != nil {
					return fmt.Errorf("erase a row of %s: %w", t.Name, err)
				}
			}
			if found = len(ids); found > 0 {
				erased[t.Name] = int64(found)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
