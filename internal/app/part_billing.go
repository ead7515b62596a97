package app

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/accounts/usage/usagesql"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/notification"
	"agentd/internal/delivery/webhook"
	"agentd/internal/operation/billing"
	"agentd/internal/operation/billing/billingsql"
	"agentd/internal/wire/stripeclient"
)

// billingPart is how companies pay for their plans.
func billingPart(p *platform, accounts *accounts, delivery *delivery) part {
	client := stripeclient.New(p.cfg.Billing.StripeBaseURL)
	p.onStop(client.Close)
	initial := billing.Settings{
		Enabled: p.cfg.Billing.StripeSecretKey.Reveal() != "", SecretKey: p.cfg.Billing.StripeSecretKey,
		WebhookSecret: p.cfg.Billing.StripeWebhookSecret,
	}
	s := billing.New(billing.Deps{
		Store: billingsql.New(p.db), Gateway: client, Settings: billing.Section(p.settings, initial, accounts.plans), Plans: accounts.plans,
		Writer: p.db, Clock: p.clock, Audit: p.audit, Changed: accounts.usage.TermsChanged,
		OnFailed: paymentFailed(accounts.usageStore, delivery),
		OnInvoice: func(tx txn.Tx, i billing.Invoice) error {
			return emitInvoice(tx, delivery, "billing.invoice.created", &i)
		},
		PublicURL: p.publicURL, Origins: p.cfg.Server.Origins(),
	})
	accounts.usage.SellBy(s.HasPrice)
	return part{name: "billing", routes: s.Routes()}
}

// invoiceData is the data of billing events.
type invoiceData struct {
	AmountDue  int64  `json:"amount_due_cents"`
	Currency   string `json:"currency"`
	InvoiceURL string `json:"invoice_url,omitzero"`
}

func emitInvoice(tx txn.Tx, d *delivery, name string, i *billing.Invoice) error {
	return d.webhooks.Emit(tx, webhook.Event{
		TenantID: i.TenantID, ID: "stripe/" + i.EventID, Type: name, At: i.At,
		Data: func() (jsontext.Value, error) {
			return json.Marshal(invoiceData{AmountDue: i.AmountDue, Currency: i.Currency, InvoiceURL: i.InvoiceURL})
		},
	})
}

// paymentFailed emits that a payment failed, and notifies the admins of the company.
func paymentFailed(store *usagesql.Store, d *delivery) func(tx txn.Tx, f billing.Failed) error {
	return func(tx txn.Tx, f billing.Failed) error {
		if err := emitInvoice(tx, d, "billing.payment.failed", &f); err != nil {
			return err
		}
		admins, err := store.ListAdmins(context.WithoutCancel(tx.Context()), f.TenantID)
		if err != nil {
			return err
		}
		for _, id := range admins {
			err := d.notifications.Notify(tx, notification.Notification{
				TenantID: f.TenantID, UserID: &id, Type: "billing.payment_failed", Priority: notification.Critical,
				Title:   "A payment failed",
				Message: "The company's payment failed. New runs and calls of models are refused until it is paid.",
				Data:    fmt.Appendf(nil, `{"amount_due_cents":%d,"currency":%q}`, f.AmountDue, f.Currency), ActionURL: f.InvoiceURL,
				Source:   &notification.Source{Kind: "billing", ID: f.EventID},
				DedupKey: "billing/" + f.EventID + "/" + id,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}
