package webhook

import (
	"context"
	"time"
)

// Attempt is one signed request to a receiver (interface.md section 6,
// Delivery). Every attempt at an event has the same EventID and Body and a
// DeliveryID of its own; it is signed when it is sent.
type Attempt struct {
	URL        string
	Secret     string // whsec_ and the base64 of random bytes
	DeliveryID string
	EventID    string
	EventType  string
	Body       []byte
}

// Outcome is what became of an attempt.
type Outcome struct {
	Status  int           // of the answer; 0 where none came
	Latency time.Duration // until the answer's end, or until it was given up
	Failure string        // one sentence for the receiver's owner; "" where a 2xx came
}

// Sender sends attempts. It follows no redirect, waits 10 seconds in all, reads
// at most 64 KiB of an answer, and reaches only what the guarded client may
// reach. ctx ending is an Outcome too.
type Sender interface {
	Send(ctx context.Context, a Attempt) Outcome
}
