package idempotency_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/idempotency"
	"agentd/internal/store/idempotencysql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// rig is a database with a write to repeat, whose effects can be counted.
type rig struct {
	t      *testing.T
	db     *sqldb.DB
	clock  *clock.Fake
	keeper *idempotency.Manager
	kept   []bool
}

func newRig(t *testing.T, db *sqldb.DB) *rig {
	t.Helper()
	r := &rig{t: t, db: db, clock: clock.NewFake()}
	r.keeper = r.node()
	return r
}

// node is a node over the rig's database.
func (r *rig) node() *idempotency.Manager {
	box, err := secret.NewBox(make([]byte, 32))
	if err != nil {
		r.t.Fatal(err)
	}
	var mu sync.Mutex
	return idempotency.NewManager(idempotency.Config{
		Store: idempotencysql.New(r.db), Writer: r.db, Box: box, Clock: r.clock, Log: slog.New(slog.DiscardHandler),
		OnStored: func(withEffect bool) {
			mu.Lock()
			defer mu.Unlock()
			r.kept = append(r.kept, withEffect)
		},
	})
}

func request(key, body string) idempotency.Request {
	sum := sha256.Sum256([]byte(body))
	return idempotency.Request{
		ID: idempotency.ID{Tenant: "t1", User: "u1", Key: key}, Target: idempotency.Target("POST", "/api/v1/things?a=b"),
		Body: func(bool) (idempotency.Hash, bool) { return sum, true },
	}
}

// answer is what the write answers; it is rendered as it is.
func answer(status int, body string) *idempotency.Answer {
	return &idempotency.Answer{Status: status, Media: "application/json", ETag: `"7"`, Location: "/there", Body: []byte(body)}
}

func rendered(v any) (*idempotency.Answer, error) { return v.(*idempotency.Answer), nil }

// begin starts a write that must be done.
func (r *rig) begin(k *idempotency.Manager, q idempotency.Request) *idempotency.Operation {
	r.t.Helper()
	ticket, err := k.Begin(q, rendered)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(ticket.Close)
	if kept, err := ticket.EarlierAnswer(r.t.Context()); kept != nil || err != nil {
		r.t.Fatalf("it was done before: %v, %v", kept, err)
	}
	return ticket
}

// earlier is what somebody gets who sends a request again.
func (r *rig) earlier(k *idempotency.Manager, q idempotency.Request) (*idempotency.Answer, error) {
	ticket, err := k.Begin(q, rendered)
	if err != nil {
		return nil, err
	}
	defer ticket.Close()
	return ticket.EarlierAnswer(r.t.Context())
}

// effect is a transaction of a ticket's request; a nil answer is not told.
func (r *rig) effect(ticket *idempotency.Operation, tell *idempotency.Answer) error {
	return r.db.Write(txn.WithRequestHook(context.Background(), ticket), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`INSERT INTO notification_numbers AS old (tenant_id, last_seq) VALUES ('effects', 1)
			ON CONFLICT (tenant_id) DO UPDATE SET last_seq = old.last_seq + 1`)
		if err != nil || tell == nil {
			return err
		}
		return txn.Answer(tx, tell)
	})
}

func (r *rig) effects() (n int) {
	r.t.Helper()
	err := r.db.QueryRow(r.t.Context(), `SELECT last_seq FROM notification_numbers WHERE tenant_id = 'effects'`).Scan(&n)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		r.t.Fatal(err)
	}
	return n
}

// done does a write whole.
func (r *rig) done(q idempotency.Request, a *idempotency.Answer) {
	r.t.Helper()
	ticket := r.begin(r.keeper, q)
	if err := r.effect(ticket, a); err != nil {
		r.t.Fatal(err)
	}
	ticket.Finish(a)
	ticket.Close()
}

func (r *rig) repeats(k *idempotency.Manager, q idempotency.Request, want *idempotency.Answer) {
	r.t.Helper()
	kept, err := r.earlier(k, q)
	if err != nil {
		r.t.Fatal(err)
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		r.t.Error(diff)
	}
}

func (r *rig) refuses(k *idempotency.Manager, q idempotency.Request, want error, code string) {
	r.t.Helper()
	kept, err := r.earlier(k, q)
	if kept != nil || want != nil && !errors.Is(err, want) || code != "" && (err == nil || fault.From(err).Code != code) {
		r.t.Errorf("%v, %v; want %v %s", kept, err, want, code)
	}
}

func each(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newRig(t, db)) })
}

