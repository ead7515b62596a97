package webhookhttp

import (
	"context"
	"errors"
	"net/netip"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/ident"
	"agentd/internal/delivery/webhook"
	"agentd/internal/kernel/audit"
	"agentd/internal/wire/outbound"
)

// AuditEvent is the type of the event that pushes entries of the audit log.
const AuditEvent = "audit.entries"

// AuditReceiver pushes entries of the audit log to an endpoint of the operator,
// signed as deliveries are. A batch that is sent again has the same event id.
type AuditReceiver struct {
	Caller

	URL    string
	Secret string // whsec_ and the base64 of random bytes; "": not signed
}

var _ audit.Receiver = AuditReceiver{}

// OperatorConfig returns the configuration for the client of an AuditReceiver. The
// operator chose the address, so it may be in a private network, but it is no
// metadata service.
func OperatorConfig() outbound.Config {
	return ClientConfig(outbound.Allow{Prefixes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}})
}

// Push implements [audit.Receiver].
func (a AuditReceiver) Push(ctx context.Context, lines []audit.Line) error {
	body, err := json.Marshal(struct {
		Type    string       `json:"type"`
		EventID string       `json:"event_id"`
		Entries []audit.Line `json:"entries"`
	}{AuditEvent, lines[0].EntryID, lines})
	if err != nil {
		return err
	}
	o := a.Send(ctx, webhook.Request{
		URL: a.URL, Secret: a.Secret, DeliveryID: ident.New(), EventID: lines[0].EntryID, EventType: AuditEvent, Body: body,
	})
	if o.Failure != "" {
		return errors.New(o.Failure)
	}
	return nil
}
