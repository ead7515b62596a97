package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
)

type exportIn struct {
	SessionID string `path:"sessionId"`
	Format    string `query:"format" enum:"md,json" default:"md"`
}

// exported is a conversation to take elsewhere.
type exported struct {
	_ struct{} `json:"-" name:"SessionExport"`

	ExportedAt time.Time         `json:"exported_at" required:"true"`
	Format     string            `json:"format" required:"true" enum:"svc.chat.v1"`
	SessionID  string            `json:"session_id" required:"true"`
	AgentID    string            `json:"agent_id" required:"true"`
	AgentName  string            `json:"agent_name,omitzero"`
	Title      string            `json:"title" required:"true"`
	CreatedAt  time.Time         `json:"created_at" required:"true"`
	UpdatedAt  time.Time         `json:"updated_at" required:"true"`
	Messages   []exportedMessage `json:"messages" required:"true"`
}

type exportedMessage struct {
	_ struct{} `json:"-" name:"SessionExportMessage"`

	Role      string     `json:"role" required:"true"`
	Content   string     `json:"content" required:"true"`
	Timestamp time.Time  `json:"timestamp"`
	RunID     string     `json:"run_id,omitzero"`
	ToolCalls []ToolCall `json:"tool_calls,omitzero"`
}

// export gives the active branch as Markdown to read or as JSON to keep.
func (s *Service) export(ctx context.Context, who authz.Caller, in *exportIn) (*route.Reply, error) {
	rec, err := s.Store.Get(ctx, who.TenantID, in.SessionID)
	if err != nil {
		return nil, err
	}
	p, err := s.plot(ctx, rec)
	if err != nil {
		return nil, err
	}
	st, err := s.tell(ctx, who.TenantID, p.line(rec.ActiveBranch))
	if err != nil {
		return nil, err
	}
	out := exported{
		ExportedAt: s.Clock.Now(), Format: "svc.chat.v1", SessionID: rec.SessionID, AgentID: rec.AgentID, Title: titleOf(rec),
		CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt, Messages: []exportedMessage{},
	}
	if out.AgentName, err = s.agentName(ctx, map[string]string{}, who.TenantID, rec.AgentID); err != nil {
		return nil, err
	}
	for _, e := range st.entries {
		out.Messages = append(out.Messages, exportedMessage{Role: e.Role, Content: e.Content, Timestamp: e.Timestamp, RunID: e.RunID, ToolCalls: e.ToolCalls})
	}
	if in.Format == "md" {
		return &route.Reply{JSON: []byte(out.markdown()), Media: "text/markdown"}, nil
	}
	body, err := json.Marshal(out)
	return &route.Reply{JSON: body}, err
}

func titleOf(r *Record) string {
	title, _, _ := strings.Cut(strings.TrimSpace(r.Summary.First), "\n")
	if title == "" {
		title = "Session " + r.SessionID
	}
	return title
}

var speakers = map[string]string{roleUser: "User", roleAssistant: "Assistant", roleSystem: "Summary"}

// markdown leaves out results of tools, whose calls it names.
func (x *exported) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nSession `%s` with %s, exported %s.\n", x.Title, x.SessionID, orThe(x.AgentName), x.ExportedAt.Format(time.RFC3339))
	for _, m := range x.Messages {
		speaker := speakers[m.Role]
		if speaker == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s (%s)\n", speaker, m.Timestamp.Format(time.RFC3339))
		if text := strings.TrimSpace(m.Content); text != "" {
			fmt.Fprintf(&b, "\n%s\n", text)
		}
		for i, c := range m.ToolCalls {
			if i == 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "- called `%s`: %s\n", c.Name, c.Status)
		}
	}
	return b.String()
}

func orThe(name string) string {
	if name == "" {
		return "an agent that is gone"
	}
	return name
}

type (
	bulkIn struct {
		Body struct {
			_ struct{} `json:"-" name:"SessionBulkDelete"`

			SessionIDs []string `json:"session_ids" required:"true" minItems:"1" maxItems:"200"`
		}
	}
	bulkOut struct {
		_ struct{} `json:"-" name:"SessionBulkDeleted"`

		Deleted int      `json:"deleted" required:"true"`
		Failed  []string `json:"failed" required:"true" doc:"Those that there are none of."`
	}
)

// closeMany closes sessions. What is no session of the company is named, and
// does not keep the others open.
func (s *Service) closeMany(ctx context.Context, who authz.Caller, in *bulkIn) (bulkOut, error) {
	out := bulkOut{Failed: []string{}}
	for _, id := range in.Body.SessionIDs {
		err := error(fault.NoSuch("session"))
		if ident.Valid(id) {
			_, err = s.Close(ctx, who, id)
		}
		switch {
		case err == nil:
			out.Deleted++
		case fault.Is(err, fault.NotFound):
			out.Failed = append(out.Failed, id)
		default:
			return out, err
		}
	}
	return out, nil
}
