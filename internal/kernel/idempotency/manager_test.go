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

// harness has a database, and a write to repeat whose effects it can count.
type harness struct {
	t       *testing.T
	db      *sqldb.DB
	clock   *clock.Fake
	manager *idempotency.Manager
	stored  []bool
}

func newHarness(t *testing.T, db *sqldb.DB) *harness {
	t.Helper()
	r := &harness{t: t, db: db, clock: clock.NewFake()}
	r.manager = r.node()
	return r
}

// node returns the manager of another node on the same database.
func (r *harness) node() *idempotency.Manager {
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
			r.stored = append(r.stored, withEffect)
		},
	})
}

func request(key, body string) idempotency.Request {
	sum := sha256.Sum256([]byte(body))
	return idempotency.Request{
		ID: idempotency.ID{Tenant: "t1", Credential: "k1", Key: key}, Target: idempotency.Target("POST", "/api/v1/things?a=b"),
		Body: func(bool) (idempotency.Hash, bool) { return sum, true },
	}
}

// answer returns an answer of the write.
func answer(status int, body string) *idempotency.Answer {
	return &idempotency.Answer{Status: status, Media: "application/json", ETag: `"7"`, Location: "/there", Body: []byte(body)}
}

func rendered(v any) (*idempotency.Answer, error) { return v.(*idempotency.Answer), nil }

// begin begins a write that has no earlier answer.
func (r *harness) begin(k *idempotency.Manager, q idempotency.Request) *idempotency.Operation {
	r.t.Helper()
	op, err := k.Begin(q, rendered)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(op.Close)
	if stored, err := op.EarlierAnswer(r.t.Context()); stored != nil || err != nil {
		r.t.Fatalf("there is an earlier answer: %v, %v", stored, err)
	}
	return op
}

// earlier returns the answer to a request that is sent again.
func (r *harness) earlier(k *idempotency.Manager, q idempotency.Request) (*idempotency.Answer, error) {
	op, err := k.Begin(q, rendered)
	if err != nil {
		return nil, err
	}
	defer op.Close()
	return op.EarlierAnswer(r.t.Context())
}

// effect runs a transaction of the request with an effect, and with the answer
// unless that is nil.
func (r *harness) effect(op *idempotency.Operation, answer *idempotency.Answer) error {
	return r.db.Write(txn.WithRequestHook(context.Background(), op), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(`INSERT INTO notification_numbers AS old (tenant_id, last_seq) VALUES ('effects', 1)
			ON CONFLICT (tenant_id) DO UPDATE SET last_seq = old.last_seq + 1`)
		if err != nil || answer == nil {
			return err
		}
		return txn.Answer(tx, answer)
	})
}

func (r *harness) effects() (n int) {
	r.t.Helper()
	err := r.db.QueryRow(r.t.Context(), `SELECT last_seq FROM notification_numbers WHERE tenant_id = 'effects'`).Scan(&n)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		r.t.Fatal(err)
	}
	return n
}

// done executes a whole write.
func (r *harness) done(q idempotency.Request, a *idempotency.Answer) {
	r.t.Helper()
	op := r.begin(r.manager, q)
	if err := r.effect(op, a); err != nil {
		r.t.Fatal(err)
	}
	op.Finish(a)
	op.Close()
}

func (r *harness) repeats(k *idempotency.Manager, q idempotency.Request, want *idempotency.Answer) {
	r.t.Helper()
	stored, err := r.earlier(k, q)
	if err != nil {
		r.t.Fatal(err)
	}
	if diff := cmp.Diff(want, stored); diff != "" {
		r.t.Error(diff)
	}
}

func (r *harness) refuses(k *idempotency.Manager, q idempotency.Request, want error, code string) {
	r.t.Helper()
	stored, err := r.earlier(k, q)
	if stored != nil || want != nil && !errors.Is(err, want) || code != "" && (err == nil || fault.From(err).Code != code) {
		r.t.Errorf("%v, %v; want %v %s", stored, err, want, code)
	}
}

func each(t *testing.T, test func(t *testing.T, r *harness)) {
	t.Helper()
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) { test(t, newHarness(t, db)) })
}