func TestAnswersAreRepeated(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		made := answer(201, `{"raw_key":"a secret"}`)
		r.done(request("a", "body"), made)
		for _, node := range []*idempotency.Manager{r.keeper, r.node()} {
			r.repeats(node, request("a", "body"), made)
			r.refuses(node, request("a", "another"), nil, "IDEMPOTENCY_KEY_REUSED")
			elsewhere := request("a", "body")
			elsewhere.Target = idempotency.Target("POST", "/api/v1/things")
			r.refuses(node, elsewhere, nil, "IDEMPOTENCY_KEY_REUSED")
		}
		for _, id := range []idempotency.ID{{Tenant: "t2", User: "u1", Key: "a"}, {Tenant: "t1", User: "u2", Key: "a"}, {Tenant: "t1", User: "u1", Key: "A"}} {
			other := request("", "another")
			other.ID = id
			r.begin(r.keeper, other) // somebody else's key is another key
		}
		if diff := cmp.Diff([]bool{true}, r.kept); diff != "" || r.effects() != 1 {
			t.Errorf("%d effects, kept: %s", r.effects(), diff)
		}
		r.clock.Advance(idempotency.Window - time.Second)
		r.repeats(r.keeper, request("a", "body"), made)
		r.clock.Advance(time.Second)
		r.done(request("a", "another"), answer(200, "{}")) // a day later it is free
		r.repeats(r.keeper, request("a", "another"), answer(200, "{}"))
	})
}

func TestAnswersAreSealed(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.done(request("a", "body"), answer(201, `{"raw_key":"a secret"}`))
		var stored []byte
		if err := r.db.QueryRow(t.Context(), `SELECT answer FROM idempotency`).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if len(stored) == 0 || bytes.Contains(stored, []byte("secret")) {
			t.Errorf("stored as %q", stored)
		}
		move := func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`UPDATE idempotency SET user_id = 'u2'`)
			return err
		}
		if err := r.db.Write(t.Context(), move); err != nil {
			t.Fatal(err)
		}
		stolen := request("a", "body")
		stolen.User = "u2"
		if kept, err := r.earlier(r.keeper, stolen); err == nil {
			t.Errorf("an answer moved to another person's key is opened: %v", kept)
		}
	})
}

// What is not kept frees the key, whether it was reserved or not.
func TestKeysAreFreed(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, status := range []int{401, 403, 408, 409, 429, 500, 503, 304} {
			for _, reserved := range []bool{false, true} {
				ticket := r.begin(r.keeper, request("a", "body"))
				if reserved {
					if err := r.effect(ticket, answer(status, "")); err != nil {
						t.Fatal(err)
					}
				}
				ticket.Finish(answer(status, ""))
				ticket.Close()
			}
		}
		ticket := r.begin(r.keeper, request("a", "body"))
		if err := ticket.Reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		ticket.Close() // a panic, or a client that nothing was said to
		for _, status := range []int{200, 201, 204, 400, 404, 412, 422} {
			key := "kept-" + strings.Repeat("x", status%128)
			ticket := r.begin(r.keeper, request(key, "body"))
			ticket.Finish(answer(status, "said"))
			ticket.Close()
			r.repeats(r.keeper, request(key, "body"), answer(status, "said"))
		}
		r.begin(r.keeper, request("a", "another"))
	})
}

// A transaction that fails takes the reservation and the answer with it.
func TestFailureKeepsNothing(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		ticket := r.begin(r.keeper, request("a", "body"))
		failed := errors.New("failed")
		err := r.db.Write(txn.WithRequestHook(t.Context(), ticket), func(tx txn.Tx) error {
			if err := txn.Answer(tx, answer(201, "never")); err != nil {
				return err
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		ticket.Finish(answer(409, "conflict"))
		ticket.Close()
		r.done(request("a", "body"), answer(201, "now"))
		if r.effects() != 1 {
			t.Errorf("%d effects", r.effects())
		}
	})
}

// An answer that is committed is found, though who was given it is not done with
// it; and the end of that one lets nobody else in twice.
func TestAnswerIsFoundAtOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		first := r.begin(r.keeper, request("k", "body"))
		if err := r.db.Write(txn.WithRequestHook(t.Context(), first), func(tx txn.Tx) error { return txn.Answer(tx, answer(201, "made")) }); err != nil {
			t.Fatal(err)
		}
		second, err := r.keeper.Begin(request("k", "body"), rendered)
		if err != nil {
			t.Fatal(err)
		}
		first.Close()
		if _, err := r.keeper.Begin(request("k", "body"), rendered); !errors.Is(err, idempotency.ErrRunning) {
			t.Errorf("while the second is at it: %v", err)
		}
		if got, err := second.EarlierAnswer(t.Context()); err != nil || got == nil || string(got.Body) != "made" {
			t.Errorf("%v, %v", got, err)
		}
		second.Close()
	})
}

