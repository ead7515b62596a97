package anthropic

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
)

// Source is the metadata.source of the runs of POST /v1/messages.
const Source = "messages"

// namesAgent reports whether a model name is that of an agent or a team: an agent's id,
// or any name with the prefix agent/ or team/. Names of models are neither.
func namesAgent(name string) bool {
	return strings.HasPrefix(name, runstream.AgentPrefix) || strings.HasPrefix(name, runstream.TeamPrefix) || ident.Valid(name)
}

// run answers with a run of the agent that the request names as its model.
func (m *Messages) run(w http.ResponseWriter, r *http.Request, who authz.Caller, req *Request, prompt *model.Request) error {
	start, err := runRequest(req, prompt)
	if err != nil {
		return err
	}
	if start.AgentID, err = m.Runner.AgentID(r.Context(), who.TenantID, req.Model); err != nil {
		return err
	}
	s, err := m.Runner.Start(r.Context(), who, start)
	if fault.Is(err, fault.NotFound) {
		return runstream.NoAgent(req.Model)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	h := w.Header()
	h["X-Run-Id"], h["Request-Id"] = []string{s.Run.RunID}, []string{httpapi.RequestID(r.Context())}
	if req.Streams() {
		return m.streamRun(r, req, s, estimate(prompt.Messages, prompt.Tools, len(req.Messages)))
	}
	ended, err := s.Wait(r.Context(), nil)
	if err != nil {
		return err
	}
	resp, err := runResponse(ended)
	if err != nil {
		return err
	}
	httpapi.JSONBytes(w, http.StatusOK, appendAnswer(nil, runMessageID(ended), req.Model, &resp, req.ShowsThinking(), ""))
	return nil
}

// runMessageID returns the id of a run's answer, by which the run can be found.
func runMessageID(r *run.Run) string { return "msg_" + r.RunID }

// runRequest converts a request to a run's: what the system says becomes
// instructions, the last turn of the user the message, the rest its history.
func runRequest(req *Request, prompt *model.Request) (run.Request, error) {
	in := run.Input{History: make([]model.Message, 0, len(prompt.Messages))}
	var instructions []string
	for _, message := range prompt.Messages {
		if message.Role == model.System {
			instructions = append(instructions, message.Text)
			continue
		}
		in.History = append(in.History, message)
	}
	in.Instructions = strings.Join(instructions, "\n\n")
	if n := len(in.History); n > 0 && in.History[n-1].Role == model.User {
		in.Message, in.Parts = in.History[n-1].Text, in.History[n-1].Parts
		in.History = in.History[:n-1]
	}
	input, err := json.Marshal(in)
	if err != nil {
		return run.Request{}, err
	}
	options := run.Options{
		Plain: !req.Streams(), Temperature: prompt.Temperature, TopP: prompt.TopP, MaxTokens: prompt.MaxTokens, Stop: prompt.Stop,
		ToolChoice: prompt.ToolChoice, Extra: prompt.Extra,
	}
	for _, tool := range prompt.Tools {
		options.Tools = append(options.Tools, run.CallerTool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters})
	}
	return run.Request{
		RunID: ident.New(), Input: input, Parsed: &in, MediaField: "messages",
		Options: options, Metadata: schema.Object(`{"source":"` + Source + `"}`),
	}, nil
}

// runResponse returns the answer of a run that has ended. Errors: why it did not
// complete.
func runResponse(r *run.Run) (model.Response, error) {
	if r.Status != run.Completed {
		return model.Response{}, runFailure(r)
	}
	var out run.Output
	if len(r.Output) > 0 {
		if err := json.Unmarshal(r.Output, &out); err != nil {
			return model.Response{}, err
		}
	}
	resp := model.Response{
		Text: out.Text, ToolCalls: out.ToolCalls, FinishReason: out.FinishReason,
		Usage: model.Usage{InputTokens: int(r.Metrics.InputTokens), OutputTokens: int(r.Metrics.OutputTokens),
			CachedTokens: int(r.Metrics.CachedTokens), CacheWriteTokens: int(r.Metrics.CacheWriteTokens)},
	}
	if out.OutputTruncated || out.Truncated {
		resp.FinishReason = model.FinishLength
	}
	return resp, nil
}

