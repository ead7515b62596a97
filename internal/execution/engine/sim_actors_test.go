package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// live is the faulty phase of the world: faults and requests happen, one after the
// other, while the runs continue.
func (w *world) live() {
	w.begin()
	for range 12 + w.rng.IntN(20) {
		rest(time.Duration(w.rng.IntN(400_000)) * time.Microsecond)
		if w.chance(60) {
			w.people()
		} else {
			w.trouble()
		}
		w.check()
		if w.t.Failed() {
			w.t.FailNow()
		}
	}
}

// heal ends all faults. Then all runs must end, and stay as they are.
func (w *world) heal() {
	w.tell("all is well from now on")
	close(w.healthy)
	for _, n := range w.nodes {
		n.stall(false)
		n.limiter.SetShare(model.Share{})
	}
	w.mu.Lock()
	w.quiet = time.Time{}
	w.authorized = true
	w.downUntil, w.awayUntil = time.Time{}, time.Time{}
	w.mu.Unlock()
	w.join()
	open := w.unfinished()
	for tries := 0; len(open) > 0; tries++ {
		if tries == 400 {
			w.t.Fatalf("seed %d: runs that never ended: %v", w.seed, open)
		}
		for _, id := range open {
			w.release(id)
		}
		rest(250 * time.Millisecond)
		w.check()
		if w.t.Failed() {
			w.t.FailNow()
		}
		open = w.unfinished()
	}
	rest(3 * time.Minute)
	w.check()
	for _, id := range w.ids {
		w.whole(id)
	}
	w.families()
	w.metered()
	w.checkVotes()
}

// unfinished returns the runs that have not ended.
func (w *world) unfinished() (open []string) {
	for _, id := range w.ids {
		r, err := w.api.Get(context.Background(), w.who.TenantID, id)
		switch {
		case fault.Is(err, fault.NotFound) && !w.accepted[id]: // it was never stored, and no caller got an answer that it was
		case err != nil:
			w.t.Errorf("seed %d: a run is lost: %v", w.seed, err)
		case !r.Status.Final():
			open = append(open, id)
		}
	}
	return open
}

// release ends the wait of a run.
func (w *world) release(id string) {
	ctx, tenant := context.Background(), w.who.TenantID
	r, err := w.api.Get(ctx, tenant, id)
	if err != nil {
		w.t.Error(err)
		return
	}
	switch {
	case r.Status == run.AwaitingApproval:
		w.approve(w.api, r, "")
		return
	case r.Status == run.AuthRequired:
		err = w.api.Authorized(ctx, tenant, "srv-"+tenant)
	case r.Status == run.Paused && r.PendingInput != nil:
		err = w.api.Respond(ctx, tenant, id, "As you like.")
	case r.Status == run.Paused:
		err = w.api.Resume(ctx, tenant, id, "")
	}
	if err != nil && !fault.Is(err, fault.Conflict) { // it may just have been under way
		w.t.Error(err)
	}
}

func (w *world) alive() []*simNode {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *simNode) bool { return n.dead.Load() })
}

// any returns a node that takes calls; now and then one that also drives runs, and
// may die.
func (w *world) any() *simNode {
	if up := w.alive(); len(up) > 0 && w.chance(60) {
		return up[w.rng.IntN(len(up))]
	}
	return w.api
}

// join starts a node: one that died, or a new one.
func (w *world) join() {
	name := fmt.Sprintf("node-%d", w.names)
	var down []*simNode
	for _, n := range w.nodes {
		if n.dead.Load() && !slices.ContainsFunc(w.nodes, func(o *simNode) bool { return o.name == n.name && !o.dead.Load() }) {
			down = append(down, n)
		}
	}
	switch {
	case len(down) > 0 && w.chance(50):
		n := down[w.rng.IntN(len(down))]
		<-n.gone
		name = n.name
		w.happened("node back under its name", name)
	case len(w.nodes) > 0:
		w.happened("node under a new name", name)
	}
	w.nodes = append(w.nodes, w.open(name, 1+w.rng.IntN(4)))
	if len(w.alive()) > 1 {
		w.tally.count("two nodes")
	}
}

// trouble is a fault of a process or the database, or a jump in time.
func (w *world) trouble() {
	up := w.alive()
	if len(up) == 0 {
		w.join()
		return
	}
	n := up[w.rng.IntN(len(up))]
	switch p := w.rng.IntN(100); {
	case p < 20:
		n.plan(crashBefore, 1+w.rng.IntN(8))
	case p < 40:
		n.plan(crashAfter, 1+w.rng.IntN(8))
	case p < 48:
		n.plan(refusal, 1+w.rng.IntN(4))
	case p < 60:
		n.plan(unsure, 1+w.rng.IntN(6))
	case p < 72:
		w.happened("node killed", n.name)
		n.die()
	case p < 80:
		w.happened("node stalled", n.name)
		n.stall(true)
	case p < 85:
		n.stall(false)
	case p < 88:
		w.happened("database away", "all")
		w.mu.Lock()
		w.awayUntil = time.Now().Add(time.Duration(1+w.rng.IntN(20)) * time.Second)
		w.mu.Unlock()
	case p < 91:
		if len(up) < 2 {
			w.join()
		}
	case p < 95:
		w.happened("provider down", "all")
		w.mu.Lock()
		w.downUntil = time.Now().Add(time.Duration(1+w.rng.IntN(30)) * time.Second)
		w.mu.Unlock()
	case p < 97 && w.limits != (model.Limits{}):
		w.happened("share of a limit changed", n.name)
		n.limiter.SetShare([]model.Share{{}, {Index: 0, Of: 2}, {Index: 1, Of: 2}, model.NoShare}[w.rng.IntN(4)])
	case p < 98:
		w.happened("provider asks to be left alone", "all")
		w.mu.Lock()
		w.quiet = time.Now().Add(time.Duration(1+w.rng.IntN(10)) * time.Second)
		w.mu.Unlock()
	default:
		w.happened("time passed", "all")
		rest(time.Duration(10+w.rng.IntN(60)) * time.Second)
	}
}

