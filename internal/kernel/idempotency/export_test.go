package idempotency

// Renew renews the reservation, as an operation does every renewEvery.
func (o *Operation) Renew() { o.renew() }
