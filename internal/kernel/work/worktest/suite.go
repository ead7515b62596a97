// Package worktest is the conformance suite of work.Queue, and a queue in
// memory for tests of what uses one.
package worktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// lease is how long the suite holds items.
const lease = 15 * time.Second

// Open gives an empty queue whose times are the clock's, and the writer that
// goes with it.
type Open func(t *testing.T, clock clock.Clock) (work.Queue, txn.Writer)

// Run proves that queues keep the contract.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, test := range map[string]func(*suite){
		"claims_what_is_due":                (*suite).claimsWhatIsDue,
		"claims_in_order":                   (*suite).claimsInOrder,
		"claims_only_its_kind":              (*suite).claimsOnlyItsKind,
		"enqueues_once":                     (*suite).enqueuesOnce,
		"enqueue_leaves_held_items_alone":   (*suite).enqueueLeavesHeldItemsAlone,
		"enqueue_is_part_of_the_write":      (*suite).enqueueIsPartOfTheWrite,
		"enqueues_held":                     (*suite).enqueuesHeld,
		"tenants_take_turns":                (*suite).tenantsTakeTurns,
		"tenants_take_turns_behind_backlog": (*suite).tenantsTakeTurnsBehindBacklog,
		"fences_off_every_old_lease":        (*suite).fencesOffEveryOldLease,
		"holds_and_renews":                  (*suite).holdsAndRenews,
		"renews_many":                       (*suite).renewsMany,
		"reschedules":                       (*suite).reschedules,
		"releases":                          (*suite).releases,
		"removes":                           (*suite).removes,
		"reclaims":                          (*suite).reclaims,
		"never_gives_an_item_to_two":        (*suite).neverGivesAnItemToTwo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &suite{T: t, clock: clock.NewFake()}
			s.queue, s.writer = open(t, s.clock)
			test(s)
		})
	}
}

type suite struct {
	*testing.T
	clock  *clock.Fake
	queue  work.Queue
	writer txn.Writer
}

func (s *suite) write(do func(tx txn.Tx) error) error {
	s.Helper()
	return s.writer.Write(s.Context(), do)
}