func TestAnswersAreRepeated(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		want := answer(201, `{"raw_key":"a secret"}`)
		r.done(request("a", "body"), want)
		for _, node := range []*idempotency.Manager{r.manager, r.node()} {
			r.repeats(node, request("a", "body"), want)
			r.refuses(node, request("a", "another"), nil, "IDEMPOTENCY_KEY_REUSED")
			elsewhere := request("a", "body")
			elsewhere.Target = idempotency.Target("POST", "/api/v1/things")
			r.refuses(node, elsewhere, nil, "IDEMPOTENCY_KEY_REUSED")
		}
		for _, id := range []idempotency.ID{{Tenant: "t2", Credential: "k1", Key: "a"}, {Tenant: "t1", Credential: "k2", Key: "a"}, {Tenant: "t1", Credential: "k1", Key: "A"}} {
			other := request("", "another")
			other.ID = id
			r.begin(r.manager, other) // a different key: no earlier answer
		}
		if diff := cmp.Diff([]bool{true}, r.stored); diff != "" || r.effects() != 1 {
			t.Errorf("%d effects, stored: %s", r.effects(), diff)
		}
		r.clock.Advance(idempotency.Window - time.Second)
		r.repeats(r.manager, request("a", "body"), want)
		r.clock.Advance(time.Second)
		r.done(request("a", "another"), answer(200, "{}")) // a day later the key is free
		r.repeats(r.manager, request("a", "another"), answer(200, "{}"))
	})
}

func TestAnswersAreSealed(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		r.done(request("a", "body"), answer(201, `{"raw_key":"a secret"}`))
		var stored []byte
		if err := r.db.QueryRow(t.Context(), `SELECT answer FROM idempotency`).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if len(stored) == 0 || bytes.Contains(stored, []byte("secret")) {
			t.Errorf("stored as %q", stored)
		}
		move := func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec(`UPDATE idempotency SET credential_id = 'u2'`)
			return err
		}
		if err := r.db.Write(t.Context(), move); err != nil {
			t.Fatal(err)
		}
		stolen := request("a", "body")
		stolen.Credential = "u2"
		if stored, err := r.earlier(r.manager, stolen); err == nil {
			t.Errorf("an answer moved to another user's key is opened: %v", stored)
		}
	})
}

// An answer that is not stored frees the key, whether it was reserved or not.
func TestKeysAreFreed(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		for _, status := range []int{401, 403, 408, 409, 429, 500, 503, 304} {
			for _, reserved := range []bool{false, true} {
				op := r.begin(r.manager, request("a", "body"))
				if reserved {
					if err := r.effect(op, answer(status, "")); err != nil {
						t.Fatal(err)
					}
				}
				op.Finish(answer(status, ""))
				op.Close()
			}
		}
		op := r.begin(r.manager, request("a", "body"))
		if err := op.Reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		op.Close() // as after a panic
		for _, status := range []int{200, 201, 204, 400, 404, 412, 422} {
			key := "stored-" + strings.Repeat("x", status%128)
			op := r.begin(r.manager, request(key, "body"))
			op.Finish(answer(status, "said"))
			op.Close()
			r.repeats(r.manager, request(key, "body"), answer(status, "said"))
		}
		r.begin(r.manager, request("a", "another"))
	})
}

// A transaction that fails stores neither the reservation nor the answer.
func TestFailureKeepsNothing(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		op := r.begin(r.manager, request("a", "body"))
		failed := errors.New("failed")
		err := r.db.Write(txn.WithRequestHook(t.Context(), op), func(tx txn.Tx) error {
			if err := txn.Answer(tx, answer(201, "never")); err != nil {
				return err
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		op.Finish(answer(409, "conflict"))
		op.Close()
		r.done(request("a", "body"), answer(201, "now"))
		if r.effects() != 1 {
			t.Errorf("%d effects", r.effects())
		}
	})
}

// A committed answer is found while its request is not finished yet. The end of
// that request does not let a third in beside the second.
func TestAnswerIsFoundAtOnce(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		first := r.begin(r.manager, request("k", "body"))
		if err := r.db.Write(txn.WithRequestHook(t.Context(), first), func(tx txn.Tx) error { return txn.Answer(tx, answer(201, "created")) }); err != nil {
			t.Fatal(err)
		}
		second, err := r.manager.Begin(request("k", "body"), rendered)
		if err != nil {
			t.Fatal(err)
		}
		first.Close()
		if _, err := r.manager.Begin(request("k", "body"), rendered); !errors.Is(err, idempotency.ErrRunning) {
			t.Errorf("while the second is running: %v", err)
		}
		if got, err := second.EarlierAnswer(t.Context()); err != nil || got == nil || string(got.Body) != "created" {
			t.Errorf("%v, %v", got, err)
		}
		second.Close()
	})
}