// people start runs and act on them.
func (w *world) people() {
	if len(w.ids) == 0 || len(w.ids) < 3 && w.chance(15) {
		w.begin()
		return
	}
	if w.chance(10) {
		w.legislate()
		return
	}
	if w.chance(25) {
		w.vote()
		return
	}
	ctx, tenant := context.Background(), w.who.TenantID
	id := w.ids[w.rng.IntN(len(w.ids))]
	r, err := w.api.Get(ctx, tenant, id)
	if err != nil {
		if !fault.Is(err, fault.NotFound) || w.accepted[id] {
			w.t.Errorf("seed %d: %v", w.seed, err)
		}
		return
	}
	n := w.any()
	do := func(what string, act func() error) {
		if err := act(); w.harmless(err) == nil && err == nil {
			w.happened(what, w.short(id)+" by "+n.name)
		}
	}
	resume := func() {
		note, what := "", "resume"
		if w.chance(40) {
			note, what = fmt.Sprintf("Note %d.", w.rng.IntN(100)), "resume with a note"
		}
		do(what, func() error { return n.Resume(ctx, tenant, id, note) })
	}
	respond := func() {
		do("respond", func() error { return n.Respond(ctx, tenant, id, fmt.Sprintf("Answer %d.", w.rng.IntN(100))) })
	}
	decide := func() {
		if w.chance(70) {
			w.approve(n, r, [...]string{"", `{"n":77}`}[w.rng.IntN(2)])
		} else {
			w.reject(n, r)
		}
	}
	authorize := func() {
		w.mu.Lock()
		w.authorized = w.chance(80)
		w.mu.Unlock()
		do("authorize", func() error { return n.Authorized(ctx, tenant, "srv-"+tenant) })
	}
	pause := func() { do("pause", func() error { return n.Pause(ctx, tenant, id) }) }
	if w.chance(4) {
		do("cancel", func() error {
			got, err := n.Cancel(ctx, tenant, id)
			if err == nil && !got.Cancelled {
				return fault.WrongState("run", "ended", "cancelling")
			}
			return err
		})
		return
	}
	if w.chance(75) { // what its state asks for
		switch {
		case r.Status == run.AwaitingApproval:
			decide()
		case r.Status == run.AuthRequired:
			authorize()
		case r.PendingInput != nil:
			respond()
		case r.Status == run.Paused:
			resume()
		case w.chance(40):
			pause()
		}
		return
	}
	[]func(){resume, respond, decide, authorize, pause}[w.rng.IntN(5)]()
}

// harmless returns nil for errors that callers may get.
func (w *world) harmless(err error) error {
	if err == nil || errors.Is(err, errDead) || fault.Is(err, fault.Conflict) || fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotFound) {
		return nil
	}
	w.t.Errorf("seed %d: %v", w.seed, err)
	return err
}

func (w *world) begin() {
	id, n := ident.New(), w.any()
	w.mu.Lock()
	w.ids = append(w.ids, id)
	w.mu.Unlock()
	_, err := n.Create(context.Background(), w.who, run.Request{
		RunID: id, AgentID: w.agents.spec.ID, Input: schema.Object(fmt.Sprintf(`{"message":"Do %d."}`, len(w.ids))),
		Options: run.Options{Plain: w.chance(20)}, Parent: w.parent(),
	})
	w.tell("%s is begun by %s: %v", w.short(id), n.name, err)
	if w.harmless(err) == nil {
		w.accepted[id] = err == nil
	}
}

// parent returns a run that starts the next one; mostly none does.
func (w *world) parent() string {
	var known []string
	for _, id := range w.ids {
		if w.accepted[id] {
			known = append(known, id)
		}
	}
	if len(known) == 0 || !w.chance(40) {
		return ""
	}
	return known[w.rng.IntN(len(known))]
}

// choice returns the approval of a decision: a pending one, mostly.
func (w *world) choice(r *run.Run) string {
	if len(r.Approvals) > 0 && w.chance(10) {
		return r.Approvals[w.rng.IntN(len(r.Approvals))].ApprovalID
	}
	if len(r.PendingApprovals) == 0 {
		return ""
	}
	return r.PendingApprovals[w.rng.IntN(len(r.PendingApprovals))].ApprovalID
}

func (w *world) approve(n *simNode, r *run.Run, edited string) {
	in := run.ApproveRequest{ApprovalID: w.choice(r)}
	what := "approve"
	if edited != "" {
		in.Arguments, what = schema.Any(edited), "approve edited"
	}
	got, err := n.Approve(context.Background(), w.who, r.RunID, in)
	if w.harmless(err) == nil && err == nil {
		w.decidedOnce(what, n, got.ApprovalID)
	}
}

func (w *world) reject(n *simNode, r *run.Run) {
	in := run.RejectRequest{ApprovalID: w.choice(r), Continue: w.chance(70)}
	what := "reject"
	if in.Continue {
		what = "reject and continue"
	}
	got, err := n.Reject(context.Background(), w.who, r.RunID, in)
	if w.harmless(err) == nil && err == nil {
		w.decidedOnce(what, n, got.ApprovalID)
	}
}

func (w *world) decidedOnce(what string, n *simNode, approval string) {
	w.happened(what, n.name)
	w.tally.count("approval decided once")
	if w.decided[approval]++; w.decided[approval] > 1 {
		w.t.Errorf("seed %d: the approval %s was decided twice", w.seed, approval)
	}
}
