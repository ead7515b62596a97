package idempotency

// Renew does what a ticket does every so often.
func (t *Operation) Renew() { t.renew() }
