// Package uistream serves agents to pages that use the AI SDK: the messages that a chat
// sends, and the stream of message parts that it gets.
package uistream

import (
	"errors"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json"

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

// Server serves chats of the AI SDK.
type Server struct{ Chats *pagechat.Chats }

type agentIn struct {
	AgentID string `path:"agentId"`
}

type chatIn struct {
	AgentID string `path:"agentId"`
	ChatID  string `path:"chatId" format:"any"`
}

// Routes returns the routes of chats.
func (s *Server) Routes() []httpapi.Raw {
	return []httpapi.Raw{
		{
			Row: route.Row{
				Method: "POST", Path: "/api/v1/agents/{agentId}/ui", ID: "sendUIMessages", Tag: "Front ends",
				Scopes: []authz.Scope{"runs:create"}, Role: authz.Developer, Errors: []int{404, 409, 422, 503},
				Summary: "Send the messages of an AI SDK chat",
				Doc: "The body is what DefaultChatTransport sends, the answer the UI message stream. id is the external_id of the session that the " +
					"run belongs to; the header X-Run-Id has the id of the run. Without anything new the newest run is shown again.",
				BodyOf:  reflect.TypeFor[ChatInput](),
				Example: `{"id":"chat-1","trigger":"submit-message","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Hello"}]}]}`,
			},
			In: reflect.TypeFor[agentIn](), Streams: true, StreamToken: true, ReplayByRef: true, Serve: s.send,
		},
		{
			Row: route.Row{
				Method: "GET", Path: "/api/v1/agents/{agentId}/ui/{chatId}/stream", ID: "resumeUIStream", Tag: "Front ends",
				Scopes: []authz.Scope{"runs:read"}, Role: authz.Viewer, Also: []int{204}, Errors: []int{404, 422},
				Summary: "Resume the stream of an AI SDK chat",
				Doc:     "The message under way from its first part. 204 where nothing runs, also for chats that do not exist.",
			},
			In: reflect.TypeFor[chatIn](), Streams: true, StreamToken: true, Serve: s.resume,
		},
	}
}

// exchange is one request.
type exchange struct {
	*Server
	w     http.ResponseWriter
	r     *http.Request
	who   authz.Caller
	chat  *pagechat.Chat
	reply string // id of the message
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	params, err := httpapi.Params[agentIn](r)
	if err != nil {
		return err
	}
	in, err := httpapi.DecodeBody[ChatInput](r)
	if err != nil {
		return err
	}
	req, err := in.read(params.AgentID)
	if err != nil {
		return err
	}
	x := &exchange{Server: s, w: w, r: r, who: who}
	if x.chat, err = s.Chats.Open(r.Context(), who.TenantID, &req.Page); err != nil {
		return err
	}
	x.reply = x.chat.Reply()
	var open []pagechat.Answer
	for _, a := range req.answers {
		if pagechat.IsOpen(x.chat.UnderWay, a.ID) {
			open = append(open, a)
		}
	}
	switch {
	case len(open) > 0:
		return x.decide(open)
	case len(x.chat.New()) > 0:
		return x.start()
	}
	return x.again(req)
}

// start starts a run. Results of the page's tools go on with the message that called them.
func (x *exchange) start() error {
	id := ident.New()
	added := x.chat.New()
	if x.reply == "" || added[len(added)-1].Role != model.Tool || x.chat.Place.Turns < len(x.chat.Turns()) {
		x.reply = id + "-reply"
	}
	s, err := x.chat.Start(x.w, x.r, x.who, id, x.reply)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Run.RunID != id { // the request is repeated: it is answered as the first time
		x.reply = x.chat.ReplyOf(s.Run.RunID)
		s.Run.Status = run.Queued
	}
	return x.stream([]*runstream.Stream{s}, nil)
}

// decide passes answers to the run that waits, and goes on with its message.
func (x *exchange) decide(answers []pagechat.Answer) error {
	waiting := x.chat.UnderWay
	err := x.chat.Decide(x.r.Context(), x.who, answers)
	if err != nil && !fault.Is(err, fault.Conflict) { // another answer came first, and counts
		return err
	}
	x.w.Header().Set("X-Run-Id", waiting.RunID)
	resumed := *waiting
	resumed.Status, resumed.PendingAuth = run.Running, nil
	s := x.Chats.Runner.ReplayAfter(x.who.TenantID, &resumed)
	return x.stream([]*runstream.Stream{s}, func(w *renderer) {
		for _, a := range waiting.PendingApprovals { // the stream before this one sent them
			w.announced[a.ToolCallID] = true
		}
		for i := range waiting.Approvals {
			w.announced[waiting.Approvals[i].ToolCallID] = true
		}
		if waiting.PendingInput != nil {
			w.announced[waiting.PendingInput.ToolCallID] = true
		}
	})
}

// again shows the newest run to a page that sent nothing new: what followed the answers
// that it gave, or all of it.
func (x *exchange) again(req *request) error {
	turns := x.chat.Turns()
	if len(turns) == 0 || x.chat.Place.Turns < len(turns) {
		return fault.BadFields(fault.Field{Field: "messages", Message: "there is nothing that the conversation does not have yet; add a message"})
	}
	r, err := x.Chats.Runs.Get(x.r.Context(), x.who.TenantID, turns[len(turns)-1].RunID)
	if err != nil {
		return err
	}
	x.w.Header().Set("X-Run-Id", r.RunID)
	return x.stream([]*runstream.Stream{x.Chats.Runner.Replay(x.who.TenantID, r)}, func(w *renderer) {
		if len(req.answers) == 0 || req.last != "assistant" {
			return
		}
		for _, a := range r.Approvals {
			for _, given := range req.answers {
				if given.ID != a.ApprovalID {
					continue
				}
				if w.until == nil {
					w.until = map[string]bool{}
				}
				w.until[a.ApprovalID] = true
			}
		}
	})
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request, who authz.Caller) error {
	params, err := httpapi.Params[chatIn](r)
	if err != nil {
		return err
	}
	x := &exchange{Server: s, w: w, r: r, who: who}
	if x.chat, err = s.Chats.Open(r.Context(), who.TenantID, &pagechat.Page{AgentID: params.AgentID, ChatID: params.ChatID}); err != nil {
		return err
	}
	if x.chat.Session == nil {
		if _, err := s.Chats.Runner.Agents.Spec(r.Context(), who.TenantID, params.AgentID, 0); err != nil {
			return err
		}
	}
	if x.chat.UnderWay == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	x.reply = x.chat.Reply()
	var streams []*runstream.Stream
	for _, t := range x.message() {
		run, err := s.Chats.Runs.Get(r.Context(), who.TenantID, t.RunID)
		if err != nil {
			return err
		}
		streams = append(streams, s.Chats.Runner.Replay(who.TenantID, run))
	}
	w.Header().Set("X-Run-Id", x.chat.UnderWay.RunID)
	return x.stream(streams, nil)
}

// message returns the turns whose answers are parts of the newest message.
func (x *exchange) message() []session.ClientTurn {
	turns := x.chat.Turns()
	first := len(turns) - 1
	for first > 0 && turns[first].Reply != "" && turns[first-1].Reply == turns[first].Reply {
		first--
	}
	return turns[first:]
}

// stream answers with the message that runs make, one after the other.
func (x *exchange) stream(streams []*runstream.Stream, prepare func(w *renderer)) error {
	x.w.Header().Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	out, err := httpapi.OpenStream(x.r, httpapi.StreamOptions{})
	if err != nil {
		return err
	}
	defer out.Close()
	// A frame that cannot be sent ends the stream's context, which is noticed where the
	// next event is waited for.
	w := newRenderer(func(data []byte) { _ = out.Send(route.Frame{Data: data}) })
	w.emit("start", object{"messageId": x.reply})
	if prepare != nil {
		prepare(w)
	}
	var reason, failure string
	for i, s := range streams {
		if i > 0 {
			w.results(s.Run)
		}
		w.begin(s.Run)
		if reason, failure, err = x.relay(out, s, w); err != nil {
			if !errors.Is(err, errGone) {
				w.fail(fault.From(err))
				_ = out.SendLast(route.Frame{Data: []byte("[DONE]")})
			}
			return nil
		}
	}
	w.until = nil
	if failure != "" {
		w.emit("error", object{"errorText": failure})
	} else {
		w.emit("finish", object{"finishReason": reason})
	}
	_ = out.SendLast(route.Frame{Data: []byte("[DONE]")})
	return nil
}

// results sends the results of the page's tools with which a run began.
func (w *renderer) results(r *run.Run) {
	var in run.Input
	if json.Unmarshal(r.Input, &in) != nil {
		return
	}
	for i := range in.History {
		if m := &in.History[i]; m.Role == model.Tool {
			w.output(m.ToolCallID, m.Text, false)
		}
	}
}

var errGone = errors.New("uistream: the client left")

// relay sends the events of a run until it ends or waits for a person.
func (x *exchange) relay(out *httpapi.Stream, s *runstream.Stream, w *renderer) (reason, failure string, err error) {
	const hint = "the header X-Run-Id names it"
	for e, err := range s.Follow(out.Context()) {
		if err == nil && run.FinalEvent(e.Name) {
			var ended *run.Run
			if ended, err = s.Result(out.Context(), e); err == nil {
				reason, failure = w.end(ended)
				return reason, failure, nil
			}
		}
		switch {
		case err != nil:
			out.Failed(err)
			return "", "", runstream.Broken(err, hint)
		case pagechat.Suspends(e):
			r, waits, err := x.Chats.Questions(out.Context(), x.who.TenantID, s.Run.RunID)
			if err == nil && waits {
				w.suspend(r)
				return "tool-calls", "", nil
			}
		case !w.observe(e):
			return "", "", runstream.Voided(hint)
		}
	}
	if out.ReaderGone() {
		s.ClientGone(x.r.Context())
	}
	return "", "", errGone
}
