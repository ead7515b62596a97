package session

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
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
	rec, err := x.reader.store.Get(ctx, who.TenantID, in.SessionID)
	if err != nil {
		return nil, err
	}
	out := &export{
		ExportedAt: x.clock.Now(), Format: "svc.chat.v1", SessionID: rec.SessionID, AgentID: rec.AgentID, Title: titleOf(rec),
		CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt, Messages: []exportedMessage{},
	}
	if out.AgentName, err = x.reader.agentName(ctx, who.TenantID, rec.AgentID); err != nil {
		return nil, err
	}
	messages := x.messages(ctx, rec)
	if in.Format == "md" {
		return &route.Reply{Pieces: out.markdown(messages), Media: "text/markdown"}, nil
	}
	return &route.Reply{Pieces: out.json(messages)}, nil
}

// messages returns the messages of a session's active branch, oldest first. It
// reads as many runs at once as a page.
func (x *exporter) messages(ctx context.Context, rec *Record) iter.Seq2[*exportedMessage, error] {
	return func(yield func(*exportedMessage, error) bool) {
		p, err := x.reader.path(ctx, rec.TenantID, rec.SessionID, rec.ActiveBranch)
		if err != nil {
			yield(nil, err)
			return
		}
		segments, err := p.segments(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for part := range slices.Chunk(segments, maxExported) {
			chapters, err := p.chapters(ctx, part)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, c := range chapters {
				for _, e := range c.entries() {
					m := exportedMessage{Role: e.Role, Content: e.Content, Timestamp: e.Timestamp, RunID: e.RunID, ToolCalls: e.ToolCalls}
					if !yield(&m, nil) {
						return
					}
				}
			}
		}
	}
}

// maxExported is how many runs an export has in memory.
const maxExported = 32

// titleOf returns the first line of the session's first message.
func titleOf(r *Record) string {
	title, _, _ := strings.Cut(strings.TrimSpace(r.Summary.First), "\n")
	return cmp.Or(title, "Session "+r.SessionID)
}

var speakers = map[string]string{roleUser: "User", roleAssistant: "Assistant", roleSystem: "Summary"}

// json returns the export with its messages.
func (x *export) json(messages iter.Seq2[*exportedMessage, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		const end = `]}` // of the messages, which are the last member, and of the object
		head, err := json.Marshal(x)
		if !yield(bytes.TrimSuffix(head, []byte(end)), err) || err != nil {
			return
		}
		var comma []byte
		for m, err := range messages {
			var text []byte
			if err == nil {
				text, err = json.Marshal(m)
			}
			if !yield(append(comma, text...), err) || err != nil {
				return
			}
			comma = []byte(",")
		}
		yield([]byte(end), nil)
	}
}

// markdown returns the export as text to read. It names the tool calls and leaves
// out their results.
func (x *export) markdown(messages iter.Seq2[*exportedMessage, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		head := fmt.Sprintf("# %s\n\nSession `%s` with %s, exported %s.\n",
			x.Title, x.SessionID, cmp.Or(x.AgentName, "a deleted agent"), x.ExportedAt.Format(time.RFC3339))
		if !yield([]byte(head), nil) {
			return
		}
		for m, err := range messages {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(m.markdown(), nil) {
				return
			}
		}
	}
}

// markdown returns nothing for a tool's result.
func (m *exportedMessage) markdown() []byte {
	speaker := speakers[m.Role]
	if speaker == "" {
		return nil
	}
	var b bytes.Buffer
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
	return b.Bytes()
}
