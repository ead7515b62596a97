package openai

import (
	"context"
	"errors"
	"net/http"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// stream answers with chunks as the run makes them.
func (c *Chat) stream(r *http.Request, who authz.Caller, req *ChatRequest, made *run.Run, said *voice) error {
	out, err := httpapi.OpenStream(r, httpapi.StreamOptions{})
	if err != nil {
		return err
	}
	defer out.Close()
	s := speaker{out: out, chunks: newChunker(made.RunID, req.Model, made.CreatedAt)}
	s.send(s.chunks.role())
	for e, err := range said.events(out.Context()) {
		switch {
		case err != nil:
			s.fail(err)
			return nil
		case e.Name == "llm.chunk":
			s.text(textOf(e.Data))
		case e.Name == "llm.thinking":
			s.send(s.chunks.delta(reasoningMember, textOf(e.Data)))
		case e.Name == "step.started", e.Name == "run.resumed":
			s.apart = s.spoke
		case run.FinalEvent(e.Name):
			ended, err := c.ended(out.Context(), who, made, e)
			if err == nil {
				err = s.end(ended, req.IncludeUsage())
			}
			if err != nil {
				s.fail(err)
			}
			return nil
		}
	}
	if out.ReaderGone() {
		c.left(r.Context(), who, made)
	}
	return nil
}

// left handles a client that went away: the run goes on, unless the agent's
// policy says otherwise (decisions.md D10).
func (c *Chat) left(ctx context.Context, who authz.Caller, made *run.Run) {
	ctx = context.WithoutCancel(ctx)
	spec, err := c.Agents.Spec(ctx, who.TenantID, made.AgentID, made.AgentVersion)
	if err == nil && spec.CancelOnDisconnect {
		_, _ = c.Runs.Cancel(ctx, who.TenantID, made.RunID) // it may have ended meanwhile
	}
}

// speaker says what a run says, in chunks. A chunk that cannot be sent ends
// the stream's context, which is noticed where the next event is waited for.
type speaker struct {
	out    *httpapi.Stream
	chunks *chunker
	spoke  bool // some text was sent
	apart  bool // the next text belongs to another step than the last
}

func (s *speaker) send(data []byte) { _ = s.out.Send(route.Frame{Data: data}) }

// text sends a piece of the answer, which is JSON already.
func (s *speaker) text(quoted []byte) {
	if s.apart {
		s.send(s.chunks.delta(contentMember, paragraph))
		s.apart = false
	}
	s.send(s.chunks.delta(contentMember, quoted))
	s.spoke = true
}

// end sends what follows the last piece of text.
func (s *speaker) end(r *run.Run, includeUsage bool) error {
	e, err := endingOf(r)
	if err != nil {
		return err
	}
	if !s.spoke && e.text != "" {
		s.text(quote(e.text))
	}
	if len(e.calls) > 0 {
		b, err := s.chunks.calls(e.calls)
		if err != nil {
			return err
		}
		s.send(b)
	}
	b, err := s.chunks.end(e.finish, e.failure)
	if err != nil {
		return err
	}
	s.send(b)
	if includeUsage {
		if b, err = s.chunks.usage(usage(&r.Metrics)); err != nil {
			return err
		}
		s.send(b)
	}
	_ = s.out.SendLast(route.Frame{Data: []byte("[DONE]")}) // as send does
	return nil
}

// fail ends the stream before its run did, in the form that OpenAI's clients
// raise as an error. There is no [DONE].
func (s *speaker) fail(err error) {
	s.out.Failed(err)
	detail := "The answer broke off on our side; the run goes on, and the header X-Run-Id names it."
	if errors.Is(err, event.ErrSlow) {
		detail = "The answer broke off because it was read too slowly; the run goes on, and the header X-Run-Id names it."
	}
	if b, err := encodeEnvelope(fault.New(fault.Unavailable, "stream_broken", "%s", detail)); err == nil {
		s.send(b)
	}
}
