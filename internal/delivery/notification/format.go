package notification

import (
	"strings"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/text"
)

const (
	maxSlack   = 3000 // bytes of a text
	maxDiscord = 1900
)

// link returns the URL of a notification's subject, or "".
func (s *Service) link(n *Notification) string {
	if strings.HasPrefix(n.ActionURL, "/") && s.Public != nil {
		return s.Public() + n.ActionURL
	}
	return n.ActionURL
}

// render returns the body of a POST to a webhook. A text of a model can neither
// mention people in a chat nor add markup.
func (s *Service) render(format string, n *Notification) ([]byte, error) {
	switch format {
	case Slack:
		message := "*" + escapeSlack(text.OneLine(n.Title)) + "*\n" + escapeSlack(n.Message)
		if link := s.link(n); link != "" {
			message += "\n" + escapeSlack(link)
		}
		return json.Marshal(struct {
			Text string `json:"text"`
		}{fit(message, maxSlack)})
	case Discord:
		message := "**" + text.OneLine(n.Title) + "**\n" + n.Message
		if link := s.link(n); link != "" {
			message = fit(message, maxDiscord-len(link)-1) + "\n" + link
		}
		type mentions struct {
			Parse []string `json:"parse"`
		}
		return json.Marshal(struct {
			Content  string   `json:"content"`
			Mentions mentions `json:"allowed_mentions"`
		}{fit(message, maxDiscord), mentions{[]string{}}})
	}
	return json.Marshal(struct {
		EventID   string        `json:"event_id"`
		EventType string        `json:"event_type"`
		TenantID  string        `json:"tenant_id"`
		Timestamp string        `json:"timestamp"`
		Data      *Notification `json:"data"`
	}{n.ID, n.Type, n.TenantID, n.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z07:00"), n})
}

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func escapeSlack(s string) string { return slackEscapes.Replace(s) }
