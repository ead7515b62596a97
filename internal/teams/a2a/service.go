package a2a

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/work"
)

// Service serves tasks.
type Service struct {
	Store     Store
	Runs      Runs
	Records   Records
	Chains    Chains
	Writer    txn.Writer
	Queue     work.Queue
	Log       event.Log
	Hub       *event.Hub
	Cursors   *page.Cursors
	Clock     clock.Clock
	Box       *secret.Box
	CheckURL  egress.CheckFunc // returns why changes cannot be sent to a URL
	PublicURL func() string

	// Send posts a change of a task; see Post.
	Send func(ctx context.Context, p Post) (failure string)
	// Render returns the body that tells a peer of a task, in a version of the protocol.
	Render func(version string, t *Task) ([]byte, error)
	Waits  []time.Duration // between the attempts to send a change
}

// Request is a message of a peer.
type Request struct {
	AgentID   string
	Messages  []Message // the last one is new, those before are its history
	ContextID string    // "": a new one
	TaskID    string    // that the message answers a question of; "": it is a new task
	Metadata  schema.Object
	Push      *PushConfig // where the changes are sent; nil: nowhere
}

// maxContextID bounds the contexts that peers name.
const maxContextID = 200

// Do has a task done, or gives a task the answer that it waits for. It returns at once.
// Errors: NotFound for the agent or the task, Invalid, Conflict for a task that waits for
// no answer, and those of Runs.Create.
func (s *Service) Do(ctx context.Context, who authz.Caller, req Request) (*Task, error) {
	if len(req.ContextID) > maxContextID {
		return nil, invalid("context_id", "it has more than %d characters", maxContextID)
	}
	if req.TaskID != "" {
		return s.answer(ctx, who, req)
	}
	if !ident.Valid(req.AgentID) {
		return nil, fault.NewNotFound("agent")
	}
	in, err := input(req.Messages)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	id := ident.New()
	rec := &Record{
		TenantID: who.TenantID, TaskID: id, AgentID: req.AgentID, ContextID: cmp.Or(req.ContextID, ident.Derive(id, "context")),
		State: Submitted, Messages: req.Messages, Metadata: req.Metadata, CreatedAt: now, UpdatedAt: now,
	}
	if len(rec.Metadata) == 0 {
		rec.Metadata = schema.Object("{}")
	}
	before := ""
	if req.ContextID != "" {
		if before, err = s.Store.GetLastCompleted(ctx, who.TenantID, req.AgentID, req.ContextID); err != nil {
			return nil, err
		}
	}
	metadata, err := json.Marshal(map[string]string{"source": Source, "context_id": rec.ContextID}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	push, err := s.pushOf(ctx, rec, req.Push)
	if err != nil {
		return nil, err
	}
	created, err := s.Runs.Create(ctx, who, run.Request{
		RunID: id, AgentID: req.AgentID, Input: schema.Object(encoded), Parsed: in, MediaField: "message.parts",
		Metadata: schema.Object(metadata),
		Options:  run.Options{Follows: before}, Admit: s.admit(rec, push, s.Chains.Link(id, before)),
		Answer: func(r *run.Run) any { return s.view(rec, r, nil) },
	})
	if err != nil {
		return nil, err
	}
	return s.view(rec, created, nil), nil
}

// admit stores a task in the transaction that stores its run.
func (s *Service) admit(rec *Record, push *Push, then run.Admission) run.Admission {
	return func(tx txn.Tx, r *run.Record) (bool, error) {
		if err := s.Store.CreateTx(tx, rec); err != nil {
			return false, err
		}
		if push != nil {
			if err := s.Store.PutPushTx(tx, push); err != nil {
				return false, err
			}
		}
		return then(tx, r)
	}
}

// answer answers the question of a task.
func (s *Service) answer(ctx context.Context, who authz.Caller, req Request) (*Task, error) {
	rec, err := s.get(ctx, who.TenantID, req.TaskID)
	if err != nil {
		return nil, err
	}
	if req.AgentID != "" && req.AgentID != rec.AgentID || req.ContextID != "" && req.ContextID != rec.ContextID {
		return nil, fault.NewNotFound("task")
	}
	if len(req.Messages) != 1 || req.Messages[0].Role != User {
		return nil, invalid("messages", "the answer to a question is one message of the user")
	}
	text, parts, err := content("messages[0]", &req.Messages[0])
	if err != nil {
		return nil, err
	}
	if len(parts) > 0 || len(text) > maxAnswer {
		return nil, invalid("messages[0].parts", "the answer to a question is text of at most %d bytes", maxAnswer)
	}
	r, err := s.Runs.Get(ctx, who.TenantID, rec.TaskID)
	if err != nil {
		return nil, err
	}
	if r.Status != run.Paused || r.PendingInput == nil {
		state, _ := stateOf(r, r.PendingInput)
		return nil, fault.New(fault.Conflict, "INVALID_STATE_TRANSITION",
			"The task waits for no answer: it is %s. Send the message without a task id, with the context id of the task.", state)
	}
	push, err := s.pushOf(ctx, rec, req.Push)
	if err != nil {
		return nil, err
	}
	if err := s.Runs.Respond(ctx, who.TenantID, rec.TaskID, text); err != nil {
		return nil, err
	}
	asked := Message{Role: Agent, Parts: []Part{{Type: TextPart, Text: r.PendingInput.Question}}}
	rec.Messages = append(rec.Messages, asked, req.Messages[0])
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		if push != nil {
			if err := s.Store.PutPushTx(tx, push); err != nil {
				return err
			}
		}
		return s.Store.UpdateMessagesTx(tx, rec.TenantID, rec.TaskID, rec.Messages)
	})
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, who.TenantID, rec.TaskID)
}

