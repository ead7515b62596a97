// Package agui serves agents to the front ends of the Agent-User Interaction protocol: a
// page sends its history, and gets what the agent does as events.
package agui

import (
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/pagechat"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/model"
)

// Server serves the protocol.
type Server struct{ Chats *pagechat.Chats }

type agentIn struct {
	AgentID string `path:"agentId"`
}

// Routes returns the route of the protocol.
func (s *Server) Routes() []httpapi.Raw {
	return []httpapi.Raw{{
		Row: route.Row{
			Method: "POST", Path: "/agui/agents/{agentId}", ID: "runAguiAgent", Tag: "Front ends",
			Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Repeats: true, Errors: []int{404, 409, 422, 503},
			Summary: "Run an agent for an AG-UI page",
			Doc: "The body is the protocol's RunAgentInput, the answer its event stream. threadId is the external_id of the session that the " +
				"run belongs to; the header X-Run-Id has the id of the run. Without new messages the run under way is followed.",
			BodyOf:  reflect.TypeFor[RunInput](),
			Example: `{"threadId":"thread-1","runId":"run-1","messages":[{"id":"m1","role":"user","content":"Hello"}],"tools":[],"context":[]}`,
		},
		In: reflect.TypeFor[agentIn](), Streams: true, StreamToken: true, ReplayByRef: true, Serve: s.run,
	}}
}

// exchange is one request.
type exchange struct {
	*Server
	w    http.ResponseWriter
	r    *http.Request
	who  authz.Caller
	in   *RunInput
	page *pagechat.Page
	chat *pagechat.Chat

	state jsontext.Value // that the page and the agent share; nil: none
}

func (s *Server) run(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	params, err := httpapi.Params[agentIn](r)
	if err != nil {
		return err
	}
	in, err := httpapi.DecodeBody[RunInput](r)
	if err != nil {
		return err
	}
	x := &exchange{Server: s, w: w, r: r, who: who, in: in}
	if x.page, err = in.page(params.AgentID); err != nil {
		return err
	}
	if x.chat, err = s.Chats.Open(r.Context(), who.TenantID, x.page); err != nil {
		return err
	}
	if x.state = x.page.State; x.state == nil && x.chat.Session != nil {
		if x.state, err = s.Chats.Sessions.State(r.Context(), who.TenantID, x.chat.Session.SessionID); err != nil {
			return err
		}
	}
	shareState(x.page, x.state)
	resumption, err := in.resumption(x.chat.UnderWay)
	if err != nil {
		return err
	}
	switch {
	case !resumption.empty():
		return x.resume(resumption)
	case len(x.chat.New()) > 0:
		return x.start()
	case x.chat.UnderWay != nil:
		return x.follow(x.chat.Follow(who.TenantID), true, false)
	case x.chat.Session != nil:
		return x.follow(nil, false, false)
	}
	return fault.BadFields(fault.Field{Field: "messages", Message: "the conversation is new; send a message of the user"})
}

// start starts a run.
func (x *exchange) start() error {
	id := ident.New()
	stream, err := x.chat.Start(x.w, x.r, x.who, id, id)
	if err != nil {
		return err
	}
	return x.follow(stream, stream.Run.RunID != id, false)
}

// resume passes the answers on to the run that waits, and follows it.
func (x *exchange) resume(resumption *resumption) error {
	waiting := x.chat.UnderWay
	if len(x.chat.New()) > 0 && x.chat.New()[len(x.chat.New())-1].Role == model.User {
		return fault.BadFields(fault.Field{
			Field: "messages", Message: "a new message cannot be sent with answers to interrupts; send it when the run has finished"})
	}
	ctx := x.r.Context()
	if x.page.State != nil {
		if err := x.Chats.Sessions.KeepState(ctx, x.who.TenantID, x.chat.Session.SessionID, x.page.State); err != nil {
			return err
		}
	}
	if resumption.cancel {
		if _, err := x.Chats.Runs.Cancel(ctx, x.who.TenantID, waiting.RunID); err != nil {
			return err
		}
	} else if err := x.chat.Decide(ctx, x.who, resumption.answers); err != nil {
		return err
	}
	x.w.Header().Set("X-Run-Id", waiting.RunID)
	return x.follow(x.Chats.Runner.ReplayAfter(x.who.TenantID, waiting), false, resumption.asks)
}

