package run

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/redact"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
)

// Redaction returns what replaces the kinds of data that a tenant does not store;
// nil for tenants that name none. A nil Redaction is that of tenants that name none.
type Redaction func(tenant string) *redact.Redactor

// Of returns what replaces data of a tenant.
func (of Redaction) Of(tenant string) *redact.Redactor {
	if of == nil {
		return nil
	}
	return of(tenant)
}

// Store returns a store to whose rows nothing is written that a tenant does not
// store. The values that callers pass stay as they are.
func (of Redaction) Store(s Store) Store { return redactedStore{s, of} }

// DraftLog is a log of which the drafts of texts can be deleted.
type DraftLog interface {
	event.Log
	// DeleteDraftsTx deletes the text chunks that were stored before their step
	// committed, for every step up to one.
	DeleteDraftsTx(tx txn.Tx, tenant, stream string, step int64) error
}

// Log returns a log to which nothing is appended that a tenant does not store.
// Texts in pieces are left as they are: their caller has redacted the whole.
func (of Redaction) Log(l DraftLog) DraftLog { return redactedLog{l, of} }

type redactedStore struct {
	Store
	of Redaction
}

// Create implements Store.
func (s redactedStore) Create(r *Record) txn.Op {
	if by := s.of.Of(r.TenantID); by != nil {
		stored := *r
		Redact(by, &stored)
		r = &stored
	}
	return s.Store.Create(r)
}

// Update implements Store.
func (s redactedStore) Update(tenant, id string, u Update) txn.Op {
	if by := s.of.Of(tenant); by != nil {
		u.Output, u.Error = RedactOutput(by, u.Output), redactSentence(by, u.Error)
		u.Pending = redactPending(by, u.Pending)
		if u.Wait.Input != nil {
			question := *u.Wait.Input
			question.Question = by.Text(question.Question)
			u.Wait.Input = &question
		}
		if u.Answer != nil {
			u.Answer = redactStep(by, u.Answer)
		}
	}
	return s.Store.Update(tenant, id, u)
}

// AppendStep implements Store.
func (s redactedStore) AppendStep(st *Step) txn.Op {
	if by := s.of.Of(st.TenantID); by != nil {
		st = redactStep(by, st)
	}
	return s.Store.AppendStep(st)
}

// CreateApproval implements Store.
func (s redactedStore) CreateApproval(a *Approval) txn.Op {
	return s.Store.CreateApproval(redactApproval(s.of.Of(a.TenantID), a))
}

// UpdateApproval implements Store.
func (s redactedStore) UpdateApproval(a *Approval) txn.Op {
	return s.Store.UpdateApproval(redactApproval(s.of.Of(a.TenantID), a))
}

type redactedLog struct {
	DraftLog
	of Redaction
}

// Append implements event.Log.
func (l redactedLog) Append(tenant, stream string, s event.Segment) txn.Op {
	if by := l.of.Of(tenant); by != nil {
		s.Entries = slices.Clone(s.Entries)
		for i := range s.Entries {
			s.Entries[i].Data = by.JSON(s.Entries[i].Data)
		}
	}
	return l.DraftLog.Append(tenant, stream, s)
}

// Redact replaces the data of a run that is about to be created. Its model still reads what the
// caller wrote, as Parsed, until the run is read from the store.
func Redact(by *redact.Redactor, r *Record) {
	if by == nil {
		return
	}
	r.Parsed = r.ParsedInput()
	r.Input, r.Metadata = schema.Object(by.JSON(jsontext.Value(r.Input))), schema.Object(by.JSON(jsontext.Value(r.Metadata)))
	r.Error = redactSentence(by, r.Error)
	var options Options
	if whole := inJSON(r.Options); json.Unmarshal(by.JSON(whole), &options) == nil {
		r.Options = options
	}
}