func (s *suite) must(do func(tx txn.Tx) error) {
	s.Helper()
	if err := s.write(do); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) enqueue(items ...work.Item) {
	s.Helper()
	s.must(func(tx txn.Tx) error {
		for _, item := range items {
			if err := s.queue.EnqueueTx(tx, item); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *suite) claim(owner string, n int) []work.Lease {
	s.Helper()
	leases, err := s.queue.Claim(s.Context(), "run", owner, n, lease)
	if err != nil {
		s.Fatal(err)
	}
	return leases
}

func (s *suite) claimOne(owner string) work.Lease {
	s.Helper()
	leases := s.claim(owner, 10)
	if len(leases) != 1 {
		s.Fatalf("claimed %v, want one item", keys(leases))
	}
	return leases[0]
}

func (s *suite) claimNone() {
	s.Helper()
	if leases := s.claim("nobody", 10); len(leases) != 0 {
		s.Fatalf("claimed %v, want nothing", keys(leases))
	}
}

func (s *suite) nextDue(want time.Time) {
	s.Helper()
	if got, err := s.queue.GetNextDue(s.Context(), "run"); err != nil || !got.Equal(want) {
		s.Errorf("next due %v, %v; want %v", got, err, want)
	}
}

func (s *suite) equal(want, got any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("-want +got:\n%s", diff)
	}
}

func keys(leases []work.Lease) []string {
	got := []string{}
	for _, l := range leases {
		got = append(got, l.Key)
	}
	return got
}

// item makes an item of the tenant that the key's first letter names.
func item(key string, due time.Time) work.Item {
	return work.Item{Kind: "run", Key: key, TenantID: "tenant-" + key[:1], Due: due}
}

func (s *suite) claimsWhatIsDue() {
	now := s.clock.Now()
	i := item("a", now.Add(time.Minute))
	i.Payload = []byte(`{"n":1}`)
	s.nextDue(time.Time{})
	s.enqueue(i)
	s.nextDue(i.Due)
	s.claimNone()
	s.clock.Advance(time.Minute)
	l := s.claimOne("n1")
	s.equal(work.Lease{Item: i, Owner: "n1", Epoch: l.Epoch, Attempt: 1, Until: s.clock.Now().Add(lease)}, l)
	s.nextDue(l.Until)
	s.claimNone()
	s.must(func(tx txn.Tx) error { return s.queue.FinishTx(tx, l) })
	s.nextDue(time.Time{})
	s.clock.Advance(time.Hour)
	s.claimNone()

	s.enqueue(item("b", time.Time{})) // the zero time is now
	l = s.claimOne("n1")
	s.equal(s.clock.Now(), l.Due)
}

func (s *suite) claimsInOrder() {
	now := s.clock.Now()
	for i, at := range []int{3, 1, 2, 5, 4} {
		s.enqueue(item(fmt.Sprintf("a%d", at), now.Add(time.Duration(at)*time.Second)), item(fmt.Sprintf("later%d", i), now.Add(time.Hour)))
	}
	s.clock.Advance(time.Minute)
	s.equal([]string{"a1", "a2"}, keys(s.claim("n1", 2)))
	s.equal([]string{"a3", "a4", "a5"}, keys(s.claim("n1", 10)))
}

func (s *suite) claimsOnlyItsKind() {
	other := item("a", time.Time{})
	other.Kind = "delivery"
	s.enqueue(other)
	s.claimNone()
	s.nextDue(time.Time{})
	s.enqueue(item("a", time.Time{})) // the same key is another item
	s.claimOne("n1")
}

func (s *suite) enqueuesOnce() {
	now := s.clock.Now()
	first := item("a", now.Add(time.Minute))
	first.Payload = []byte("first")
	again := item("a", now.Add(time.Hour))
	again.Payload = []byte("again")
	s.enqueue(first, again)
	s.nextDue(first.Due) // not later
	again.Due = now.Add(time.Second)
	s.enqueue(again)
	s.nextDue(again.Due) // but earlier
	s.clock.Advance(time.Second)
	l := s.claimOne("n1")
	s.equal("first", string(l.Payload))
}

func (s *suite) enqueueLeavesHeldItemsAlone() {
	s.enqueue(item("a", time.Time{}))
	l := s.claimOne("n1")
	s.clock.Advance(time.Second)
	s.enqueue(item("a", time.Time{}))
	s.claimNone()
	s.must(func(tx txn.Tx) error { return s.queue.HoldTx(tx, l, lease) })
}

func (s *suite) enqueueIsPartOfTheWrite() {
	abandon := errors.New("abandon")
	err := s.write(func(tx txn.Tx) error {
		if err := s.queue.EnqueueTx(tx, item("a", time.Time{})); err != nil {
			return err
		}
		return abandon
	})
	if err != abandon {
		s.Fatal(err)
	}
	s.claimNone()
}

func (s *suite) enqueuesHeld() {
	i := item("a", time.Time{})
	i.Payload = []byte("p")
	var l work.Lease
	s.must(func(tx txn.Tx) (err error) {
		l, err = s.queue.EnqueueHeldTx(tx, i, "n1", lease)
		return err
	})
	i.Due = s.clock.Now()
	s.equal(work.Lease{Item: i, Owner: "n1", Epoch: l.Epoch, Attempt: 1, Until: i.Due.Add(lease)}, l)
	s.claimNone()
	s.must(func(tx txn.Tx) error {
		if _, err := s.queue.EnqueueHeldTx(tx, i, "n2", lease); !errors.Is(err, work.ErrExists) {
			s.Errorf("enqueued twice: %v", err)
		}
		return s.queue.HoldTx(tx, l, lease) // the transaction goes on
	})
	s.clock.Advance(lease)
	again := s.claimOne("n2")
	s.equal(2, again.Attempt)
	s.lost(l)
}

func (s *suite) tenantsTakeTurns() {
	now := s.clock.Now()
	for i := range 20 {
		s.enqueue(item(fmt.Sprintf("a%02d", i), now.Add(time.Duration(i)*time.Millisecond)))
	}
	s.enqueue(item("b1", now.Add(time.Second)), item("b2", now.Add(2*time.Second)), item("c1", now.Add(3*time.Second)))
	s.clock.Advance(time.Minute)
	s.equal([]string{"a00", "b1", "c1", "a01", "b2", "a02", "a03"}, keys(s.claim("n1", 7)))
	// And from one claim to the next.
	s.enqueue(item("b3", now.Add(4*time.Second)), item("c2", now.Add(4*time.Second)))
	for _, want := range []string{"b3", "c2", "a04", "a05"} {
		s.equal([]string{want}, keys(s.claim("n1", 1)))
	}
}

func (s *suite) tenantsTakeTurnsBehindBacklog() {
	now := s.clock.Now()
	var backlog []work.Item
	for i := range 3000 {
		backlog = append(backlog, item(fmt.Sprintf("b%04d", i), now.Add(time.Duration(i))))
	}
	s.enqueue(backlog...)
	s.enqueue(item("a1", now.Add(time.Second)), item("a2", now.Add(time.Second)),
		item("c1", now.Add(time.Second)), item("d-not-due", now.Add(time.Hour)))
	s.clock.Advance(time.Minute)
	tenants := func(n int) (got []string) {
		for _, l := range s.claim("n1", n) {
			got = append(got, strings.TrimPrefix(l.TenantID, "tenant-"))
		}
		slices.Sort(got)
		return got
	}
	s.equal([]string{"a", "b", "c"}, tenants(3))
	s.equal([]string{"a", "b"}, tenants(2))
	s.equal([]string{"b", "b", "b"}, tenants(3))
	s.enqueue(work.Item{Kind: "run", Key: "nobody's"}) // not even that starves
	for range 2 {
		if slices.Contains(tenants(1), "") {
			return
		}
	}
	s.Error("the item of no tenant starves")
}

// lost proves that nothing can be done with a lease.
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
	s.lost(second) // let go of
	third := s.claimOne("n1")
	s.equal(1, third.Attempt)

	s.must(func(tx txn.Tx) error { return s.queue.DeleteTx(tx, "run", "a") })
	s.clock.Advance(time.Millisecond)
	s.enqueue(item("a", time.Time{})) // another item with the same key
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
	// What expired and nobody claimed is still the worker's.
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
	s.enqueue(item("a", time.Time{})) // wakes it
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
	l.Attempt-- // this was none
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
