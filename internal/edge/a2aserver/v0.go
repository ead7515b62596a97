package a2aserver

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/schema"
	"agentd/internal/teams/a2a"
)

// v0 is version 0.3 and, with old, those before it. What it writes has the members of
// both, because some methods have the same name in all.
type v0 struct{ old bool }

func (v0) version() string { return version03 }

type (
	taskV0 struct {
		Kind      string        `json:"kind"`
		ID        string        `json:"id"`
		ContextID string        `json:"contextId"`
		SessionID string        `json:"sessionId"` // before 0.3
		Status    statusV0      `json:"status"`
		History   []messageV0   `json:"history"`
		Artifacts []artifactV0  `json:"artifacts"`
		Metadata  schema.Object `json:"metadata"`
	}
	statusV0 struct {
		State     a2a.State  `json:"state"`
		Message   *messageV0 `json:"message,omitzero"`
		Timestamp time.Time  `json:"timestamp"`
	}
	messageV0 struct {
		Kind      string   `json:"kind"`
		MessageID string   `json:"messageId"`
		TaskID    string   `json:"taskId"`
		ContextID string   `json:"contextId"`
		Role      string   `json:"role"`
		Parts     []partV0 `json:"parts"`
	}
	partV0 struct {
		Kind string         `json:"kind"`
		Type string         `json:"type"` // before 0.3
		Text *string        `json:"text,omitzero"`
		File *fileV0        `json:"file,omitzero"`
		Data jsontext.Value `json:"data,omitzero"`
	}
	fileV0 struct {
		Name     string `json:"name,omitzero"`
		MimeType string `json:"mimeType,omitzero"`
		Bytes    string `json:"bytes,omitzero"`
		URI      string `json:"uri,omitzero"`
	}
	artifactV0 struct {
		ArtifactID  string   `json:"artifactId"`
		Name        string   `json:"name,omitzero"`
		Description string   `json:"description,omitzero"`
		Parts       []partV0 `json:"parts"`
		Index       int      `json:"index"` // before 0.3, as the next two
		Append      bool     `json:"append,omitzero"`
		LastChunk   bool     `json:"lastChunk,omitzero"`
	}
	statusUpdateV0 struct {
		Kind      string   `json:"kind"`
		ID        string   `json:"id"` // before 0.3
		TaskID    string   `json:"taskId"`
		ContextID string   `json:"contextId"`
		Status    statusV0 `json:"status"`
		Final     bool     `json:"final"`
	}
	artifactUpdateV0 struct {
		Kind      string     `json:"kind"`
		ID        string     `json:"id"` // before 0.3
		TaskID    string     `json:"taskId"`
		ContextID string     `json:"contextId"`
		Artifact  artifactV0 `json:"artifact"`
		Append    bool       `json:"append"`
		LastChunk bool       `json:"lastChunk"`
	}
	taskPushV0 struct {
		TaskID string  `json:"taskId"`
		ID     string  `json:"id"`                     // before 0.3
		Config pushV0  `json:"pushNotificationConfig"` // 0.3
		Old    *pushV0 `json:"pushNotification,omitzero"`
	}
	pushV0 struct {
		ID    string      `json:"id"`
		URL   string      `json:"url"`
		Token string      `json:"token,omitzero"`
		Auth  *pushAuthV0 `json:"authentication,omitzero"`
	}
	pushAuthV0 struct {
		Schemes []string `json:"schemes"`
	}
)

func (v0) task(t *a2a.Task) any {
	out := &taskV0{
		Kind: "task", ID: t.ID, ContextID: t.ContextID, SessionID: t.ContextID, Metadata: t.Metadata,
		Status:  statusV0{State: t.Status, Message: saidV0(t, t.StatusMessage), Timestamp: t.UpdatedAt},
		History: []messageV0{}, Artifacts: []artifactV0{},
	}
	for i := range t.History {
		m := &t.History[i]
		out.History = append(out.History, messageV0{
			Kind: "message", MessageID: messageID(t, i), TaskID: t.ID, ContextID: t.ContextID, Role: m.Role, Parts: partsV0(m.Parts),
		})
	}
	for _, a := range t.Artifacts {
		out.Artifacts = append(out.Artifacts, artifactV0{
			ArtifactID: a.ArtifactID, Name: a.Name, Description: a.Description, Parts: partsV0(a.Parts), Index: a.Index,
		})
	}
	return out
}

func (w v0) sent(t *a2a.Task) any { return w.task(t) }

// first is the task; before 0.3 a stream began with its state.
func (w v0) first(t *a2a.Task) any {
	if w.old {
		return w.update(t, a2a.Update{State: t.Status, Message: t.StatusMessage, At: t.UpdatedAt})
	}
	return w.task(t)
}

func saidV0(t *a2a.Task, text string) *messageV0 {
	if text == "" {
		return nil
	}
	said := saidV1(t, text)
	return &messageV0{
		Kind: "message", MessageID: said.ID, TaskID: t.ID, ContextID: t.ContextID, Role: a2a.Agent,
		Parts: partsV0([]a2a.Part{{Type: a2a.TextPart, Text: text}}),
	}
}

func partsV0(parts []a2a.Part) []partV0 {
	all := []partV0{}
	for i := range parts {
		p := &parts[i]
		one := partV0{Kind: p.Type, Type: p.Type, Data: p.Data}
		if p.Type == a2a.TextPart {
			one.Text = &p.Text
		}
		if f := p.File; f != nil {
			one.File = &fileV0{f.Name, f.MimeType, f.Data, f.URI}
		}
		all = append(all, one)
	}
	return all
}

func (v0) update(t *a2a.Task, u a2a.Update) any {
	if u.State != "" {
		return &statusUpdateV0{
			Kind: "status-update", ID: t.ID, TaskID: t.ID, ContextID: t.ContextID, Final: u.State.Settled(),
			Status: statusV0{State: u.State, Message: saidV0(t, u.Message), Timestamp: u.At},
		}
	}
	return &artifactUpdateV0{
		Kind: "artifact-update", ID: t.ID, TaskID: t.ID, ContextID: t.ContextID, Append: u.Append, LastChunk: u.Last,
		Artifact: artifactV0{
			ArtifactID: a2a.AnswerID(t.ID), Name: "answer", Parts: partsV0([]a2a.Part{{Type: a2a.TextPart, Text: u.Text}}),
			Append: u.Append, LastChunk: u.Last,
		},
	}
}

func (w v0) push(taskID string, c *a2a.PushConfig) any {
	p := pushV0{ID: c.ID, URL: c.URL, Token: c.Token}
	if c.Scheme != "" {
		p.Auth = &pushAuthV0{[]string{c.Scheme}}
	}
	out := &taskPushV0{TaskID: taskID, ID: taskID, Config: p}
	if w.old {
		out.Old = &p
	}
	return out
}

func (w v0) pushes(taskID string, all []*a2a.PushConfig) any {
	out := []any{}
	for _, c := range all {
		out = append(out, w.push(taskID, c))
	}
	return out
}
