package session

import (
	"context"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
)

// Annotation is a note on a message, for people to read. Models do not read it.
type Annotation struct {
	resource.Meta `json:"-"`

	SessionID string `json:"session_id"`
	MessageID string `json:"message_id" required:"true" minLength:"1" maxLength:"256"`
	Content   string `json:"content" required:"true" minLength:"1" maxLength:"10000"`
	Author    string `json:"author"`
	Resolved  bool   `json:"resolved"`
}

// AnnotationKind is the resource kind of annotations. They are served below
// their session, not by the routes of the kind.
var AnnotationKind = resource.Kind[Annotation]{
	Name: "session_annotation", Path: "/api/v1/sessions/annotations", IDField: "id", Tag: tag,
	Indexes: []resource.Index[Annotation]{{Name: "session_id", Of: func(a *Annotation) string { return a.SessionID }}},
}

// annotationService keeps the annotations of messages.
type annotationService struct {
	sessions Store
	store    *resource.Store[Annotation]
	writer   txn.Writer
}

// annotationView is an annotation as the API shows it.
type annotationView struct {
	_ struct{} `json:"-" name:"SessionAnnotation"`

	ID        string    `json:"id" required:"true"`
	MessageID string    `json:"message_id" required:"true"`
	Content   string    `json:"content" required:"true"`
	Author    string    `json:"author"`
	CreatedAt time.Time `json:"created_at" required:"true"`
	Resolved  bool      `json:"resolved"`
}

func (a *Annotation) show() annotationView {
	return annotationView{
		ID: a.ID, MessageID: a.MessageID, Content: a.Content, Author: a.Author, CreatedAt: a.CreatedAt, Resolved: a.Resolved,
	}
}

// maxAnnotations is how many annotations a list shows: the newest.
const maxAnnotations = 500

type (
	annotateIn struct {
		SessionID string `path:"sessionId"`
		Body      struct {
			_ struct{} `json:"-" name:"SessionAnnotationCreate"`

			MessageID string `json:"message_id" required:"true" minLength:"1" maxLength:"256" doc:"The annotated message; see message_id in the history."`
			Content   string `json:"content" required:"true" minLength:"1" maxLength:"10000" doc:"Text of the annotation."`
		}
	}
	annotationIDIn struct {
		SessionID    string `path:"sessionId"`
		AnnotationID string `path:"annotationId"`
	}
	annotationChangeIn struct {
		SessionID    string `path:"sessionId"`
		AnnotationID string `path:"annotationId"`
		Body         struct {
			_ struct{} `json:"-" name:"SessionAnnotationUpdate"`

			Resolved *bool `json:"resolved,omitzero" doc:"Whether the annotation is dealt with."`
		}
	}
	annotationList struct {
		_ struct{} `json:"-" name:"SessionAnnotationList"`

		Items []annotationView `json:"items" required:"true" doc:"The newest 500, oldest first."`
	}
	nothing struct{}
)

func (s *annotationService) create(ctx context.Context, who authz.Caller, in *annotateIn) (annotationView, error) {
	if _, err := s.sessions.Get(ctx, who.TenantID, in.SessionID); err != nil {
		return annotationView{}, err
	}
	a := &Annotation{SessionID: in.SessionID, MessageID: in.Body.MessageID, Content: in.Body.Content, Author: who.UserID}
	ctx = txn.WithAnswer(ctx, func() any { return a.show() })
	err := s.store.Create(ctx, who, a)
	return a.show(), err
}

func (s *annotationService) list(ctx context.Context, who authz.Caller, in *idIn) (annotationList, error) {
	if _, err := s.sessions.Get(ctx, who.TenantID, in.SessionID); err != nil {
		return annotationList{}, err
	}
	found, err := s.store.List(ctx, who.TenantID, resource.Find{Where: map[string]string{"session_id": in.SessionID}, Limit: maxAnnotations})
	list := annotationList{Items: []annotationView{}}
	for _, a := range slices.Backward(found) {
		list.Items = append(list.Items, a.show())
	}
	return list, err
}

func (s *annotationService) update(ctx context.Context, who authz.Caller, in *annotationChangeIn) (annotationView, error) {
	a, err := s.store.Update(ctx, who, in.AnnotationID, func(_ txn.Tx, a *Annotation) error {
		if a.SessionID != in.SessionID {
			return fault.NewNotFound("annotation")
		}
		if in.Body.Resolved != nil {
			a.Resolved = *in.Body.Resolved
		}
		return nil
	})
	if err != nil {
		return annotationView{}, annotationAbsent(err)
	}
	return a.show(), nil
}

func (s *annotationService) delete(ctx context.Context, who authz.Caller, in *annotationIDIn) (nothing, error) {
	err := s.writer.Write(ctx, func(tx txn.Tx) error {
		a, err := s.store.GetTx(tx, who.TenantID, in.AnnotationID)
		if err != nil {
			return err
		}
		if a.SessionID != in.SessionID {
			return fault.NewNotFound("annotation")
		}
		return s.store.DeleteTx(tx, who, in.AnnotationID)
	})
	return nothing{}, annotationAbsent(err)
}

// annotationAbsent makes the error for a missing annotation the same as for one
// of another session.
func annotationAbsent(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.NewNotFound("annotation")
	}
	return err
}

func (s *annotationService) routes() []route.Route {
	const list, one = "/{sessionId}/annotations", "/{sessionId}/annotations/{annotationId}"
	update := write("PATCH", one, "updateSessionAnnotation", "Resolve or reopen an annotation", talkers)
	update.Optional = true
	return []route.Route{
		route.Action(read(list, "listSessionAnnotations", "List annotations"), s.list),
		route.Action(with(write("POST", list, "createSessionAnnotation", "Annotate a message", talkers), 201), s.create),
		route.Action(update, s.update),
		route.Action(destroys(with(write("DELETE", one, "deleteSessionAnnotation", "Delete an annotation", talkers), 204)), s.delete),
	}
}
