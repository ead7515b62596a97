package session

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/execution/run"
)

// newMessage is what a user says.
type newMessage struct {
	_ struct{} `json:"-" name:"SessionMessage"`

	Content string   `json:"content" required:"true" maxLength:"1000000"`
	Command string   `json:"command,omitzero" maxLength:"200" doc:"Stands in the run's input beside the message."`
	FileIDs []string `json:"file_ids,omitzero" maxItems:"20"`
}

// Accepted answers a message.
type Accepted struct {
	_ struct{} `json:"-" name:"SessionMessageAccepted"`

	RunID string `json:"run_id" format:"uuid" required:"true" doc:"The run that answers."`
}

// Send makes a message the next turn of the active branch. It returns once the
// turn is stored. Errors: NotFound, Invalid; Conflict where the session is not
// active or, with queue_mode reject, busy; Limited where the plan allows no
// more (interface.md section 7: 429 here).
func (s *Service) Send(ctx context.Context, who authz.Caller, id string, in *newMessage) (Accepted, error) {
	rec, err := s.Store.Get(ctx, who.TenantID, id)
	if err != nil {
		return Accepted{}, err
	}
	if strings.TrimSpace(in.Content) == "" && len(in.FileIDs) == 0 {
		return Accepted{}, fault.BadFields(fault.Field{Field: "content", Message: "it is blank, and there are no files"})
	}
	d := struct {
		Message     string           `json:"message"`
		Parts       []jsontext.Value `json:"parts,omitzero"`
		Command     string           `json:"command,omitzero"`
		Attachments []Attachment     `json:"attachments,omitzero"`
	}{Message: in.Content, Command: in.Command}
	if len(in.FileIDs) > 0 {
		if d.Parts, d.Attachments, err = s.attach(ctx, who.TenantID, in.Content, in.FileIDs); err != nil {
			return Accepted{}, err
		}
	}
	input, err := json.Marshal(d)
	if err != nil {
		return Accepted{}, err
	}
	r, err := s.start(ctx, who, rec, input, nil, accepted)
	if err != nil {
		return Accepted{}, err
	}
	return accepted(r).(Accepted), nil
}

func accepted(r *run.Run) any { return Accepted{RunID: r.RunID} }

// retryLimited is what a message is told that the plan does not allow: every
// 429 names a time. Waiting does not help; somebody must change something.
const retryLimited = time.Hour

// start runs the session's agent; answer is that of run.Request.
func (s *Service) start(ctx context.Context, who authz.Caller, rec *Record, input, metadata []byte, answer func(*run.Run) any) (*run.Run, error) {
	req := run.Request{AgentID: rec.AgentID, SessionID: &rec.SessionID, Input: input, Metadata: metadata, Answer: answer}
	if err := s.Join(ctx, who.TenantID, &req); err != nil {
		return nil, err
	}
	r, err := s.Runs.Create(ctx, who, req)
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == "limit_reached" && f.Kind == fault.Forbidden {
		limited := *f
		limited.Kind, limited.RetryAfter = fault.Limited, retryLimited
		return nil, &limited
	}
	return r, err
}

// Transcript is what was said on the active branch. Paging fields appear only
// where a limit was asked for (behaviours 0.2).
type Transcript struct {
	_ struct{} `json:"-" name:"SessionMessageList"`

	Messages      []Entry    `json:"messages" required:"true"`
	Items         []Entry    `json:"items" required:"true" doc:"The same as messages."`
	Total         int        `json:"total" required:"true" doc:"How many there are on all pages."`
	HasMore       *bool      `json:"has_more,omitzero"`
	Cursor        string     `json:"cursor,omitzero"`
	ActiveRunID   string     `json:"active_run_id,omitzero" doc:"The run whose turn it is."`
	ActiveStatus  run.Status `json:"active_run_status,omitzero"`
	ActivePartial string     `json:"active_run_partial_content,omitzero" doc:"What it has said of the answer that it is giving."`
}

const maxMessages = 500

// Messages reads what was said. A page counts back from the newest; inside of
// it the oldest comes first.
func (s *Service) Messages(ctx context.Context, tenant, id, limit, cursor string) (*Transcript, error) {
	rec, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	scope := page.Scope{Tenant: tenant, List: "messages", Filter: []string{id, rec.ActiveBranch}}
	position, err := s.Cursors.Open(scope, cursor)
	if err != nil {
		return nil, err
	}
	p, err := s.plot(ctx, rec)
	if err != nil {
		return nil, err
	}
	legs := p.line(rec.ActiveBranch)
	st, err := s.tell(ctx, tenant, legs)
	if err != nil {
		return nil, err
	}
	all := st.entries
	out := &Transcript{Total: len(all)}
	if limit != "" || cursor != "" {
		// The history only grows at its end, so a place counted from its
		// beginning stays.
		if end, err := strconv.Atoi(position); err == nil {
			all = all[:min(max(end, 0), len(all))]
		}
		n := page.Limit(limit, maxMessages, maxMessages)
		more := len(all) > n
		out.HasMore = &more
		if more {
			from := len(all) - n
			out.Cursor, all = s.Cursors.Seal(scope, strconv.Itoa(from)), all[from:]
		}
	}
	out.Messages, out.Items = all, all
	if at := slices.IndexFunc(legs, func(l leg) bool { return !l.finished && l.upto == 0 }); at >= 0 {
		return out, s.underWay(ctx, tenant, legs[at].runID, out)
	}
	return out, nil
}

// underWay adds the run whose turn it is, with what it is saying.
func (s *Service) underWay(ctx context.Context, tenant, runID string, out *Transcript) error {
	r, err := s.Runs.Get(ctx, tenant, runID)
	if err != nil {
		return err
	}
	if r.Status.Final() { // between two reads
		return nil
	}
	out.ActiveRunID, out.ActiveStatus = runID, r.Status
	var said strings.Builder
	for after := int64(0); ; {
		const at = 500
		events, err := s.Log.Read(ctx, tenant, runID, after, at)
		if err != nil {
			return err
		}
		for _, e := range events {
			after = e.Seq
			switch e.Name {
			case "step.started":
				said.Reset()
			case "llm.chunk":
				var d struct {
					Text string `json:"text"`
				}
				if json.Unmarshal(e.Data, &d) == nil {
					said.WriteString(d.Text)
				}
			case "step.completed":
				said.Reset()
			}
		}
		if len(events) < at {
			break
		}
	}
	out.ActivePartial = said.String()
	return nil
}
