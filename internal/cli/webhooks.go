package cli

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

const webhooksPath = "/api/v1/webhooks"

// subscription is what is shown of a webhook subscription.
type subscription struct {
	WebhookID string    `json:"webhook_id"`
	URL       string    `json:"url"`
	Events    []string  `json:"events"`
	Status    string    `json:"status"`
	Failures  int       `json:"failure_count"`
	Secret    string    `json:"secret"`
	CreatedAt time.Time `json:"created_at"`
}

// delivery is an attempt to deliver an event.
type delivery struct {
	DeliveryID string         `json:"delivery_id"`
	EventID    string         `json:"event_id"`
	EventType  string         `json:"event_type"`
	Attempt    int            `json:"attempt_number"`
	Status     string         `json:"status"`
	Response   int            `json:"response_status"`
	Error      string         `json:"error_message"`
	Body       jsontext.Value `json:"request_body"`
	CreatedAt  time.Time      `json:"created_at"`
	NextAt     time.Time      `json:"next_retry_at"`
}

type webhooksListCommand struct{ listing }

// Run implements the command.
func (cmd *webhooksListCommand) Run(s *server) error {
	return list[subscription]{
		path: webhooksPath, limit: cmd.Limit,
		empty:   "There are no subscriptions. Make one:  " + s.deps.Program + " webhooks create URL --events run.completed",
		heading: []string{"WEBHOOK", "~URL", "STATUS", "FAILURES", "CREATED", "~EVENTS"},
		row: func(w subscription) []string {
			return []string{w.WebhookID, w.URL, w.Status, strconv.Itoa(w.Failures), formatTime(s.now(), w.CreatedAt), strings.Join(w.Events, " ")}
		},
	}.show(s)
}

type webhooksCreateCommand struct {
	remote
	URL    string   `arg:"" name:"url" help:"Address to which the events are posted."`
	Events []string `required:"" placeholder:"EVENT" help:"Events, as run.completed; several by commas."`
}

// Run implements the command.
func (cmd *webhooksCreateCommand) Run(s *server) error {
	made, err := call[subscription](s, http.MethodPost, webhooksPath, map[string]any{"url": cmd.URL, "events": cmd.Events})
	if err != nil {
		return err
	}
	if cmd.JSON {
		return s.printJSON(made.Raw)
	}
	s.fields("Created", made.Value.WebhookID, "Secret", made.Value.Secret)
	s.note("Save the secret now: it cannot be shown again. The receiver verifies signatures with it.")
	return nil
}

// webhookArgument is what every command has that takes a subscription.
type webhookArgument struct {
	ID string `arg:"" name:"webhook" help:"Id of the subscription, as webhooks list shows it."`
}

type webhooksDeleteCommand struct {
	remote
	webhookArgument
}

// Run implements the command.
func (cmd *webhooksDeleteCommand) Run(s *server) error {
	return s.send(http.MethodDelete, client.Path(webhooksPath, cmd.ID), nil, "Deleted subscription %s.", cmd.ID)
}

type webhooksDeliveriesCommand struct {
	listing
	webhookArgument
}

// Run implements the command.
func (cmd *webhooksDeliveriesCommand) Run(s *server) error {
	return list[delivery]{
		path: client.Path(webhooksPath, cmd.ID, "deliveries"), limit: cmd.Limit,
		empty:   "Nothing was delivered yet. Send a test event:  " + s.deps.Program + " webhooks trigger " + cmd.ID,
		heading: []string{"DELIVERY", "EVENT", "ATTEMPT", "STATUS", "ANSWER", "WHEN", "~ERROR"},
		row: func(d delivery) []string {
			answer := strings.TrimPrefix(strconv.Itoa(d.Response), "0")
			return []string{d.DeliveryID, d.EventType, strconv.Itoa(d.Attempt), d.Status, answer, formatTime(s.now(), d.CreatedAt), d.Error}
		},
	}.show(s)
}

type webhooksTriggerCommand struct {
	remote
	webhookArgument
}

// Run implements the command.
func (cmd *webhooksTriggerCommand) Run(s *server) error {
	return s.send(http.MethodPost, client.Path(webhooksPath, cmd.ID, "test"), nil, "Sent a test event to %s.", cmd.ID)
}

type webhooksRedeliverCommand struct {
	remote
	webhookArgument
	Delivery string `arg:"" help:"Id of the delivery, as webhooks deliveries shows it."`
}

// Run implements the command.
func (cmd *webhooksRedeliverCommand) Run(s *server) error {
	path := client.Path(webhooksPath, cmd.ID, "deliveries", cmd.Delivery, "redeliver")
	return s.send(http.MethodPost, path, nil, "Event of delivery %s is sent again.", cmd.Delivery)
}