// maxAnswer bounds the answer to a question.
const maxAnswer = 100_000

// get reads a task. Errors: fault.NotFound.
func (s *Service) get(ctx context.Context, tenant, id string) (*Record, error) {
	if !ident.Valid(id) {
		return nil, fault.NewNotFound("task")
	}
	return s.Store.Get(ctx, tenant, id)
}

// Get returns a task as its run is now. Errors: fault.NotFound.
func (s *Service) Get(ctx context.Context, tenant, id string) (*Task, error) {
	rec, err := s.get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	r, err := s.Runs.Get(ctx, tenant, id)
	if fault.Is(err, fault.NotFound) { // the run was deleted
		return s.view(rec, nil, nil), nil
	}
	if err != nil {
		return nil, err
	}
	out := &run.Output{}
	if len(r.Output) > 0 {
		if err := json.Unmarshal(r.Output, out); err != nil {
			return nil, err
		}
	}
	return s.view(rec, r, out), nil
}

// List returns a page of tasks, newest first, as their rows are: without artifacts.
func (s *Service) List(ctx context.Context, tenant string, w page.Window) ([]Task, error) {
	found, err := s.Store.List(ctx, tenant, w)
	tasks := make([]Task, len(found))
	for i := range found {
		tasks[i] = *s.view(&found[i], nil, nil)
	}
	return tasks, err
}

// Cancel ends the run of a task. Errors: NotFound; Conflict where it has ended.
func (s *Service) Cancel(ctx context.Context, tenant, id string) error {
	rec, err := s.get(ctx, tenant, id)
	if err != nil {
		return err
	}
	if rec.State.Final() {
		return fault.WrongState("task", string(rec.State), "cancelling it")
	}
	done, err := s.Runs.Cancel(ctx, tenant, rec.TaskID)
	if err != nil {
		return err
	}
	if !done.Cancelled {
		if rec, err = s.get(ctx, tenant, id); err != nil {
			return err
		}
		return fault.WrongState("task", string(rec.State), "cancelling it")
	}
	return nil
}

// view returns a task as callers see it. A nil run is not looked at, and without an
// output there are no artifacts.
func (s *Service) view(rec *Record, r *run.Run, out *run.Output) *Task {
	t := &Task{
		ID: rec.TaskID, TaskID: rec.TaskID, RunID: rec.TaskID, AgentID: rec.AgentID, ContextID: rec.ContextID, Status: rec.State,
		Messages: rec.Messages, Artifacts: []Artifact{}, Metadata: rec.Metadata, CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt,
	}
	if r != nil {
		t.Status, t.StatusMessage = stateOf(r, r.PendingInput)
	}
	if out != nil && t.Status == Completed {
		if strings.TrimSpace(out.Text) != "" {
			t.Artifacts = append(t.Artifacts, answerArtifact(rec.TaskID, out.Text))
			t.Messages = append(slices.Clip(t.Messages), Message{Role: Agent, Parts: []Part{{Type: TextPart, Text: out.Text}}})
		}
		for _, f := range r.Artifacts {
			t.Artifacts = append(t.Artifacts, s.fileArtifact(&f, len(t.Artifacts)))
		}
	}
	t.History = t.Messages
	return t
}

// answerArtifact is the artifact with what the agent answered.
func answerArtifact(taskID, text string) Artifact {
	return Artifact{ArtifactID: AnswerID(taskID), Name: "answer", Parts: []Part{{Type: TextPart, Text: text}}}
}

// AnswerID returns the id of the artifact with the answer of a task.
func AnswerID(taskID string) string { return ident.Derive(taskID, "answer") }

// fileArtifact is the artifact with a file that the run made.
func (s *Service) fileArtifact(f *run.Artifact, index int) Artifact {
	uri := s.PublicURL() + f.StorageRef
	return Artifact{
		ArtifactID: f.ArtifactID, Name: f.Name, Index: index,
		Parts: []Part{{Type: FilePart, File: &File{Name: f.Name, MimeType: f.MimeType, URI: uri}}},
	}
}
