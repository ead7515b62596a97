package webhook

import (
	"context"
	"time"
)

// Request is the signed POST of an attempt. All requests of a delivery have the
// same EventID and Body, and a DeliveryID of their own; each is signed when it is
// sent.
type Request struct {
	TenantID   string
	URL        string
	Secret     string // whsec_ and the base64 of random bytes
	DeliveryID string // of the attempt
	EventID    string
	EventType  string
	Header     map[string]string // further headers; nil: none
	Body       []byte
}

// Outcome is the result of a request.
type Outcome struct {
	Status  int           // of the response; 0: none came
	Latency time.Duration // until the end of the response, or until the sender gave up
	Failure string        // one sentence for the subscription's owner; "" after a 2xx
}

// Sender sends requests. It follows no redirects, waits 10 seconds in all, reads
// at most 64 KiB of a response, and connects only to addresses that the egress
// guard allows. If ctx ends, that is an Outcome too.
type Sender interface {
	Send(ctx context.Context, r Request) Outcome
}
