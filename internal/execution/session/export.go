package session

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/route"
)

// exporter exports the active branch of a session.
type exporter struct {
	reader *reader
	clock  clock.Clock
}

type exportIn struct {
	SessionID string `path:"sessionId"`
	Format    string `query:"format" enum:"md,json" default:"md"`
}

// export is an exported conversation.
type export struct {
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

func (x *exporter) routes() []route.Route {
	row := documented(read("/{sessionId}/export", "exportSession", "Export a conversation"),
		"Exports the active branch: `md` as Markdown to read, `json` with all its fields.")
	row.Reads = "session.exported"
	row.AnswerOf = reflect.TypeFor[export]()
	return []route.Route{route.Action(row, x.exportRoute)}
}

func (x *exporter) exportRoute(ctx context.Context, who authz.Caller, in *exportIn) (*route.Reply, error) {
	out, err := x.export(ctx, who.TenantID, in.SessionID)
	if err != nil {
		return nil, err
	}
	if in.Format == "md" {
		return &route.Reply{JSON: []byte(out.markdown()), Media: "text/markdown"}, nil
	}
	body, err := json.Marshal(out)
	return &route.Reply{JSON: body}, err
}

func (x *exporter) export(ctx context.Context, tenant, id string) (*export, error) {
	rec, err := x.reader.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	c, err := x.reader.conversation(ctx, rec)
	if err != nil {
		return nil, err
	}
	out := &export{
		ExportedAt: x.clock.Now(), Format: "svc.chat.v1", SessionID: rec.SessionID, AgentID: rec.AgentID, Title: titleOf(rec),
		CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt, Messages: []exportedMessage{},
	}
	if out.AgentName, err = x.reader.agentName(ctx, tenant, rec.AgentID); err != nil {
		return nil, err
	}
	for _, e := range c.history.entries {
		out.Messages = append(out.Messages, exportedMessage{
			Role: e.Role, Content: e.Content, Timestamp: e.Timestamp, RunID: e.RunID, ToolCalls: e.ToolCalls,
		})
	}
	return out, nil
}

// titleOf returns the first line of the session's first message.
func titleOf(r *Record) string {
	title, _, _ := strings.Cut(strings.TrimSpace(r.Summary.First), "\n")
	return cmp.Or(title, "Session "+r.SessionID)
}

var speakers = map[string]string{roleUser: "User", roleAssistant: "Assistant", roleSystem: "Summary"}

// markdown names the tool calls and leaves out their results.
func (x *export) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nSession `%s` with %s, exported %s.\n",
		x.Title, x.SessionID, cmp.Or(x.AgentName, "a deleted agent"), x.ExportedAt.Format(time.RFC3339))
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
