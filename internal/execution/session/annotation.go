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

// Annotation is a remark on a message, for people to read; no model sees it.
type Annotation struct {
	resource.Meta `json:"-"`

	SessionID string `json:"session_id"`
	MessageID string `json:"message_id" required:"true" minLength:"1" maxLength:"256"`
	Content   string `json:"content" required:"true" minLength:"1" maxLength:"10000"`
	Author    string `json:"author"`
	Resolved  bool   `json:"resolved"`
}

// Annotations is the kind of annotations. They have routes of their own, below
// their session.
var Annotations = resource.Kind[Annotation]{
	Name: "session_annotation", Path: "/api/v1/sessions/annotations", IDField: "id", Tag: tag,
	Indexes: []resource.Index[Annotation]{{Name: "session_id", Of: func(a *Annotation) string { return a.SessionID }}},
}

// noted is an annotation as callers see it.
type noted struct {
	_ struct{} `json:"-" name:"SessionAnnotation"`

	ID        string    `json:"id" required:"true"`
	MessageID string    `json:"message_id" required:"true"`
	Content   string    `json:"content" required:"true"`
	Author    string    `json:"author"`
	CreatedAt time.Time `json:"created_at" required:"true"`
	Resolved  bool      `json:"resolved"`
}

func (a *Annotation) show() noted {
	return noted{ID: a.ID, MessageID: a.MessageID, Content: a.Content, Author: a.Author, CreatedAt: a.CreatedAt, Resolved: a.Resolved}
}

// maxAnnotations is how many a list shows, the newest (behaviours 36).
const maxAnnotations = 500

type (
	annotateIn struct {
		SessionID string `path:"sessionId"`
		Body      struct {
			_ struct{} `json:"-" name:"SessionAnnotationCreate"`

			MessageID string `json:"message_id" required:"true" minLength:"1" maxLength:"256" doc:"What it is about; message ids stand in the history."`
			Content   string `json:"content" required:"true" minLength:"1" maxLength:"10000"`
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

			Resolved *bool `json:"resolved,omitzero"`
		}
	}
	annotationList struct {
		_ struct{} `json:"-" name:"SessionAnnotationList"`

		Items []noted `json:"items" required:"true" doc:"The newest 500, oldest first."`
	}
	nothing struct{}
)

func (s *Service) annotate(ctx context.Context, who authz.Caller, in *annotateIn) (noted, error) {
	if _, err := s.Store.Get(ctx, who.TenantID, in.SessionID); err != nil {
		return noted{}, err
	}
	a := &Annotation{SessionID: in.SessionID, MessageID: in.Body.MessageID, Content: in.Body.Content, Author: who.UserID}
	ctx = txn.Promise(ctx, func() any { return a.show() })
	err := s.Notes.Create(ctx, who, a)
	return a.show(), err
}

func (s *Service) annotations(ctx context.Context, who authz.Caller, in *idIn) (annotationList, error) {
	if _, err := s.Store.Get(ctx, who.TenantID, in.SessionID); err != nil {
		return annotationList{}, err
	}
	found, err := s.Notes.List(ctx, who.TenantID, resource.Find{Where: map[string]string{"session_id": in.SessionID}, Limit: maxAnnotations})
	list := annotationList{Items: []noted{}}
	for _, a := range slices.Backward(found) {
		list.Items = append(list.Items, a.show())
	}
	return list, err
}

func (s *Service) resolve(ctx context.Context, who authz.Caller, in *annotationChangeIn) (noted, error) {
	a, err := s.Notes.Update(ctx, who, in.AnnotationID, func(_ txn.Tx, a *Annotation) error {
		if a.SessionID != in.SessionID {
			return fault.NoSuch("annotation")
		}
		if in.Body.Resolved != nil {
			a.Resolved = *in.Body.Resolved
		}
		return nil
	})
	if err != nil {
		return noted{}, annotationAbsent(err)
	}
	return a.show(), nil
}

func (s *Service) erase(ctx context.Context, who authz.Caller, in *annotationIDIn) (nothing, error) {
	err := s.Writer.Write(ctx, func(tx txn.Tx) error {
		a, err := s.Notes.GetTx(tx, who.TenantID, in.AnnotationID)
		if err != nil {
			return err
		}
		if a.SessionID != in.SessionID {
			return fault.NoSuch("annotation")
		}
		return s.Notes.DeleteTx(tx, who, in.AnnotationID)
	})
	return nothing{}, annotationAbsent(err)
}

// annotationAbsent says the same of an annotation that is not there as of one
// of another session.
func annotationAbsent(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.NoSuch("annotation")
	}
	return err
}

func (s *Service) annotationRoutes() []route.Route {
	const list, one = "/{sessionId}/annotations", "/{sessionId}/annotations/{annotationId}"
	return []route.Route{
		route.Action(read(list, "listSessionAnnotations", "List remarks on what was said"), s.annotations),
		route.Action(with(write("POST", list, "createSessionAnnotation", "Remark on a message", talkers), 201), s.annotate),
		route.Action(write("PATCH", one, "updateSessionAnnotation", "Resolve a remark, or open it again", talkers), s.resolve),
		route.Action(with(write("DELETE", one, "deleteSessionAnnotation", "Delete a remark", talkers), 204), s.erase),
	}
}
