package notification

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/tool"
)

// Tool is send_notification, by which an agent tells people something
// (decisions.md D12, D13). A call that is made twice is heard once.
func (s *Service) Tool() tool.Tool {
	return tool.Tool{
		Name:        "send_notification",
		Description: "Sends a notification to the people who run this agent. They read it in their inbox, perhaps much later; it brings no answer.",
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
				// Some models number the calls of each answer anew.
				DedupKey: key("send_notification", call.RunID, call.ID, args.Title, args.Message),
			}
			if err := s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Notify(tx, n) }); err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Output: "The notification was sent."}, nil
		},
	}
}