// runFailure returns why a run did not complete.
func runFailure(r *run.Run) error {
	kind, detail := fault.Upstream, "The run ended as "+string(r.Status)+"."
	if r.Error != nil && *r.Error != "" {
		detail = *r.Error
	}
	switch r.Status {
	case run.GuardrailBlocked, run.Rejected:
		kind = fault.Forbidden
	case run.TimedOut:
		kind = fault.UpstreamTimeout
	}
	return fault.New(kind, cmp.Or(r.ErrorCode, string(r.Status)), "%s", detail)
}

// streamRun answers with events while the run goes on. Each step's text is a block of
// its own.
func (m *Messages) streamRun(r *http.Request, req *Request, s *runstream.Stream, tokens int) error {
	out, err := httpapi.OpenStream(r, httpapi.StreamOptions{Heartbeat: []byte(pingFrame), HeartbeatEvery: cmp.Or(m.Ping, defaultPing)})
	if err != nil {
		return err
	}
	defer out.Close()
	w := runWriter{out: out, frames: frames{thinking: req.ShowsThinking()}, requestID: httpapi.RequestID(r.Context())}
	w.frames.start(runMessageID(s.Run), req.Model, tokens)
	w.send()
	for e, err := range s.Follow(out.Context()) {
		switch {
		case err != nil:
			w.fail(runstream.Broken(err, "the header X-Run-Id names it"))
			return nil
		case run.FinalEvent(e.Name):
			w.end(s.Result(out.Context(), e))
			return nil
		case !w.observe(e):
			w.fail(runstream.Voided("the header X-Run-Id names it"))
			return nil
		}
		w.send()
	}
	if out.ReaderGone() {
		s.ClientGone(r.Context())
	}
	return nil
}

// runWriter writes a run's events as those of one answer. A frame that cannot be sent
// ends the stream's context, which is noticed where the next event is waited for.
type runWriter struct {
	out       *httpapi.Stream
	frames    frames
	requestID string

	answer, thoughts runstream.Redraft // what was sent of the step
}

// observe renders what an event of the run adds. It reports false if text that was
// sent is void, and the new text differs.
func (w *runWriter) observe(e event.Event) bool {
	switch e.Name {
	case "llm.chunk":
		rest, same := w.answer.Next(runstream.TextOf(e.Data))
		if rest != nil {
			w.frames.addDelta(model.Delta{Text: unquote(rest)})
		}
		return same
	case "llm.thinking":
		quoted := runstream.TextOf(e.Data)
		if rest, same := w.thoughts.Next(quoted); same { // reasoning is not the answer: it may go on differently
			quoted = rest
		}
		if quoted != nil {
			w.frames.addDelta(model.Delta{Thinking: unquote(quoted)})
		}
	case "step.draft_void":
		w.answer.Void()
		w.thoughts.Void()
	case "llm.completed":
		return w.answer.Complete()
	case "step.started":
		w.frames.closeBlock()
		w.answer.Begin()
		w.thoughts.Begin()
	}
	return true
}

func (w *runWriter) send() {
	if len(w.frames.buf) > 0 {
		_ = w.out.Send(route.Frame{Wire: w.frames.buf})
		w.frames.buf = w.frames.buf[:0]
	}
}

// end sends what follows the last piece of text.
func (w *runWriter) end(ended *run.Run, err error) {
	var resp model.Response
	if err == nil {
		resp, err = runResponse(ended)
	}
	if err != nil {
		w.fail(err)
		return
	}
	w.frames.end(&resp, "")
	_ = w.out.SendLast(route.Frame{Wire: w.frames.buf})
}

func (w *runWriter) fail(err error) {
	_, e := httpapi.Classify(err)
	w.out.Failed(err)
	w.frames.fail(e, w.requestID)
	_ = w.out.SendLast(route.Frame{Wire: w.frames.buf})
}
