package resource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the work items that deliver changes.
const WorkKind = "change"

// maxChangeAge is the age at which a change that cannot be delivered is dropped.
const maxChangeAge = 7 * 24 * time.Hour

// Subscribers is the Outbox that lets slices react to each other's changes
// without calling each other. In the transaction of a change it enqueues one
// work item for each subscriber that wants it; a work.Runner of WorkKind hands
// the items to [Subscribers.Deliver].
//
// A handler receives each change at least once, after its transaction, and the
// changes of one resource in any order: it must read the resource's present
// state. Subscribe before the first change, from one goroutine.
type Subscribers struct {
	queue work.Queue
	write txn.Writer
	clock clock.Clock
	all   map[string]subscription
	order []string
}

// HandlerFunc reacts to a change. After an error it is called again later.
type HandlerFunc func(ctx context.Context, c Change) error

type subscription struct {
	kind    string
	actions []string
	handle  HandlerFunc
}

// NewSubscribers returns an Outbox over a work queue.
func NewSubscribers(queue work.Queue, writer txn.Writer, clock clock.Clock) *Subscribers {
	return &Subscribers{queue: queue, write: writer, clock: clock, all: map[string]subscription{}}
}

// Subscribe registers handle for the changes of a kind with one of the actions,
// or with any if actions is empty. The name is stored with undelivered changes:
// it must never change. Subscribe panics if the name is used twice.
func (s *Subscribers) Subscribe(name, kind string, actions []string, handle HandlerFunc) {
	if _, taken := s.all[name]; taken {
		panic("resource: two subscribers called " + name)
	}
	s.all[name] = subscription{kind, actions, handle}
	s.order = append(s.order, name)
}

// delivery is the payload of a work item.
type delivery struct {
	Subscriber string `json:"subscriber"`
	Change     Change `json:"change"`
}

// Append implements Outbox.
func (s *Subscribers) Append(tx txn.Tx, c Change) error {
	for _, name := range s.order {
		sub := s.all[name]
		if sub.kind != c.Kind || len(sub.actions) > 0 && !slices.Contains(sub.actions, c.Action) {
			continue
		}
		payload, err := json.Marshal(delivery{Subscriber: name, Change: c})
		if err != nil {
			return err
		}
		err = s.queue.EnqueueTx(tx, work.Item{
			Kind: WorkKind, Key: fmt.Sprintf("%s/%s/%s/%d/%s", name, c.Kind, c.ID, c.Version, c.Action),
			TenantID: c.TenantID, Due: c.At, Payload: payload,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Deliver is the work.Handler of WorkKind: it calls the subscriber of a change.
// Errors: the subscriber's, or that no subscriber has that name, as on a node of
// another version. After an error the item stays and is tried again; after a
// week it is dropped.
func (s *Subscribers) Deliver(ctx context.Context, held work.Lease) error {
	var d delivery
	if err := json.Unmarshal(held.Payload, &d); err != nil {
		return err
	}
	failure := fmt.Errorf("resource: there is no subscriber %q", d.Subscriber)
	if sub, ok := s.all[d.Subscriber]; ok {
		failure = sub.handle(ctx, d.Change)
	}
	if failure != nil && s.clock.Now().Sub(d.Change.At) < maxChangeAge {
		return failure
	}
	err := s.write.Write(ctx, func(tx txn.Tx) error { return s.queue.FinishTx(tx, held) })
	return errors.Join(err, failure)
}
