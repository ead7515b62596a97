package openai

import (
	"net/http"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// stream answers with chunks while the run goes on.
func (c *Chat) stream(r *http.Request, req *ChatRequest, s *runstream.Stream) error {
	out, err := httpapi.OpenStream(r, httpapi.StreamOptions{})
	if err != nil {
		return err
	}
	defer out.Close()
	w := chunkWriter{out: out, chunks: newChunker(s.Run.RunID, req.Model, s.Run.CreatedAt)}
	w.send(w.chunks.role())
	for e, err := range s.Follow(out.Context()) {
		switch {
		case err != nil:
			w.fail(err)
			return nil
		case !w.observe(e):
			w.failWith(runstream.Voided("the header X-Run-Id names it"))
			return nil
		case run.FinalEvent(e.Name):
			ended, err := s.Result(out.Context(), e)
			if f := mismatch(ended); f != nil && err == nil {
				out.Failed(f)
				w.failWith(f)
				return nil
			}
			if err == nil {
				err = w.end(ended, req.IncludeUsage())
			}
			if err != nil {
				w.fail(err)
			}
			return nil
		}
	}
	if out.ReaderGone() {
		s.ClientGone(r.Context())
	}
	return nil
}

// chunkWriter writes a run's events as chunks. A chunk that cannot be sent ends
// the stream's context, which is noticed where the next event is waited for.
type chunkWriter struct {
	out      *httpapi.Stream
	chunks   *chunker
	textSent bool
	newStep  bool              // the next text is of a later step than the last one: a paragraph separates them
	answer   runstream.Redraft // text of the step
	thoughts runstream.Redraft // reasoning of the step
}

// observe sends what an event of the run adds. It reports false if text that was
// sent is void, and the new text differs.
func (w *chunkWriter) observe(e event.Event) bool {
	switch e.Name {
	case "llm.chunk":
		rest, same := w.answer.Next(textOf(e.Data))
		if rest != nil {
			w.text(rest)
		}
		return same
	case "llm.thinking":
		rest, same := w.thoughts.Next(textOf(e.Data))
		if !same { // reasoning is not the answer: it may go on differently
			rest = textOf(e.Data)
		}
		if rest != nil {
			w.send(w.chunks.delta(reasoningMember, rest))
		}
	case "step.draft_void":
		w.answer.Void()
		w.thoughts.Void()
	case "llm.completed":
		return w.answer.Complete()
	case "step.started":
		w.newStep = w.textSent
		w.answer.Begin()
		w.thoughts.Begin()
	}
	return true
}

func (w *chunkWriter) send(data []byte) { _ = w.out.Send(route.Frame{Data: data}) }

// text sends a piece of the answer, which is JSON already.
func (w *chunkWriter) text(quoted []byte) {
	if w.newStep {
		w.send(w.chunks.delta(contentMember, paragraph))
		w.newStep = false
	}
	w.send(w.chunks.delta(contentMember, quoted))
	w.textSent = true
}

// end sends what follows the last piece of text.
func (w *chunkWriter) end(r *run.Run, includeUsage bool) error {
	e, err := endingOf(r)
	if err != nil {
		return err
	}
	if !w.textSent && e.text != "" {
		w.text(quote(e.text))
	}
	if len(e.calls) > 0 {
		b, err := w.chunks.calls(e.calls)
		if err != nil {
			return err
		}
		w.send(b)
	}
	b, err := w.chunks.end(e.finish, e.failure)
	if err != nil {
		return err
	}
	w.send(b)
	if includeUsage {
		if b, err = w.chunks.usage(usage(&r.Metrics)); err != nil {
			return err
		}
		w.send(b)
	}
	_ = w.out.SendLast(route.Frame{Data: []byte("[DONE]")}) // an error ends the stream's context, as in send
	return nil
}

// fail ends the stream before its run has ended, in the form that OpenAI's
// clients raise as an error. No [DONE] follows.
func (w *chunkWriter) fail(err error) {
	w.out.Failed(err)
	w.failWith(runstream.Broken(err, "the header X-Run-Id names it"))
}

func (w *chunkWriter) failWith(f *fault.Error) {
	if b, err := encodeEnvelope(f); err == nil {
		w.send(b)
	}
}
