package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

// follower follows one run: it shows its events, asks the person where the run
// waits for one, and cancels or leaves the run when the person interrupts.
type follower struct {
	*server
	runID   string
	show    func(client.Frame)
	asks    bool      // somebody can answer
	waits   []request // for a person, oldest first
	waiting string    // what the run waits for besides: a pause, an authorization
	asking  string    // id of the request that was put to the person
	again   string    // the command that follows the run again
}

// request is an approval or a question of a run.
type request struct {
	id       string
	question string
	approval bool
}

func (s *server) newFollower(runID string) *follower {
	f := &follower{server: s, runID: runID, again: s.deps.Program + " runs follow " + runID}
	f.asks = s.stdinTerminal && s.stderrTerminal && !s.json
	if s.json {
		f.show = s.showJSON
	} else {
		f.show = (&shower{inv: s.invocation, runID: runID, hints: !f.asks}).show
	}
	return f
}

// uninterrupted is a context for what is done although the person interrupted.
func uninterrupted(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

type received struct {
	frame client.Frame
	err   error
}

// follow follows the run up to its end, or until interrupted is done: a run at
// work is then cancelled once, and its end is still awaited for a while; a run
// that waits for a person is left alone.
func (f *follower) follow(interrupted context.Context) (ending, error) {
	watching, leave := context.WithCancel(uninterrupted(f))
	frames := f.watch(watching)
	defer func() {
		leave()
		for range frames { // until the watch has ended
		}
	}()
	stop := interrupted.Done()
	for {
		var answers <-chan line
		if f.ask() {
			answers = f.lines.next()
		}
		select {
		case got, ok := <-frames:
			switch {
			case !ok:
				return ending{}, fmt.Errorf("the events of run %s ended before the run did; see it with:  %s runs show %[1]s", f.runID, f.deps.Program)
			case got.err != nil:
				return ending{}, f.lost(interrupted, got.err)
			}
			f.show(got.frame)
			f.keep(got.frame)
			if got.frame.Name == "done" {
				var end ending
				if err := json.Unmarshal(got.frame.Data, &end); err != nil {
					return end, fmt.Errorf("the end of run %s cannot be read: %w", f.runID, err)
				}
				return end, nil
			}
		case answer := <-answers:
			f.lines.taken()
			if err := f.answer(answer); err != nil {
				return ending{}, err
			}
		case <-stop:
			stop = nil
			if what := f.waitsFor(); what != "" {
				return ending{}, f.detach("The run waits for " + what + ".")
			}
			f.note("Cancelling the run; interrupt again to leave it alone.")
			time.AfterFunc(f.deps.cancelGrace, leave)
			f.cancel(watching)
		}
	}
}

func (f *follower) cancel(ctx context.Context) {
	err := f.Do(ctx, http.MethodPost, client.Path(client.RunsPath, f.runID, "cancel"), nil, nil)
	if err != nil && ctx.Err() == nil {
		f.note("The run could not be cancelled: %v", err)
	}
}

// watch receives the events of the run in the background.
func (f *follower) watch(ctx context.Context) <-chan received {
	frames := make(chan received)
	go func() {
		defer close(frames)
		lost := func(err error) { f.note("The connection was lost (%v); reconnecting.", err) }
		for frame, err := range f.Watch(ctx, f.runID, lost) {
			select {
			case frames <- received{frame, err}:
			case <-ctx.Done():
				if err == nil {
					err = ctx.Err()
				}
				select {
				case frames <- received{err: err}:
				case <-time.After(time.Second): // nobody waits for it any more
				}
				return
			}
		}
	}()
	return frames
}

// lost is the error of a watch that ended without the run's end.
func (f *follower) lost(interrupted context.Context, err error) error {
	if interrupted.Err() != nil {
		return f.detach("The run has not ended yet.")
	}
	return fmt.Errorf("run %s: %w", f.runID, err)
}

func (f *follower) detach(why string) error {
	if f.asking != "" {
		fmt.Fprintln(f.stderr)
	}
	return detached{why + " It was left alone. Follow it again:  " + f.again}
}

// keep keeps what the run waits for.
func (f *follower) keep(frame client.Frame) {
	var d detail
	if json.Unmarshal(frame.Data, &d) != nil {
		return
	}
	switch frame.Name {
	case "approval.requested":
		f.waits = append(f.waits, request{d.ApprovalID, "Approve " + d.Name + " " + brief(d.Arguments) + "?", true})
	case "input.requested":
		f.waits = append(f.waits, request{d.InputID, d.Question, false})
	case "approval.resolved":
		f.settled(d.ApprovalID)
	case "input.received":
		f.settled(d.InputID)
	case "run.paused":
		if d.Reason != "input" {
			f.waiting = "somebody who resumes it"
		}
	case "run.auth_required":
		f.waiting = "an authorization"
	case "run.resumed", "run.started":
		f.waiting = ""
	}
}

// settled takes a request out that was answered, here or elsewhere.
func (f *follower) settled(id string) {
	for i, r := range f.waits {
		if r.id == id {
			f.waits = append(f.waits[:i:i], f.waits[i+1:]...)
			break
		}
	}
	if f.asking == id {
		f.asking = ""
	}
}

// waitsFor says for what of people the run waits, "" for nothing.
func (f *follower) waitsFor() string {
	switch {
	case len(f.waits) == 0:
		return f.waiting
	case f.waits[0].approval:
		return "an approval"
	}
	return "an answer"
}

// ask puts the oldest request to the person, and reports whether an answer is
// awaited.
func (f *follower) ask() bool {
	if !f.asks || len(f.waits) == 0 {
		return false
	}
	if r := f.waits[0]; f.asking != r.id {
		f.asking = r.id
		if r.approval {
			fmt.Fprintf(f.stderr, "%s [y/n] ", clean(r.question))
		} else {
			fmt.Fprintf(f.stderr, "%s\n? ", clean(r.question))
		}
	}
	return true
}

// answer sends the person's line as the answer to the oldest request.
func (f *follower) answer(got line) error {
	r := f.waits[0]
	if got.err != nil {
		return f.detach("The run waits for " + f.waitsFor() + ", and nobody can be asked any more.")
	}
	var path string
	var body map[string]any
	switch said := got.text; {
	case !r.approval:
		path, body = "respond", map[string]any{"response": said}
	case isYes(said):
		path, body = "approve", map[string]any{"approval_id": r.id}
	case isNo(said):
		path, body = "reject", map[string]any{"approval_id": r.id, "reason": "rejected on the command line", "continue": true}
	default:
		f.note("Answer y to approve it, or n to reject it; the agent is told.")
		f.asking = ""
		return nil
	}
	err := f.Do(f, http.MethodPost, client.Path(client.RunsPath, f.runID, path), body, nil)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusConflict {
		f.note("It was decided elsewhere meanwhile.")
		err = nil
	}
	f.settled(r.id)
	return err
}

// showJSON prints an event for a script.
func (inv *invocation) showJSON(frame client.Frame) {
	line := struct {
		ID    string         `json:"id,omitzero"`
		Event string         `json:"event"`
		Data  jsontext.Value `json:"data"`
	}{frame.ID, frame.Name, frame.Data}
	if !line.Data.IsValid() {
		line.Data, _ = jsontext.AppendQuote(nil, string(frame.Data))
	}
	text, err := json.Marshal(line)
	if err != nil {
		return // ids and names that are no UTF-8 come from no agentd
	}
	fmt.Fprintf(inv.stdout, "%s\n", text)
}