// follow answers with the events of a run, or with what the conversation is where nothing
// runs. past: the run is rendered from its beginning, long after it.
func (x *exchange) follow(s *runstream.Stream, past, asks bool) error {
	if s != nil {
		defer s.Close()
	}
	history, err := x.history()
	if err != nil {
		return err
	}
	out, err := httpapi.OpenStream(x.r, httpapi.StreamOptions{})
	if err != nil {
		return err
	}
	defer out.Close()
	w := x.renderer(out, s, past)
	started := object{"threadId": w.thread, "runId": w.run}
	if x.in.ProtocolVersion != nil {
		started["protocolVersion"] = protocolVersion
	}
	w.emit("RUN_STARTED", started)
	if x.state != nil {
		w.emit("STATE_SNAPSHOT", object{"snapshot": x.state})
	}
	if history != nil {
		w.emit("MESSAGES_SNAPSHOT", object{"messages": history})
	}
	if s == nil {
		w.finish(object{"type": "success"}, nil, nil)
		return nil
	}
	if asks { // the authorization may not have been given
		if r, waits, err := x.Chats.Questions(out.Context(), x.who.TenantID, s.Run.RunID); err == nil && waits {
			w.interrupt(r)
			return nil
		}
	}
	x.relay(out, s, w)
	return nil
}

const protocolVersion = "1.0"

func (x *exchange) renderer(out *httpapi.Stream, s *runstream.Stream, past bool) *renderer {
	w := &renderer{
		thread: x.in.ThreadID, run: x.in.RunID, announced: map[string]bool{}, patches: map[string]jsontext.Value{},
		// A frame that cannot be sent ends the stream's context, which is noticed where the
		// next event is waited for.
		send: func(data []byte) { _ = out.Send(route.Frame{Data: data}) },
	}
	if s == nil {
		return w
	}
	w.id, w.step = s.Run.RunID, s.Run.StepSeq
	if !past {
		for _, a := range s.Run.PendingApprovals { // the stream before this one sent them
			w.announced[a.ToolCallID] = true
		}
		for i := range s.Run.Approvals {
			w.announced[s.Run.Approvals[i].ToolCallID] = true
		}
		return w
	}
	w.resync = func() {
		state, err := x.Chats.Sessions.State(out.Context(), x.who.TenantID, *s.Run.SessionID)
		if err == nil && state != nil {
			w.emit("STATE_SNAPSHOT", object{"snapshot": state})
		}
	}
	return w
}

// relay sends the events of a run until it ends or waits for a person.
func (x *exchange) relay(out *httpapi.Stream, s *runstream.Stream, w *renderer) {
	const hint = "the header X-Run-Id names it"
	for e, err := range s.Follow(out.Context()) {
		if err == nil && run.FinalEvent(e.Name) {
			var ended *run.Run
			if ended, err = s.Result(out.Context(), e); err == nil {
				w.end(ended)
				return
			}
		}
		switch {
		case err != nil:
			out.Failed(err)
			w.failWith(runstream.Broken(err, hint))
			return
		case pagechat.Suspends(e):
			r, waits, err := x.Chats.Questions(out.Context(), x.who.TenantID, s.Run.RunID)
			if err == nil && waits {
				w.interrupt(r)
				return
			}
		case !w.observe(e):
			w.failWith(runstream.Voided(hint))
			return
		}
	}
	if out.ReaderGone() {
		s.ClientGone(x.r.Context())
	}
}

func (w *renderer) failWith(f *fault.Error) { w.fail(f.Detail, f.Code) }

// shownMessages is how many messages a page is sent that has none.
const shownMessages = 500

// history returns the messages of a conversation for a page that has none; nil for others.
func (x *exchange) history() ([]object, error) {
	if x.chat.Session == nil || len(x.page.Messages) > 0 {
		return nil, nil
	}
	talk, err := x.Chats.Sessions.Talk(x.r.Context(), x.who.TenantID, x.chat.Session.SessionID, shownMessages)
	if err != nil {
		return nil, err
	}
	all := []object{}
	for i := range talk.Entries {
		all = append(all, shown(&talk.Entries[i], talk.UnderWay)...)
	}
	return all, nil
}

// shown returns an entry of a conversation as messages. What the run under way has said
// comes as events.
func shown(e *session.Entry, underWay string) (all []object) {
	switch e.Role {
	case "user":
		return []object{{"id": e.MessageID, "role": "user", "content": e.Content}}
	case "assistant":
		if e.RunID == underWay {
			return nil
		}
		m := object{"id": e.MessageID, "role": "assistant", "content": e.Content}
		var calls, results []object
		for _, c := range e.ToolCalls {
			if c.Name == session.SetState {
				continue
			}
			calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Input}})
			results = append(results, object{"id": e.RunID + "-result-" + c.ID, "role": "tool", "toolCallId": c.ID, "content": c.Output})
		}
		if calls != nil {
			m["toolCalls"] = calls
		}
		return append([]object{m}, results...)
	}
	return nil
}
