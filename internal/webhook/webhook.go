// Package webhook tells other systems what happened: subscriptions, the outbox
// of events, and their signed delivery, each at least once (interface.md section
// 4, Webhook rules, and section 6; decisions.md D9).
package webhook
