package worktest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// lost checks that a lease is lost for all operations.
func (s *suite) lost(l work.Lease) {
	s.Helper()
	for name, do := range map[string]func(tx txn.Tx) error{
		"hold":       func(tx txn.Tx) error { return s.queue.HoldTx(tx, l, lease) },
		"finish":     func(tx txn.Tx) error { return s.queue.FinishTx(tx, l) },
		"reschedule": func(tx txn.Tx) error { return s.queue.RescheduleTx(tx, l, s.clock.Now(), nil) },
	} {
		if err := s.write(do); !errors.Is(err, work.ErrLost) {
			s.Errorf("%s with a lost lease: %v", name, err)
		}
	}
	before, err := s.queue.GetNextDue(s.Context(), l.Kind)
	if err != nil {
		s.Fatal(err)
	}
	gone, err := s.queue.Renew(s.Context(), []work.Lease{l}, time.Hour)
	if err != nil {
		s.Fatal(err)
	}
	s.equal([]work.Lease{l}, gone)
	if err := s.queue.Release(s.Context(), []work.Lease{l}, s.clock.Now()); err != nil {
		s.Fatal(err)
	}
	s.nextDue(before)
}

func (s *suite) fencesOffEveryOldLease() {
	s.enqueue(item("a", time.Time{}))
	first := s.claimOne("n1")
	s.clock.Advance(lease)
	second := s.claimOne("n2")
	s.equal(2, second.Attempt)
	s.lost(first)

	s.must(func(tx txn.Tx) error { return s.queue.RescheduleTx(tx, second, s.clock.Now(), nil) })
	s.lost(second) // ended by RescheduleTx
	third := s.claimOne("n1")
	s.equal(1, third.Attempt)

	s.must(func(tx txn.Tx) error { return s.queue.DeleteTx(tx, "run", "a") })
	s.clock.Advance(time.Millisecond)
	s.enqueue(item("a", time.Time{})) // a new item with the same key
	s.lost(third)
	fourth := s.claimOne("n1")
	for _, old := range []work.Lease{first, second, third} {
		s.lost(old)
	}
	s.must(func(tx txn.Tx) error { return s.queue.FinishTx(tx, fourth) })
	s.lost(fourth)
}

func (s *suite) holdsAndRenews() {
	s.enqueue(item("a", time.Time{}), item("b", time.Time{}))
	held := s.claim("n1", 10)
	s.clock.Advance(lease / 2)
	if lost, err := s.queue.Renew(s.Context(), held, lease); err != nil || len(lost) != 0 {
		s.Fatal(lost, err)
	}
	s.clock.Advance(lease * 3 / 4)
	s.claimNone()
	s.must(func(tx txn.Tx) error { return s.queue.HoldTx(tx, held[0], lease) })
	s.clock.Advance(lease / 2)
	s.equal([]string{held[1].Key}, keys(s.claim("n2", 10)))
	lost, err := s.queue.Renew(s.Context(), held, lease)
	if err != nil {
		s.Fatal(err)
	}
	s.equal(held[1:], lost)
	// An expired lease is still the worker's until another one claims the item.
	s.clock.Advance(lease)
	s.must(func(tx txn.Tx) error { return s.queue.HoldTx(tx, held[0], lease) })
	s.equal([]string{held[1].Key}, keys(s.claim("n3", 10)))
}

func (s *suite) renewsMany() {
	var items []work.Item
	for i := range 700 {
		items = append(items, item(fmt.Sprintf("a%03d", i), time.Time{}))
	}
	s.enqueue(items...)
	var held []work.Lease
	for len(held) < 700 {
		got := s.claim("n1", 100)
		if len(got) != 100 {
			s.Fatalf("claimed %d", len(got))
		}
		held = append(held, got...)
	}
	s.must(func(tx txn.Tx) error { return s.queue.DeleteTx(tx, "run", held[333].Key) })
	s.clock.Advance(lease / 2)
	lost, err := s.queue.Renew(s.Context(), held, lease)
	if err != nil {
		s.Fatal(err)
	}
	s.equal([]string{held[333].Key}, keys(lost))
	s.clock.Advance(lease * 3 / 4)
	s.claimNone()
}

