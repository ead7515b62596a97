package a2aserver

import (
	"encoding/base64"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/go-json-experiment/json"

	"agentd/internal/base/ident"
	"agentd/internal/teams/a2a"
)

// wire is a version of the protocol: how it writes what tasks are.
type wire interface {
	version() string
	task(t *a2a.Task) any
	sent(t *a2a.Task) any  // the result of a message
	first(t *a2a.Task) any // the first result of a stream
	update(t *a2a.Task, u a2a.Update) any
	push(taskID string, c *a2a.PushConfig) any
	pushes(taskID string, all []*a2a.PushConfig) any
}

// The versions.
const (
	version10 = "1.0"
	version03 = "0.3"
)

// Render returns the body that tells a peer of a task. It is a2a.Service.Render.
func Render(version string, t *a2a.Task) ([]byte, error) {
	var w wire = v0{}
	if version == version10 {
		w = v1{}
	}
	return json.Marshal(w.first(t))
}

// v1 is version 1.0.
type v1 struct{}

func (v1) version() string { return version10 }

var statesV1 = map[a2a.State]sdk.TaskState{
	a2a.Submitted: sdk.TaskStateSubmitted, a2a.Working: sdk.TaskStateWorking, a2a.InputRequired: sdk.TaskStateInputRequired,
	a2a.Completed: sdk.TaskStateCompleted, a2a.Canceled: sdk.TaskStateCanceled, a2a.Failed: sdk.TaskStateFailed,
}

func (v1) task(t *a2a.Task) any { return taskV1(t) }

func (v1) sent(t *a2a.Task) any { return sdk.StreamResponse{Event: taskV1(t)} }

func (v1) first(t *a2a.Task) any { return sdk.StreamResponse{Event: taskV1(t)} }

func taskV1(t *a2a.Task) *sdk.Task {
	out := &sdk.Task{
		ID: sdk.TaskID(t.ID), ContextID: t.ContextID,
		Status: sdk.TaskStatus{State: statesV1[t.Status], Message: saidV1(t, t.StatusMessage), Timestamp: &t.UpdatedAt},
	}
	_ = json.Unmarshal(t.Metadata, &out.Metadata) // it was checked when it was stored
	for i := range t.History {
		m := &t.History[i]
		role := sdk.MessageRoleUser
		if m.Role == a2a.Agent {
			role = sdk.MessageRoleAgent
		}
		out.History = append(out.History, &sdk.Message{
			ID: messageID(t, i), ContextID: t.ContextID, TaskID: out.ID, Role: role, Parts: partsV1(m.Parts),
		})
	}
	for _, a := range t.Artifacts {
		out.Artifacts = append(out.Artifacts, artifactV1(a))
	}
	return out
}

// messageID returns the id of a message of a task: its own, or one that follows from its
// place.
func messageID(t *a2a.Task, i int) string {
	if id := t.History[i].MessageID; id != "" {
		return id
	}
	return ident.Derive(t.ID, "message", string(rune('0'+i%10)), t.History[i].Role)
}

// saidV1 returns what the agent says of its state; nil for nothing.
func saidV1(t *a2a.Task, text string) *sdk.Message {
	if text == "" {
		return nil
	}
	return &sdk.Message{
		ID: ident.Derive(t.ID, "status", text), ContextID: t.ContextID, TaskID: sdk.TaskID(t.ID), Role: sdk.MessageRoleAgent,
		Parts: sdk.ContentParts{sdk.NewTextPart(text)},
	}
}

func artifactV1(a a2a.Artifact) *sdk.Artifact {
	return &sdk.Artifact{ID: sdk.ArtifactID(a.ArtifactID), Name: a.Name, Description: a.Description, Parts: partsV1(a.Parts)}
}

func partsV1(parts []a2a.Part) (all sdk.ContentParts) {
	for i := range parts {
		all = append(all, partV1(&parts[i]))
	}
	return all
}

func partV1(p *a2a.Part) *sdk.Part {
	switch {
	case p.Type == a2a.DataPart:
		var value any
		_ = json.Unmarshal(p.Data, &value) // it was checked when it was stored
		return sdk.NewDataPart(value)
	case p.Type == a2a.FilePart && p.File.Data != "":
		raw, err := base64.StdEncoding.DecodeString(p.File.Data)
		if err == nil {
			return &sdk.Part{Content: sdk.Raw(raw), Filename: p.File.Name, MediaType: p.File.MimeType}
		}
	case p.Type == a2a.FilePart:
		return &sdk.Part{Content: sdk.URL(p.File.URI), Filename: p.File.Name, MediaType: p.File.MimeType}
	}
	return sdk.NewTextPart(p.Text)
}

func (v1) update(t *a2a.Task, u a2a.Update) any {
	id := sdk.TaskID(t.ID)
	if u.State != "" {
		return sdk.StreamResponse{Event: &sdk.TaskStatusUpdateEvent{
			TaskID: id, ContextID: t.ContextID,
			Status: sdk.TaskStatus{State: statesV1[u.State], Message: saidV1(t, u.Message), Timestamp: &u.At},
		}}
	}
	return sdk.StreamResponse{Event: &sdk.TaskArtifactUpdateEvent{
		TaskID: id, ContextID: t.ContextID, Append: u.Append, LastChunk: u.Last,
		Artifact: &sdk.Artifact{ID: sdk.ArtifactID(a2a.AnswerID(t.ID)), Name: "answer", Parts: sdk.ContentParts{sdk.NewTextPart(u.Text)}},
	}}
}

func pushV1(taskID string, c *a2a.PushConfig) *sdk.PushConfig {
	p := &sdk.PushConfig{TaskID: sdk.TaskID(taskID), ID: c.ID, URL: c.URL, Token: c.Token}
	if c.Scheme != "" {
		p.Auth = &sdk.PushAuthInfo{Scheme: c.Scheme} // credentials are not shown again
	}
	return p
}

func (v1) push(taskID string, c *a2a.PushConfig) any { return pushV1(taskID, c) }

func (v1) pushes(taskID string, all []*a2a.PushConfig) any {
	out := &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{}}
	for _, c := range all {
		out.Configs = append(out.Configs, pushV1(taskID, c))
	}
	return out
}
