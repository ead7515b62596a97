package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	netmail "net/mail"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/secret"
	"agentd/internal/base/text"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the work items of emails.
const WorkKind = "mail"

// sendTime is how long one attempt may take.
const sendTime = time.Minute

// waits are the times between the attempts at an email. The first ones are short
// because people wait for their codes; a failure of more than four hours needs
// the operator, not another attempt.
var waits = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour}

// Outcome is the result of an attempt at an email.
type Outcome string

// The outcomes.
const (
	Sent    Outcome = "sent"
	Delayed Outcome = "delayed" // it will be retried
	Dropped Outcome = "dropped" // refused, expired, or out of attempts
)

// Config configures a Post. Queue and Box are required.
type Config struct {
	Queue   work.Queue
	Writer  txn.Writer
	Box     *secret.Box
	Sender  Sender // nil: the operator configured no server
	Clock   clock.Clock
	Logger  *slog.Logger
	Observe func(Outcome) // called after every attempt; may be nil
}

// Post is the Outbox that keeps emails as work items until they are sent. It is
// safe for concurrent use.
type Post struct{ cfg Config }

var _ Outbox = (*Post)(nil)

// NewPost returns a Post.
func NewPost(cfg Config) *Post {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Outcome) {}
	}
	return &Post{cfg}
}

// Configured implements Outbox.
func (p *Post) Configured() bool { return p.cfg.Sender != nil }

// kept is the stored form of an email: sealed, since its text may hold a secret.
type kept struct {
	Sealed []byte `json:"sealed"`
}

// Send implements Outbox.
func (p *Post) Send(tx txn.Tx, tenant string, m Message) error {
	if !p.Configured() {
		return nil
	}
	if at, err := netmail.ParseAddress(m.To); err != nil || at.Address != m.To {
		return errors.New("mail: the letter is addressed to no email address")
	}
	// A line break would start another header.
	m.Subject = text.OneLine(m.Subject)
	plain, err := json.Marshal(m)
	if err != nil {
		return err
	}
	id := ident.New()
	payload, err := json.Marshal(kept{p.cfg.Box.Seal(plain, sealedFor(tenant, id))})
	if err != nil {
		return err
	}
	return p.cfg.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: id, TenantID: tenant, Payload: payload})
}

func sealedFor(tenant, id string) string { return "mail/" + tenant + "/" + id }

// Handle is the work.Handler of emails.
func (p *Post) Handle(ctx context.Context, held work.Lease) error {
	letter, err := p.open(held)
	if err != nil {
		return p.drop(ctx, held, "it cannot be opened", err)
	}
	if late := letter.Until; !late.IsZero() && !p.cfg.Clock.Now().Before(late) {
		return p.drop(ctx, held, "it is of no use any more", nil)
	}
	if !p.Configured() {
		return p.drop(ctx, held, "no mail server is configured any more", nil)
	}
	err = p.send(ctx, letter)
	switch {
	case err == nil:
		p.cfg.Observe(Sent)
		return p.finish(ctx, held)
	case ctx.Err() != nil:
		return err
	case errors.Is(err, ErrRefused):
		return p.drop(ctx, held, "the mail server refused it", err)
	case held.Attempt > len(waits):
		return p.drop(ctx, held, "it was tried often enough", err)
	}
	p.cfg.Observe(Delayed)
	return err
}

// Backoff returns the wait after an attempt, for the work.Runner of emails.
func Backoff(attempt int) time.Duration {
	return waits[min(max(attempt, 1), len(waits))-1]
}

func (p *Post) open(held work.Lease) (Letter, error) {
	l := Letter{ID: held.Key}
	var k kept
	if err := json.Unmarshal(held.Payload, &k); err != nil {
		return l, err
	}
	plain, err := p.cfg.Box.Open(k.Sealed, sealedFor(held.TenantID, held.Key))
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(plain, &l.Message)
}

func (p *Post) send(ctx context.Context, l Letter) (err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	defer func() {
		if bad := recover(); bad != nil {
			err = fmt.Errorf("panic: %v", bad)
		}
	}()
	return p.cfg.Sender.Send(ctx, l)
}

// finish removes an email's work item, even while the node is stopping: an email
// that was sent must not be sent again.
func (p *Post) finish(ctx context.Context, held work.Lease) error {
	return p.cfg.Writer.Write(context.WithoutCancel(ctx), func(tx txn.Tx) error { return p.cfg.Queue.FinishTx(tx, held) })
}

func (p *Post) drop(ctx context.Context, held work.Lease, why string, cause error) error {
	if err := p.finish(ctx, held); err != nil {
		return err
	}
	p.cfg.Observe(Dropped)
	p.cfg.Logger.Error("a letter was dropped: "+why, "letter", held.Key, "tenant", held.TenantID, "attempts", held.Attempt, "error", cause)
	return nil
}