func TestFirstIsWaitedFor(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		other := r.node()
		first := r.begin(r.manager, request("a", "body"))
		r.refuses(r.manager, request("a", "body"), idempotency.ErrRunning, "")
		elsewhere := request("a", "body")
		elsewhere.Target = idempotency.Target("DELETE", "/api/v1/things?a=b")
		r.refuses(r.manager, elsewhere, nil, "IDEMPOTENCY_KEY_REUSED")

		if err := first.Reserve(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.refuses(other, request("a", "body"), idempotency.ErrRunning, "")
		r.refuses(other, request("a", "another"), nil, "IDEMPOTENCY_KEY_REUSED")
		r.clock.Advance(50 * time.Second)
		first.Renew()
		r.clock.Advance(50 * time.Second)
		r.refuses(other, request("a", "body"), idempotency.ErrRunning, "")

		// The lease of the first ends: the second does the write, and the first
		// can have no effect any more.
		r.clock.Advance(time.Minute)
		second := r.begin(other, request("a", "body"))
		if err := r.effect(second, answer(201, "second")); err != nil {
			t.Fatal(err)
		}
		second.Finish(answer(201, "second"))
		for _, late := range []*idempotency.Answer{nil, answer(201, "first")} {
			if err := r.effect(first, late); err == nil || !first.Lost() {
				t.Errorf("the first had an effect: %v", err)
			}
		}
		first.Finish(answer(500, ""))
		first.Close()
		r.repeats(r.manager, request("a", "body"), answer(201, "second"))
		if r.effects() != 1 {
			t.Errorf("%d effects", r.effects())
		}
	})
}

// Of nodes that begin the same write at once one executes it; the others find its
// answer.
func TestTwoNodesAtOnce(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		for round := range 20 {
			q := request("round-"+strings.Repeat("x", round), "body")
			var all sync.WaitGroup
			for range 4 {
				node := r.node()
				all.Go(func() {
					op, err := node.Begin(q, rendered)
					if err != nil {
						t.Error(err)
						return
					}
					defer op.Close()
					if err := r.effect(op, answer(201, "done")); err == nil {
						op.Finish(answer(201, "done"))
						return
					}
					if stored, err := op.EarlierAnswer(t.Context()); !op.Lost() || err != nil || string(stored.Body) != "done" {
						t.Errorf("lost: %t, %v, %v", op.Lost(), stored, err)
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

// If the body of the request is not known yet in the transaction, as with an upload,
// the answer is stored after it.
func TestAnswerIsStoredAfterwards(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		q := request("a", "")
		var body []byte
		q.Body = func(wait bool) (idempotency.Hash, bool) {
			if body == nil && wait {
				body = []byte("upload")
			}
			return sha256.Sum256(body), body != nil
		}
		op := r.begin(r.manager, q)
		if err := r.effect(op, answer(201, "too early")); err != nil {
			t.Fatal(err)
		}
		body = []byte("upload")
		op.Finish(answer(201, "stored"))
		op.Close()
		body = nil
		r.repeats(r.manager, q, answer(201, "stored"))
		r.refuses(r.manager, request("a", "another upload"), nil, "IDEMPOTENCY_KEY_REUSED")

		cut := request("b", "")
		cut.Body = func(bool) (idempotency.Hash, bool) { return idempotency.Hash{}, false }
		op = r.begin(r.manager, cut)
		op.Finish(answer(400, "cut off"))
		op.Close()
		r.begin(r.manager, cut) // the answer to a partial body is not stored
		if diff := cmp.Diff([]bool{false}, r.stored); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSweep(t *testing.T) {
	each(t, func(t *testing.T, r *harness) {
		r.done(request("expires", "body"), answer(200, "{}"))
		r.clock.Advance(time.Hour)
		const copies = 600 // several batches
		err := r.db.Write(t.Context(), func(tx txn.Tx) error {
			for i := range copies {
				_, err := sqldb.From(tx).Exec(`INSERT INTO idempotency
					SELECT tenant_id, credential_id, idem_key || ?, holder, request, body, status, answer, lease, expires_at + ? FROM idempotency WHERE idem_key = 'expires'`,
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
			if err := r.manager.Sweep(t.Context()); err != nil {
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
	for _, valid := range []string{"a", "A-z_0.9", strings.Repeat("k", 128)} {
		if err := idempotency.Check(valid); err != nil {
			t.Errorf("%q: %v", valid, err)
		}
	}
	for _, invalid := range []string{"", " ", "a b", "a/b", "a\n", "ä", "a\x00", strings.Repeat("k", 129)} {
		if err := idempotency.Check(invalid); fault.From(err) == nil || fault.From(err).Code != "INVALID_IDEMPOTENCY_KEY" {
			t.Errorf("%q: %v", invalid, err)
		}
	}
}
