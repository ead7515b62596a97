package search

import (
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/schema"
	"agentd/internal/base/text"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
)

// said is what was said in a run: what the agent was asked and what it
// answered.
type said struct{ message, text string }

// saidIn reads a run. Input and output are free JSON; what is none of ours says
// nothing.
func saidIn(r *run.Run) said {
	var in struct {
		Message string `json:"message"`
	}
	var out struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(r.Input, &in)
	if len(r.Output) > 0 {
		_ = json.Unmarshal(r.Output, &out)
	}
	return said{in.Message, out.Text}
}

// cut bounds both, so that neither takes the other's place.
func (s said) cut(most int) said {
	s.message = text.PrefixBytes(s.message, max(most/2, most-len(s.text)))
	s.text = text.PrefixBytes(s.text, most-len(s.message))
	return s
}

func (s said) size() int { return len(s.message) + len(s.text) }

func runDoc(r *run.Run) Doc {
	s := saidIn(r).cut(maxText)
	d := Doc{ID: r.RunID, At: *r.CompletedAt, Words: words(s.message, s.text)}
	if r.SessionID != nil {
		d.Parent = *r.SessionID
	}
	return d
}

func agentDoc(g *agent.Agent) Doc {
	return Doc{
		ID: g.ID, Version: g.Version, At: g.UpdatedAt,
		Title: words(text.PrefixBytes(g.Name, maxText)), Words: words(text.PrefixBytes(g.Name, maxText), text.PrefixBytes(g.Description, maxText)),
	}
}

// sessionDoc has the title and what was said last.
func sessionDoc(r *session.Record, runs []run.Run) Doc {
	title := text.PrefixBytes(titleIn(r.Metadata), maxMessage)
	texts, left := []string{title}, maxText-len(title)
	for i := range runs { // the newest first
		if left <= 0 {
			break
		}
		s := saidIn(&runs[i]).cut(left)
		left -= s.size()
		texts = append(texts, s.message, s.text)
	}
	return Doc{ID: r.SessionID, Version: r.UpdatedAt.UnixMicro(), At: r.UpdatedAt, Title: words(title), Words: words(texts...)}
}

// titleIn is the title that somebody gave to a conversation, or "".
func titleIn(metadata schema.Object) string {
	var m struct {
		Title any `json:"title"`
	}
	if len(metadata) == 0 || json.Unmarshal(metadata, &m) != nil {
		return ""
	}
	title, _ := m.Title.(string)
	return strings.TrimSpace(title)
}