// RedactOutput returns the output of a run as it is stored.
func RedactOutput(by *redact.Redactor, output schema.Nullable) schema.Nullable {
	var out Output
	if by == nil || len(output) == 0 {
		return output
	}
	if err := json.Unmarshal(output, &out); err != nil { // of a machine
		return schema.Nullable(by.JSON(jsontext.Value(output)))
	}
	text := by.Text(out.Text)
	out.Text, out.ToolCalls = "", redactCalls(by, out.ToolCalls)
	if json.Unmarshal(by.JSON(inJSON(out)), &out) != nil {
		return nil
	}
	out.Text = text
	return schema.Nullable(inJSON(out))
}

func redactStep(by *redact.Redactor, st *Step) *Step {
	stored := *st
	stored.Input, stored.Error = redactNullable(by, st.Input), redactSentence(by, st.Error)
	stored.Attempts = redactAttempts(by, st.Attempts)
	var in ToolInput
	if st.Type == StepTool && json.Unmarshal(st.Input, &in) == nil {
		in.redact(by)
		stored.Input = schema.Nullable(inJSON(in))
	}
	var out LLMOutput
	if st.Type != StepLLM || len(st.Output) == 0 || json.Unmarshal(st.Output, &out) != nil {
		stored.Output = redactNullable(by, st.Output)
		return &stored
	}
	text, thinking := by.Text(out.Text), by.Text(out.Thinking)
	changed := text != out.Text || thinking != out.Thinking
	calls := redactCalls(by, out.ToolCalls)
	for i := range calls {
		changed = changed || calls[i] != out.ToolCalls[i]
	}
	if changed || by.JSON(inJSON(st.Opaque)).String() != inJSON(st.Opaque).String() {
		stored.Opaque = nil // it may hold what was replaced
	}
	out.Text, out.Thinking, out.ToolCalls = text, thinking, calls
	for _, c := range calls {
		if c.Redacted {
			out.Redacted = append(out.Redacted, c.ID)
		}
	}
	stored.Output = schema.Nullable(inJSON(out))
	return &stored
}

// redact replaces data in the arguments of a call, which then cannot be made any more.
func (in *ToolInput) redact(by *redact.Redactor) {
	arguments := by.Content(in.Arguments)
	in.Redacted = in.Redacted || arguments != in.Arguments
	in.Arguments = arguments
}

func redactCalls(by *redact.Redactor, calls []model.ToolCall) []model.ToolCall {
	calls = slices.Clone(calls)
	for i := range calls {
		arguments := by.Content(calls[i].Arguments)
		calls[i].Redacted = calls[i].Redacted || arguments != calls[i].Arguments
		calls[i].Arguments = arguments
	}
	return calls
}

func redactPending(by *redact.Redactor, pending []PendingStep) []PendingStep {
	pending = slices.Clone(pending)
	for i := range pending {
		p := &pending[i]
		p.Attempts = redactAttempts(by, p.Attempts)
		if p.Tool != nil {
			in := *p.Tool
			in.redact(by)
			p.Tool = &in
		}
	}
	return pending
}

func redactAttempts(by *redact.Redactor, attempts []StepAttempt) []StepAttempt {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		attempts[i].Error = by.Text(attempts[i].Error)
	}
	return attempts
}

func redactApproval(by *redact.Redactor, a *Approval) *Approval {
	if by == nil {
		return a
	}
	stored := *a
	stored.Arguments = schema.Any(by.JSON(jsontext.Value(a.Arguments)))
	stored.EditedArguments = schema.Any(by.JSON(jsontext.Value(a.EditedArguments)))
	stored.Reason, stored.Response = by.Text(a.Reason), by.Text(a.Response)
	return &stored
}

func redactNullable(by *redact.Redactor, v schema.Nullable) schema.Nullable {
	return schema.Nullable(by.JSON(jsontext.Value(v)))
}

func redactSentence(by *redact.Redactor, s *string) *string {
	if s == nil {
		return nil
	}
	redacted := by.Text(*s)
	return &redacted
}

func inJSON(v any) jsontext.Value {
	b, _ := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)) // types of our own
	return b
}
