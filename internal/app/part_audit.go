package app

import (
	"context"
	"fmt"
	"strings"

	"agentd/internal/kernel/audit"
	"agentd/internal/store/auditsql"
	"agentd/internal/wire/outbound"
	"agentd/internal/wire/syslog"
	"agentd/internal/wire/webhookhttp"
)

// newAuditPart makes the part that serves the audit log, records refusals and
// downloads, and pushes entries to the operator's receiver.
func newAuditPart(ctx context.Context, p *platform) (part, error) {
	watched := part{name: "audit", routes: p.audit.Routes(), services: []service{background(p.watch.Serve)}}
	receiver, err := newAuditReceiver(p)
	if err != nil {
		return part{}, fmt.Errorf("AGENTD_AUDIT_PUSH: %w", err)
	}
	pusher := &audit.Pusher{
		Store: auditsql.New(p.db), Queue: p.queue, Writer: p.db, Clock: p.clock, Receiver: receiver, Lease: lease,
	}
	if receiver != nil {
		watched.workers = []worker{p.worker(audit.PushKind, 1, pusher.Handle)}
	}
	return watched, pusher.Enable(ctx)
}

func newAuditReceiver(p *platform) (audit.Receiver, error) {
	address := p.cfg.Observability.AuditPush.Reveal()
	switch {
	case address == "":
		return nil, nil
	case strings.HasPrefix(address, "syslog+"):
		return syslog.New(address, nil)
	}
	client := outbound.New(webhookhttp.OperatorConfig())
	p.onStop(client.Close)
	return webhookhttp.AuditReceiver{
		Caller: webhookhttp.Caller{Client: client, Clock: p.clock}, URL: address, Secret: p.cfg.Observability.AuditPushSecret.Reveal(),
	}, nil
}
