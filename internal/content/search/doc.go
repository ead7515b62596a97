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

// exchange is the message and the answer of a run.
type exchange struct{ message, text string }

// exchangeOf decodes a run's input and output. They are free JSON; members of
// other shapes are ignored.
func exchangeOf(r *run.Run) exchange {
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
	return exchange{in.Message, out.Text}
}

// cut bounds both texts, so that neither displaces the other.
func (s exchange) cut(limit int) exchange {
	s.message = text.PrefixBytes(s.message, max(limit/2, limit-len(s.text)))
	s.text = text.PrefixBytes(s.text, limit-len(s.message))
	return s
}

func (s exchange) size() int { return len(s.message) + len(s.text) }

func runDoc(r *run.Run) Doc {
	s := exchangeOf(r).cut(maxText)
	d := Doc{ID: r.RunID, At: *r.CompletedAt, Words: words(s.message, s.text)}
	if r.SessionID != nil {
		d.Parent = *r.SessionID
	}
	return d
}

func agentDoc(g *agent.Agent) Doc {
	return Doc{
		ID: g.ID, Version: g.Version, At: g.UpdatedAt,
		Title: words(text.PrefixBytes(g.Name, maxText)),
		Words: words(text.PrefixBytes(g.Name, maxText), text.PrefixBytes(g.Description, maxText)),
	}
}

// sessionDoc returns the document of a session: its title and latest messages.
func sessionDoc(r *session.Record, runs []run.Run) Doc {
	title := text.PrefixBytes(titleIn(r.Metadata), maxMessage)
	texts, left := []string{title}, maxText-len(title)
	for i := range runs { // newest first
		if left <= 0 {
			break
		}
		s := exchangeOf(&runs[i]).cut(left)
		left -= s.size()
		texts = append(texts, s.message, s.text)
	}
	return Doc{ID: r.SessionID, Version: r.UpdatedAt.UnixMicro(), At: r.UpdatedAt, Title: words(title), Words: words(texts...)}
}

// titleIn returns the title in a session's metadata, or "".
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
