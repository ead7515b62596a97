package resource

import (
	"context"
	"slices"

	"agentd/internal/base/txn"
)

// Counters is the port to what is counted: resources of kinds that are Counted, under
// "<kind>:<state>", and what else slices count in the transactions of their writes.
// A counter is 0 at first.
type Counters interface {
	IncrementTx(tx txn.Tx, tenant, name string, by int64) error
	// List returns the counters of a tenant whose names begin so, by name. A tenant has
	// dozens.
	List(ctx context.Context, tenant, prefix string) (map[string]int64, error)
}

// stateIndex is the filter by which a counted kind's lists have a total.
const stateIndex = "status"

// counter is the name of the counter that has t.
func (s *Store[T]) counter(t *T) string {
	if s.State == nil {
		return s.Name + ":"
	}
	return s.Name + ":" + *s.State(t)
}

// count moves a resource from one counter to another.
func (s *Store[T]) count(e *Edit[T]) error {
	if !s.Counted || s.deps.Counters == nil {
		return nil
	}
	var from, to string
	if e.Old != nil {
		from = s.counter(e.Old)
	}
	if e.New != nil {
		to = s.counter(e.New)
	}
	if from == to {
		return nil
	}
	changes := []struct {
		name string
		by   int64
	}{{from, -1}, {to, 1}}
	if to < from { // always in the same order, or two writes could wait for each other
		slices.Reverse(changes)
	}
	for _, c := range changes {
		if c.name == "" {
			continue
		}
		if err := s.deps.Counters.IncrementTx(e.Tx, e.Who.TenantID, c.name, c.by); err != nil {
			return err
		}
	}
	return nil
}

// total returns how many resources a list selects; known is false where nothing
// counts them.
func (s *Store[T]) total(ctx context.Context, tenant string, where map[string]string) (total int64, known bool, err error) {
	if !s.Counted || s.deps.Counters == nil {
		return 0, false, nil
	}
	for name, value := range where {
		if name != stateIndex && value != "" {
			return 0, false, nil
		}
	}
	counts, err := s.deps.Counters.List(ctx, tenant, s.Name+":")
	for name, n := range counts {
		if state := where[stateIndex]; state == "" || name == s.Name+":"+state {
			total += n
		}
	}
	return total, true, err
}