func (s *suite) reschedules() {
	s.enqueue(item("a", time.Time{}))
	l := s.claimOne("n1")
	due := s.clock.Now().Add(time.Hour)
	s.must(func(tx txn.Tx) error { return s.queue.RescheduleTx(tx, l, due, []byte("next")) })
	s.nextDue(due)
	s.clock.Advance(time.Hour - time.Second)
	s.claimNone()
	s.enqueue(item("a", time.Time{})) // makes it due
	l = s.claimOne("n1")
	s.equal(1, l.Attempt)
	s.equal("next", string(l.Payload))
}

func (s *suite) releases() {
	i := item("a", time.Time{})
	i.Payload = []byte("kept")
	s.enqueue(i)
	l := s.claimOne("n1")
	due := s.clock.Now().Add(time.Minute)
	if err := s.queue.Release(s.Context(), []work.Lease{l}, due); err != nil {
		s.Fatal(err)
	}
	s.lost(l)
	s.nextDue(due)
	s.clock.Advance(time.Minute)
	l = s.claimOne("n2")
	s.equal(2, l.Attempt)
	s.equal("kept", string(l.Payload))
	l.Attempt-- // this one does not count
	if err := s.queue.Release(s.Context(), []work.Lease{l}, s.clock.Now()); err != nil {
		s.Fatal(err)
	}
	s.equal(2, s.claimOne("n1").Attempt)
}

func (s *suite) removes() {
	s.enqueue(item("a", time.Time{}), item("b", s.clock.Now().Add(time.Hour)))
	l := s.claimOne("n1")
	s.must(func(tx txn.Tx) error {
		for _, key := range []string{"a", "b", "never there"} {
			if err := s.queue.DeleteTx(tx, "run", key); err != nil {
				return err
			}
		}
		return nil
	})
	s.lost(l)
	s.nextDue(time.Time{})
}

func (s *suite) reclaims() {
	s.enqueue(item("a", time.Time{}), item("b", time.Time{}))
	s.claim("dead", 1)
	other := s.claim("alive", 1)
	s.clock.Advance(time.Second)
	if n, err := s.queue.Reclaim(s.Context(), "dead"); err != nil || n != 1 {
		s.Fatalf("reclaimed %d, %v", n, err)
	}
	l := s.claimOne("dead")
	s.equal(2, l.Attempt)
	s.must(func(tx txn.Tx) error { return s.queue.HoldTx(tx, other[0], lease) })
}

func (s *suite) neverGivesAnItemToTwo() {
	const items, workers = 300, 8
	var all []work.Item
	for i := range items {
		all = append(all, item(fmt.Sprintf("%c%03d", 'a'+i%3, i), time.Time{}))
	}
	s.enqueue(all...)
	var mu sync.Mutex
	done := make(map[string]int)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for {
				leases, err := s.queue.Claim(s.Context(), "run", fmt.Sprintf("n%d", w), 7, lease)
				if err != nil {
					s.Error(err)
					return
				}
				for _, l := range leases {
					if err := s.write(func(tx txn.Tx) error { return s.queue.FinishTx(tx, l) }); err != nil {
						s.Errorf("finish: %v", err)
					}
					mu.Lock()
					done[l.Key]++
					mu.Unlock()
				}
				if len(leases) == 0 {
					next, err := s.queue.GetNextDue(s.Context(), "run")
					if err != nil {
						s.Error(err)
						return
					}
					if next.IsZero() {
						return // nothing is left, claimed or not
					}
				}
			}
		})
	}
	wg.Wait()
	if len(done) != items {
		s.Errorf("%d items were done, want %d", len(done), items)
	}
	for key, n := range done {
		if n != 1 {
			s.Errorf("%s was done %d times", key, n)
		}
	}
}
