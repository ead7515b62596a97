package notification

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/tool"
)

// Tool returns send_notification, with which an agent notifies people. A repeated
// call sends one notification.
func (s *Service) Tool() tool.Tool {
	return tool.Tool{
		Name:        "send_notification",
		Description: "Sends a notification to the people who run this agent. They read it in their inbox, perhaps much later; there is no reply.",
		Parameters: jsontext.Value(`{"type":"object","properties":{` +
			`"title":{"type":"string","minLength":1,"maxLength":200,"description":"What it is about, in a few words"},` +
			`"message":{"type":"string","minLength":1,"maxLength":4000,"description":"What they should know"}},` +
			`"required":["title","message"],"additionalProperties":false}`),
		Idempotent: true,
		Run: func(ctx context.Context, call tool.Call) (tool.Result, error) {
			var args struct {
				Title   string `json:"title"`
				Message string `json:"message"`
			}
			if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
				return tool.Result{}, err
			}
			if blank(fit(args.Title, maxTitle)) {
				return tool.Failure("The title is blank. Say in a few words what the notification is about."), nil
			}
			data, err := json.Marshal(map[string]string{"run_id": call.RunID, "agent_id": call.AgentID}, json.Deterministic(true))
			if err != nil {
				return tool.Result{}, err
			}
			n := Notification{
				TenantID: call.TenantID, Type: AgentMessage, Title: args.Title, Message: args.Message, Data: data,
				ActionURL: "/api/v1/runs/" + call.RunID, Source: &Source{Kind: "run", ID: call.RunID},
				// Some models reuse call ids in later replies.
				DedupKey: dedupKey("send_notification", call.RunID, call.ID, args.Title, args.Message),
			}
			if err := s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Notify(tx, n) }); err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Output: "The notification was sent."}, nil
		},
	}
}