func TestFirstIsWaitedFor(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		there := r.node()
		first := r.begin(r.keeper, request("a", "body"))
		r.refuses(r.keeper, request("a", "body"), idempotency.ErrRunning, "")
		elsewhere := request("a", "body")
		elsewhere.Target = idempotency.Target("DELETE", "/api/v1/things?a=b")
		r.refuses(r.keeper, elsewhere, nil, "IDEMPOTENCY_KEY_REUSED")

		if err := first.Reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.refuses(there, request("a", "body"), idempotency.ErrRunning, "")
		r.refuses(there, request("a", "another"), nil, "IDEMPOTENCY_KEY_REUSED")
		r.clock.Advance(50 * time.Second)
		first.Renew()
		r.clock.Advance(50 * time.Second)
		r.refuses(there, request("a", "body"), idempotency.ErrRunning, "")

		// It dies, or is taken for dead: the second does the write, and the
		// first can do nothing any more.
		r.clock.Advance(time.Minute)
		second := r.begin(there, request("a", "body"))
		if err := r.effect(second, answer(201, "second")); err != nil {
			t.Fatal(err)
		}
		second.Finish(answer(201, "second"))
		for _, tells := range []*idempotency.Answer{nil, answer(201, "first")} {
			if err := r.effect(first, tells); err == nil || !first.Lost() {
				t.Errorf("the first had an effect: %v", err)
			}
		}
		first.Finish(answer(500, ""))
		first.Close()
		r.repeats(r.keeper, request("a", "body"), answer(201, "second"))
		if r.effects() != 1 {
			t.Errorf("%d effects", r.effects())
		}
	})
}

// Two nodes that begin at once do it once: the loser learns what the winner
// answered.
func TestTwoNodesAtOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for round := range 20 {
			q := request("round-"+strings.Repeat("x", round), "body")
			var all sync.WaitGroup
			for range 4 {
				node := r.node()
				all.Go(func() {
					ticket, err := node.Begin(q, rendered)
					if err != nil {
						t.Error(err)
						return
					}
					defer ticket.Close()
					if err := r.effect(ticket, answer(201, "done")); err == nil {
						ticket.Finish(answer(201, "done"))
						return
					}
					if kept, err := ticket.EarlierAnswer(t.Context()); !ticket.Lost() || err != nil || string(kept.Body) != "done" {
						t.Errorf("lost: %t, %v, %v", ticket.Lost(), kept, err)
					}
				})
			}
			all.Wait()
			if got := r.effects(); got != round+1 {
				t.Fatalf("%d effects after %d rounds", got, round+1)
			}
		}
	})
}

// An answer that is not told in time is kept afterwards, and the body of an
// upload is known at its end.
func TestKeptAfterwards(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		q := request("a", "")
		var body []byte
		q.Body = func(wait bool) (idempotency.Hash, bool) {
			if body == nil && wait {
				body = []byte("upload")
			}
			return sha256.Sum256(body), body != nil
		}
		ticket := r.begin(r.keeper, q)
		if err := r.effect(ticket, answer(201, "too early")); err != nil {
			t.Fatal(err)
		}
		body = []byte("upload")
		ticket.Finish(answer(201, "stored"))
		ticket.Close()
		body = nil
		r.repeats(r.keeper, q, answer(201, "stored"))
		r.refuses(r.keeper, request("a", "another upload"), nil, "IDEMPOTENCY_KEY_REUSED")

		cut := request("b", "")
		cut.Body = func(bool) (idempotency.Hash, bool) { return idempotency.Hash{}, false }
		ticket = r.begin(r.keeper, cut)
		ticket.Finish(answer(400, "cut off"))
		ticket.Close()
		r.begin(r.keeper, cut) // an answer to half a body is none
		if diff := cmp.Diff([]bool{false}, r.kept); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSweep(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.done(request("expires", "body"), answer(200, "{}"))
		r.clock.Advance(time.Hour)
		const copies = 600 // several batches
		err := r.db.Write(t.Context(), func(tx txn.Tx) error {
			for i := range copies {
				_, err := sqldb.From(tx).Exec(`INSERT INTO idempotency
					SELECT tenant_id, user_id, idem_key || ?, holder, request, body, status, answer, lease, expires_at + ? FROM idempotency WHERE idem_key = 'expires'`,
					fmt.Sprintf("-%03d", i), int64(i%2)*time.Hour.Microseconds())
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{copies + 1, copies / 2, 0} {
			if err := r.keeper.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			var left int
			if err := r.db.QueryRow(t.Context(), `SELECT count(*) FROM idempotency`).Scan(&left); err != nil || left != want {
				t.Errorf("%d are left, want %d, %v", left, want, err)
			}
			r.clock.Advance(idempotency.Window - time.Hour)
			if want < copies {
				r.clock.Advance(time.Hour)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "A-z_0.9", strings.Repeat("k", 128)} {
		if err := idempotency.Check(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", " ", "a b", "a/b", "a\n", "ä", "a\x00", strings.Repeat("k", 129)} {
		if err := idempotency.Check(bad); fault.From(err) == nil || fault.From(err).Code != "INVALID_IDEMPOTENCY_KEY" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
