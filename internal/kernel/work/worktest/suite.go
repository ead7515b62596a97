// Package worktest has the conformance suite of work.Queue, and a queue in memory
// for tests of its users.
package worktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/work"
)

// lease is the duration of the leases in the suite.
const lease = 15 * time.Second

// Open returns an empty queue that uses the clock, and its writer.
type Open func(t *testing.T, clock clock.Clock) (work.Queue, txn.Writer)

// Run checks that a queue fulfils the contract of work.Queue.
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
	if leases := s.claim("idle", 10); len(leases) != 0 {
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

// item returns an item of the tenant that the key's first letter names.
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

	s.enqueue(item("b", time.Time{})) // the zero time means now
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
	s.enqueue(item("a", time.Time{})) // of another kind: a different item
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
	if err := s.write(func(tx txn.Tx) error {
		_, err := s.queue.EnqueueHeldTx(tx, i, "n2", lease)
		return err
	}); !errors.Is(err, work.ErrExists) {
		s.Errorf("enqueued twice: %v", err)
	}
	s.must(func(tx txn.Tx) error { return s.queue.HoldTx(tx, l, lease) })
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
	// Tenants also take turns from one claim to the next.
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
	s.enqueue(work.Item{Kind: "run", Key: "without-tenant"}) // must not starve either
	for range 2 {
		if slices.Contains(tenants(1), "") {
			return
		}
	}
	s.Error("the item of no tenant starves")
}
