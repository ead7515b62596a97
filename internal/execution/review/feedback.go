package review

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
)

// maxFeedback is how many opinions an answer has.
const maxFeedback = 500

// Feedback is what a member thinks of a message.
type Feedback struct {
	_ struct{} `json:"-" name:"RunFeedback"`

	TenantID  string    `json:"-"`
	RunID     string    `json:"run_id,omitzero" format:"uuid"`
	MessageID string    `json:"message_id,omitzero" doc:"The message, as the history of the conversation names it."`
	UserID    string    `json:"user_id,omitzero" doc:"Whose opinion it is."`
	Reaction  string    `json:"reaction,omitzero" enum:"up,down" doc:"Absent if there is none."`
	Reason    string    `json:"reason,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// FeedbackAnswer is the opinion about one message, or all about a run.
type FeedbackAnswer struct {
	_ struct{} `json:"-" name:"RunFeedbackAnswer"`

	Feedback
	Feedbacks []Feedback `json:"feedbacks,omitzero" doc:"Without message_id: all opinions, at most 500."`
}

// feedbackBody is what is thought of a message.
type feedbackBody struct {
	_ struct{} `json:"-" name:"RunFeedbackUpdate"`

	MessageID string `json:"message_id" required:"true" minLength:"1" maxLength:"256" doc:"The message, as the history of the conversation names it."`
	Reaction  string `json:"reaction" required:"true" enum:"up,down" doc:"Whether it was good."`
	Reason    string `json:"reason,omitzero" maxLength:"4000" doc:"Why; left out, there is none, also if there was one before."`
}

type getFeedbackIn struct {
	RunID     string `path:"runId"`
	MessageID string `query:"message_id" maxLength:"256" doc:"Your opinion of this message; all of the run if it is left out."`
	Everyone  string `query:"everyone" doc:"true: without message_id also the opinions of other members."`
}

type getSessionFeedbackIn struct {
	SessionID string `path:"sessionId"`
	RunID     string `path:"runId"`
	MessageID string `query:"message_id" maxLength:"256" doc:"The message."`
}

type putFeedbackIn struct {
	RunID string `path:"runId"`
	Body  feedbackBody
}

type putSessionFeedbackIn struct {
	SessionID string `path:"sessionId"`
	RunID     string `path:"runId"`
	Body      feedbackBody
}

type deleteFeedbackIn struct {
	RunID     string `path:"runId"`
	MessageID string `query:"message_id" maxLength:"256" doc:"The message."`
}

func (s *Service) feedbackRoutes() []route.Route {
	const example = `{"message_id": "reply", "reaction": "up", "reason": "It named its sources."}`
	row := func(method, path, id, summary, doc string, refusals ...int) route.Row {
		r := route.Row{
			Method: method, Path: "/api/v1" + path, ID: id, Tag: "Runs", Summary: summary, Doc: doc,
			Scopes: []authz.Scope{"runs:read"}, Role: authz.Viewer, Errors: append(refusals, 404),
		}
		if method != "GET" {
			r.Scopes, r.Role = []authz.Scope{"runs:create"}, authz.Developer
		}
		if method == "PUT" {
			r.Example = example
		}
		return r
	}
	ofSession := func(r route.Row, scope authz.Scope) route.Row {
		r.Tag, r.Scopes = "Sessions", []authz.Scope{scope}
		return r
	}
	gone := row("DELETE", "/runs/{runId}/feedback", "deleteRunFeedback", "Withdraw your feedback on a message", "", 422)
	gone.Status, gone.Destroys = 204, true
	return []route.Route{
		route.Action(row("GET", "/runs/{runId}/feedback", "getRunFeedback", "Get feedback on a run",
			"Your reaction to one message; without message_id, your reactions to all messages of the run."), s.getFeedback),
		route.Action(row("PUT", "/runs/{runId}/feedback", "putRunFeedback", "Give feedback on a message of a run",
			"Replaces what you said of the message before.", 422),
			func(ctx context.Context, who authz.Caller, in *putFeedbackIn) (*FeedbackAnswer, error) {
				return s.putFeedback(ctx, who, "", in.RunID, &in.Body)
			}),
		route.Action(gone, s.deleteFeedback),
		route.Action(ofSession(row("GET", "/sessions/{sessionId}/runs/{runId}/feedback", "getSessionRunFeedback",
			"Get your feedback on a message of a session", "", 400), "sessions:read"), s.getSessionFeedback),
		route.Action(ofSession(row("PUT", "/sessions/{sessionId}/runs/{runId}/feedback", "putSessionRunFeedback",
			"Give feedback on a message of a session", "Replaces what you said of the message before.", 422), "sessions:write"),
			func(ctx context.Context, who authz.Caller, in *putSessionFeedbackIn) (*FeedbackAnswer, error) {
				return s.putFeedback(ctx, who, in.SessionID, in.RunID, &in.Body)
			}),
	}
}

// check returns NotFound unless there is the run, in the session if one is named.
func (s *Service) check(ctx context.Context, tenant, session, id string) error {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil || session == "" {
		return err
	}
	if err := s.Session(ctx, tenant, session); err != nil {
		return err
	}
	if r.SessionID == nil || *r.SessionID != session {
		return fault.NewNotFound("run")
	}
	return nil
}

func (s *Service) getFeedback(ctx context.Context, who authz.Caller, in *getFeedbackIn) (*FeedbackAnswer, error) {
	if err := s.check(ctx, who.TenantID, "", in.RunID); err != nil {
		return nil, err
	}
	if in.MessageID != "" {
		return s.opinion(ctx, who, in.RunID, in.MessageID)
	}
	user := who.UserID
	if in.Everyone == "true" {
		user = ""
	}
	all, err := s.Store.ListFeedback(ctx, who.TenantID, in.RunID, "", user, maxFeedback)
	return &FeedbackAnswer{Feedbacks: all}, err
}

func (s *Service) getSessionFeedback(ctx context.Context, who authz.Caller, in *getSessionFeedbackIn) (*FeedbackAnswer, error) {
	if in.MessageID == "" {
		return nil, fault.New(fault.Malformed, "INVALID_QUERY", "The parameter message_id is missing; send the id of the message.")
	}
	if err := s.check(ctx, who.TenantID, in.SessionID, in.RunID); err != nil {
		return nil, err
	}
	return s.opinion(ctx, who, in.RunID, in.MessageID)
}

// opinion returns what the caller thinks of a message; empty for nothing.
func (s *Service) opinion(ctx context.Context, who authz.Caller, run, message string) (*FeedbackAnswer, error) {
	all, err := s.Store.ListFeedback(ctx, who.TenantID, run, message, who.UserID, 1)
	if err != nil || len(all) == 0 {
		return &FeedbackAnswer{}, err
	}
	return &FeedbackAnswer{Feedback: all[0]}, nil
}

func (s *Service) putFeedback(ctx context.Context, who authz.Caller, session, run string, in *feedbackBody) (*FeedbackAnswer, error) {
	if err := s.check(ctx, who.TenantID, session, run); err != nil {
		return nil, err
	}
	f := Feedback{
		TenantID: who.TenantID, RunID: run, MessageID: in.MessageID, UserID: who.UserID, Reaction: in.Reaction, Reason: in.Reason,
		UpdatedAt: s.Clock.Now(),
	}
	answer := &FeedbackAnswer{Feedback: f}
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		if err := s.Store.PutFeedbackTx(tx, &f); err != nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
	return answer, err
}

func (s *Service) deleteFeedback(ctx context.Context, who authz.Caller, in *deleteFeedbackIn) (*route.Reply, error) {
	if err := s.check(ctx, who.TenantID, "", in.RunID); err != nil {
		return nil, err
	}
	if in.MessageID == "" {
		return nil, fault.New(fault.Invalid, "INVALID_QUERY", "The parameter message_id is missing; send the id of the message.")
	}
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		return s.Store.DeleteFeedbackTx(tx, who.TenantID, in.RunID, in.MessageID, who.UserID)
	})
	return &route.Reply{Status: 204}, err
}
